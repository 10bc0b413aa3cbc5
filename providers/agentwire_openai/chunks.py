"""The chunks of a Chat Completions stream: as they should be, decoded at once, and as they sometimes are.

The structs accept what is common; a chunk that they refuse is read a second time without types and forced into
them, so that one odd field costs that field and not the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from agentwire.provider import lenient

MAX_CALLS = 10_000
"""A call's index is below this, or it is none."""


class Function(Struct, gc=False):
    """A piece of a call."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(Struct, gc=False):
    """A piece of one of the calls."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: Any = None
    """A service's own data that must come back with the call (signatures of Gemini's thoughts)."""


class ReasoningDetail(Struct, gc=False):
    """Reasoning as routers structure it; only readable kinds have one of the texts."""

    text: str | None = None
    summary: str | None = None


class Delta(Struct, gc=False):
    """What a chunk adds to the message."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[ReasoningDetail] | None = None
    tool_calls: list[CallDelta] | None = None
    function_call: Function | None = None
    """A call as it was before there were several."""
    refusal: str | None = None


class Choice(Struct, gc=False):
    """One of the answers; only one is ever asked for."""

    delta: Delta | None = None
    message: Delta | None = None
    """The whole message, from services that do not stream."""
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    """Where some services put it."""


class GroqExtra(Struct, gc=False):
    """Groq's own corner of a chunk."""

    usage: dict[str, Any] | None = None


class Chunk(Struct, gc=False):
    """One event of the stream."""

    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: GroqExtra | None = None


decode: Callable[[bytes], Chunk] = msgspec.json.Decoder(Chunk).decode
"""Strict and fast; raises ``msgspec.DecodeError`` or ``RecursionError``."""


def loose_chunks(data: bytes) -> list[Chunk]:
    """The chunks in data that :func:`decode` refuses or finds empty: mostly one, none if it is JSON but no object.

    Raises ``ValueError`` if it is no JSON.
    """
    value = lenient.decode(data)
    return [_chunk(item) for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]


def named_error(data: bytes) -> Chunk:
    """The chunk of an event that is called ``error``, whatever its shape. Raises ``ValueError`` if it is no JSON."""
    value = lenient.decode(data)
    return Chunk(error=value.get("error", value) if isinstance(value, dict) else value)


def _chunk(value: dict[str, Any]) -> Chunk:
    choices, groq = value.get("choices"), value.get("x_groq")
    error = value.get("error")
    if error is None and choices is None and (value.get("object") == "error" or value.get("type") == "error"):
        error = value
    return Chunk(
        [_choice(item) for item in choices if isinstance(item, dict)] if isinstance(choices, list) else None,
        _object(value.get("usage")),
        error,
        GroqExtra(_object(groq.get("usage"))) if isinstance(groq, dict) else None,
    )


def _choice(value: dict[str, Any]) -> Choice:
    reason = value.get("finish_reason")
    return Choice(
        _delta(value.get("delta")),
        _delta(value.get("message")),
        None if reason is None else str(reason),
        _object(value.get("usage")),
    )


def _delta(value: Any) -> Delta | None:
    if not isinstance(value, dict):
        return None
    content, thought = _content(value.get("content"))
    details, calls = value.get("reasoning_details"), value.get("tool_calls")
    return Delta(
        content,
        _text(value.get("reasoning_content")) or thought,
        _text(value.get("reasoning")),
        [ReasoningDetail(_text(item.get("text")), _text(item.get("summary"))) for item in _objects(details)],
        [_call(item) for item in _objects([calls] if isinstance(calls, dict) else calls)],
        _function(value.get("function_call")),
        _text(value.get("refusal")),
    )


def _call(value: dict[str, Any]) -> CallDelta:
    function = _function(value.get("function"))
    return CallDelta(_index(value.get("index")), _text(value.get("id")), function, value.get("extra_content"))


def _content(value: Any) -> tuple[str | None, str | None]:
    """Text and reasoning of a content that may be a list of parts."""
    if not isinstance(value, list):
        return _text(value), None
    text, thought = "", ""
    for part in _objects(value):
        inner = part.get("thinking")
        if isinstance(inner, list):
            thought += _content(inner)[0] or ""
        else:
            thought += _text(inner) or ""
            text += _text(part.get("text")) or ""
    return text, thought


def _function(value: Any) -> Function | None:
    if not isinstance(value, dict):
        return None
    arguments = value.get("arguments")
    if isinstance(arguments, dict):
        arguments = lenient.encode(arguments).decode()
    return Function(_text(value.get("name")), _text(arguments))


def _index(value: Any) -> int | None:
    if (isinstance(value, str) and value.isdecimal()) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_CALLS else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
