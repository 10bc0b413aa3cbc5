"""JSON Schema of stream-json, made from the structs that write and read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agentwire_jan import stream_wire, wire

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLACE: Final = "#/$defs/{name}"


def document() -> dict[str, Any]:
    """One document for both directions, in the shape in which Jan publishes its own."""
    defs = _definitions(_OUTPUT, "OutputRecord") | _definitions(_INPUT, "InputLine")
    return {
        "$schema": _DIALECT,
        "title": f"Jan stream-json, protocol {stream_wire.PROTOCOL_VERSION}",
        "type": "object",
        "properties": {"output": {"$ref": "#/$defs/OutputRecord"}, "input": {"$ref": "#/$defs/InputLine"}},
        "required": ["output", "input"],
        "$defs": defs,
        "x-protocol-version": stream_wire.PROTOCOL_VERSION,
    }


def schemas() -> dict[str, Any]:
    """The schema of each direction, by file name: one line of the stream is one such object."""
    return {
        "jan-stream.events.json": _schema(_OUTPUT, "a line, agent to host"),
        "jan-stream.commands.json": _schema(_INPUT, "a line, host to agent"),
    }


_OUTPUT: Final = (
    *wire.ITEMS.values(),
    stream_wire.Init,
    stream_wire.PermissionDecision,
    stream_wire.InputError,
    stream_wire.Result,
)
_INPUT: Final = (stream_wire.User, stream_wire.Permission, stream_wire.ToolAnswer, stream_wire.Abort)


def _definitions(kinds: Sequence[Any], union: str) -> dict[str, Any]:
    tops, parts = msgspec.json.schema_components(kinds, ref_template=_PLACE)
    return {union: {"anyOf": list(tops)}, **parts}


def _schema(kinds: Sequence[Any], what: str) -> dict[str, Any]:
    tops, parts = msgspec.json.schema_components(kinds, ref_template=_PLACE)
    return {"$schema": _DIALECT, "title": f"Jan stream-json: {what}", "anyOf": list(tops), "$defs": parts}
