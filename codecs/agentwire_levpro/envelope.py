"""What surrounds every message: its ``id`` and ``type`` (section 3). Compact JSON, one line each."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentwire.commands import JsonId
from agentwire.text import scrub, scrub_value
from agentwire_levpro import wire

_encode: Final = msgspec.json.Encoder().encode


def encode(value: Any) -> bytes:
    """``value`` as JSON, half surrogate pairs replaced; structs in it may be changed."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(scrub_value(value))


def event_head(request: JsonId) -> bytes:
    """What stands before an event's own keys."""
    return b'{"id":' + encode(request) + b',"type":"event",'


def event_line(head: bytes, event: Any) -> bytes:
    """A chat event; ``head`` is :func:`event_head` of its request."""
    return head + encode(event)[1:] + b"\n"


def chunk_splice(head: bytes, step: int) -> tuple[bytes, bytes, bytes]:
    """What stands before, between and after the texts of a run of chunks."""
    before = head + b'"event":"llm_chunk","step":%d,"delta":' % step
    return before, b"}\n" + before, b"}\n"


def result_line(request: JsonId, result: Any) -> bytes:
    """The answer to a request."""
    return encode(wire.Result(request, "result", result)) + b"\n"


def error_line(request: JsonId, code: wire.Code, message: str) -> bytes:
    """The refusal or failure of a request."""
    return encode(wire.Error(request, "error", code, scrub(message))) + b"\n"
