"""JSON Schemas (draft 2020-12) of the bus, the journal and every installed wire, made from the structs themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from agentwire import registry
from agentwire.commands import AnyCommand, Outcome
from agentwire.events import AnyEvent

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: Any, title: str) -> dict[str, Any]:
    """The schema of one type, with everything it refers to under ``$defs``."""
    (top,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return {"$schema": DIALECT, "title": title, **top, "$defs": parts}


def all_schemas() -> dict[str, dict[str, Any]]:
    """Every schema, by file name."""
    from agentwire.log.journal import JournalHeader
    from agentwire.log.record import Record

    schemas = {
        "bus.events.json": schema_of(AnyEvent, "agentwire events"),
        "bus.commands.json": schema_of(AnyCommand, "agentwire commands"),
        "bus.outcome.json": schema_of(Outcome, "agentwire outcome of a command"),
        "journal.header.json": schema_of(JournalHeader, "agentwire journal, first line"),
        "journal.record.json": schema_of(Record, "agentwire journal, every other line"),
    }
    for name in registry.names(registry.CODECS):
        codec = registry.load_codec(name)
        if codec.schemas is not None:
            schemas.update(codec.schemas())
    return schemas


def rendered(schema: dict[str, Any]) -> str:
    """A schema as it stands in its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def write(directory: Path) -> list[str]:
    """Write every schema into ``directory``; the names of the files that changed."""
    directory.mkdir(parents=True, exist_ok=True)
    changed = drift(directory)
    for name, schema in all_schemas().items():
        (directory / name).write_text(rendered(schema), encoding="utf-8")
    return changed


def drift(directory: Path) -> list[str]:
    """The names of files in ``directory`` that do not say what the structs say."""
    return [
        name
        for name, schema in all_schemas().items()
        if not (directory / name).is_file() or (directory / name).read_text(encoding="utf-8") != rendered(schema)
    ]
