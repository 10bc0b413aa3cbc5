"""Records into lines: what the agent side writes of a session's log.

Nearly every record is a text delta: a run of them is encoded at once and spliced between fixed bytes. What else there
is goes through the structs of :mod:`agentwire_pagent.wire`. A turn of the wire (a step of the bus) is closed when
what comes after it is known: the next step, or the end of the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.codec.runs import runs, splice
from agentwire.events import Event, ReasoningDelta, TextDelta
from agentwire.log.history import History
from agentwire.log.record import Record
from agentwire.text import scrub
from agentwire_pagent import splices, wire
from agentwire_pagent.answers import Thread
from agentwire_pagent.calls import Call, Showing, Shown, StepCalls
from agentwire_pagent.envelope import delta_ends, line, wrap
from agentwire_pagent.facts import breaks_off, failure, is_cut, is_extra, own_line, summary, user_input
from agentwire_pagent.replay import replay, snapshot
from agentwire_pagent.usage import written

logger: Final = logging.getLogger("agentwire.pagent")

_shown: Final = count(1)
"""Numbers sessions in the order in which connections are shown them."""

_encode: Final = msgspec.json.Encoder().encode

_TEXT: Final = delta_ends("TextDelta")
_REASONING: Final = delta_ends("ReasoningDelta")
_DELTAS: Final[dict[type[Event], tuple[bytes, bytes]]] = {TextDelta: _TEXT, ReasoningDelta: _REASONING}


class _Step:
    """The step under way."""

    __slots__ = ("failed", "index", "params", "reasoning", "said")

    def __init__(self, index: int) -> None:
        self.index = index
        self.failed = False
        """Something went wrong in it."""
        self.reasoning: list[str] = []
        """All that was sent, also what a retry made void."""
        self.said = False
        """Its end holds something."""
        self.params = b""
        """The parameters of its end, once it is finished; the classic run's end repeats them."""


