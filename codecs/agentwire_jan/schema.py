"""JSON Schemas of the RPC, made from the structs that write and read it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentwire_jan import rpc, wire

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF: Final = "#/$defs/{name}"


def schemas() -> dict[str, Any]:
    """The schema of each direction, by file name: one line of the stream is one such object."""
    return {"jan.events.json": _agent(), "jan.commands.json": _host()}


def _agent() -> dict[str, Any]:
    items = list(wire.ITEMS.values())
    results = list(dict.fromkeys(rpc.RESULTS.values()))
    tops, parts = msgspec.json.schema_components([*items, *results, rpc.Completed, rpc.Error], ref_template=_REF)
    events, answers = tops[: len(items)], tops[len(items) : -2]
    lines = [_notification(f"item/{tag}", _item(event)) for tag, event in zip(wire.ITEMS, events, strict=True)]
    lines.append(_notification("turn/completed", tops[-2]))
    lines.append(_object("answer", {"jsonrpc": {"const": "2.0"}, "id": {}, "result": {"anyOf": [*answers]}}))
    lines.append(_object("error", {"jsonrpc": {"const": "2.0"}, "id": {}, "error": tops[-1]}))
    return {"$schema": _DIALECT, "title": "Jan agent RPC: a line, agent to host", "anyOf": lines, "$defs": parts}


def _host() -> dict[str, Any]:
    kinds = list(dict.fromkeys(rpc.METHODS.values()))
    tops, parts = msgspec.json.schema_components([*kinds, wire.ContentPart, wire.ToolDeclaration], ref_template=_REF)
    by_kind = dict(zip(kinds, tops, strict=False))
    lines = [_request(method, by_kind[kind]) for method, kind in rpc.METHODS.items()]
    lines.append(_notification("initialized", {}))
    return {"$schema": _DIALECT, "title": "Jan agent RPC: a line, host to agent", "anyOf": lines, "$defs": parts}


def _item(event: dict[str, Any]) -> dict[str, Any]:
    """The parameters around an event (section 1.7)."""
    text = {"type": "string"}
    return _object("", {"sessionId": text, "turnId": text, "event": event})


def _notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return _object(method, {"jsonrpc": {"const": "2.0"}, "method": {"const": method}, "params": params})


def _request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """A request; without ``id`` it is carried out and not answered (section 1.2)."""
    frame = _notification(method, params)
    frame["properties"]["id"] = {}
    return frame


def _object(title: str, properties: dict[str, Any]) -> dict[str, Any]:
    named = {"title": title} if title else {}
    return {
        **named,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
