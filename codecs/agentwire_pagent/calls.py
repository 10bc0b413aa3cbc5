"""A step's calls in the order in which the wire shows them (section 3).

On this wire a step's calls come in the order in which the step lists them, each result right after its beginning,
whatever the engine does at the same time. So a call is shown when all before it are closed. A call that was cut off
ends what is shown of the step, as it does with the peer; in v4 one that was begun and stopped has its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agentwire import events as bus

Showing = Literal["begin", "permit", "result"]


class Call:
    """One call, and how far it has come."""

    __slots__ = ("arguments", "begun", "call_id", "end", "live", "name", "question", "running")

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

Shown = list[tuple[Showing, Call]]


class StepCalls:
    """The calls of the step under way. ``asks``: the dialect shows questions."""

    __slots__ = ("_asks", "_halted", "_known", "_open", "_queue", "ran")

    def __init__(self, asks: bool) -> None:
        self._asks = asks
        self.clear()

    def clear(self) -> None:
        """Another step begins."""
        self._known: dict[str, Call] = {}
        self._queue: list[Call] = []
        self._open = False
        self._halted = False
        self.ran = False
        """A call of this step was shown."""

    def listed(self, refs: Sequence[bus.CallRef]) -> Shown:
        """The step is finished: these are its calls."""
        first = []
        for ref in refs:
            call = self._call(ref.call_id, ref.name, live=False)
            call.arguments = ref.arguments_text
            first.append(call)
        self._queue = first + [call for call in self._queue if call not in first]
        self._open = True
        return self._advance()

    def ready(self, event: bus.CallReady) -> Shown:
        """A call is complete."""
        known = event.call_id in self._known
        call = self._call(event.call_id, event.name)
        if not known or not call.arguments:
            call.arguments = event.arguments_text
        return []

    def asked(self, event: bus.ApprovalRequested) -> Shown:
        """The host is asked about a call."""
        call = self._call(event.call_id, event.name)
        call.question = event
        return self._advance()

    def running(self, event: bus.CallRunning) -> Shown:
        """A call was started."""
        self._call(event.call_id, event.name).running = True
        return self._advance()

    def ended(self, event: bus.CallFinished | bus.CallCancelled) -> Shown:
        """A call is closed. One that this step knows nothing of was cut off before it was anything to show."""
        if event.call_id not in self._known and isinstance(event, bus.CallCancelled):
            return []
        self._call(event.call_id, event.name).end = event
        return self._advance()

    def _call(self, call_id: str, name: str, *, live: bool = True) -> Call:
        call = self._known.get(call_id)
        if call is None:
            call = self._known[call_id] = Call(call_id, name)
            self._queue.append(call)
        call.name = call.name or name
        call.live = call.live or live
        return call

    def _advance(self) -> Shown:
        """What can be shown now."""
        shown: Shown = []
        while self._open and not self._halted and (call := self._next()) is not None:
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
        return shown

    def _next(self) -> Call | None:
        """The call to show: one that began, else the first of which more is known than that the step lists it."""
        first = None
        for call in self._queue:
            if call.begun:
                return call
            if first is None and call.live:
                first = call
        return first

    def _show_open(self, call: Call, shown: Shown) -> None:
        if call.running:
            self._begin(call, shown)
        elif call.question is not None and self._asks and not call.begun:
            self._begin(call, shown)
            shown.append(("permit", call))

    def _begin(self, call: Call, shown: Shown) -> None:
        if not call.begun:
            call.begun = self.ran = True
            shown.append(("begin", call))
