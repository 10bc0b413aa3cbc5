"""Usage: the OpenAI object on the wire, counts on the bus (section 2)."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, UnsetType

from agentwire import events as bus

_TOTALS: Final = ("completion_tokens", "prompt_tokens", "total_tokens")


def to_wire(usage: bus.Usage | UnsetType) -> dict[str, Any] | None:
    """The service's own object if it has OpenAI's shape, else one made of the counts, null where none is known."""
    if isinstance(usage, UnsetType):
        return None
    extra = usage.extra
    counted = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )
    if not isinstance(extra, UnsetType) and (
        any(key in extra for key in _TOTALS) or all(count is UNSET for count in counted)
    ):
        return extra
    if all(count is UNSET for count in counted):
        return None
    sent, written, read, stored, reasoned = (None if isinstance(count, UnsetType) else count for count in counted)
    return {
        "completion_tokens": written,
        "prompt_tokens": sent,
        "total_tokens": None if sent is None or written is None else sent + written,
        "completion_tokens_details": None if reasoned is None else _completion_details(reasoned),
        "prompt_tokens_details": None if read is None and stored is None else _prompt_details(read, stored),
    }


def _completion_details(reasoned: int) -> dict[str, Any]:
    return {
        "accepted_prediction_tokens": None,
        "audio_tokens": None,
        "reasoning_tokens": reasoned,
        "rejected_prediction_tokens": None,
        "text_tokens": None,
    }


def _prompt_details(read: int | None, stored: int | None) -> dict[str, Any]:
    return {
        "audio_tokens": None,
        "cache_write_tokens": stored,
        "cached_tokens": read,
        "image_tokens": None,
        "text_tokens": None,
    }


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
