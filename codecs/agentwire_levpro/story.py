"""What a host hears of a log, worked out from its records alone: the memory behind the fidelity table.

On this wire what a record becomes may wait for others: calls are shown one after the other, warnings come with the
result. So the whole log is gone through beforehand, and the table asks for what is heard at a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import UNSET

from agentwire import events as bus
from agentwire.commands import JsonId
from agentwire.events import Event
from agentwire.log.record import Record
from agentwire_levpro.calls import Shown, StepCalls
from agentwire_levpro.decisions import ENDS
from agentwire_levpro.facts import (
    SETUP_CODES,
    Warnings,
    duration,
    failure,
    preview,
    retryable,
    told_error,
    user_input,
    warning,
)


class Story:
    """What a host knows at each record of a log, and what it hears there."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.called: dict[str, tuple[str, str]] = {}
        """Calls that are ever shown: their id on the bus, to the id that the host gives them and their name."""
        self.told: set[int] = set()
        """Places of what a result ever warns of."""
        self._heard: list[list[Event]] = []
        self._warnings: Warnings[tuple[int, str]] = Warnings()
        self._shown = 0
        """Calls that were shown before."""
        self.at = 0
        self.request: JsonId = None
        """The chat under way."""
        self.text: list[str] = []
        """What was streamed of the last step."""
        self._step = 0
        self._steps = 0
        self._step_open = False
        self._calls = StepCalls()
        self.go_on(records)

    def go_on(self, records: Sequence[Record]) -> None:
        """Go through what comes next beforehand."""
        self._heard.clear()
        self.told.clear()
        self.called.clear()
        self.at = 0
        learnt = self.request, [*self.text], self._step, self._steps, self._step_open
        for record in records:
            self._heard.append(self._hear(record))
            self.advance(record)
        self.request, self.text, self._step, self._steps, self._step_open = learnt
        self.at = 0

    def heard(self) -> list[Event]:
        """What a host hears at the record at hand."""
        return self._heard[self.at]

    def advance(self, record: Record) -> None:
        """Go on to the next record."""
        event = record.event
        if not record.origin:
            if isinstance(event, bus.TurnStarted):
                self.request = request_of(event)
                self.text, self._step, self._steps, self._step_open = [], 0, 0, False
            elif isinstance(event, bus.StepStarted):
                self.text, self._step, self._step_open = [], event.index, True
                self._steps += 1
            elif isinstance(event, bus.TextDelta):
                self.text.append(event.text)
            elif isinstance(event, bus.TurnFinished):
                self.request = None
        self.at += 1

    # --- what is heard ---

    def _hear(self, record: Record) -> list[Event]:
        if record.origin:
            return []
        event = record.event
        text = warning(event)
        if text is not None:
            self._warnings.add((self.at, text), record)
        hear = _HEARS.get(type(event))
        return [] if hear is None else hear(self, event)

    def _turn_started(self, event: bus.TurnStarted) -> list[Event]:
        self._calls.clear()
        parts: list[bus.Part] = [bus.Text(text)] if (text := user_input(event)) else []
        return [bus.TurnStarted(event.id, request_of(event), parts)]

    def _step_started(self, event: bus.StepStarted) -> list[Event]:
        said = [*self._close_step(), *self._show(self._calls.cut())]
        self._calls.clear()
        return [*said, bus.StepStarted(event.index)]

    def _close_step(self) -> list[Event]:
        """The end of the model call, whatever it was that ended it."""
        if not self._step_open:
            return []
        self._step_open = False
        return [bus.StepFinished(self._step, "".join(self.text))]

    def _call_ready(self, event: bus.CallReady) -> list[Event]:
        self._calls.ready(event)
        return []

    def _show(self, shown: Shown) -> list[Event]:
        events = self._close_step() if shown else []
        for what, call in shown:
            if what == "start":
                self._shown += 1
                name, _ = self.called[call.call_id] = f"call-{self._shown}", call.name
                text = bytes(call.arguments).decode()
                events.append(bus.CallReady(name, call.name, text, call.arguments))
                events.append(bus.CallRunning(name, call.name))
                continue
            name, _ = self.called[call.call_id]
            if call.status == "denied":
                events.append(bus.CallCancelled(name, "refused", preview(call), call.name))
            else:
                end = bus.CallFinished(name, call.name, call.status, preview(call))
                end.duration_ms, end.retryable = duration(call), retryable(call)
                events.append(end)
        return events

    # --- the end ---

    def _turn_finished(self, event: bus.TurnFinished) -> list[Event]:
        said = [*self._close_step(), *self._show(self._calls.cut())]
        if ENDS[event.outcome].code:
            self._warnings.end_turn()
            return [*said, self.end(event)]
        told = self._warnings.take()
        self.told.update(at for at, _ in told)
        return [*said, *(bus.Notice(text, "warning") for _, text in told), self.end(event)]

    def end(self, event: bus.TurnFinished) -> bus.TurnFinished:
        """The end of a turn as it arrives."""
        if not ENDS[event.outcome].code:
            return bus.TurnFinished(event.outcome, event.text, steps=self._steps, limit=event.limit)
        error: Any = UNSET
        if event.outcome == "failed":
            why = failure(event)
            error = told_error(why.kind if why.kind in SETUP_CODES else why.code, why.message)
        return bus.TurnFinished(event.outcome, "".join(self.text), error=error, steps=self._steps)


def request_of(event: bus.TurnStarted) -> JsonId:
    """The id under which a turn is shown."""
    return event.id if event.ref is None else event.ref


_HEARS: Final[dict[type[Event], Callable[[Story, Any], list[Event]]]] = {
    bus.TurnStarted: Story._turn_started,
    bus.StepStarted: Story._step_started,
    bus.StepFinished: lambda story, event: story._close_step(),
    bus.CallReady: Story._call_ready,
    bus.CallRunning: lambda story, event: story._show(story._calls.running(event)),
    bus.CallFinished: lambda story, event: story._show(story._calls.ended(event)),
    bus.CallCancelled: lambda story, event: story._show(story._calls.ended(event)),
    bus.TurnFinished: Story._turn_finished,
}
"""Events of a chat. What is heard of the others is in the table alone."""
