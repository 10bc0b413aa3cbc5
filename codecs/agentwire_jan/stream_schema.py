"""JSON Schema of stream-json, made from the structs that write and read it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentwire_jan import stream_wire, wire

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLACE: Final = "#/$defs/{name}"


def document() -> dict[str, Any]:
    """One document for both directions, in the shape in which Jan publishes its own."""
    (output, given), parts = msgspec.json.schema_components(
        [wire.Item | stream_wire.Frame, stream_wire.InputLine], ref_template=_PLACE
    )
    return {
        "$schema": _DIALECT,
        "title": f"Jan stream-json, protocol {stream_wire.PROTOCOL_VERSION}",
        "type": "object",
        "properties": {"output": {"$ref": "#/$defs/OutputRecord"}, "input": {"$ref": "#/$defs/InputLine"}},
        "required": ["output", "input"],
        "$defs": {"OutputRecord": output, "InputLine": given, **parts},
        "x-protocol-version": stream_wire.PROTOCOL_VERSION,
    }


def schemas() -> dict[str, Any]:
    """The schema of each direction, by file name: one line of the stream is one such object."""
    return {
        "jan-stream.events.json": _schema(wire.Item | stream_wire.Frame, "a line, agent to host"),
        "jan-stream.commands.json": _schema(stream_wire.InputLine, "a line, host to agent"),
    }


def _schema(union: Any, title: str) -> dict[str, Any]:
    return {"$schema": _DIALECT, "title": f"Jan stream-json: {title}", **msgspec.json.schema(union)}
