"""JSON Schemas of the wire, made from the structs that write and read it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentwire_pagent import wire

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF: Final = "#/$defs/{name}"


def schemas(dialect: wire.Dialect) -> dict[str, Any]:
    """The schema of each direction, by file name: one line of the stream is one such object."""
    name = wire.NAMES[dialect]
    methods = wire.EVENTS[dialect] if dialect == "classic" else {**wire.EVENTS["v4"], **wire.CONTROL}
    params, parts = msgspec.json.schema_components(list(methods.values()), ref_template=_REF)
    return {
        f"{name}.events.json": {
            "$schema": _DIALECT,
            "title": f"pagent wire, {dialect}: a notification, agent to host",
            "oneOf": [_notification(method, schema) for method, schema in zip(methods, params, strict=True)],
            "$defs": parts,
        },
        f"{name}.commands.json": {
            "$schema": _DIALECT,
            "title": "pagent --wire: a command, host to agent",
            **msgspec.json.schema(wire.HostCommand),
        },
    }


def _notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The envelope of one method (section 1)."""
    return {
        "type": "object",
        "title": method,
        "properties": {"jsonrpc": {"const": "2.0"}, "method": {"const": method}, "params": params},
        "required": ["jsonrpc", "method", "params"],
        "additionalProperties": False,
    }