class SessionLines:
    """Renders one session's records. What it remembers is of the current turn, and who the session is."""

    __slots__ = (
        "_announced", "_calls", "_dialect", "_errors", "_held", "_history", "_spent", "_step", "_v4", "opened", "shown",
    )  # fmt: skip

    def __init__(self, dialect: wire.Dialect, errors: bool, *, first: bool = True) -> None:
        """``first``: no other session was shown on this connection."""
        self._dialect = dialect
        self._v4 = dialect == "v4"
        self._held = b""
        self._errors = errors or self._v4
        self._calls = StepCalls(asks=self._v4)
        self._step: _Step | None = None
        self._announced = not first
        self._history: History | None = None
        """v4: what was fed, until it is told or a run begins."""
        self._spent: tuple[bus.Usage | UnsetType, int] = UNSET, 0
        self.opened: bus.SessionOpened | None = None
        """The session as it was opened, with its later mode and model."""
        self.shown = 0
        """Grows from one session that is shown to the next; 0: it was not shown yet."""

    def thread(self, *, tell: bool = False) -> Thread:
        """What is known of the session. ``tell``: with its messages, which are told by that."""
        history = self._history if tell else None
        if history is None:
            return Thread(self.opened, None, self._spent)
        self._history = None
        return Thread(self.opened, history.messages(), self._spent)

    # --- the contract's ways in ---

    def render_one(self, record: Record, out: bytearray) -> None:
        """Append the lines for a single record."""
        if record.origin:
            return  # a subagent's own events are not on this wire
        event = record.event
        kind = type(event)
        if kind is TextDelta or kind is ReasoningDelta:
            text = event.text  # type: ignore[union-attr]  # its class tells
            if not text:
                return  # as the peer: an empty piece is none
            start, end = _TEXT
            if kind is ReasoningDelta:
                start, end = _REASONING
                self._reasoned((text,))
            try:
                out += start + _encode(text) + end
            except UnicodeEncodeError:
                out += start + _encode(scrub(text)) + end
        elif (make := _MAKERS.get(kind)) is not None:
            out += self._made(make, event, record) if self._held else make(self, event, record)

    def render(self, records: Sequence[Record], out: bytearray) -> None:
        """Append the lines for ``records``; deltas are rendered by the run."""
        for record, texts in runs(records):
            if len(texts) < 2:
                self.render_one(record, out)
            else:
                self._render_run(record, texts, out)

    def feed(self, records: Sequence[Record]) -> None:
        """Remember what ``records`` say, without writing. That the session was opened before is nobody's greeting."""
        history = (self._history or History()) if self._v4 else None
        for record in records:
            event = record.event
            if record.origin:
                continue
            kind = type(event)
            if kind is ReasoningDelta:
                self._reasoned((event.text,))  # type: ignore[union-attr]  # its class tells
            elif kind is bus.SessionOpened:
                self.opened = event  # type: ignore[assignment]  # its class tells
            elif (make := _MAKERS.get(kind)) is not None:
                self._made(make, event, record)
        if history is not None:
            history.feed_all(records)
        self._history = history

    def _made(self, make: Callable[[SessionLines, Any, Record], bytes], event: Event, record: Record) -> bytes:
        """The lines for an event, after those that were held back; a failure lets them fall (section 5)."""
        held, self._held = self._held, b""
        made = make(self, event, record)
        if not held:
            return made
        if is_cut(event):
            self._held = held + made
            return b""
        return made if breaks_off(event, self._dialect) else held + made

    # --- deltas ---

    def _render_run(self, first: Record, deltas: list[str], out: bytearray) -> None:
        """Append one line for each delta of a run."""
        ends = _DELTAS.get(type(first.event))
        if ends is None or first.origin:
            return
        if type(first.event) is ReasoningDelta:
            self._reasoned(deltas)
        if not all(deltas):
            deltas = [delta for delta in deltas if delta]
        if deltas:
            out += splice(deltas, *ends)

    def _reasoned(self, deltas: Sequence[str]) -> None:
        if self._step is not None:
            self._step.reasoning += deltas

    # --- session ---

    def _session_opened(self, event: bus.SessionOpened, record: Record) -> bytes:
        self.opened = event
        self.shown = next(_shown)
        first, self._announced = not self._announced, True
        if first:
            _say_ready()
        if not self._v4:
            return b""
        lines = line("SlashCommands", wire.SlashCommands([])) if first else b""
        return lines + line("CurrentThread", wire.CurrentThread(event.id, "", event.workspace)) + self._replayed(event)

    def _replayed(self, event: bus.SessionOpened) -> bytes:
        """What was said before in a session that is taken up, if no answer told it."""
        messages = self.thread(tell=True).messages
        if not messages or event.kind == "new":
            return b""
        return line("HistoryReplay", replay(event.id, event.workspace, messages, snapshot(*self._spent)))

    def _mode_changed(self, event: bus.ModeChanged, record: Record) -> bytes:
        return self._now(event.capabilities)

    def _config_changed(self, event: bus.ConfigChanged, record: Record) -> bytes:
        for change in event.changes:
            if change.field == "model" and not change.problem and self.opened is not None:
                self.opened = msgspec.structs.replace(self.opened, model=change.new)
        return self._now(event.capabilities)

    def _now(self, capabilities: bus.Capabilities) -> bytes:
        if self.opened is not None:
            self.opened = msgspec.structs.replace(self.opened, capabilities=capabilities)
        return b""

    def _history_cleared(self, event: bus.HistoryCleared, record: Record) -> bytes:
        if not self._v4:
            return b""
        who, where = ("", "") if self.opened is None else (self.opened.id, self.opened.workspace)
        return line("HistoryReplay", wire.HistoryReplay(who, "", where, []))

    def _error_raised(self, event: bus.ErrorRaised, record: Record) -> bytes:
        """One of a turn is told by the turn's end."""
        if record.turn and self._step is not None:
            self._step.failed = not self._step.params
        return line("Error", wire.Error(event.error.message)) if self._errors and not record.turn else b""

    def _unknown(self, event: bus.Unknown, record: Record) -> bytes:
        own = own_line(event, "v4" if self._v4 else "classic")
        if own is None:
            return b""
        self._announced = self._announced or event.name == "SlashCommands"
        return own

    # --- turn ---

    def _turn_started(self, event: bus.TurnStarted, record: Record) -> bytes:
        self._step = None
        self._history = None
        self._calls.clear()
        return splices.run_begin(user_input(event))

    def _step_started(self, event: bus.StepStarted, record: Record) -> bytes:
        begin = splices.turn_begin(event.index)
        # v4 gives a turn that used up the limit no end if another follows to sum up.
        before = self._close_step("") if is_extra(event) and self._v4 else self._end_turn("", "continuing")
        self._step = _Step(event.index)
        self._calls.clear()
        return before + begin

    def _step_finished(self, event: bus.StepFinished, record: Record) -> bytes:
        begin = b""
        if self._step is None:
            begin = splices.turn_begin(event.index)
            self._step = _Step(event.index)
        self._spent = event.usage, record.time
        reasoning = "".join(self._step.reasoning) or event.reasoning
        end = self._finish(event.text, event.calls, reasoning, event.usage)
        lines = begin + end + self._show(self._calls.listed(event.calls))
        if self._step.failed:
            # The engine puts what there is into the log. The peer says no more once the model has failed.
            self._held, lines = lines, b""
        return lines

    def _finish(self, text: str, calls: Sequence[bus.CallRef], reasoning: str, usage: bus.Usage | UnsetType) -> bytes:
        """The end of the model's reply."""
        step = self._step or _Step(0)
        step.said = bool(text or reasoning or calls)
        step.params = splices.step_params(text, calls, reasoning, written(usage), flat=self._v4)
        return wrap("TurnResult" if self._v4 else "StepEnd", step.params)

    def _close_step(self, text: str) -> bytes:
        """The end of a reply that broke off."""
        step = self._step
        if step is None or step.params:
            return b""
        return self._finish(text, (), "".join(step.reasoning), UNSET)

    def _end_turn(self, text: str, reason: wire.StopReason) -> bytes:
        """The end of the open turn, if one is."""
        step = self._step
        if step is None:
            return b""
        closed = self._close_step(text)
        if self._v4:
            return closed + splices.turn_end_v4(step.index, reason != "continuing", reason)
        return closed + splices.turn_end(step.index, not self._calls.ran)

    def _turn_finished(self, event: bus.TurnFinished, record: Record) -> bytes:
        if event.outcome == "failed":
            end = line("Error", wire.Error(why, "turn")) if self._errors and (why := failure(event)) else b""
        elif self._v4:
            end = self._run_end_v4(event)
        elif event.outcome == "cancelled":
            end = b""  # a cancelled run simply ends (section 5)
        else:
            end = self._run_end(event)
        self._step = None
        return end

    def _run_end(self, event: bus.TurnFinished) -> bytes:
        end = self._end_turn(event.text, "no_tool_calls")
        step = self._step
        return end + (line("RunEnd", wire.RunEnd(event.text)) if step is None else wrap("RunEnd", step.params))

    def _run_end_v4(self, event: bus.TurnFinished) -> bytes:
        step = self._step
        index = 0 if step is None else step.index
        reason = _REASONS[event.outcome]
        if reason == "no_tool_calls" and (step is None or self._said_nothing(step, event.text)):
            reason = "empty_response"
        return self._end_turn(event.text, reason) + splices.run_end_v4(index, reason)

    def _said_nothing(self, step: _Step, text: str) -> bool:
        return not (step.said or step.reasoning) if step.params else not (text or step.reasoning)

    # --- calls ---

    def _call_ready(self, event: bus.CallReady, record: Record) -> bytes:
        return self._show(self._calls.ready(event))

    def _approval_requested(self, event: bus.ApprovalRequested, record: Record) -> bytes:
        return self._show(self._calls.asked(event))

    def _call_running(self, event: bus.CallRunning, record: Record) -> bytes:
        return self._show(self._calls.running(event))

    def _call_ended(self, event: bus.CallFinished | bus.CallCancelled, record: Record) -> bytes:
        return self._show(self._calls.ended(event))

    @staticmethod
    def _show(shown: Shown) -> bytes:
        if not shown:
            return b""
        if len(shown) == 1:
            ((what, call),) = shown
            return _CALL_LINES[what](call)
        return b"".join([_CALL_LINES[what](call) for what, call in shown])


