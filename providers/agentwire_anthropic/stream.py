"""Reads a streamed Messages reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from agentwire.events import CallArgumentsDelta, CallRef, CallStarted, ReasoningDelta, TextDelta, Usage
from agentwire.provider import CLOSED, Completion, Emit, EventStreamReader, lenient
from agentwire_anthropic.blocks import PLAIN, Block, Event, Json, decode, loose_event

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


class MessageReader(EventStreamReader):
    """One reply."""

    def __init__(self, emit: Emit, *, service: str, secrets: Sequence[str] = ()) -> None:
        super().__init__(emit, service=service, secrets=secrets)
        self._blocks: list[Block] = []
        self._by_index: dict[int, Block] = {}
        self._stop_reason = ""
        self._reported: Json = {}
        self._on: dict[str, Callable[[Event], None]] = {
            "content_block_delta": self._delta,
            "content_block_start": self._block_start,
            "message_start": self._message_start,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
        }

    def on_event(self, data: bytes, name: bytes) -> None:
        """Take one event of the stream. Pings and kinds that are not known yet say nothing."""
        event: Event | None
        try:
            event = decode(data)
        except (msgspec.DecodeError, RecursionError):
            try:
                event = loose_event(data)
            except ValueError as error:
                raise self.garbled(data) from error
        if name == b"error" or (event is not None and (event.error is not None or event.type == "error")):
            raise self.reported(lenient.decode(data))
        if event is not None and (handle := self._on.get(event.type or name.decode("utf-8", "replace"))):
            handle(event)

    def whole(self, body: bytes) -> None:
        """Take a reply that came in one piece: the message with its blocks."""
        try:
            message = lenient.decode(body)
        except ValueError as error:
            raise self.garbled(body) from error
        match message:
            case {"error": _}:
                raise self.reported(message)
            case {"type": "message", "content": [*blocks]}:
                for block in blocks:
                    self._block_start(Event(content_block=block))
                self._count(message.get("usage"))
                self._stop_reason = str(message.get("stop_reason") or "")
                self.patience = CLOSED
            case _:
                super().whole(body)

    @property
    def usage(self) -> Usage | UnsetType:
        """What was reported so far."""
        return usage_of(self._reported) if self._reported else UNSET

    def completion(self) -> Completion:
        """The whole reply."""
        blocks = self._blocks
        calls = [
            CallRef(str(block.begun.get("id", "")), str(block.begun.get("name", "")), block.arguments_text)
            for block in blocks
            if block.kind == "tool_use"
        ]
        plain = all(block.kind in PLAIN for block in blocks)
        return Completion(
            "".join(block.content for block in blocks if block.kind == "text"),
            "".join(block.content for block in blocks if block.kind == "thinking"),
            calls,
            self.usage,
            _FINISH.get(self._stop_reason, self._stop_reason) or ("tool_calls" if calls else "stop"),
            [] if plain else [Raw(msgspec.json.encode(block.verbatim())) for block in blocks],
        )

    def _message_start(self, event: Event) -> None:
        if event.message is not None:
            self._count(event.message.usage)

    def _block_start(self, event: Event) -> None:
        block = self._open(event.index, event.content_block or {})
        if block.kind == "tool_use":
            self.emit(CallStarted(str(block.begun.get("id", "")), str(block.begun.get("name", ""))))
            return
        # A block may begin with something in it.
        match block.begun:
            case {"type": "text", "text": str(text)} if text:
                self._say(block, text)
            case {"type": "thinking", "thinking": str(text)} if text:
                self._think(block, text)

    def _delta(self, event: Event) -> None:
        delta = event.delta
        if delta is None:
            return
        if delta.text:
            self._say(self._block(event.index, "text"), delta.text)
        elif delta.thinking:
            self._think(self._block(event.index, "thinking"), delta.thinking)
        elif delta.partial_json:
            block = self._block(event.index, "tool_use")
            block.pieces.append(delta.partial_json)
            if block.kind == "tool_use":
                self.emit(CallArgumentsDelta(str(block.begun.get("id", "")), delta.partial_json))
        elif delta.signature:
            self._block(event.index, "thinking").signature += delta.signature

    def _message_delta(self, event: Event) -> None:
        if event.delta is not None and event.delta.stop_reason:
            self._stop_reason = event.delta.stop_reason
        self._count(event.usage)

    def _message_stop(self, event: Event) -> None:
        self.patience = CLOSED

    def _say(self, block: Block, text: str) -> None:
        block.pieces.append(text)
        self.emit(TextDelta(text))

    def _think(self, block: Block, text: str) -> None:
        block.pieces.append(text)
        self.emit(ReasoningDelta(text))

    def _open(self, index: int | None, begun: Json) -> Block:
        block = Block(begun)
        self._by_index[len(self._blocks) if index is None else index] = block
        self._blocks.append(block)
        return block

    def _block(self, index: int | None, kind: str) -> Block:
        """The block that a delta is for: by index, or the last one; a delta without any begins one."""
        block = self._blocks[-1] if index is None and self._blocks else self._by_index.get(index or 0)
        return block or self._open(index, {"type": kind})

    def _count(self, usage: Json | None) -> None:
        """Counts are cumulative: the last one wins, but null and zero never take back what was said before."""
        said = {name: value for name, value in (usage or {}).items() if value or name not in self._reported}
        if said:
            self._reported = {**self._reported, **{name: value for name, value in said.items() if value is not None}}
            self.emit(usage_of(self._reported))


def usage_of(reported: Json) -> Usage:
    """The counts of a usage object; the service's own input count leaves out what went through the cache."""
    fresh = _count(reported.get("input_tokens"))
    written = _count(reported.get("cache_creation_input_tokens"))
    cached = _count(reported.get("cache_read_input_tokens"))
    sent = UNSET if fresh is UNSET else fresh + (written or 0) + (cached or 0)
    return Usage(sent, _count(reported.get("output_tokens")), cached, written, extra=reported)


def _count(value: Any) -> int | UnsetType:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else UNSET
