"""The lines of a run, spliced between fixed bytes: key order and spaces as :mod:`agentwire_pagent.wire` has them.

Nearly all that is written of a session is one of these few shapes. Encoding only what varies costs a fraction of
encoding a struct and spacing the text out afterwards. Tests compare every line with what the peer would write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from agentwire.events import CallRef
from agentwire.text import scrub
from agentwire_pagent.envelope import start

_encode: Final = msgspec.json.Encoder().encode


def text(value: str) -> bytes:
    """A JSON string; half surrogate pairs are replaced."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(scrub(value))


def _template(method: str, params: bytes) -> bytes:
    return start(method) + params + b"}\n"


_RUN_BEGIN: Final = _template("RunBegin", b'{"user_input": %b}')
_TURN_BEGIN: Final = _template("TurnBegin", b'{"turn": %d}')
_CALL_BEGIN: Final = _template("ToolCallBegin", b'{"tool_call_id": %b, "arguments": %b}')
_PERMIT: Final = _template("PermitRequest", b'{"tool_call_id": %b, "summary": %b}')
_RESULT: Final = _template("ToolResult", b'{"tool_call_id": %b, "content": %b, "ok": %b}')
_TURN_END: Final = _template("TurnEnd", b'{"turn": %d, "stopped": %b}')
_TURN_END_V4: Final = _template("TurnEnd", b'{"turn": %d, "stopped": %b, "stop_reason": %b}')
_RUN_END_V4: Final = _template("RunEnd", b'{"turn": %d, "stop_reason": %b}')
_STEP: Final = b'{"content": %b, "tool_calls": [%b], "reasoning_content": %b, "usage": %b}'
_CALL: Final = b'{"id": %b, "type": "function", "function": {"name": %b, "arguments": %b}}'
_FLAT_CALL: Final = b'{"type": "function", "id": %b, "name": %b, "arguments": %b}'
_BOOL: Final = (b"false", b"true")


def run_begin(user_input: str) -> bytes:
    """``RunBegin``."""
    return _RUN_BEGIN % text(user_input)


def turn_begin(turn: int) -> bytes:
    """``TurnBegin``."""
    return _TURN_BEGIN % turn


def step_params(content: str, calls: Sequence[CallRef], reasoning: str, usage: bytes, *, flat: bool) -> bytes:
    """The parameters of a reply's end. ``usage`` is JSON already; ``flat``: calls as v4 lists them."""
    shape = _FLAT_CALL if flat else _CALL
    try:
        return _step(_encode, content, calls, shape, reasoning, usage)
    except UnicodeEncodeError:
        return _step(text, content, calls, shape, reasoning, usage)


def _step(
    encode: Callable[[str], bytes], content: str, calls: Sequence[CallRef], shape: bytes, reasoning: str, usage: bytes
) -> bytes:
    listed = b""
    if calls:
        listed = b", ".join([shape % (encode(c.call_id), encode(c.name), encode(c.arguments_text)) for c in calls])
    return _STEP % (encode(content), listed, encode(reasoning) if reasoning else b'""', usage)


def call_head(call_id: str, name: str) -> bytes:
    """A call's id and name, which all its lines begin with."""
    return b'%b, "name": %b' % (text(call_id), text(name))


def call_begin(head: bytes, arguments: str) -> bytes:
    """``ToolCallBegin``; ``head`` is what :func:`call_head` gave."""
    return _CALL_BEGIN % (head, text(arguments))


def permit_request(head: bytes, summary: str) -> bytes:
    """``PermitRequest``; ``head`` is what :func:`call_head` gave."""
    return _PERMIT % (head, text(summary))


def tool_result(head: bytes, content: str, ok: bool) -> bytes:
    """``ToolResult``; ``head`` is what :func:`call_head` gave."""
    return _RESULT % (head, text(content), _BOOL[ok])


def turn_end(turn: int, stopped: bool) -> bytes:
    """The classic ``TurnEnd``."""
    return _TURN_END % (turn, _BOOL[stopped])


def turn_end_v4(turn: int, stopped: bool, reason: str) -> bytes:
    """``TurnEnd`` of v4."""
    return _TURN_END_V4 % (turn, _BOOL[stopped], text(reason))


def run_end_v4(turn: int, reason: str) -> bytes:
    """``RunEnd`` of v4."""
    return _RUN_END_V4 % (turn, text(reason))
