"""Notifications of an agent, decoded in one stage (section 1.7)."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec
from msgspec import Struct

from agentwire.codec.jsontext import BadJson, BadShape, LineDecoder
from agentwire_jan import wire


class Completed(Struct, gc=False):
    """Parameters of ``turn/completed``, as widely as they are read."""

    sessionId: str = ""  # noqa: N815
    turnId: str = ""  # noqa: N815
    stopReason: str = ""  # noqa: N815
    error: str | None = None


def _frame(method: str, params: type[Struct]) -> Any:
    """A notification, told by its method."""
    return msgspec.defstruct("Notification", [("params", params)], tag_field="method", tag=method, gc=False)


def _params(item: type[Struct]) -> type[Struct]:
    return msgspec.defstruct("Params", [("event", item), ("sessionId", str, ""), ("turnId", str, "")], gc=False)


PARAMS: Final = {tag: _params(item) for tag, item in wire.ITEMS.items()}
"""Parameters of each event's notification, by tag."""

_FRAMES: Final = [
    _frame("turn/completed", Completed),
    *(_frame(f"item/{tag}", params) for tag, params in PARAMS.items()),
]
_LINES: Final[LineDecoder[Any]] = LineDecoder(reduce(or_, _FRAMES))

decode: Final = _LINES.decode
"""The notification on a line: its ``params`` are :class:`Completed`, or hold an event and its place.

Raises ``msgspec.DecodeError`` or ``RecursionError`` for what is none of those: then turn to :func:`recover`.
"""


def recover(line: bytes) -> Any:
    """The notification on a line that :func:`decode` refused.

    None if it is none after all; then it is an answer, or something this wire has no word for.
    """
    if b'"method"' not in line:
        return None
    try:
        return _LINES.recover(line)
    except (BadJson, BadShape):
        return None
