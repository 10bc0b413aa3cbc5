"""What a host knows at each record of a log: the memory behind the fidelity table."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw, UnsetType

from agentwire import events as bus
from agentwire.log.record import Record
from agentwire_aionrs import texts
from agentwire_aionrs.rendering import turn_ref
from agentwire_aionrs.turns import Course


class Story:
    """What a host knows at each record of a log, and which calls it will be shown."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.capabilities = bus.Capabilities()
        self.ref: str | None = None
        """`msg_id` of the turn under way."""
        self.ready: dict[str, bus.CallReady] = {}
        self.shown: dict[str, str] = {}
        """Calls the host was shown, and the name it knows each by."""
        self.course = Course()
        self.go_on(records)

    def go_on(self, records: Sequence[Record]) -> None:
        """Look through what comes next: which calls are asked about, and which run."""
        told = [record.event for record in records if not record.origin]
        self.asked = {event.call_id for event in told if isinstance(event, bus.ApprovalRequested)}
        self.run = {event.call_id for event in told if isinstance(event, bus.CallRunning)}

    def advance(self, record: Record) -> None:
        """Learn from a record."""
        if record.origin:
            return
        event = record.event
        if isinstance(event, bus.SessionOpened | bus.CapabilitiesChanged | bus.ConfigChanged | bus.ModeChanged):
            self.capabilities = event.capabilities
        elif isinstance(event, bus.TurnStarted):
            self.ref = turn_ref(event)
            self.ready.clear()
            self.shown.clear()
            self.course = Course()
        elif isinstance(event, bus.TurnFinished):
            self.ref = None
        elif isinstance(event, bus.CallReady):
            self.ready[event.call_id] = event
        elif isinstance(event, bus.TextDelta):
            self.course.said(event.text)
        elif isinstance(event, bus.ReasoningDelta):
            self.course.went_on()
        elif isinstance(event, bus.ApprovalRequested | bus.CallRunning):
            self.course.called()
            self.shown.setdefault(event.call_id, self.name(event))
        elif isinstance(event, bus.ErrorRaised):
            if record.turn:
                self.course.error = event.error
        elif isinstance(event, bus.CallFinished):
            if self.shown.pop(event.call_id, None) is not None:
                self.course.called()
        elif isinstance(event, bus.CallCancelled) and self.shown.pop(event.call_id, None) is not None:
            stopped = texts.cancel_cause(texts.cancel_reason(event)) == "stopped"
            self.course.stopped = self.course.stopped or stopped

    def name(self, event: bus.ApprovalRequested | bus.CallRunning) -> str:
        """A call's name as the line says it."""
        ready = self.ready.get(event.call_id)
        return event.name or (ready.name if ready is not None and isinstance(event, bus.CallRunning) else "")

    def arguments(self, call_id: str) -> Raw:
        """A call's arguments as the line says them."""
        ready = self.ready.get(call_id)
        return Raw(b"{}") if ready is None else arguments_of(ready)


def arguments_of(event: bus.CallReady) -> Raw:
    """A call's arguments as its request shows them: an object, come what may."""
    return Raw(b"{}") if isinstance(event.arguments, UnsetType) else event.arguments
