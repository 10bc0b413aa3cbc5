"""JSON Schemas of the wire, made from the structs that write and read it."""

from __future__ import annotations

from typing import Any

import msgspec

from agentwire_aionrs import wire

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, Any]:
    """The schema of each direction, by file name: one line of the stream is one such object."""
    return {
        "aionrs.events.json": _schema(wire.AgentEvent, "aionrs JSON stream 0.2.0: an event, agent to host"),
        "aionrs.commands.json": _schema(wire.HostCommand, "aionrs JSON stream 0.2.0: a command, host to agent"),
    }


def _schema(union: Any, title: str) -> dict[str, Any]:
    return {"$schema": _DIALECT, "title": title, **msgspec.json.schema(union)}
