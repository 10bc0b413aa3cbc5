"""A turn of a foreign agent, told in our own log as if it had happened here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
import trio
from msgspec import UNSET

from agentwire.agent.host_tools import IMAGE, Withdrawal
from agentwire.agent.turn import Turn
from agentwire.approvals import Decision, Question, new_approval_id
from agentwire.bridge.link import Link
from agentwire.commands import AnswerHostTool, Approve, Deny, Refusal
from agentwire.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRunning,
    CallStarted,
    CapabilitiesChanged,
    ConfigChanged,
    ContextAdded,
    ErrorInfo,
    ErrorRaised,
    HistoryCleared,
    HostToolCancelled,
    HostToolRequested,
    HostToolsChanged,
    ModeChanged,
    SessionClosed,
    SessionOpened,
    StepStarted,
    Text,
    TextDelta,
    TurnFinished,
    TurnStarted,
)
from agentwire.log.record import Record
from agentwire.tools.contract import ToolError
from agentwire.transcode.logbook import Logged

NOT_ASKED: Final = "{name} needs an approval, and this host cannot be asked"
"""What an agent reads whose question the host's wire has no word for."""

WITH_PATHS: Final = frozenset({"info", "edit"})
"""Categories of tools that are held to the workspace."""

UNTOLD: Final = "The agent did not say why it failed"

LATER: Final = "The agent tells the result together with those of the calls after this one"
"""What a host reads of a call that had to end before its result was known."""

OWN: Final[tuple[type[AnyEvent], ...]] = (
    SessionOpened, SessionClosed, ModeChanged, ConfigChanged, ContextAdded, HistoryCleared, HostToolsChanged,
)  # fmt: skip
"""What our own session tells itself, when a command that was passed on has been carried out."""

_ERRORS: Final[dict[str, str]] = {"config": "config_error", "busy": "protocol_error", "bad_params": "protocol_error"}
"""What the refusal of a prompt is to the host, which has read already that its turn began."""


