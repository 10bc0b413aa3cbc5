"""Reads a streamed Chat Completions reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire.events import ReasoningDelta, TextDelta, Usage
from agentwire.provider import CLOSED, CLOSING, Completion, Emit, EventStreamReader, ThinkSplitter, lenient
from agentwire_openai.calls import CallAssembler
from agentwire_openai.chunks import CallDelta, Chunk, Delta, decode, loose_chunks, named_error

_FINISH = {"function_call": "tool_calls", "max_tokens": "length", "end_turn": "stop"}
"""Other words for the same."""

_FAILED = frozenset(("error", "network_error"))
"""Reasons that are none: the service broke down."""

_WITH_CALLS = frozenset(("length", "content_filter", "refusal"))
"""Reasons that stay what they are when there are calls; services are careless about all others."""


class Item(Struct, omit_defaults=True):
    """What a reply's calls must come back with: :attr:`agentwire.provider.Completion.items` holds at most one."""

    model: str
    """Only to this model: another service may refuse what it does not know."""
    reasoning_content: bool = False
    """The reasoning came under that name, and is wanted back under it."""
    extra_content: list[Any] = []
    """What the service put beside each call, in their order; None where it put nothing."""


class ChatReader(EventStreamReader):
    """One reply. ``model`` is the one that was asked."""

    def __init__(
        self,
        emit: Emit,
        *,
        model: str,
        service: str,
        secrets: Sequence[str] = (),
        thinking_tags: bool = True,
        make_call_ids: bool = False,
    ) -> None:
        super().__init__(emit, service=service, secrets=secrets)
        self._model = model
        self._calls = CallAssembler(emit, make_ids=make_call_ids)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_content = False
        self._splitter = ThinkSplitter()
        self._splitter.open = thinking_tags
        self._finish = ""
        self._refused = False
        self._reported: dict[str, Any] = {}

    def on_event(self, data: bytes, name: bytes) -> None:
        """Take one event of the stream."""
        if data.startswith(b"{") and name != b"error":
            try:
                chunk = decode(data)
            except (msgspec.DecodeError, RecursionError):
                pass  # read once more below, leniently
            else:
                if chunk.choices is not None:
                    self._take(chunk)
                    return
        if data.strip() == b"[DONE]":
            self.patience = CLOSED
            return
        try:
            chunks = [named_error(data)] if name == b"error" else loose_chunks(data)
        except ValueError as error:
            raise self.garbled(data) from error
        for chunk in chunks:
            self._take(chunk)

    def whole(self, body: bytes) -> None:
        """Take a reply that came in one piece: the same object, with ``message`` in place of ``delta``."""
        if body.strip():
            self.on_event(body, b"")
        if self.patience is None:
            super().whole(body)

    @property
    def usage(self) -> Usage | UnsetType:
        """What was reported so far."""
        return usage_of(self._reported) if self._reported else UNSET

    def completion(self) -> Completion:
        """The whole reply."""
        self._release()
        calls = self._calls.finish()
        finish = _FINISH.get(self._finish, self._finish)
        if self._refused and finish in ("", "stop"):
            finish = "refusal"
        if calls and finish not in _WITH_CALLS:
            finish = "tool_calls"
        return Completion(
            "".join(self._text), "".join(self._reasoning), calls, self.usage, finish or "stop", self._items()
        )

    def _take(self, chunk: Chunk) -> None:
        if chunk.error is not None:
            raise self.reported({"error": chunk.error})
        usage = chunk.usage or (chunk.x_groq.usage if chunk.x_groq else None)
        if chunk.choices:
            choice = chunk.choices[0]
            usage = usage or choice.usage
            delta = choice.delta or choice.message
            if delta is not None:
                self._add(delta)
            if choice.finish_reason:
                self._finished(choice.finish_reason)
        if usage:
            self._reported = usage
            self.emit(usage_of(usage))

    def _add(self, delta: Delta) -> None:
        if thought := delta.reasoning_content:
            self._reasoning_content = True
        elif not (thought := delta.reasoning) and delta.reasoning_details:
            # The same text once more, unless this is the only place where it stands.
            thought = "".join(detail.text or detail.summary or "" for detail in delta.reasoning_details)
        if thought:
            self._release()  # a service that tells reasoning apart leaves no tags in the text
            self._think(thought)
        if content := delta.content:
            if self._splitter.open:
                thought, content = self._splitter.feed(content)
                self._think(thought)
            self._say(content)
        if delta.refusal:
            self._refused = True
            self._say(delta.refusal)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._calls.add(call)
        if delta.function_call is not None:
            self._calls.add(CallDelta(0, "call_0", delta.function_call))

    def _release(self) -> None:
        """No tags any more: what was held back as the beginning of one is shown."""
        if self._splitter.open:
            thought, text = self._splitter.close()
            self._think(thought)
            self._say(text)

    def _think(self, text: str) -> None:
        if text:
            self._reasoning.append(text)
            self.emit(ReasoningDelta(text))

    def _say(self, text: str) -> None:
        if text:
            self._text.append(text)
            self.emit(TextDelta(text))

    def _finished(self, reason: str) -> None:
        if reason in _FAILED:
            raise self.reported({"error": {"message": f"finish_reason {reason!r}", "type": "server_error"}})
        self._release()
        self._finish = reason
        self.patience = self.patience or CLOSING

    def _items(self) -> list[Raw]:
        """What must come back with the calls: under which name, and what the service put beside them."""
        calls = self._calls.calls
        extra = [call.extra for call in calls]
        if not calls or not (self._reasoning_content or any(item is not None for item in extra)):
            return []
        return [Raw(lenient.encode(Item(self._model, self._reasoning_content, extra)))]


def usage_of(reported: dict[str, Any]) -> Usage:
    """The counts of a usage object in any of the shapes that services give it."""
    details = _part(reported, "prompt_tokens_details") or _part(reported, "input_tokens_details")
    reasoning = _part(reported, "completion_tokens_details") or _part(reported, "output_tokens_details")
    return Usage(
        _count(reported.get("prompt_tokens"), reported.get("input_tokens")),
        _count(reported.get("completion_tokens"), reported.get("output_tokens")),
        _count(details.get("cached_tokens"), reported.get("cached_tokens"), reported.get("prompt_cache_hit_tokens")),
        _count(details.get("cache_write_tokens")),
        _count(reasoning.get("reasoning_tokens"), reported.get("reasoning_tokens")),
        reported,
    )


def _part(reported: dict[str, Any], name: str) -> dict[str, Any]:
    value = reported.get(name)
    return value if isinstance(value, dict) else {}


def _count(*values: Any) -> int | UnsetType:
    for value in values:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return UNSET
