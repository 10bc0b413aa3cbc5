"""The steps of a turn whose wire knows none, worked out from the order of what it tells.

A log has them: what a model said in one reply is a step, and its calls come after it. Deltas after a call are of the
next step, and so is a call when all before it are closed. The calls of one reply are told one right after the other, so
their end is known with the first line that is neither a call nor a question; until then they are held back.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import UNSET

from agentwire import events as bus
from agentwire.codec.jsontext import canonical_object


class At(NamedTuple):
    """When and where something was heard."""

    time: int
    source: int


Placed = tuple[bus.Event, At]

_OF_REPLY: Final = (bus.TextDelta, bus.ReasoningDelta, bus.CallStarted, bus.CallArgumentsDelta)
_BEGINS_CALL: Final = (bus.CallReady, bus.ApprovalRequested, bus.CallRunning)
_ENDS_CALL: Final = (bus.CallFinished, bus.CallCancelled)


class Steps:
    """Follows one turn. ``told``: its wire tells its steps, and nothing is added."""

    __slots__ = ("_called", "_closed", "_held", "_open", "_ready", "_reasoning", "_shown", "_started", "_text", "told")

    def __init__(self) -> None:
        self.told = False
        self._shown: set[str] = set()
        """Calls of this turn that are in the log."""
        self._started = 0
        self._begin()

    def _begin(self) -> None:
        self._open = False
        """A reply is under way."""
        self._called = False
        """The reply under way, or the last one, has calls."""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._ready: dict[str, bus.CallRef] = {}
        self._closed: set[str] = set()
        self._held: list[Placed] = []

    def take(self, event: bus.Event, at: At) -> list[Placed]:
        """What is to be written now: the event, after what has to come before it; nothing, if it is held back."""
        if isinstance(event, bus.StepStarted | bus.StepFinished):
            self.told = True
        if self.told:
            return self._as_told(event, at)
        if isinstance(event, _BEGINS_CALL):
            return self._call(event, at)
        before = self.release()
        if isinstance(event, _OF_REPLY):
            before += self._in_reply(at)
            self._said(event)
        elif isinstance(event, _ENDS_CALL):
            self._closed.add(event.call_id)
        elif isinstance(event, bus.RetryScheduled) and self._open:
            self._text, self._reasoning = [], []
        elif isinstance(event, bus.TurnFinished):
            if event.outcome in ("completed", "limit"):
                before += self._finish(at)
            if self._started and not event.steps:
                event.steps = self._started
        return [*before, (event, at)]

    def _as_told(self, event: bus.Event, at: At) -> list[Placed]:
        """All calls that a reply lists are known with it, whatever the wire shows of each and when."""
        if isinstance(event, bus.CallReady):
            if event.call_id in self._shown:
                return []
            self._shown.add(event.call_id)
        if not isinstance(event, bus.StepFinished):
            return [(event, at)]
        calls = [call for call in event.calls if call.call_id not in self._shown]
        self._shown.update(call.call_id for call in calls)
        return [(event, at), *((_ready(call), at) for call in calls)]

    def release(self) -> list[Placed]:
        """What is held back: no more calls of this reply will come."""
        held, self._held = self._held, []
        if not held:
            return []
        ready = [placed for placed in held if isinstance(placed[0], bus.CallReady)]
        rest = [placed for placed in held if not isinstance(placed[0], bus.CallReady)]
        return [*ready, *self._finish(held[0][1]), *rest]

    def _call(self, event: bus.CallReady | bus.ApprovalRequested | bus.CallRunning, at: At) -> list[Placed]:
        before: list[Placed] = []
        if isinstance(event, bus.CallReady):
            over = self._called and not self._held and self._closed >= self._ready.keys()
            if over or not (self._open or self._called):
                before = self._next(at)
            self._called = True
            self._ready[event.call_id] = bus.CallRef(event.call_id, event.name, event.arguments_text)
        if not self._open:
            return [*before, (event, at)]  # a late call of a reply that is over
        self._held.append((event, at))
        return before

    def _in_reply(self, at: At) -> list[Placed]:
        """A piece of a reply needs one that is under way."""
        return [] if self._open else self._next(at)

    def _next(self, at: At) -> list[Placed]:
        before = self._finish(at)
        self._begin()
        self._open = True
        self._started += 1
        return [*before, (bus.StepStarted(self._started - 1), at)]

    def _finish(self, at: At) -> list[Placed]:
        if not self._open:
            return []
        self._open = False
        reason = "tool_calls" if self._ready else ""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        calls = list(self._ready.values())
        return [(bus.StepFinished(self._started - 1, text, reasoning, calls, finish_reason=reason), at)]

    def _said(self, event: bus.Event) -> None:
        if isinstance(event, bus.TextDelta):
            self._text.append(event.text)
        elif isinstance(event, bus.ReasoningDelta):
            self._reasoning.append(event.text)


def _ready(call: bus.CallRef) -> bus.CallReady:
    arguments = canonical_object(call.arguments_text)
    return bus.CallReady(call.call_id, call.name, call.arguments_text, UNSET if arguments is None else arguments)
