"""Reads a streamed Responses reply.

A reply is a list of output items. What an item holds is streamed in pieces and said once more as a whole when a
part, the item or the response is done; whichever of these a service leaves out, the reply is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire.events import ReasoningDelta, TextDelta, Usage
from agentwire.provider import CLOSED, Completion, Emit, EventStreamReader, lenient
from agentwire_openai.calls import CallAssembler
from agentwire_openai.chunks import CallDelta, Function
from agentwire_openai.responses_events import Event, Json, arguments_of, as_index, decode, loose_event, parts_of
from agentwire_openai.stream import usage_of

PLAIN = frozenset(("message", "function_call"))
"""Kinds of item that the bus has words for; a reply with any other is kept verbatim."""

BETWEEN = "\n\n"
"""Stands between two parts of the reasoning, which are paragraphs."""

_INCOMPLETE = {"max_output_tokens": "length", "max_tokens": "length"}
"""Why a response is incomplete, in our words; the service's own otherwise."""

_FAILED = frozenset(("failed", "cancelled"))

Place = tuple[str, int, int]
"""Of a part: what it is, its item's index, its own index."""


class Head(Struct, omit_defaults=True):
    """Stands before the items that are kept, and says who may have them back."""

    api: str
    model: str
    """Only this one: what it thought is nothing to others, and some of them refuse it."""


