"""The events of a Messages stream, and the content blocks that they fill.

Every struct holds what several kinds of event or delta have: a kind that is new then costs nothing but its own
content, where a union of kinds would refuse it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from agentwire.provider import lenient

Json = dict[str, Any]

PLAIN = frozenset(("text", "tool_use"))
"""Kinds of block that the bus has words for; a reply with any other is kept verbatim."""


class Delta(Struct, gc=False):
    """What an event adds to a block, or (``message_delta``) to the message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class Start(Struct, gc=False):
    """The message as it begins."""

    usage: Json | None = None


class Event(Struct, gc=False):
    """One event of the stream."""

    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    content_block: Json | None = None
    message: Start | None = None
    usage: Json | None = None
    error: Any = None


decode: Callable[[bytes], Event] = msgspec.json.Decoder(Event).decode
"""Strict and fast; raises ``msgspec.DecodeError`` or ``RecursionError``."""


def loose_event(data: bytes) -> Event | None:
    """An event that :func:`decode` refuses; None if it is JSON but no object. ``ValueError``: it is no JSON."""
    value = lenient.decode(data)
    if not isinstance(value, dict):
        return None
    try:
        return msgspec.convert(value, Event)  # only its strings were at fault
    except msgspec.ValidationError:
        pass
    message, index = value.get("message"), value.get("index")
    return Event(
        str(value.get("type", "")),
        index if isinstance(index, int) else None,
        _delta(value.get("delta")),
        _object(value.get("content_block")),
        Start(_object(message.get("usage"))) if isinstance(message, dict) else None,
        _object(value.get("usage")),
        value.get("error"),
    )


def _delta(value: Any) -> Delta | None:
    if not isinstance(value, dict):
        return None
    return Delta(**{name: value[name] for name in Delta.__struct_fields__ if isinstance(value.get(name), str)})


def _object(value: Any) -> Json | None:
    return value if isinstance(value, dict) else None


class Block:
    """A content block that is being filled."""

    __slots__ = ("begun", "kind", "pieces", "signature")

    def __init__(self, begun: Json) -> None:
        self.begun = begun
        """As it was started."""
        self.kind = str(begun.get("type", "text"))
        self.pieces: list[str] = []
        """Of its text, its thinking or its input's JSON."""
        self.signature = ""

    @property
    def content(self) -> str:
        """The pieces together."""
        return "".join(self.pieces)

    @property
    def arguments_text(self) -> str:
        """The input's JSON. A call without arguments streams none at all: that is an empty object."""
        if text := self.content:
            return lenient.arguments_text(text)
        return lenient.encode(self.begun.get("input") or {}).decode()

    def verbatim(self) -> Json:
        """The block as it must go back: as it was started, with what came after."""
        block = dict(self.begun)
        match self.kind:
            case "text":
                block["text"] = self.content
            case "thinking":
                block["thinking"] = self.content
                block["signature"] = self.signature or block.get("signature", "")
            case _ if "input" in block:
                block["input"] = lenient.as_object(self.arguments_text) or {}
        return block
