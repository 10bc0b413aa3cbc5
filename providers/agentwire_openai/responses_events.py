"""The events of a Responses stream: as they should be, decoded at once, and as they sometimes are.

One struct holds what several kinds of event have: a kind that is new costs nothing but its own content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from agentwire.provider import lenient

Json = dict[str, Any]

MAX_INDEX = 10_000
"""The index of an item or of a part is below this, or it is none."""


class Event(Struct, gc=False):
    """One event of the stream."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    text: str | None = None
    """Of a part that is done."""
    refusal: str | None = None
    arguments: str | None = None
    item: Json | None = None
    response: Json | None = None
    error: Any = None


decode: Callable[[bytes], Event] = msgspec.json.Decoder(Event).decode
"""Strict and fast; raises ``msgspec.DecodeError`` or ``RecursionError``."""

_STRINGS = ("type", "delta", "item_id", "text", "refusal", "arguments")
_INDICES = ("output_index", "content_index", "summary_index")
_OBJECTS = ("item", "response")


def loose_event(data: bytes) -> Event | None:
    """An event that :func:`decode` refuses; None if it is JSON but no object. ``ValueError``: it is no JSON."""
    value = lenient.decode(data)
    if not isinstance(value, dict):
        return None
    found: Json = {name: value[name] for name in _STRINGS if isinstance(value.get(name), str)}
    found |= {name: index for name in _INDICES if (index := as_index(value.get(name))) is not None}
    found |= {name: value[name] for name in _OBJECTS if isinstance(value.get(name), dict)}
    if isinstance(value.get("arguments"), dict):
        found["arguments"] = lenient.encode(value["arguments"]).decode()
    return Event(**found, error=value.get("error"))


def as_index(value: Any) -> int | None:
    """A number that can be an index, whatever its JSON type."""
    if (isinstance(value, str) and value.isdecimal()) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_INDEX else None


def parts_of(item: Json, name: str = "content") -> list[Json]:
    """The parts of an item that are objects."""
    parts = item.get(name)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def arguments_of(item: Json) -> str:
    """A call's arguments as text, also from services that give them as an object."""
    arguments = item.get("arguments")
    if isinstance(arguments, dict):
        return lenient.encode(arguments).decode()
    return arguments if isinstance(arguments, str) else ""
