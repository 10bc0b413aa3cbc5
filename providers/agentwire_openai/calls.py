"""Puts a reply's tool calls together from their pieces, whichever way a service numbers or names them.

The rules: a new id opens a new call, even under an index that is taken; an index without an id goes on with the
call last opened under it; neither goes on with the call last opened. Ids and names are said once, a repetition adds
nothing.
"""

from __future__ import annotations

from typing import Any

from agentwire.events import CallArgumentsDelta, CallRef, CallStarted
from agentwire.provider import Emit, lenient
from agentwire_openai.chunks import CallDelta, Function


class OpenCall:
    """A call that is being written."""

    __slots__ = ("arguments", "call_id", "extra", "index", "name", "said_id", "shown")

    def __init__(self, index: int | None, said_id: str) -> None:
        self.index = index
        self.said_id = said_id
        """As the service says it; several calls of a reply may share it."""
        self.call_id = ""
        """Unique in this reply."""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: Any = None
        self.shown = False

    @property
    def arguments_text(self) -> str:
        """What was streamed so far."""
        return "".join(self.arguments)


class CallAssembler:
    """The calls of one reply. What has an id and a name is shown through ``emit`` as it comes."""

    def __init__(self, emit: Emit, *, make_ids: bool = False) -> None:
        self._emit = emit
        self._make_ids = make_ids
        self.calls: list[OpenCall] = []
        self._by_index: dict[int, OpenCall] = {}
        self._by_said_id: dict[str, OpenCall] = {}
        self._ids: set[str] = set()

    def add(self, delta: CallDelta) -> None:
        """Take a piece."""
        function = delta.function or Function()
        call = self._find(delta.index, delta.id or "", function)
        if delta.id and not call.said_id:
            self._name_it(call, delta.id)
        if function.name and not call.name:
            call.name = function.name
        if delta.extra_content is not None:
            call.extra = delta.extra_content
        if function.arguments:
            call.arguments.append(function.arguments)
        self._show(call, function.arguments or "")

    def complete(self, index: int, arguments: str) -> None:
        """The whole arguments of the call last opened under ``index``: the rest is shown, if not all was streamed."""
        call = self._by_index.get(index)
        if call is None or not arguments:
            return
        said = call.arguments_text
        if not arguments.startswith(said):
            call.arguments = [arguments]
        elif rest := arguments[len(said) :]:
            self.add(CallDelta(index, None, Function(None, rest)))

    def finish(self) -> list[CallRef]:
        """The calls, in the model's order."""
        if all(call.index is not None for call in self.calls):
            self.calls.sort(key=lambda call: call.index or 0)
        return [CallRef(call.call_id, call.name, lenient.arguments_text(call.arguments_text)) for call in self.calls]

    def _find(self, index: int | None, said_id: str, function: Function) -> OpenCall:
        if index is not None:
            call = self._by_index.get(index)
        elif said_id:
            call = self._by_said_id.get(said_id)
        else:
            call = self.calls[-1] if self.calls else None
            if call and function.name and function.arguments and lenient.as_object(call.arguments_text) is not None:
                call = None  # that call is whole, and here one is named and begun
        if call is None or (said_id and call.said_id not in ("", said_id)):
            call = self._open(index, said_id)
        return call

    def _open(self, index: int | None, said_id: str) -> OpenCall:
        call = OpenCall(index, "")
        if said_id or self._make_ids:
            self._name_it(call, said_id or f"call_{len(self.calls)}")
        self.calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def _name_it(self, call: OpenCall, said_id: str) -> None:
        call.said_id, call.call_id = said_id, said_id
        number = 2
        while call.call_id in self._ids:
            call.call_id, number = f"{said_id}_{number}", number + 1
        self._ids.add(call.call_id)
        self._by_said_id[said_id] = call

    def _show(self, call: OpenCall, arguments: str) -> None:
        if call.shown:
            if arguments:
                self._emit(CallArgumentsDelta(call.call_id, arguments))
        elif call.call_id and call.name:
            call.shown = True
            self._emit(CallStarted(call.call_id, call.name))
            if call.arguments:
                self._emit(CallArgumentsDelta(call.call_id, call.arguments_text))
