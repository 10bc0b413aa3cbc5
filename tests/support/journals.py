"""The journals of a server under test, and what a crash makes of them."""

from __future__ import annotations

import base64
from pathlib import Path

from support.replies import JsonObject


def journal(data: Path, session: str) -> Path:
    """The file below a data folder that has the session's content; its lock is empty."""
    (path,) = (path for path in (data / "sessions").rglob(f"*{session}*") if path.is_file() and path.read_bytes())
    return path


def damage(path: Path, mutation: JsonObject) -> None:
    """Do to a journal what a case says; a record is its line."""
    content = path.read_bytes()
    if mutation["op"] == "cut_tail_bytes":
        content = content[: -mutation["n"]]
    elif mutation["op"] == "cut_tail_inside_utf8_char":
        content = content[: content.rindex("\U0001f600".encode()) + 2]
    else:
        content += base64.b64decode(mutation["base64"])
    path.write_bytes(content)
