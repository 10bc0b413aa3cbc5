"""Usage: five keys on the wire, counts on the bus (section 2.1)."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire_jan import wire


def to_wire(usage: bus.Usage) -> wire.Usage:
    """The counts as the wire has them; the total is known if both of its parts are."""
    sent, written = _or_null(usage.input_tokens), _or_null(usage.output_tokens)
    total = None if sent is None or written is None else sent + written
    return wire.Usage(sent, written, total, _or_null(usage.cache_read_tokens), _or_null(usage.cache_write_tokens))


def from_wire(usage: wire.Usage) -> bus.Usage:
    """The counts of a wire object."""
    return bus.Usage(
        _or_unset(usage.prompt_tokens),
        _or_unset(usage.completion_tokens),
        _or_unset(usage.cached_tokens),
        _or_unset(usage.cache_write_tokens),
    )


def _or_null(count: int | UnsetType) -> int | None:
    return None if isinstance(count, UnsetType) else count


def _or_unset(count: int | None) -> int | UnsetType:
    return UNSET if count is None else count
