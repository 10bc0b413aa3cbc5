"""The run under way, as a host follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.codec.heard import Answered, Heard
from agentwire.commands import JsonId
from agentwire_pagent.facts import CUT_OFF

Said = list[Heard | Answered]
"""What a host makes of a line."""


class OpenCall:
    """A call that a step lists, or that began without being listed."""

    __slots__ = ("asked", "begun", "call_id", "denied", "ended", "name", "running", "wire_id")

    def __init__(self, wire_id: str, call_id: str, name: str) -> None:
        self.wire_id = wire_id
        self.call_id = call_id
        """The call's id on the bus, where ids do not repeat."""
        self.name = name
        self.begun = False
        self.asked = False
        self.running = False
        """It was heard to run; v4 leaves open, until more is said, whether the host is asked first."""
        self.denied = False
        """We denied it."""
        self.ended = False


class Run:
    """A run that began and has not ended."""

    def __init__(self, identifier: str, ref: JsonId) -> None:
        self.id = identifier
        self.ref = ref
        self.stopping = False
        """We asked for its end."""
        self.step = -1
        """The step under way, or the last one."""
        self.steps = 0
        self.turn_open = False
        """A ``TurnBegin`` was not followed by its ``TurnEnd`` yet."""
        self.usage = bus.Usage()
        self.calls: list[OpenCall] = []
        """The last step's, in their order."""
        self.listed = 0
        """How many the step's end listed."""
        self.stopped = True
        """What the turn's end said; until it does, no tool ran."""
        self.pieces: list[str] = []
        """Of the last step's text."""

    def say(self, event: bus.Event) -> Heard:
        """An event of this run."""
        return Heard(event, "", self.ref)

    # --- steps ---

    def begin(self, index: int) -> Said:
        """A step begins. One that comes before the end of the one before it is v4's extra step at the limit."""
        said = self._close_calls()
        extra = self.turn_open and index > 0
        self.step = index
        self.steps += 1
        self.turn_open = True
        self.calls = []
        self.listed = 0
        self.stopped = True
        self.pieces.clear()
        return [*said, self.say(bus.StepStarted(index, index if extra else 0))]

    def finished(self, text: str, usage: bus.Usage | UnsetType) -> None:
        """The step's reply is complete."""
        self.pieces[:] = [text]
        if not isinstance(usage, UnsetType):
            self.usage = self.usage + usage

    @property
    def text(self) -> str:
        """The text of the last step, as far as it got."""
        return "".join(self.pieces)

    # --- calls ---

    def list(self, calls: Sequence[tuple[str, str, str]], taken: set[str]) -> list[bus.CallRef]:
        """The calls of a finished step, each with an id that is unique in the session."""
        refs = []
        for wire_id, name, arguments in calls:
            call = self._new(wire_id, name, taken)
            refs.append(bus.CallRef(call.call_id, name, arguments))
        self.listed = len(refs)
        return refs

    def began(self, wire_id: str, name: str, taken: set[str]) -> OpenCall:
        """The call that begins: the first of that id that has not begun yet."""
        for call in self.calls:
            if call.wire_id == wire_id and not call.begun:
                break
        else:
            call = self._new(wire_id, name, taken)
        call.begun = True
        call.name = name
        return call

    def under_way(self, wire_id: str) -> OpenCall | None:
        """The call of that id that began and has no result."""
        return next((call for call in self.open_calls if call.wire_id == wire_id), None)

    @property
    def open_calls(self) -> Sequence[OpenCall]:
        """Calls that began and have no result."""
        return [call for call in self.calls if call.begun and not call.ended]

    def _new(self, wire_id: str, name: str, taken: set[str]) -> OpenCall:
        call_id, n = wire_id, 1
        while call_id in taken:
            n += 1
            call_id = f"{wire_id}-{n}"
        taken.add(call_id)
        call = OpenCall(wire_id, call_id, name)
        self.calls.append(call)
        return call

    # --- the end ---

    def classic_outcome(self) -> bus.Outcome:
        """How a classic run ended: calls that ran in its last turn mean that the limit was reached (section 3)."""
        return "limit" if self.listed and not self.stopped else "completed"

    def end(self, outcome: bus.Outcome, error: bus.ErrorInfo | UnsetType = UNSET) -> Said:
        """The end of the run, after the end of every call in it."""
        said = self._close_calls()
        said.append(self.say(bus.TurnFinished(outcome, self.text, self.usage, error, "", self.steps)))
        return said

    def _close_calls(self) -> Said:
        """Calls that began and will have no result."""
        cause: Literal["stopped", "crashed"] = "stopped" if self.stopping else "crashed"
        said: Said = []
        for call in self.open_calls:
            call.ended = True
            if not call.running and not call.asked:
                said.append(self.say(bus.CallRunning(call.call_id, call.name)))
            said.append(self.say(bus.CallCancelled(call.call_id, cause, "", call.name)))
        return said

    def cut_off(self) -> Said:
        """The run is over and did not say so."""
        return self.end("cancelled") if self.stopping else self.end("failed", CUT_OFF)