class Following:
    """One turn while it runs. ``turn`` becomes its number in what is heard of the agent."""

    def __init__(self, ours: Turn, link: Link, nursery: trio.Nursery) -> None:
        self.turn = 0
        self.ended = trio.Event()
        """The agent has ended the turn, or it cannot go on."""
        self.last_heard = trio.current_time()
        self.waits = 0
        """Questions and host tools that wait for the host: the agent is silent with reason."""
        self._ours = ours
        self._link = link
        self._nursery = nursery
        self._approvals: dict[str, str] = {}
        """Our id of each question of the agent; ``""``: the host does not see it."""
        self._causes: dict[str, Literal["refused", "client_gone"]] = {}
        """Why a call was denied by nobody's decision."""
        self._requests: dict[str, tuple[Turn, str]] = {}
        """Of each request of the agent that our host has, what it is asked as, and for which call."""
        self._batches = link.words.codec.policy.calls == "reads_together" and ours.session.policy.calls == "sequential"
        """The agent tells results after a batch of calls, and the host's wire shows no call before the one before it
        has ended: a question about a later call would never be seen."""
        self._running: dict[str, str] = {}
        """Calls of the step that run, by id, with their names; kept where it matters."""
        self._early: set[str] = set()
        """Calls that ended for the host before the agent told how."""
        self._errors: set[str] = set()
        self._text: list[str] = []

    # --- heard ---

    def hear(self, record: Record) -> bool:
        """Take something that the agent told of the turn."""
        self.last_heard = trio.current_time()
        event = record.event
        if self._early and getattr(event, "call_id", "") in self._early:
            if isinstance(event, ApprovalRequested):  # about a call that its host takes to be over
                self._decide(event, allowed=False)
            return False
        logged = self._link.book.write(event, self._link.place(record), in_turn=True, origin=record.origin)
        self._write(logged)
        return not logged or logged[-1].record.event is not event

    def quiet(self) -> None:
        """Nothing came for a while: a reply whose calls were being collected is complete."""
        self._write(self._link.book.release())

    def failed(self, why: Refusal) -> None:
        """The agent does not take the prompt, or is gone."""
        if not self.ended.is_set():
            self._fail(ErrorInfo(_ERRORS.get(why.code, "internal_error"), why.message, why.retryable))
            self.ended.set()

    def silent(self, seconds: float) -> None:
        """The agent said nothing for too long."""
        self._fail(ErrorInfo("internal_error", f"The agent said nothing for {seconds:g} seconds"))
        self.ended.set()

    def close(self) -> None:
        """Nothing more is taken, no late refusal either: what the agent left open is closed."""
        self.ended.set()
        book = self._link.book
        if book.open:
            outcome: Literal["cancelled", "failed"] = "cancelled" if self._ours.cancelled else "failed"
            left = book.unfinished
            end = TurnFinished(outcome, "".join(self._text), left.usage, self._ours.error, steps=left.steps)
            self._write(book.end(end, self._link.place(self._ours.first)))
        for request_id in list(self._requests):
            self._withdraw(request_id, "stopped")

    # --- written ---

    def _write(self, logged: list[Logged]) -> None:
        for item in logged:
            record = item.record
            handle = _HANDLERS.get(type(record.event))
            if handle is not None:
                handle(self, record.event, record.origin)
            elif not isinstance(record.event, OWN):
                self._say(record.event, record.origin)

    def _say(self, event: AnyEvent, origin: str) -> None:
        turn = self._ours
        if origin:
            turn.session.append(event, turn.number, origin)
            return
        if isinstance(event, TextDelta):
            self._text.append(event.text)
        elif isinstance(event, StepStarted):
            self._text.clear()
            self._running.clear()
        elif isinstance(event, CallReady | CallStarted):
            turn.open_calls[event.call_id] = event.name
            turn.session.call_ids[event.call_id] = None
        elif isinstance(event, CallRunning):
            if self._batches:
                self._running[event.call_id] = turn.open_calls.get(event.call_id, event.name)
        elif isinstance(event, CallFinished | CallCancelled):
            self._running.pop(event.call_id, None)
            self._answered(event.call_id)
            turn.open_calls.pop(event.call_id, None)
        turn.say(event)

    def _begun(self, event: TurnStarted, origin: str) -> None:
        """Our own turn has begun already."""

    def _end(self, end: TurnFinished, origin: str) -> None:
        """Our turn ends as the agent's did; the engine says so."""
        turn = self._ours
        turn.last_text, turn.usage, turn.finish_reason, turn.steps = end.text, end.usage, end.finish_reason, end.steps
        if end.outcome == "limit":
            turn.limit = end.limit or "steps"
        elif end.outcome == "failed":
            self._fail(end.error if end.error is not UNSET else ErrorInfo("internal_error", UNTOLD))
        elif end.outcome == "cancelled":
            turn.cut_short = True
        self.ended.set()

    def _fail(self, error: ErrorInfo) -> None:
        turn = self._ours
        if turn.error is not UNSET:
            return
        if error.message in self._errors:
            turn.error = error
        else:
            turn.fail(error)

    def _erred(self, event: ErrorRaised, origin: str) -> None:
        self._errors.add(event.error.message)
        self._say(event, origin)

    # --- questions ---

    def _asked(self, event: ApprovalRequested, origin: str) -> None:
        """The agent asks: the host is asked, if what it allowed and forbade before does not answer that.

        A host that is shown nothing of subagents would never see the question: nobody allows what it does not.
        """
        turn, approvals = self._ours, self._ours.session.approvals
        outside = event.prompt_kind.endswith("_escape")
        verdict = approvals.judge(event.name, event.category, outside=outside, also=turn.approved)
        if verdict == "free" and self._may_leave(event):
            verdict = "ask"
        hidden = bool(origin) and not self._ours.session.policy.shows_subagents
        if verdict != "ask" or hidden:
            self._decide(event, allowed=verdict == "free")
            return
        if self._batches:
            self._end_early(event.call_id, origin)
        ours = self._approvals[event.approval_id] = new_approval_id()
        self.waits += 1
        asked = event

        def settle(decision: Decision) -> None:
            self._settled(asked, decision, origin)

        self._say(msgspec.structs.replace(event, approval_id=ours), origin)
        approvals.ask(Question(ours, event.call_id, event.name, event.category, settle, origin))

    def _may_leave(self, event: ApprovalRequested) -> bool:
        """Whether the call may leave the workspace for all that the agent's wire says, which a mode or an allow list
        does not free. A host that said of this very prompt that its calls may run meant them."""
        told = self._link.words.tells_escapes or event.category not in WITH_PATHS
        return not (told or self._ours.session.approvals.mode == "yolo" or event.category in self._ours.approved)

    def _end_early(self, asked: str, origin: str) -> None:
        """End the calls that run, so that the host sees a question about another."""
        for call_id, name in [*self._running.items()]:
            if call_id == asked:
                continue
            self._link.account.ended_early += 1
            self._early.add(call_id)
            end = CallFinished(call_id, name, "ok", LATER)
            self._write(self._link.book.write(end, self._link.place(self._ours.first), in_turn=True, origin=origin))

    def _decide(self, event: ApprovalRequested, *, allowed: bool) -> None:
        """Answer a question that the host does not see."""
        self._approvals[event.approval_id] = ""
        self._link.account.decided["allowed" if allowed else "denied"] += 1
        if allowed:
            self._link.post(Approve(event.call_id, event.approval_id, session=self._link.id))
            return
        self._causes[event.call_id] = "refused"
        self._deny(event, NOT_ASKED.format(name=event.name))

    def _settled(self, event: ApprovalRequested, decision: Decision, origin: str) -> None:
        """A question has its answer: the log tells it, and the agent is told."""
        self.waits -= 1
        self.last_heard = trio.current_time()
        verdict: Literal["allowed", "denied", "cancelled"] = "allowed" if decision.allowed else "denied"
        resolved = ApprovalResolved(
            event.approval_id,
            event.call_id,
            "cancelled" if decision.cancelled else verdict,
            decision.scope if decision.allowed else "",
            decision.by,
            decision.reason,
        )
        place = self._link.place(self._ours.first)
        self._write(self._link.book.write(resolved, place, in_turn=True, origin=origin))
        if decision.allowed:
            self._allow(event, decision)
        elif not decision.cancelled:
            self._deny(event, decision.reason)
        elif decision.by != "stop":  # a stop follows by itself
            self._causes[event.call_id] = "client_gone"
            self._deny(event, decision.reason)

    def _allow(self, event: ApprovalRequested, decision: Decision) -> None:
        """Tell the agent yes; "always" only where that covers no more there than the host has allowed here."""
        covers = self._link.words.codec.policy.always_covers
        always = decision.scope == "category" and covers in ("category", "tool")
        always = always or (decision.scope == "tool" and covers == "tool")
        answer = Approve(event.call_id, event.approval_id, "always" if always else "once", self._link.id)
        self._link.post(answer)

    def _deny(self, event: ApprovalRequested, reason: str) -> None:
        self._link.post(Deny(event.call_id, event.approval_id, reason, self._link.id))

    def _resolved(self, event: ApprovalResolved, origin: str) -> None:
        ours = self._approvals.get(event.approval_id, "")
        if not ours:
            return
        approvals = self._ours.session.approvals
        if any(question.approval_id == ours for question in approvals.open):  # the agent settled it by itself
            self.waits -= 1
            approvals.forget(ours)
        self._say(msgspec.structs.replace(event, approval_id=ours), origin)

    def _cancelled(self, event: CallCancelled, origin: str) -> None:
        cause = self._causes.pop(event.call_id, None)
        if cause is not None and event.cause == "denied":
            event = msgspec.structs.replace(event, cause=cause)
        self._say(event, origin)

    # --- host tools ---

    def _requested(self, event: HostToolRequested, origin: str) -> None:
        """The agent has our host run one of its tools."""
        ours = self._ours
        # Asked as a turn of its own, so that it can be withdrawn alone.
        asks = Turn(ours.session, ours.toolbox, number=ours.number, id=ours.id, ref=ours.ref, origin=origin)
        asks.parent = ours
        call_id = event.call_id or self._call_of(event.name)
        self._requests[event.request_id] = asks, call_id
        self._nursery.start_soon(self._serve, event, call_id, asks)

    def _call_of(self, declared: str) -> str:
        """The call that a host tool is run for, on a wire that does not say it: the first open one of that tool."""
        names = {tool.name for tool in self._ours.toolbox.host.declared if declared in (tool.declared, tool.name)}
        taken = {call_id for _, call_id in self._requests.values()}
        return next((i for i, name in self._ours.open_calls.items() if name in names and i not in taken), "")

    def _withdrawn(self, event: HostToolCancelled, origin: str) -> None:
        self._withdraw(event.request_id, event.reason)

    def _withdraw(self, request_id: str, reason: Withdrawal) -> None:
        asks, _ = self._requests.pop(request_id, (None, ""))
        if asks is not None:
            asks.toolbox.host.withdraw_all(reason, asks)

    def _answered(self, call_id: str) -> None:
        """A call is over: what its host was asked for it is, too."""
        for request_id, (_, of) in list(self._requests.items()):
            if of == call_id:
                self._withdraw(request_id, "stopped")

    async def _serve(self, event: HostToolRequested, call_id: str, asks: Turn) -> None:
        if event.request_id not in self._requests:
            return  # it was withdrawn before anybody could read it
        arguments = msgspec.json.decode(event.arguments) if event.arguments is not UNSET else {}
        answer = AnswerHostTool(event.request_id, [], session=self._link.id)
        self.waits += 1
        try:
            result = await asks.toolbox.host.request(asks, call_id, event.name, arguments)
        except ToolError as error:
            answer.content, answer.is_error = [Text(str(error))], True
        else:
            text = [] if result.images and result.output == IMAGE else [Text(result.output)]
            answer.content, answer.is_error, answer.details = [*text, *result.images], result.is_error, result.details
        finally:
            self.waits -= 1
            self.last_heard = trio.current_time()
        if self._requests.pop(event.request_id, None) is not None and not self._ours.cancelled:
            self._link.post(answer)


_HANDLERS: Final[dict[type[AnyEvent], Callable[[Following, Any, str], None]]] = {
    TurnStarted: Following._begun,
    TurnFinished: Following._end,
    ErrorRaised: Following._erred,
    ApprovalRequested: Following._asked,
    ApprovalResolved: Following._resolved,
    CallCancelled: Following._cancelled,
    HostToolRequested: Following._requested,
    HostToolCancelled: Following._withdrawn,
}


def beside(session_append: Callable[[AnyEvent], object], event: AnyEvent, mode: Any) -> None:
    """Tell what the agent said outside its turns, if it is not for our own session to tell."""
    if isinstance(event, OWN):
        return
    if isinstance(event, CapabilitiesChanged):
        event = CapabilitiesChanged(msgspec.structs.replace(event.capabilities, current_mode=mode))
    session_append(event)
