"""Usage: the OpenAI object on the wire, counts on the bus (section 2)."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.codec.jsontext import parse
from agentwire_pagent.envelope import numbers

_KEYS: Final = (
    "completion_tokens", "prompt_tokens", "total_tokens", "completion_tokens_details", "prompt_tokens_details",
)  # fmt: skip
"""In the order of the peer's SDK, which has them all; what else a service tells comes after them."""
_TOTALS: Final = frozenset(_KEYS[:3])

_SHAPE: Final = (
    b'{"completion_tokens": %b, "prompt_tokens": %b, "total_tokens": %b, '
    b'"completion_tokens_details": %b, "prompt_tokens_details": %b}'
)
_COMPLETION: Final = (
    b'{"accepted_prediction_tokens": null, "audio_tokens": null, "reasoning_tokens": %b, '
    b'"rejected_prediction_tokens": null, "text_tokens": null}'
)
_PROMPT: Final = (
    b'{"audio_tokens": null, "cache_write_tokens": %b, "cached_tokens": %b, "image_tokens": null, "text_tokens": null}'
)


def written(usage: bus.Usage | UnsetType) -> bytes:
    """Usage as JSON: the service's own object if it is one of OpenAI's, put in the order of the peer's SDK.

    Else it is made of the counts, null where unknown.
    """
    if usage is UNSET:
        return b"null"
    extra = usage.extra
    if extra is not UNSET and not _TOTALS.isdisjoint(extra):
        if "prompt_tokens" in extra and "completion_tokens" in extra and tuple(extra)[:5] != _KEYS:
            extra = {**dict.fromkeys(_KEYS), **extra}
        return numbers(extra)
    return _made(usage)


def _made(usage: bus.Usage) -> bytes:
    """The object for a service that gave none of OpenAI's shape: made of what was counted."""
    sent, given, read = usage.input_tokens, usage.output_tokens, usage.cache_read_tokens
    stored, reasoned = usage.cache_write_tokens, usage.reasoning_tokens
    if sent is given is read is stored is reasoned is UNSET:
        return b"null" if usage.extra is UNSET else numbers(usage.extra)
    total = UNSET if sent is UNSET or given is UNSET else sent + given
    return _SHAPE % (
        _number(given),
        _number(sent),
        _number(total),
        b"null" if reasoned is UNSET else _COMPLETION % _number(reasoned),
        b"null" if read is UNSET and stored is UNSET else _PROMPT % (_number(stored), _number(read)),
    )


def _number(count: int | UnsetType) -> bytes:
    return b"null" if count is UNSET else b"%d" % count


def to_wire(usage: bus.Usage | UnsetType) -> dict[str, Any] | None:
    """The object that a host reads."""
    told: dict[str, Any] | None = parse(written(usage))
    return told


def from_wire(usage: dict[str, Any] | None) -> bus.Usage | UnsetType:
    """The counts of an object, which is kept whole beside them. Whatever is no count says nothing."""
    if usage is None:
        return UNSET
    return bus.Usage(
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
        _count(usage.get("prompt_tokens_details"), "cached_tokens"),
        _count(usage.get("prompt_tokens_details"), "cache_write_tokens"),
        _count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        usage,
    )


def _count(holder: Any, key: str) -> int | UnsetType:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else UNSET
