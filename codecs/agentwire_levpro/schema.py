"""JSON Schemas of the wire, made from the structs that write and read it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentwire_levpro import wire

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF: Final = "#/$defs/{name}"


def schemas() -> dict[str, Any]:
    """The schema of each direction, by file name: one line of the stream is one such object."""
    (identifier,), _ = msgspec.json.schema_components([wire.Id], ref_template=_REF)
    return {
        f"{wire.NAME}.events.json": _core_to_host(identifier),
        f"{wire.NAME}.commands.json": _host_to_core(identifier),
    }


def _core_to_host(identifier: dict[str, Any]) -> dict[str, Any]:
    tops, parts = msgspec.json.schema_components([*wire.EVENTS, wire.Error, *_RESULTS.values()], ref_template=_REF)
    results = [top["$ref"].rpartition("/")[2] for top in tops[len(wire.EVENTS) + 1 :]]
    for event in wire.EVENTS:
        _envelop(parts[event.__name__], {"id": identifier, "type": {"const": "event"}})
    result = {
        "type": "object",
        "title": "Result",
        "properties": {
            "id": identifier,
            "type": {"const": "result"},
            "result": {"anyOf": [*({"$ref": f"#/$defs/{name}"} for name in results), {"type": "object"}]},
        },
        "required": ["id", "type", "result"],
    }
    return {
        "$schema": _DIALECT,
        "title": "LevPRO Stdio JSON Protocol, version 1: a message, core to host",
        "oneOf": [*tops[: len(wire.EVENTS) + 1], result],
        "$defs": parts,
    }


_RESULTS: Final[dict[str, type[msgspec.Struct]]] = {
    "chat": wire.ChatResult,
    "doctor": wire.DoctorResult,
    "plan": wire.PlanResult,
}
"""Results with a shape of their own; the others are small objects."""


def _envelop(schema: dict[str, Any], around: dict[str, Any]) -> None:
    """Put what surrounds every event into the schema of one."""
    schema["properties"] = {**around, **schema["properties"]}
    schema["required"] = [*around, *schema["required"]]


def _host_to_core(identifier: dict[str, Any]) -> dict[str, Any]:
    kinds = list(dict.fromkeys(wire.PARAMS.values()))
    tops, parts = msgspec.json.schema_components(kinds, ref_template=_REF)
    refs = dict(zip(kinds, tops, strict=True))
    return {
        "$schema": _DIALECT,
        "title": "LevPRO Stdio JSON Protocol, version 1: a request, host to core",
        "oneOf": [
            {
                "type": "object",
                "title": method,
                "properties": {
                    "id": identifier,
                    "method": {"const": method},
                    "params": {"anyOf": [refs[kind], {"type": "null"}]},
                },
                "required": ["id", "method"],
            }
            for method, kind in wire.PARAMS.items()
        ],
        "$defs": parts,
    }
