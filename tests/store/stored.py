"""Filling a store and looking into it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentwire.events import Notice
from agentwire.log import SessionLog
from agentwire.store import SessionStore


def fill(store: SessionStore, session: str, *texts: str, workspace: str = "") -> None:
    log = SessionLog(store.create(session, workspace=workspace))
    for text in texts:
        log.append(Notice(text))
    log.close()


def texts(store: SessionStore, session: str) -> list[str]:
    return [record.event.text for record in store.read(session)]  # type: ignore[union-attr]


def digest(store: SessionStore) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(store.directory).iterdir()}
