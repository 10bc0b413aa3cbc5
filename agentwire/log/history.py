"""The history: what a model service is told of a session, folded from its log.

Nothing else is stored. Resuming, showing the messages and every model request make the history by this one fold, so
they cannot disagree.

What holds for :meth:`History.messages` after any record, also in the middle of a turn:

- every call of an assistant message is answered by exactly one tool message, directly after it, in the order of the
  calls; a call without a result gets one that is marked as an error;
- an assistant message has text or calls, a user message has parts.

Only the main agent's records count; of subagents the model reads what their call gave. A refused, failed or stopped
step leaves its streamed text (if any) and none of its calls. After a retry only the last attempt counts. Context
(init_history) was given by the host to the session, not said in it: clearing or compacting the history keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import UNSET

from agentwire.events import (
    CallCancelled,
    CallFinished,
    CallRef,
    CompactionFinished,
    ContextAdded,
    HistoryCleared,
    Image,
    Part,
    RetryScheduled,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    TurnFinished,
    TurnStarted,
    Usage,
    UserJoined,
)
from agentwire.log.deltas import DELTAS
from agentwire.log.record import Record
from agentwire.log.unfinished import NOTHING_USED, Unfinished
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.text import scrub

NO_RESULT = "Tool execution was interrupted: it has no result"
"""What the model reads for a call that was never answered."""

_CANCELLED = {
    "denied": "Tool denied",
    "refused": "Tool refused",
    "stopped": "Tool execution canceled by user",
    "client_gone": "Tool denied: Client disconnected",
    "crashed": "Tool execution was interrupted: the agent process ended before it had a result",
}
_GIVES_REASON = {"denied", "refused"}


def cancelled_text(event: CallCancelled) -> str:
    """What the model reads for a cancelled call."""
    if event.output:
        return event.output
    text = _CANCELLED[event.cause]
    return f"{text}: {event.reason}" if event.cause in _GIVES_REASON else text


class _Step:
    """The step under way: what it said so far, and once it is finished, which of its calls have results."""

    __slots__ = ("finished", "results", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.finished: AssistantMessage | None = None
        self.results: dict[str, tuple[str, bool, list[Image]]] = {}
        """By call id: what the model reads, whether it is an error, and images."""

    def messages(self) -> list[Message]:
        """What the step adds to the history, if it ends here."""
        said = self.finished
        if said is None:
            text = self.streamed()
            return [AssistantMessage(text)] if text else []
        if not said.text and not said.calls:
            return []
        return [said, *(self._answer(call) for call in said.calls)]

    def streamed(self) -> str:
        """The text so far."""
        return scrub("".join(self.text))

    def _answer(self, call: CallRef) -> ToolMessage:
        text, is_error, images = self.results.get(call.call_id, (NO_RESULT, True, []))
        return ToolMessage(call.call_id, call.name, text, is_error, images)


class History:
    """The fold of a session's records: feed it every record once, in order. Joined deltas make no difference."""

    def __init__(self) -> None:
        self.context: list[str] = []
        """Prior context that the host gave, in order."""
        self.turns = 0
        """Turns started."""
        self.cut_off = False
        """The last turn did not come to its own end: it was stopped, it failed, or the process died."""
        self.unfinished = Unfinished()
        """What was begun and not ended yet: turn, calls, questions."""
        self.counted = (0, 0)
        """Tokens that the service counted for the last request and its reply, and how many of :meth:`messages` that
        was; zeros: nothing was counted of what the history is now."""
        self._usage = NOTHING_USED
        self._last_text = ""
        self._messages: list[Message] = []
        self._step = _Step()
        self._joined: list[list[Part]] = []
        """What the user added while a step was under way: read after it."""

    def feed(self, record: Record) -> None:
        """Take the next record."""
        event = record.event
        if type(event) is TextDelta:
            if not record.origin:
                self._step.text.append(event.text)
            return
        self.unfinished.feed(record)
        if not record.origin:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)

    def feed_all(self, records: Iterable[Record], beside: Callable[[Record], None] | None = None) -> None:
        """Take the next records; ``beside`` is given those that are no deltas too."""
        said = self._step.text.append
        for record in records:
            event = record.event
            kind = type(event)
            if kind is TextDelta:  # nearly all of a long log
                if not record.origin:
                    said(event.text)  # type: ignore[union-attr]  # its class tells
            elif kind not in DELTAS:
                self.feed(record)
                said = self._step.text.append  # perhaps of another step now
                if beside is not None:
                    beside(record)

    def messages(self) -> list[Message]:
        """The history now, as a new list. Its messages are shared: do not change them."""
        return [*self._messages, *self._recent()]

    @property
    def usage(self) -> Usage:
        """Tokens of all turns, the one under way included as far as its steps are finished."""
        return self._usage + self.unfinished.usage

    @property
    def answer(self) -> str:
        """Text of the last step of the last turn, as far as it got."""
        return self._last_text if self._step.finished is not None else self._step.streamed() or self._last_text

    @property
    def open_turn(self) -> int:
        """Number of the main agent's turn under way, or 0."""
        return self.unfinished.turn

    @property
    def open_calls(self) -> list[str]:
        """Ids of the calls that were shown and have neither result nor cancellation, oldest first."""
        return list(self.unfinished.calls)

    def _recent(self) -> list[Message]:
        return [*self._step.messages(), *map(UserMessage, self._joined)]

    def _close_step(self) -> None:
        self._messages += self._recent()
        self._step = _Step()
        self._joined = []

    def _turn_started(self, event: TurnStarted) -> None:
        self._close_step()
        self.turns += 1
        self._last_text = ""
        if event.input:
            self._messages.append(UserMessage(list(event.input)))

    def _user_joined(self, event: UserJoined) -> None:
        if event.parts or event.text:
            self._joined.append(list(event.parts) or [Text(event.text)])

    def _step_started(self, event: StepStarted) -> None:
        self._close_step()

    def _retry_scheduled(self, event: RetryScheduled) -> None:
        if self._step.finished is None:
            self._step.text = []

    def _step_finished(self, event: StepFinished) -> None:
        if self._step.finished is not None:
            self._close_step()
        self._step.finished = AssistantMessage(
            event.text, event.reasoning, list(event.calls), event.provider, list(event.items)
        )
        self._last_text = event.text
        if event.usage is not UNSET and event.usage.input_tokens is not UNSET:
            reply = 0 if event.usage.output_tokens is UNSET else event.usage.output_tokens
            self.counted = event.usage.input_tokens + reply, len(self._messages) + len(self._step.messages()[:1])

    def _call_finished(self, event: CallFinished) -> None:
        result = event.output, event.status == "error", list(event.images)
        self._step.results.setdefault(event.call_id, result)

    def _call_cancelled(self, event: CallCancelled) -> None:
        self._step.results.setdefault(event.call_id, (cancelled_text(event), True, []))

    def _turn_finished(self, event: TurnFinished) -> None:
        self._close_step()
        self._last_text = event.text
        self.cut_off = event.outcome in ("cancelled", "failed")
        self._usage = self._usage + event.usage

    def _context_added(self, event: ContextAdded) -> None:
        self.context.append(event.text)

    def _cleared(self, event: HistoryCleared) -> None:
        self._messages = []
        self._step = _Step()
        self._joined = []
        self.counted = 0, 0

    def _compacted(self, event: CompactionFinished) -> None:
        """Keep the last messages; a step whose calls wait for results, and results without their calls, never split."""
        recent = len(self._recent())
        cut = len(self._messages) - max(0, event.kept - recent)
        while 0 < cut < len(self._messages) and isinstance(self._messages[cut], ToolMessage):
            cut -= 1
        self._messages[: max(0, cut)] = [UserMessage([Text(event.summary)])]
        self.counted = 0, 0


_HANDLERS: dict[type, Callable[[History, Any], None]] = {
    TurnStarted: History._turn_started,
    UserJoined: History._user_joined,
    StepStarted: History._step_started,
    RetryScheduled: History._retry_scheduled,
    StepFinished: History._step_finished,
    CallFinished: History._call_finished,
    CallCancelled: History._call_cancelled,
    TurnFinished: History._turn_finished,
    ContextAdded: History._context_added,
    HistoryCleared: History._cleared,
    CompactionFinished: History._compacted,
}