_REASONS: Final[dict[bus.Outcome, wire.StopReason]] = {
    "completed": "no_tool_calls",
    "limit": "max_turns",
    "cancelled": "cancelled",
}

_CALL_LINES: Final[dict[Showing, Callable[[Call], bytes]]] = {
    "begin": lambda call: splices.call_begin(call.head, call.arguments),
    "permit": lambda call: splices.permit_request(call.head, summary(call)),
    "result": lambda call: splices.tool_result(call.head, call.content, call.ok),
}

_MAKERS: Final[dict[type[Event], Callable[[SessionLines, Any, Record], bytes]]] = {
    bus.SessionOpened: SessionLines._session_opened,
    bus.ModeChanged: SessionLines._mode_changed,
    bus.ConfigChanged: SessionLines._config_changed,
    bus.HistoryCleared: SessionLines._history_cleared,
    bus.ErrorRaised: SessionLines._error_raised,
    bus.Unknown: SessionLines._unknown,
    bus.TurnStarted: SessionLines._turn_started,
    bus.StepStarted: SessionLines._step_started,
    bus.StepFinished: SessionLines._step_finished,
    bus.CallReady: SessionLines._call_ready,
    bus.ApprovalRequested: SessionLines._approval_requested,
    bus.CallRunning: SessionLines._call_running,
    bus.CallFinished: SessionLines._call_ended,
    bus.CallCancelled: SessionLines._call_ended,
    bus.TurnFinished: SessionLines._turn_finished,
}
"""Events not listed are absent from this wire; the codec's fidelity table says why."""


def _say_ready() -> None:
    """Tell whoever started us that commands are read now, as the peer does: as information, yet where warnings go."""
    if logger.isEnabledFor(logging.WARNING):
        logger.handle(logger.makeRecord(logger.name, logging.INFO, __file__, 0, "[wire] ready", (), None))
