"""What a host hears of a log, worked out from its records alone: the memory behind the fidelity table.

What a record becomes may wait for others: a step is heard to be finished when its batch begins. So the whole log is
gone through beforehand, and the table asks for what is heard at a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.events import Event
from agentwire.log.record import Record
from agentwire_jan import facts
from agentwire_jan.events_out import shows_cancelled
from agentwire_jan.following import Follower
from agentwire_jan.surface import Surface
from agentwire_jan.usage import from_wire, to_wire

Reduce = Callable[[Event, "Story"], Event]
"""An event as it arrives, by the table's own rules."""


def arriving_usage(usage: bus.Usage | UnsetType) -> bus.Usage | UnsetType:
    """A step's usage as it arrives."""
    return UNSET if isinstance(usage, UnsetType) else from_wire(to_wire(usage))


class _Calls:
    """The calls of a run, as far as their lines depend on each other."""

    def __init__(self) -> None:
        self.holding = False
        self.held: list[bus.CallReady] = []
        self.names: dict[str, str] = {}
        self.hosts: dict[str, str] = {}
        self.withdrawn: set[str] = set()


class Story:
    """What a host hears at each record of a log."""

    def __init__(self, records: Sequence[Record], surface: Surface, reduce: Reduce) -> None:
        self._surface = surface
        self._reduce = reduce
        self.turn_id = ""
        """The turn under way."""
        self._at = 0
        self._follower = Follower()
        self._calls: dict[str, _Calls] = {}
        self._finishing: dict[str, int] = {}
        self.steps: dict[int, bus.StepFinished] = {}
        """By the place of a step's end in the log: what is ever heard of it."""
        self._heard: list[list[Event]] = []
        self.go_on(records)

    def go_on(self, records: Sequence[Record]) -> None:
        """Go through what comes next beforehand."""
        turn_id, self._at = self.turn_id, 0
        self._heard.clear()
        self.steps.clear()
        for record in records:
            self._heard.append(self._hear(record))
            self.advance(record)
        self._at, self.turn_id = 0, turn_id

    def heard(self) -> list[Event]:
        """What a host hears at the record at hand."""
        return self._heard[self._at]

    def heard_as(self, kind: type[Event]) -> Any:
        """The first event of a kind that is heard at the record at hand; None if there is none."""
        heard = self._heard[self._at] if self._at < len(self._heard) else []
        return next((event for event in heard if isinstance(event, kind)), None)

    def step(self) -> bus.StepFinished | None:
        """What is ever heard of the end of a step at hand."""
        return self.steps.get(self._at)

    def advance(self, record: Record) -> None:
        """Go on to the next record."""
        if not record.origin:
            if isinstance(record.event, bus.TurnStarted):
                self.turn_id = record.event.id
            elif isinstance(record.event, bus.TurnFinished):
                self.turn_id = ""
        self._at += 1

    # --- what is heard ---

    def _hear(self, record: Record) -> list[Event]:
        event = record.event
        if isinstance(event, bus.TurnStarted) and not record.origin:
            self._follower = Follower()
            self._calls.clear()
            self._finishing.clear()
            return [bus.TurnStarted(event.id, event.id)]
        if not self.turn_id or not record.turn:
            return []
        special = _SPECIAL.get(type(event))
        if special is not None:
            heard = special(self, event, record.origin)
        elif type(event) in _PLAIN:
            heard = self._told(self._reduce(event, self), record.origin)
        else:
            heard = []
        for said in heard:
            if isinstance(said, bus.StepFinished) and record.origin in self._finishing:
                self.steps[self._finishing.pop(record.origin)] = said
        return heard

    def _told(self, event: Event, origin: str) -> list[Event]:
        return self._follower.hear(event, origin)

    def _of(self, origin: str) -> _Calls:
        return self._calls.setdefault(origin, _Calls())

    def _release(self, origin: str) -> list[Event]:
        calls = self._of(origin)
        held, calls.held, calls.holding = calls.held, [], False
        return [said for call in held for said in self._told(call, origin)]

    def _step_started(self, event: bus.StepStarted, origin: str) -> list[Event]:
        calls = self._of(origin)
        calls.held, calls.holding = [], True
        return self._told(self._reduce(event, self), origin)

    def _step_finished(self, event: bus.StepFinished, origin: str) -> list[Event]:
        self._finishing[origin] = self._at
        usage = arriving_usage(event.usage)
        if not isinstance(usage, UnsetType):
            self._follower.used(usage, origin)
        return self._release(origin)

    def _call_ready(self, event: bus.CallReady, origin: str) -> list[Event]:
        calls = self._of(origin)
        calls.names[event.call_id] = event.name
        args = facts.call_args(event)
        told = bus.CallReady(event.call_id, event.name, facts.args_text(args), facts.read_args(args))
        if calls.holding:
            calls.held.append(told)
            return []
        return self._told(told, origin)

    def _approval_requested(self, event: bus.ApprovalRequested, origin: str) -> list[Event]:
        return [*self._release(origin), *self._told(self._reduce(event, self), origin)]

    def _call_running(self, event: bus.CallRunning, origin: str) -> list[Event]:
        return self._release(origin)

    def _output(self, event: bus.CallOutputDelta, origin: str) -> list[Event]:
        return [*self._release(origin), *self._told(self._reduce(event, self), origin)]

    def _host_tool_requested(self, event: bus.HostToolRequested, origin: str) -> list[Event]:
        self._of(origin).hosts[event.call_id] = event.name
        return [*self._release(origin), *self._told(self._reduce(event, self), origin)]

    def _host_tool_cancelled(self, event: bus.HostToolCancelled, origin: str) -> list[Event]:
        self._of(origin).withdrawn.add(event.call_id)
        return self._told(self._reduce(event, self), origin)

    def _call_finished(self, event: bus.CallFinished, origin: str) -> list[Event]:
        self._close(event.call_id, origin)
        if self._hides(event, origin):
            return []
        heard = [*self._release(origin), *self._told(self._reduce(event, self), origin)]
        if not isinstance(event.details, UnsetType):
            heard.append(bus.HostToolDetails(event.call_id, event.details))
        return heard

    def _hides(self, event: bus.CallFinished, origin: str) -> bool:
        """Whether a result is not shown, for its request was withdrawn with the turn."""
        return not origin and not self._surface.tells_gone and event.call_id in self._of(origin).withdrawn

    def _call_cancelled(self, event: bus.CallCancelled, origin: str) -> list[Event]:
        name, host_tool = self._close(event.call_id, origin)
        if not (origin or shows_cancelled(event, self._surface)):
            return []
        output = facts.cancelled_result(event, name, host_tool)
        return [*self._release(origin), *self._told(bus.CallFinished(event.call_id, "", "error", output), origin)]

    def _close(self, call_id: str, origin: str) -> tuple[str, str]:
        calls = self._of(origin)
        return calls.names.pop(call_id, ""), calls.hosts.pop(call_id, "")

    def _turn_finished(self, event: bus.TurnFinished, origin: str) -> list[Event]:
        if origin:
            return []
        if event.outcome == "completed":
            return [*self._follower.done(facts.stop_reason(event)), *self._follower.end("completed")]
        if event.outcome == "cancelled":
            return self._follower.end("cancelled")
        message = facts.failure(event)
        return [*self._follower.failed(message), *self._follower.end("failed", message)]

    def _unknown(self, event: bus.Unknown, origin: str) -> list[Event]:
        return [] if facts.own_item(event) is None else self._told(event, origin)


_SPECIAL: Final[dict[type[Event], Callable[[Story, Any, str], list[Event]]]] = {
    bus.StepStarted: Story._step_started,
    bus.StepFinished: Story._step_finished,
    bus.CallReady: Story._call_ready,
    bus.ApprovalRequested: Story._approval_requested,
    bus.CallRunning: Story._call_running,
    bus.CallOutputDelta: Story._output,
    bus.HostToolRequested: Story._host_tool_requested,
    bus.HostToolCancelled: Story._host_tool_cancelled,
    bus.CallFinished: Story._call_finished,
    bus.CallCancelled: Story._call_cancelled,
    bus.TurnFinished: Story._turn_finished,
    bus.Unknown: Story._unknown,
}

_PLAIN: Final = frozenset({
    bus.TextDelta, bus.ReasoningDelta, bus.CallStarted, bus.CallArgumentsDelta, bus.HostToolDetails,
    bus.RequestSent, bus.RetryScheduled, bus.Notice, bus.Parked, bus.CompactionStarted,
    bus.CompactionFinished, bus.CompactionFailed, bus.SubagentQueued, bus.SubagentStarted, bus.SubagentFinished,
})  # fmt: skip
"""Events that become one event, by the table's rules alone."""