class ResponseReader(EventStreamReader):
    """One reply. ``model`` is the one that was asked."""

    def __init__(
        self,
        emit: Emit,
        *,
        model: str,
        service: str,
        secrets: Sequence[str] = (),
        make_call_ids: bool = False,
    ) -> None:
        super().__init__(emit, service=service, secrets=secrets)
        self._model = model
        self._calls = CallAssembler(emit, make_ids=make_call_ids)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._parts: dict[Place, list[str]] = {}
        """What was streamed of every part."""
        self._items: dict[int, Json] = {}
        """The items that are done."""
        self._index_of: dict[str, int] = {}
        """An item's index by its id."""
        self._last_index = 0
        self._incomplete = ""
        self._refused = False
        self._reported: Json = {}
        self._on: dict[str, Callable[[Event], None]] = {
            "response.output_text.delta": self._text_delta,
            "response.reasoning_summary_text.delta": self._summary_delta,
            "response.function_call_arguments.delta": self._arguments_delta,
            "response.reasoning_text.delta": self._reasoning_delta,
            "response.refusal.delta": self._refusal_delta,
            "response.output_item.added": self._item_added,
            "response.output_text.done": self._text_done,
            "response.refusal.done": self._refusal_done,
            "response.reasoning_summary_text.done": self._summary_done,
            "response.reasoning_text.done": self._reasoning_done,
            "response.function_call_arguments.done": self._arguments_done,
            "response.output_item.done": self._item_done,
            "response.created": self._progress,
            "response.in_progress": self._progress,
            "response.completed": self._ended,
            "response.incomplete": self._ended,
            "response.failed": self._ended,
            "response.cancelled": self._ended,
        }

    def on_event(self, data: bytes, name: bytes) -> None:
        """Take one event of the stream. Kinds that are not known say nothing."""
        event: Event | None
        try:
            event = decode(data)
        except (msgspec.DecodeError, RecursionError):
            if data.strip() == b"[DONE]":
                self.patience = CLOSED
                return
            try:
                event = loose_event(data)
            except ValueError as error:
                raise self.garbled(data) from error
        if name == b"error" or (event is not None and (event.type == "error" or event.error is not None)):
            raise self.reported(lenient.decode(data))
        if event is not None:
            event.type = event.type or name.decode("utf-8", "replace")
            if handle := self._on.get(event.type):
                handle(event)

    def whole(self, body: bytes) -> None:
        """Take a reply that came in one piece: the response."""
        try:
            response = lenient.decode(body)
        except ValueError as error:
            raise self.garbled(body) from error
        match response:
            case {"output": [*_]}:
                self._end(response, "completed")
            case {"error": _}:
                raise self.reported(response)
            case _:
                super().whole(body)

    @property
    def usage(self) -> Usage | UnsetType:
        """What was reported so far."""
        return usage_of(self._reported) if self._reported else UNSET

    def completion(self) -> Completion:
        """The whole reply."""
        calls = self._calls.finish()
        finish = "refusal" if self._refused else self._incomplete
        return Completion(
            "".join(self._text),
            "".join(self._reasoning),
            calls,
            self.usage,
            finish or ("tool_calls" if calls else "stop"),
            self._kept(),
        )

    # --- pieces ---

    def _text_delta(self, event: Event) -> None:
        self._add(("text", self._index(event), event.content_index or 0), event.delta)

    def _refusal_delta(self, event: Event) -> None:
        self._refused = True
        self._text_delta(event)

    def _summary_delta(self, event: Event) -> None:
        self._add(("summary", self._index(event), event.summary_index or 0), event.delta)

    def _reasoning_delta(self, event: Event) -> None:
        self._add(("reasoning", self._index(event), event.content_index or 0), event.delta)

    def _arguments_delta(self, event: Event) -> None:
        self._calls.add(CallDelta(self._index(event), None, Function(None, event.delta)))

    # --- parts and items that are done ---

    def _text_done(self, event: Event) -> None:
        self._complete(("text", self._index(event), event.content_index or 0), event.text)

    def _refusal_done(self, event: Event) -> None:
        self._refused = True
        self._complete(("text", self._index(event), event.content_index or 0), event.refusal)

    def _summary_done(self, event: Event) -> None:
        self._complete(("summary", self._index(event), event.summary_index or 0), event.text)

    def _reasoning_done(self, event: Event) -> None:
        self._complete(("reasoning", self._index(event), event.content_index or 0), event.text)

    def _arguments_done(self, event: Event) -> None:
        self._calls.complete(self._index(event), event.arguments or "")

    def _item_added(self, event: Event) -> None:
        item = event.item or {}
        index = self._index(event, item)
        if item.get("type") == "function_call":
            self._call(index, item)
            if arguments := arguments_of(item):
                self._calls.add(CallDelta(index, None, Function(None, arguments)))

    def _item_done(self, event: Event) -> None:
        if event.item is not None:
            self._take(self._index(event, event.item), event.item)

    def _take(self, index: int, item: Json) -> None:
        """An item that is done: what of it was not streamed is told now."""
        self._items[index] = item
        match item.get("type"):
            case "message":
                for number, part in enumerate(parts_of(item)):
                    self._refused = self._refused or part.get("type") == "refusal"
                    self._complete(("text", index, number), part.get("text") or part.get("refusal"))
            case "reasoning":
                for number, part in enumerate(parts_of(item, "summary")):
                    self._complete(("summary", index, number), part.get("text"))
                for number, part in enumerate(parts_of(item)):
                    self._complete(("reasoning", index, number), part.get("text"))
            case "function_call":
                self._call(index, item)
                self._calls.complete(index, arguments_of(item))

    def _call(self, index: int, item: Json) -> None:
        said_id, name = item.get("call_id") or item.get("id"), item.get("name")
        self._calls.add(
            CallDelta(
                index,
                said_id if isinstance(said_id, str) else None,
                Function(name if isinstance(name, str) else None, None),
            )
        )

    # --- the response ---

    def _progress(self, event: Event) -> None:
        self._count(event.response or {})

    def _ended(self, event: Event) -> None:
        self._end(event.response or {}, event.type.removeprefix("response."))

    def _end(self, response: Json, kind: str) -> None:
        """The response is over. ``kind`` is how, if it does not say so itself."""
        status = str(response.get("status") or kind)
        self._count(response)
        if status in _FAILED or response.get("error"):
            raise self.reported({"error": response.get("error") or {"message": f"the response was {status}"}})
        output = response.get("output")
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        if len(items) > len(self._items):  # else all of them were done before
            for number, item in enumerate(items):
                index = self._index_of.get(str(item.get("id")), number)
                if index not in self._items:
                    self._take(index, item)
        if status == "incomplete":
            details = response.get("incomplete_details")
            reason = str(details.get("reason") or "") if isinstance(details, dict) else ""
            self._incomplete = _INCOMPLETE.get(reason, reason) or "length"
        self.patience = CLOSED

    def _count(self, response: Json) -> None:
        usage = response.get("usage")
        if isinstance(usage, dict) and usage:
            self._reported = usage
            self.emit(usage_of(usage))

    # --- keeping ---

    def _index(self, event: Event, item: Json | None = None) -> int:
        """The index of the item that an event is about: as it says, by the item's id, or the last one."""
        said_id = event.item_id or (item or {}).get("id")
        index = as_index(event.output_index)
        if index is None:
            index = self._index_of.get(said_id) if isinstance(said_id, str) else self._last_index
        if index is None:
            index = len(self._index_of)
        if isinstance(said_id, str):
            self._index_of[said_id] = index
        self._last_index = index
        return index

    def _add(self, place: Place, text: str | None) -> None:
        """The next piece of a part."""
        if not text:
            return
        begins = place not in self._parts
        self._parts.setdefault(place, []).append(text)
        if place[0] == "text":
            self._text.append(text)
            self.emit(TextDelta(text))
            return
        if begins and self._reasoning:
            text = BETWEEN + text
        self._reasoning.append(text)
        self.emit(ReasoningDelta(text))

    def _complete(self, place: Place, text: Any) -> None:
        """A part as a whole: the rest of it, if it was not all streamed. What was shown is never taken back."""
        if isinstance(text, str):
            said = "".join(self._parts.get(place, ()))
            if text.startswith(said):
                self._add(place, text[len(said) :])

    def _kept(self) -> list[Raw]:
        """What must go back as it came: everything, if there is more in it than words and calls."""
        items = [self._items[index] for index in sorted(self._items)]
        if all(item.get("type") in PLAIN and not item.get("phase") for item in items):
            return []
        return [Raw(msgspec.json.encode(item)) for item in (Head("responses", self._model), *items)]
