"""What a host hears of a log, worked out from its records alone: the memory behind the fidelity table.

On this wire what a record becomes may wait for others: calls are shown in order, a turn's end comes with what
follows it. So the whole log is gone through beforehand, and the table asks for what is heard at a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.codec.jsontext import canonical_object
from agentwire.events import Event
from agentwire.log.record import Record
from agentwire_pagent import wire
from agentwire_pagent.calls import Call, Shown, StepCalls
from agentwire_pagent.facts import CUT_OFF, breaks_off, failure, is_cut, is_extra, summary, user_input
from agentwire_pagent.usage import from_wire, to_wire


def arriving_usage(usage: bus.Usage | UnsetType) -> bus.Usage | UnsetType:
    """A step's usage as it arrives."""
    return from_wire(to_wire(usage))


class Story:
    """What a host knows at each record of a log, and what it hears there."""

    def __init__(self, records: Sequence[Record], dialect: wire.Dialect) -> None:
        self._v4 = dialect == "v4"
        self._heard: list[list[Event]] = []
        self.shown: set[str] = set()
        """Calls that are ever shown."""
        self.asked: dict[str, str] = {}
        """Calls whose question is ever shown, and what it says of each."""
        self._dialect = dialect
        self._at = 0
        self.runs = 0
        self.reasoning: list[str] = []
        self.usage = bus.Usage()
        self.text = ""
        """The last step's, as far as it got."""
        self.steps = 0
        self.step: int | None = None
        """The step under way."""
        self._finished = True
        self._listed = False
        self._calls = StepCalls(asks=self._v4)
        self._open: dict[str, Call] = {}
        self.go_on(records)

    def go_on(self, records: Sequence[Record]) -> None:
        """Go through what comes next beforehand."""
        self._dropped = self._fallen(records)
        self._heard.clear()
        self.shown.clear()
        self.asked.clear()
        learnt = {name: getattr(self, name) for name in _LEARNT}
        self.reasoning = [*self.reasoning]
        self._at = 0
        for record in records:
            self._heard.append(self._hear(record))
            self.advance(record)
        for name, value in learnt.items():
            setattr(self, name, value)
        self._at = 0

    def _fallen(self, records: Sequence[Record]) -> set[int]:
        """Places of what is never written: the end of a step that failed, if the run's failure follows at once."""
        fallen: set[int] = set()
        held: list[int] = []
        in_step = failed = False
        for at, record in enumerate(records):
            event = record.event
            if record.origin or type(event) not in _RENDERED:
                continue
            if held and is_cut(event):
                held.append(at)
                continue
            if breaks_off(event, self._dialect):
                fallen.update(held)
            held = []
            if isinstance(event, bus.TurnStarted | bus.StepStarted | bus.TurnFinished):
                in_step, failed = isinstance(event, bus.StepStarted), False
            elif isinstance(event, bus.ErrorRaised):
                failed = failed or (in_step and bool(record.turn))
            elif isinstance(event, bus.StepFinished):
                held = [at] if failed else []
                in_step = failed = False
        return fallen | set(held)

    @property
    def falls(self) -> bool:
        """Whether the record at hand is never written."""
        return self._at in self._dropped

    def heard(self) -> list[Event]:
        """What a host hears at the record at hand."""
        return self._heard[self._at]

    def advance(self, record: Record) -> None:
        """Go on to the next record."""
        if not record.origin and not self.falls:
            self._learn(record)
        self._at += 1

    # --- what is remembered ---

    def _learn(self, record: Record) -> None:
        event = record.event
        if isinstance(event, bus.TurnStarted):
            self.runs += 1
            self.usage, self.text, self.steps, self.step, self._finished = bus.Usage(), "", 0, None, True
            self._listed = False
        elif isinstance(event, bus.StepStarted):
            self.steps, self.step, self.text, self._finished = self.steps + 1, event.index, "", False
            self.reasoning, self._listed = [], False
        elif isinstance(event, bus.TextDelta):
            self.text += event.text
        elif isinstance(event, bus.ReasoningDelta):
            self.reasoning.append(event.text)
        elif isinstance(event, bus.StepFinished):
            self.text, self._finished, self._listed = event.text, True, bool(event.calls)
            spent = arriving_usage(event.usage)
            self.usage = self.usage if isinstance(spent, UnsetType) else self.usage + spent

    # --- what is heard ---

    def _hear(self, record: Record) -> list[Event]:
        if record.origin or self.falls or (hear := _HEARS.get(type(record.event))) is None:
            return []
        return hear(self, record.event)

    def _turn_started(self, event: bus.TurnStarted) -> list[Event]:
        self._calls.clear()
        self._open.clear()
        text = user_input(event)
        name = f"run-{self.runs + 1}"
        return [bus.TurnStarted(name, name, [bus.Text(text)] if text else [])]

    def _step_started(self, event: bus.StepStarted) -> list[Event]:
        extra = self._v4 and is_extra(event) and self.step is not None
        before = [*self._broken_off(""), *self._left_open()]
        self._calls.clear()
        return [*before, bus.StepStarted(event.index, event.index if extra else 0)]

    def _broken_off(self, text: str) -> list[Event]:
        """A step that was not finished is, on the wire."""
        if self.step is None or self._finished:
            return []
        return [bus.StepFinished(self.step, text, "".join(self.reasoning))]

    def _step_finished(self, event: bus.StepFinished) -> list[Event]:
        reasoning = "".join(self.reasoning) or event.reasoning
        finished = bus.StepFinished(event.index, event.text, reasoning, event.calls, arriving_usage(event.usage))
        return [finished, *self._show(self._calls.listed(event.calls))]

    def _show(self, shown: Shown) -> list[Event]:
        events: list[Event] = []
        for what, call in shown:
            if what == "begin":
                self.shown.add(call.call_id)
                self._open[call.call_id] = call
                arguments = canonical_object(call.arguments)
                events.append(
                    bus.CallReady(call.call_id, call.name, call.arguments, UNSET if arguments is None else arguments)
                )
                if not self._v4:
                    events.append(bus.CallRunning(call.call_id, call.name))
            elif what == "permit":
                told = self.asked[call.call_id] = summary(call)
                events.append(
                    bus.ApprovalRequested(call.call_id, call.call_id, call.name, command=told, offers_always=False)
                )
            else:
                del self._open[call.call_id]
                if self._v4:
                    events.append(bus.CallRunning(call.call_id, call.name))
                events.append(bus.CallFinished(call.call_id, call.name, "ok" if call.ok else "error", call.content))
        return events

    # --- the end ---

    def _turn_finished(self, event: bus.TurnFinished) -> list[Event]:
        finished = self.end(event)
        said: list[Event] = []
        if self._says_end(event):
            said += self._broken_off(event.text)
        if self._v4 and failure(event) and not isinstance(finished.error, UnsetType):
            said.append(bus.ErrorRaised(finished.error))
        return [*said, *self._left_open(), finished]

    def _left_open(self) -> list[Event]:
        """Calls that began and have no result are closed by the host."""
        said: list[Event] = []
        for call in self._open.values():
            if self._v4 and call.call_id not in self.asked:
                said.append(bus.CallRunning(call.call_id, call.name))
            said.append(bus.CallCancelled(call.call_id, "crashed", "", call.name))
        self._open.clear()
        return said

    def _says_end(self, event: bus.TurnFinished) -> bool:
        """Whether the run ends with its last line."""
        return event.outcome in ("completed", "limit") or (self._v4 and event.outcome == "cancelled")

    def end(self, event: bus.TurnFinished) -> bus.TurnFinished:
        """The end of a turn as it arrives."""
        text = self.text
        if self._says_end(event):
            if not self._finished or (not self.steps and not self._v4):
                text = event.text
            outcome = event.outcome if self._v4 else self._told()
            return bus.TurnFinished(outcome, text, self.usage, steps=self.steps)
        why = failure(event) if self._v4 else ""
        error = bus.ErrorInfo("provider_error", why) if why else CUT_OFF
        return bus.TurnFinished("failed", text, self.usage, error, steps=self.steps)

    def _told(self) -> bus.Outcome:
        """Calls that ran in the last step mean that the limit was reached."""
        return "limit" if self._listed and self._calls.ran else "completed"


_HEARS: Final[dict[type[Event], Callable[[Story, Any], list[Event]]]] = {
    bus.TurnStarted: Story._turn_started,
    bus.StepStarted: Story._step_started,
    bus.StepFinished: Story._step_finished,
    bus.CallReady: lambda story, event: story._show(story._calls.ready(event)),
    bus.ApprovalRequested: lambda story, event: story._show(story._calls.asked(event)),
    bus.CallRunning: lambda story, event: story._show(story._calls.running(event)),
    bus.CallFinished: lambda story, event: story._show(story._calls.ended(event)),
    bus.CallCancelled: lambda story, event: story._show(story._calls.ended(event)),
    bus.TurnFinished: Story._turn_finished,
}
"""Events of a run. What is heard of the others is in the table alone."""

_LEARNT: Final = ("runs", "reasoning", "usage", "text", "steps", "step", "_finished", "_listed")
"""What is remembered of the records before the one at hand."""

_RENDERED: Final = frozenset({
    *_HEARS, bus.SessionOpened, bus.ModeChanged, bus.ConfigChanged, bus.HistoryCleared, bus.ErrorRaised, bus.Unknown,
})  # fmt: skip
"""Events that the agent side looks at, deltas aside."""
