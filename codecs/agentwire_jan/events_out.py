"""Records into event objects, without what surrounds them: the half of rendering that both surfaces share.

Nearly all of it is a table. What needs memory: calls are shown once the step's usage was told (section 2.2, steps 4
and 5b), ``done`` repeats the last usage, and the history is folded from the records for ``messages_updated``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire import events as bus
from agentwire.events import Event
from agentwire.log.history import History
from agentwire.log.record import Record
from agentwire_jan import facts, messages, wire
from agentwire_jan.surface import Surface
from agentwire_jan.usage import to_wire


class Own(Struct, gc=False):
    """An event that the bus has no word for, written as it came."""

    tag: str
    raw: Raw


Made = Sequence[Struct]
"""What a record becomes: structs of :mod:`agentwire_jan.wire`, or :class:`Own`."""


class _Run:
    """What is remembered of the main run, or of one subagent's."""

    __slots__ = ("calls", "held", "holding", "hosts", "usage", "withdrawn")

    def __init__(self) -> None:
        self.holding = False
        """The step's reply is not complete: calls that are wait for its usage."""
        self.held: list[wire.ToolCall] = []
        self.calls: dict[str, str] = {}
        """Names of the calls that are open."""
        self.hosts: dict[str, str] = {}
        """Of those that wait for a host tool, what the host calls it."""
        self.withdrawn: set[str] = set()
        """Calls whose host tool request was withdrawn."""
        self.usage: wire.Usage | None = None
        """Of the last request that reported any."""

    def release(self) -> list[Struct]:
        """The calls that waited."""
        held, self.held = self.held, []
        self.holding = False
        return [*held]


