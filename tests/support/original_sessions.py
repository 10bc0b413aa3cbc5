"""Session files as aionrs writes them, in both layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .replies import JsonObject

CREATED = "2026-03-01T10:00:00.123456789Z"


def text(value: str) -> JsonObject:
    """A piece of text."""
    return {"type": "text", "text": value}


def thinking(value: str, signature: str | None = None) -> JsonObject:
    """The model's reasoning."""
    return {"type": "thinking", "thinking": value, **({"signature": signature} if signature else {})}


def use(call_id: str, name: str, arguments: Any) -> JsonObject:
    """A call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: str, *, is_error: bool = False) -> JsonObject:
    """What came of a call."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}


def image(data: str, mime_type: str = "image/png") -> JsonObject:
    """An image as a data URI."""
    return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}


def user(*content: JsonObject | str, timestamp: str | None = None) -> JsonObject:
    """A message of the user; a string is a piece of text."""
    return _message("user", content, timestamp)


def assistant(*content: JsonObject | str, timestamp: str | None = None) -> JsonObject:
    """A message of the model; a string is a piece of text."""
    return _message("assistant", content, timestamp)


def _message(role: str, content: tuple[JsonObject | str, ...], timestamp: str | None) -> JsonObject:
    blocks = [text(block) if isinstance(block, str) else block for block in content]
    return {"role": role, "content": blocks, **({"timestamp": timestamp} if timestamp else {})}


def state(session: str, *messages: JsonObject, **fields: Any) -> JsonObject:
    """A whole session."""
    return {
        "id": session,
        "created_at": CREATED,
        "updated_at": "2026-03-01T10:05:00Z",
        "provider": "openai",
        "model": "gpt-4o",
        "cwd": "/somewhere",
        "total_usage": {
            "input_tokens": 1500, "output_tokens": 320, "cache_creation_tokens": 200, "cache_read_tokens": 800,
        },
        "context_state": {"schema_version": 1, "context_usage": 900, "source": "provider_exact", "compact_count": 0},
        "messages": list(messages),
        **fields,
    }  # fmt: skip


def write_current(base: Path, session: JsonObject, directory: str | None = None) -> Path:
    """Keep a session in the layout of today; ``directory`` if its id is not one."""
    return _write(base / "sessions" / (directory or session["id"]) / "state.json", session)


def write_older(base: Path, session: JsonObject) -> Path:
    """Keep a session in the older layout, beside its index."""
    meta = {name: session[name] for name in ("id", "created_at", "updated_at", "model")}
    _write(base / "index.json", {"sessions": [{**meta, "summary": "", "message_count": len(session["messages"])}]})
    return _write(base / f"{session['created_at'][:10]}_{session['id']}.json", session)


def _write(path: Path, value: JsonObject) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")
    return path
