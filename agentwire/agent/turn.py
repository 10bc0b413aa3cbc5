"""The turn, as an agent sees it: what was asked, what it may use, and how it answers.

Saying something never waits: it is an append to the log. Calling a tool waits for the host's approval and for the
tool. Any ``async def run(turn)`` can be an agent; the built-in one is :class:`agentwire.agent.loop.Agent`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio
from msgspec import UNSET, Raw, UnsetType

from agentwire.agent.calls import CallBatch
from agentwire.agent.mailbox import Joined, Mailbox
from agentwire.agent.planning import PlannedCall, plan
from agentwire.agent.threads import OwnThread, TurnOver, from_any_thread
from agentwire.approvals import Decision
from agentwire.commands import JsonId
from agentwire.events import (
    AnyEvent,
    CallArgumentsDelta,
    CallCancelled,
    CallRef,
    CallStarted,
    CancelCause,
    ErrorInfo,
    ErrorRaised,
    Notice,
    Part,
    ReasoningDelta,
    RequestSent,
    RetryScheduled,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    TurnStarted,
    Usage,
    UserJoined,
)
from agentwire.log.history import History
from agentwire.log.record import Record
from agentwire.log.unfinished import NOTHING_USED
from agentwire.messages import Message
from agentwire.session import Session
from agentwire.text import scrub
from agentwire.tools.contract import Delegates, ReadCache, ToolResult

if TYPE_CHECKING:
    from agentwire.agent.guard import FailureGuard
    from agentwire.agent.toolbox import Toolbox


STOPPED = "Cancelled by user"
"""What hosts read on a call that a stop ended."""


class Turn(OwnThread):
    """One user input being answered. Made by the server; an agent gets it as its only argument."""

    __slots__ = (
        "_calling", "_finished", "_history", "_mailbox", "_reasoning", "_streaming", "_text", "agent", "approved",
        "cache", "can_compact", "cut_short", "delegates", "error", "finish_reason", "first", "guard", "id", "input",
        "instructions", "last_text", "limit", "number", "open_calls", "origin", "parent", "ref", "scope", "session",
        "steps", "stream_ids", "toolbox", "usage",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        toolbox: Toolbox,
        *,
        number: int,
        id: str,
        ref: JsonId = None,
        input: Sequence[Part] = (),
        approved: frozenset[str] = frozenset(),
        origin: str = "",
        agent: str = "",
    ) -> None:
        super().__init__()
        self.session = session
        self.agent = agent
        """Whom the host asked for: a name of ``settings.agents``, or ``""``."""
        self.toolbox = toolbox
        self.number = number
        self.id = id
        self.ref = ref
        self.input: list[Part] = list(input)
        self.approved = approved
        """Tools and categories that need no question in this turn."""
        self.origin = origin
        """Run id, if this is a subagent's turn."""
        self.parent: Turn | None = None
        """Whose subagent it is."""
        self.scope = trio.CancelScope()
        self._finished: trio.Event | None = None
        self.first = Record(0, 0, TurnStarted(id, ref, list(input)), number)
        """The turn's first record."""
        self.instructions = ""
        """The system prompt of this turn."""
        self.usage = NOTHING_USED
        self.steps = 0
        self.last_text = ""
        self.finish_reason = ""
        self.limit: Literal["", "steps", "bad_calls"] = ""
        """The limit that ended the turn; set by the agent."""
        self.can_compact = True
        """A summary of this conversation did not fail yet in this turn."""
        self.cut_short = False
        """Cancelled from outside, not by :meth:`stop`."""
        self.error: ErrorInfo | UnsetType = UNSET
        """Why the turn failed; set by :meth:`fail`."""
        self.open_calls: dict[str, str] = {}
        """Calls that were shown and not closed: id to tool name."""
        self.stream_ids: dict[str, str] = {}
        """Call ids of the reply that just came: the service's to this session's."""
        self._streaming = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._mailbox = Mailbox()
        self.delegates: Delegates | None = None
        """Subagents that work beside this turn, if its agent has any."""
        self.guard: FailureGuard | None = None
        """Watches for calls that fail again and again, if the agent wants that."""
        self._history = History() if origin else session.history
        self.cache = ReadCache() if origin else toolbox.cache
        """What this conversation has read: a subagent has not seen what its parent has."""
        self._calling: trio.Lock | None = None

    # --- what was asked ---

    @property
    def prompt(self) -> str:
        """The text of the input, its parts joined by line feeds."""
        return "\n".join(part.text for part in self.input if isinstance(part, Text))

    @property
    def cancelled(self) -> bool:
        """The turn was asked to stop. Awaiting anything will raise :class:`trio.Cancelled`."""
        return self.scope.cancel_called or (self.parent is not None and self.parent.cancelled)

    @property
    def finished(self) -> trio.Event:
        """Set when the turn's end is in the log."""
        if self._finished is None:
            self._finished = trio.Event()
        return self._finished

    @property
    def news(self) -> trio.Event:
        """Set when something joined the turn that :meth:`take_joined` has not taken yet."""
        return self._mailbox.news

    def messages(self) -> list[Message]:
        """The conversation so far, this input included, as a model service reads it."""
        return self._history.messages()

    @property
    def counted(self) -> tuple[int, int]:
        """Tokens that the service counted for this conversation's last request with its reply, and how many of
        :meth:`messages` that was; zeros if it counted nothing of what they are now."""
        return self._history.counted

    @property
    def context(self) -> list[str]:
        """Prior context that the host gave before the first prompt."""
        return list(self.session.history.context)

    def child(self, origin: str, input: Sequence[Part]) -> Turn:
        """A subagent's turn within this one: the same log and number, its own origin and history."""
        child = Turn(
            self.session, self.toolbox, number=self.number, id=self.id, ref=self.ref, input=input,
            approved=self.approved, origin=origin, agent=self.agent,
        )  # fmt: skip
        child.parent = self
        child.instructions = self.instructions
        child._history.feed(Record(0, 0, TurnStarted(self.id, self.ref, list(input)), self.number))
        return child

    # --- answering ---

    @from_any_thread
    def say(self, event: AnyEvent) -> Record:
        """Append an event of this turn to the log; raises :class:`TurnOver` after the turn's end."""
        record = self._append(event)
        if self.session.tracer is not None:
            self.session.tracer(record)
        return record

    def _append(self, event: AnyEvent) -> Record:
        if self.over:
            raise TurnOver("the turn has ended")
        record = self.session.append(event, self.number, self.origin)
        if self.origin:
            self._history.feed(Record(record.seq, record.time, record.event, record.turn))
        return record

    @from_any_thread
    def text(self, delta: str) -> None:
        """Stream a piece of the answer. May be called from any thread."""
        if delta:
            if not self._streaming:
                self.begin_step()
            delta = scrub(delta)
            self._text.append(delta)
            self.say(TextDelta(delta))
        return None

    @from_any_thread
    def reasoning(self, delta: str) -> None:
        """Stream a piece of reasoning, for display. May be called from any thread."""
        if delta:
            if not self._streaming:
                self.begin_step()
            delta = scrub(delta)
            self._reasoning.append(delta)
            self.say(ReasoningDelta(delta))
        return None

    @from_any_thread
    def notice(self, text: str) -> None:
        """Tell the person at the host something that nothing depends on."""
        self.say(Notice(scrub(text)))
        return None

    def stream(self, event: TextDelta | ReasoningDelta | CallStarted | CallArgumentsDelta | RequestSent) -> None:
        """Append what a provider tells of a request, as it is; the step was begun. For the server's own thread only."""
        if type(event) is TextDelta:
            self._text.append(event.text)
        self._append(event)

    @from_any_thread
    def stop(self) -> None:
        """End the turn. From here on no approval starts anything; its end is in the log when what runs has died."""
        self.scope.cancel()
        for helper in self._helpers:
            helper.cancel()
        self.settle_questions()

    def settle_questions(self) -> None:
        """Settle what the host was asked and has not answered: a subagent's own questions, else all of the turn's."""
        stopped = Decision(False, "call", "stop", STOPPED, cancelled=True)
        self.session.approvals.settle_all(stopped, self.origin or None)
        if self.toolbox.has_host:
            self.toolbox.host.withdraw_all("stopped", self if self.origin else None)

    @from_any_thread
    def fail(self, error: ErrorInfo) -> None:
        """Say that the turn failed. Return from the agent after this; the first failure stands."""
        if self.error is UNSET:
            self.error = error
            self.say(ErrorRaised(error))

    @from_any_thread
    def add_usage(self, usage: Usage) -> None:
        """Account for tokens spent in this turn. Raises ``TypeError`` for an ``extra`` that JSON has no words for."""
        if usage.extra is not UNSET:
            msgspec.json.encode(usage.extra)
        self.usage = usage if self.usage is NOTHING_USED else self.usage + usage

    # --- steps ---

    @from_any_thread
    def begin_step(self, limit: int = 0) -> None:
        """A model call begins. Called by itself when an agent speaks outside a step."""
        self.say(StepStarted(self.steps, limit))
        self.steps += 1
        self._streaming = True
        self._text.clear()
        self._reasoning.clear()

    @from_any_thread
    def retry(self, scheduled: RetryScheduled) -> None:
        """The model request of this step will be sent again: what it streamed so far is void."""
        self.say(scheduled)
        self._text.clear()
        self._reasoning.clear()

    @from_any_thread
    def finish_step(
        self,
        *,
        text: str | None = None,
        reasoning: str | None = None,
        calls: Sequence[CallRef] = (),
        usage: Usage | UnsetType = UNSET,
        finish_reason: str = "stop",
        provider: str = "",
        items: Sequence[Raw] = (),
    ) -> None:
        """The model's reply is complete. Text and reasoning default to what was streamed."""
        self._streaming = False
        self.last_text = "".join(self._text) if text is None else text
        self.finish_reason = finish_reason
        if usage is not UNSET:
            self.add_usage(usage)
        self.say(
            StepFinished(
                self.steps - 1,
                self.last_text,
                "".join(self._reasoning) if reasoning is None else reasoning,
                list(calls),
                usage,
                finish_reason,
                provider,
                list(items),
            )
        )

    @from_any_thread
    def close_step(self) -> None:
        """Finish the step that an agent began by speaking, if one is open."""
        if self._streaming:
            self.finish_step()

    @property
    def answer(self) -> str:
        """The text of the last step, as far as it got."""
        return "".join(self._text) if self._streaming else self.last_text

    # --- user text during the turn ---

    @from_any_thread
    def join(self, text: str, parts: Sequence[Part] = (), *, headline: str = "") -> None:
        """The user added text or parts (steer), or a subagent's end did; read before the next model request.

        ``headline`` is for the person at the host alone, who did not write the text.
        """
        self._mailbox.put(Joined(text, parts, headline))

    @from_any_thread
    def take_joined(self) -> bool:
        """Put what joined the turn into the log. True: there was some."""
        joined = self._mailbox.take()
        for text, parts, headline in joined:
            if headline:
                self.say(Notice(scrub(headline)))
            self.say(UserJoined(scrub(text), parts=list(parts)))
        return bool(joined)

    # --- calls ---

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """Call a tool by name, as a model would: judged, asked about if need be, run, shown.

        A denied call gives an error result that says so. One at a time: calls made side by side wait for each other.
        May be awaited on asyncio too.
        """
        if not self.here:
            import asyncio

            return await asyncio.to_thread(self.call_blocking, name, arguments)
        text = msgspec.json.encode(arguments or {}, order="sorted").decode()
        if self._calling is None:
            self._calling = trio.Lock()
        async with self._calling:
            ref = CallRef(self.unique_call_id(""), name, text)
            if not self._streaming:
                self.begin_step()
            planned = plan(self, ref)
            self.finish_step(calls=[ref], finish_reason="tool_calls")
            await self.run_calls([planned])
            return planned.result

    def call_blocking(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """:meth:`call` for plain functions: blocks the calling thread, which must not be the server's own."""
        return self.wait_for(self._call_if_on, name, arguments)

    async def _call_if_on(self, name: str, arguments: dict[str, Any] | None) -> ToolResult:
        if self.cancelled:
            raise TurnOver("the turn was stopped")
        return await self.call(name, arguments)

    @from_any_thread
    def plan(self, ref: CallRef) -> PlannedCall:
        """Show a call (``CallReady``) and find out what it is; run it with :meth:`run_calls`."""
        return plan(self, ref)

    def run_calls(self, calls: Sequence[PlannedCall]) -> Awaitable[None]:
        """Judge and run a step's calls as the session's policy says. Their results are in the log after this."""
        return CallBatch(self, calls).run()

    def unique_call_id(self, wanted: str) -> str:
        """``wanted``, or the same with a suffix if this session has shown it before; empty: a new one."""
        known = self.session.call_ids
        stem = wanted or f"call_{self.number}"
        call_id, n = (wanted, 1) if wanted else (f"{stem}_1", 1)
        while call_id in known:
            n += 1
            call_id = f"{stem}-{n}" if wanted else f"{stem}_{n}"
        known[call_id] = None
        return call_id

    @from_any_thread
    def close_calls(self, cause: CancelCause, reason: str, output: str = "") -> None:
        """Close every call that was shown and is still open, in the order they were shown.

        ``output`` is what the model reads; empty: what follows from the cause.
        """
        for call_id, name in list(self.open_calls.items()):
            self.say(CallCancelled(call_id, cause, reason, name, output))
        self.open_calls.clear()