class Items:
    """Makes the event objects of one session's records."""

    __slots__ = ("_joined", "_names", "_runs", "_surface", "history", "session", "turn_id")

    def __init__(self, surface: Surface, session: str = "") -> None:
        self._surface = surface
        self._runs: dict[str, _Run] = {}
        self._names: dict[str, str] = {}
        self._joined = False
        self.session = session
        """Its id, for the provenance of requests."""
        self.history = History()
        self.turn_id = ""
        """The turn under way; ``""``: none."""

    def made(self, record: Record) -> Made:
        """The event objects for a record; those of a subagent's are not yet inside its ``subagent``.

        A turn's end leaves :attr:`turn_id` as it is, for whoever writes its lines; :meth:`end` takes it away.
        """
        event = record.event
        kind = event.__class__
        if record.origin:
            if not self.turn_id or kind in _NEVER_NESTED:
                return ()
            make = _MAKERS.get(kind)
            return () if make is None else make(self, event, self._run(record.origin), record)
        if kind is not bus.TurnFinished:
            self.history.feed(record)
        if kind is bus.TurnStarted:
            self._began(event)
            return ()
        make = _MAKERS.get(kind) if self.turn_id and record.turn else None
        made = () if make is None else make(self, event, self._run(""), record)
        if kind is bus.TurnFinished:
            self.history.feed(record)
        return made

    def learn(self, record: Record) -> None:
        """Remember what a record says, without making anything of it."""
        if record.origin or record.event.__class__ not in _COSTLY:
            self.made(record)
        else:
            self.history.feed(record)
        if type(record.event) is bus.TurnFinished and not record.origin:
            self.end()

    def end(self) -> None:
        """No turn is under way any more."""
        self.turn_id = ""

    def said(self, text: str) -> None:
        """The same as :meth:`made` does for text deltas of the main run, for many at once."""
        self.history.feed(Record(0, 0, bus.TextDelta(text)))

    def released(self, origin: str) -> Made:
        """Calls that waited, for a running call shows that the reply is complete."""
        return self._run(origin).release()

    def nested(self, origin: str, item: bytes) -> wire.Subagent:
        """A subagent's event inside what tells whose it is."""
        return wire.Subagent(run_id=origin, name=self._names.get(origin, origin), event=Raw(item))

    def _run(self, origin: str) -> _Run:
        run = self._runs.get(origin)
        if run is None:
            run = self._runs[origin] = _Run()
        return run

    def _began(self, event: Any) -> None:
        self.turn_id = event.id
        self._runs.clear()
        self._names.clear()
        self._joined = False

    # --- steps ---

    def _step_started(self, event: bus.StepStarted, run: _Run, record: Record) -> Made:
        run.usage = None  # what is told at the end is the last request's
        run.held.clear()
        run.holding = True
        step = wire.Step(index=event.index + 1, max=event.max)
        if record.origin or not self._joined:
            return (step,)
        self._joined = False
        return step, self._messages_updated()

    def _step_finished(self, event: bus.StepFinished, run: _Run, record: Record) -> Made:
        if isinstance(event.usage, UnsetType):
            run.usage = None
            return run.release()
        run.usage = to_wire(event.usage)
        return wire.TurnUsage(usage=run.usage), *run.release()

    def _user_joined(self, event: bus.UserJoined, run: _Run, record: Record) -> Made:
        """The history with it is told when the model reads it."""
        self._joined = self._joined or not record.origin
        return ()

    # --- calls ---

    def _call_ready(self, event: bus.CallReady, run: _Run, record: Record) -> Made:
        run.calls[event.call_id] = event.name
        call = wire.ToolCall(id=event.call_id, name=event.name, args=facts.call_args(event))
        if not run.holding:
            return (call,)
        run.held.append(call)
        return ()

    def _call_running(self, event: bus.CallRunning, run: _Run, record: Record) -> Made:
        return run.release()

    def _call_output(self, event: bus.CallOutputDelta, run: _Run, record: Record) -> Made:
        return *run.release(), wire.ToolOutputDelta(id=event.call_id, delta=event.delta)

    def _approval_requested(self, event: bus.ApprovalRequested, run: _Run, record: Record) -> Made:
        question = wire.PermissionRequest(
            request_id=event.approval_id,
            tool_name=event.name,
            capability=facts.capability(event.prompt_kind),
            path=event.path or None,
            command=event.command or UNSET,
            diff=UNSET if isinstance(event.diff, UnsetType) else event.diff.unified,
            prompt_kind=event.prompt_kind,
            offers_always=event.offers_always,
        )
        return *run.release(), question

    def _call_finished(self, event: bus.CallFinished, run: _Run, record: Record) -> Made:
        self._closed(event.call_id, run)
        if not record.origin and event.call_id in run.withdrawn and not self._surface.tells_gone:
            return ()  # the turn is about to end
        failed = event.status == "error"
        result = wire.ToolResult(
            id=event.call_id,
            content=facts.result_text(event.output, failed),
            is_error=failed,
            diff=facts.diff_text(event),
        )
        if isinstance(event.details, UnsetType):
            return *run.release(), result
        return *run.release(), result, wire.ToolDetails(id=event.call_id, details=facts.one_line(event.details))

    def _call_cancelled(self, event: bus.CallCancelled, run: _Run, record: Record) -> Made:
        name, host_tool = self._closed(event.call_id, run)
        if not (record.origin or shows_cancelled(event, self._surface)):
            return ()
        content = facts.result_text(facts.cancelled_result(event, name, host_tool), is_error=True)
        return *run.release(), wire.ToolResult(id=event.call_id, content=content, is_error=True)

    @staticmethod
    def _closed(call_id: str, run: _Run) -> tuple[str, str]:
        return run.calls.pop(call_id, ""), run.hosts.pop(call_id, "")

    # --- host tools ---

    def _host_tool_requested(self, event: bus.HostToolRequested, run: _Run, record: Record) -> Made:
        run.hosts[event.call_id] = event.name
        request = wire.ToolRequest(
            request_id=event.request_id,
            tool_name=event.name,
            args=facts.host_args(event),
            run_id=event.run_id or record.origin or UNSET,
        )
        return *run.release(), request

    def _host_tool_cancelled(self, event: bus.HostToolCancelled, run: _Run, record: Record) -> Made:
        run.withdrawn.add(event.call_id)
        reason = self._surface.stopped if event.reason == "stopped" else event.reason
        return (wire.ToolRequestCancelled(request_id=event.request_id, reason=reason),)

    # --- requests and the history ---

    def _request_sent(self, event: bus.RequestSent, run: _Run, record: Record) -> Made:
        return (
            wire.RequestProvenance(
                run_id=record.origin or UNSET,
                session_id=self.session or UNSET,
                provider=event.provider or UNSET,
                model=event.model,
                api_type=facts.api_type(event.api),
                request_sha256=event.request_sha256,
                body_bytes=event.body_bytes,
                tools_sha256=event.tools_sha256 or UNSET,
                images=[
                    wire.ProvenanceImage(image.sha256, image.mime_type, image.size, image.call_id or UNSET)
                    for image in event.images
                ]
                or UNSET,
            ),
        )

    def _compaction(
        self, event: bus.CompactionStarted | bus.CompactionFinished | bus.CompactionFailed, run: _Run, record: Record
    ) -> Made:
        phase = wire.Compaction(phase=_PHASES[event.__class__], reason=facts.compaction_reason(event.reason))
        if not isinstance(event, bus.CompactionFinished):
            return (phase,)
        phase.messages = event.messages
        return (phase,) if record.origin else (phase, self._messages_updated())

    def _messages_updated(self) -> wire.MessagesUpdated:
        return wire.MessagesUpdated(messages=messages.to_wire(self.history.messages()))

    # --- subagents ---

    def _subagent_queued(self, event: bus.SubagentQueued, run: _Run, record: Record) -> Made:
        self._names[event.run_id] = event.name
        return (
            wire.SubagentQueued(run_id=event.run_id, name=event.name, task=event.task or UNSET, waiting=event.waiting),
        )

    def _subagent_started(self, event: bus.SubagentStarted, run: _Run, record: Record) -> Made:
        self._names[event.run_id] = event.name
        return (wire.SubagentStart(run_id=event.run_id, name=event.name, task=event.task or UNSET),)

    # --- the end ---

    def _turn_finished(self, event: bus.TurnFinished, run: _Run, record: Record) -> Made:
        if event.outcome == "completed":
            history = messages.before_answer(self.history.messages())
            done = wire.Finished(stop_reason=facts.stop_reason(event), usage=run.usage)
            return wire.MessagesUpdated(messages=messages.to_wire(history)), done
        if event.outcome == "cancelled":
            return (wire.Finished(stop_reason="aborted"),) if self._surface.ends_stopped else ()
        return (wire.Failed(message=facts.failure(event)),)

    def _unknown(self, event: bus.Unknown, run: _Run, record: Record) -> Made:
        own = facts.own_item(event)
        return () if own is None else (Own(event.name, own),)


