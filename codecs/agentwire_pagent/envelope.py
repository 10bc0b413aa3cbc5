"""What surrounds a notification's parameters (section 1), and the peer's way of writing JSON.

The peer writes a space after every colon and comma, all else raw; ``msgspec.json.format`` on one line does the same.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from agentwire.text import scrub_value
from agentwire_pagent.wire import CONTROL, EVENTS

_encode: Final = msgspec.json.Encoder().encode
_format: Final = msgspec.json.format

_HEAD: Final = b'{"jsonrpc": "2.0", "method": '
_PARAMS: Final = b', "params": '
_END: Final = b"}\n"


def start(method: str) -> bytes:
    """What stands before the parameters."""
    return _HEAD + _encode(method) + _PARAMS


_FRACTION: Final = re.compile(rb"\d[.e]")
"""Where there may be one; text that looks like it costs time and nothing else."""

_STARTS: Final = {method: start(method) for methods in (*EVENTS.values(), CONTROL) for method in methods}


def spaced(value: Any) -> bytes:
    """``value`` as the peer would write it, half surrogate pairs replaced; structs in it may be changed."""
    try:
        return _format(_encode(value), indent=0)
    except UnicodeEncodeError:
        return _format(_encode(scrub_value(value)), indent=0)


def numbers(value: Any) -> bytes:
    """Free-form JSON that may hold fractions, whose digits are written as the peer does (``1e-05``)."""
    text = spaced(value)
    if _FRACTION.search(text) is None:
        return text
    return json.dumps(json.loads(text), ensure_ascii=False).encode()


def line(method: str, params: Any) -> bytes:
    """A notification with its line feed; ``method`` is one of ours."""
    try:
        return _STARTS[method] + _format(_encode(params), indent=0) + _END
    except UnicodeEncodeError:
        return _STARTS[method] + spaced(params) + _END


def wrap(method: str, params: bytes) -> bytes:
    """A notification whose parameters are rendered already."""
    return _STARTS[method] + params + _END


def delta_ends(method: str) -> tuple[bytes, bytes]:
    """What stands before and after the text of a delta in its line."""
    return start(method) + b'{"text": ', b"}}\n"
