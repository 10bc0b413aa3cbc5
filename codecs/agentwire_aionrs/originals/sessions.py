"""Where aionrs keeps sessions, in both layouts it has had.

Now each session has a directory, ``BASE/sessions/ID/state.json``. Before, all lay side by side, as
``BASE/DATE_ID.json`` with an index beside them. A session that is in both is the newer layout's. Nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agentwire.store import StoreError
from agentwire_aionrs.originals.statefile import StateHead, milliseconds, read_head

STATE: Final = "state.json"
_INDEX: Final = "index.json"
_NOT_PLAIN: Final = re.compile(rb"[^A-Za-z0-9_.-]")
_NO_NAMES: Final = ("", ".", "..")


class OriginalSessions:
    """The sessions below one base directory, which need not exist."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def find(self, session: str) -> Path | None:
        """The file of a session. It may be broken."""
        if session in _NO_NAMES:
            return None
        path = self.base / "sessions" / directory_name(session) / STATE
        if path.is_file():
            return path
        return self._find_old(session)

    def _find_old(self, session: str) -> Path | None:
        named = None
        for path in self._old_files():
            try:
                if read_head(path).id == session:
                    return path
            except StoreError:
                # Only its name can tell; a whole one that says the id itself would be the better find.
                named = path if path.name.partition("_")[2] == f"{session}.json" else named
        return named

    def whole(self) -> list[tuple[Path, StateHead]]:
        """Every session with its file, in no order; broken files are left out."""
        found: dict[str, tuple[Path, StateHead]] = {}
        for path in (*self._old_files(), *self._files()):
            try:
                head = read_head(path)
            except StoreError:
                continue
            found[head.id] = path, head
        return list(found.values())

    def newest(self) -> tuple[Path, StateHead] | None:
        """The session created last, and its file. Broken files are no candidates."""
        return max(self.whole(), key=lambda entry: milliseconds(entry[1].created_at), default=None)

    def _files(self) -> Iterator[Path]:
        yield from (path for path in sorted(self.base.glob(f"sessions/*/{STATE}")) if path.is_file())

    def _old_files(self) -> Iterator[Path]:
        yield from (path for path in sorted(self.base.glob("*_*.json")) if path.is_file() and path.name != _INDEX)


def directory_name(session: str) -> str:
    """A session's id as a file name: every byte but letters, digits, ``-``, ``_`` and ``.`` becomes ``%XX``."""
    return _NOT_PLAIN.sub(lambda found: b"%%%02X" % found[0][0], session.encode("utf-8", "surrogatepass")).decode()
