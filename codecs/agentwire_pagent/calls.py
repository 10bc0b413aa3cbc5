"""A step's calls in the order in which the wire shows them (section 3).

On this wire a step's calls come in the order in which the step lists them, each result right after its beginning,
whatever the engine does at the same time. So a call is shown when all before it are closed. A call that was cut off
ends what is shown of the step, as it does with the peer; in v4 one that was begun and stopped has its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from agentwire import events as bus
from agentwire_pagent.splices import call_head

Showing = Literal["begin", "permit", "result"]


class Call:
    """One call, and how far it has come."""

    __slots__ = ("_head", "arguments", "begun", "call_id", "end", "live", "name", "question", "running")

    def __init__(self, call_id: str, name: str = "", arguments: str = "") -> None:
        self.call_id = call_id
        self.name = name
        self.arguments = arguments
        self.live = False
        """More is known of it than that a step lists it."""
        self.question: bus.ApprovalRequested | None = None
        self.running = False
        self.end: bus.CallFinished | bus.CallCancelled | None = None
        self.begun = False
        """Its beginning was shown."""
        self._head = b""

    @property
    def head(self) -> bytes:
        """Id and name as its lines have them; to be asked once it is shown, when its name is known."""
        self._head = self._head or call_head(self.call_id, self.name)
        return self._head

    def ended_by(self, *causes: str) -> bool:
        """Whether it was cancelled for one of ``causes``."""
        return isinstance(self.end, bus.CallCancelled) and self.end.cause in causes

    @property
    def content(self) -> str:
        """What its result says: what the model reads, but of a refusal only the reason."""
        end = self.end
        if isinstance(end, bus.CallFinished):
            return end.output
        return "" if end is None else end.reason or end.output or _WORDS.get(end.cause, "")

    @property
    def ok(self) -> bool:
        """Whether its result is a good one."""
        return isinstance(self.end, bus.CallFinished) and self.end.status == "ok"


_WORDS = {
    "denied": "The user refused this call.",
    "refused": "This call was refused.",
    "stopped": "Cancelled by user",
    "client_gone": "Client disconnected",
}
"""For a call that was cancelled without a word."""

Shown = Sequence[tuple[Showing, Call]]
_NOTHING: Final[Shown] = ()


class StepCalls:
    """The calls of the step under way. ``asks``: the dialect shows questions."""

    __slots__ = ("_asks", "_begun", "_halted", "_known", "_open", "_queue", "ran")

    def __init__(self, asks: bool) -> None:
        self._asks = asks
        self._known: dict[str, Call] = {}
        self._queue: list[Call] = []
        """Calls that are not closed, or not shown to be, in the order in which they are to be shown."""
        self._begun: Call | None = None
        """The one whose beginning was shown and whose result was not."""
        self._open = False
        self._halted = False
        self.ran = False
        """A call of this step was shown."""

    def clear(self) -> None:
        """Another step begins."""
        if self._known:
            self._known = {}
            self._queue = []
            self._begun = None
        self._open = self._halted = self.ran = False

    def listed(self, refs: Sequence[bus.CallRef]) -> Shown:
        """The step is finished: these are its calls."""
        self._open = True
        if not refs and not self._queue:
            return _NOTHING
        first = []
        for ref in refs:
            call = self._known.get(ref.call_id) or self._new(ref.call_id, ref.name)
            call.name = call.name or ref.name
            call.arguments = ref.arguments_text
            first.append(call)
        if first != self._queue:
            self._queue = first + [call for call in self._queue if call not in first]
        return self._advance()

    def ready(self, event: bus.CallReady) -> Shown:
        """A call is complete."""
        known = event.call_id in self._known
        call = self._call(event.call_id, event.name)
        if not known or not call.arguments:
            call.arguments = event.arguments_text
        return _NOTHING

    def asked(self, event: bus.ApprovalRequested) -> Shown:
        """The host is asked about a call."""
        self._call(event.call_id, event.name).question = event
        return self._advance()

    def running(self, event: bus.CallRunning) -> Shown:
        """A call was started."""
        self._call(event.call_id, event.name).running = True
        return self._advance()

    def ended(self, event: bus.CallFinished | bus.CallCancelled) -> Shown:
        """A call is closed. One that this step knows nothing of was cut off before it was anything to show."""
        if event.call_id not in self._known and isinstance(event, bus.CallCancelled):
            return _NOTHING
        self._call(event.call_id, event.name).end = event
        return self._advance()

    def _call(self, call_id: str, name: str) -> Call:
        """A call of which more is known now than that the step lists it."""
        call = self._known.get(call_id) or self._new(call_id, name)
        call.name = call.name or name
        call.live = True
        return call

    def _new(self, call_id: str, name: str) -> Call:
        call = self._known[call_id] = Call(call_id, name)
        self._queue.append(call)
        return call

    def _advance(self) -> Shown:
        """What can be shown now."""
        shown: list[tuple[Showing, Call]] = []
        while self._open and not self._halted and (call := self._begun or self._next()) is not None:
            if call.end is None:
                self._show_open(call, shown)
                break
            if call.ended_by("crashed") or (call.ended_by("stopped") and not self._asks):
                self._halted = True
                break
            self._queue.remove(call)
            if call.begun or not call.ended_by("stopped"):
                self._begin(call, shown)
                shown.append(("result", call))
            self._begun = None
        return shown

    def _next(self) -> Call | None:
        """The first call of which more is known than that the step lists it."""
        for call in self._queue:
            if call.live:
                return call
        return None

    def _show_open(self, call: Call, shown: list[tuple[Showing, Call]]) -> None:
        if call.begun:
            return
        if call.running:
            self._begin(call, shown)
        elif call.question is not None and self._asks:
            self._begin(call, shown)
            shown.append(("permit", call))

    def _begin(self, call: Call, shown: list[tuple[Showing, Call]]) -> None:
        if not call.begun:
            call.begun = self.ran = True
            self._begun = call
            shown.append(("begin", call))
