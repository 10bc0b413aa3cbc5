"""A step's calls as the wire shows them: one after the other, each end right after its start (section 5).

There is no call id on this wire: a host knows whose end it reads only because nothing stands between. So whatever
the engine does at the same time, a call is shown when those that began before it are over. The first to begin is
shown at once.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Raw, UnsetType

from agentwire import events as bus

NO_ARGUMENTS: Final = Raw(b"{}")


class Call:
    """One call, and how far it has come."""

    __slots__ = ("arguments", "barred", "call_id", "end", "name", "shown")

    def __init__(self, call_id: str, name: str, arguments: Raw = NO_ARGUMENTS, barred: bool = False) -> None:
        self.call_id = call_id
        self.name = name
        self.arguments = arguments
        self.barred = barred
        self.end: bus.CallFinished | bus.CallCancelled | None = None
        self.shown = False
        """Its start was."""

    @property
    def status(self) -> Literal["ok", "error", "denied"]:
        """What its end says."""
        end = self.end
        if isinstance(end, bus.CallCancelled):
            return "error" if end.cause in _CUT else "denied"
        return "error" if end is None else end.status


_CUT: Final = ("stopped", "crashed")
"""Causes of an end that nobody decided on for the call itself."""

Shown = list[tuple[Literal["start", "done"], Call]]


class StepCalls:
    """The calls of the step under way."""

    __slots__ = ("_known", "_queue")

    def __init__(self) -> None:
        self._known: dict[str, Call] = {}
        self._queue: list[Call] = []

    def clear(self) -> None:
        """Another step begins."""
        self._known.clear()
        self._queue.clear()

    def ready(self, event: bus.CallReady) -> None:
        """A call is complete."""
        arguments = NO_ARGUMENTS if isinstance(event.arguments, UnsetType) else event.arguments
        self._known[event.call_id] = Call(event.call_id, event.name, arguments, event.barred)

    def running(self, event: bus.CallRunning) -> Shown:
        """A call was started."""
        call = self._known.get(event.call_id)
        if call is None:
            return []
        self._queue.append(call)
        return self._advance()

    def ended(self, event: bus.CallFinished | bus.CallCancelled) -> Shown:
        """A call is closed. One that never ran is shown if that was decided, not if the turn ended first."""
        call = self._known.get(event.call_id)
        if call is None or call.barred:
            return []  # cut off before it was anything to show, or not for hosts to see
        if call not in self._queue:
            if isinstance(event, bus.CallCancelled) and event.cause in _CUT:
                return []
            self._queue.append(call)
        call.end = event
        return self._advance()

    def cut(self) -> Shown:
        """What comes now does not wait for calls: one that has no end yet gets none any more."""
        for call in self._queue:
            call.end = call.end or bus.CallCancelled(call.call_id, "crashed")
        return self._advance()

    def _advance(self) -> Shown:
        """What can be shown now."""
        shown: Shown = []
        while self._queue:
            call = self._queue[0]
            if not call.shown:
                call.shown = True
                shown.append(("start", call))
            if call.end is None:
                break
            shown.append(("done", call))
            del self._queue[0]
        return shown