_PHASES: Final[dict[type[Event], str]] = {
    bus.CompactionStarted: "started",
    bus.CompactionFinished: "finished",
    bus.CompactionFailed: "failed",
}

_Maker = Callable[[Items, Any, _Run, Record], Made]


def _plain(make: Callable[[Any], Struct]) -> _Maker:
    """For an event that says all there is to say."""
    return lambda items, event, run, record: (make(event),)


_MAKERS: Final[dict[type[Event], _Maker]] = {
    bus.StepStarted: Items._step_started,
    bus.TextDelta: _plain(lambda event: wire.Token(text=event.text)),
    bus.ReasoningDelta: _plain(lambda event: wire.Reasoning(text=event.text)),
    bus.CallStarted: _plain(lambda event: wire.ToolCallStarted(id=event.call_id, name=event.name)),
    bus.CallArgumentsDelta: _plain(lambda event: wire.ToolCallArgsDelta(id=event.call_id, delta=event.delta)),
    bus.StepFinished: Items._step_finished,
    bus.CallReady: Items._call_ready,
    bus.ApprovalRequested: Items._approval_requested,
    bus.CallRunning: Items._call_running,
    bus.CallOutputDelta: Items._call_output,
    bus.CallFinished: Items._call_finished,
    bus.CallCancelled: Items._call_cancelled,
    bus.HostToolRequested: Items._host_tool_requested,
    bus.HostToolCancelled: Items._host_tool_cancelled,
    bus.HostToolDetails: _plain(
        lambda event: wire.ToolDetails(id=event.call_id, details=facts.one_line(event.details))
    ),
    bus.RequestSent: Items._request_sent,
    bus.RetryScheduled: _plain(
        lambda event: wire.Retry(
            attempt=event.attempt, max_attempts=event.of, delay_ms=event.delay_ms, reason=event.reason
        )
    ),
    bus.UserJoined: Items._user_joined,
    bus.Notice: _plain(lambda event: wire.Notice(text=event.text)),
    bus.CompactionStarted: Items._compaction,
    bus.CompactionFinished: Items._compaction,
    bus.CompactionFailed: Items._compaction,
    bus.Parked: _plain(lambda event: wire.Parked()),
    bus.SubagentQueued: Items._subagent_queued,
    bus.SubagentStarted: Items._subagent_started,
    bus.SubagentFinished: _plain(
        lambda event: wire.SubagentEnd(run_id=event.run_id, name=event.name, error=event.error or UNSET)
    ),
    bus.TurnFinished: Items._turn_finished,
    bus.Unknown: Items._unknown,
}
"""Events not listed are absent from this wire; the fidelity table says why."""

_NEVER_NESTED: Final = frozenset({bus.TurnStarted, bus.TurnFinished})
"""A subagent's end is told by ``subagent_end`` alone (section 2.3)."""

_COSTLY: Final = frozenset({bus.TextDelta, bus.ReasoningDelta, bus.CompactionFinished, bus.TurnFinished})
"""Records of which nothing is to be remembered beside the history."""


def shows_cancelled(event: bus.CallCancelled, surface: Surface) -> bool:
    """Whether a call of the main run that was cancelled has a result. What comes with the end of a run has none."""
    return event.cause in ("denied", "refused") or (event.cause == "client_gone" and surface.tells_gone)
