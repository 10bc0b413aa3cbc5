"""The server's output, kept in a file of bounded size.

The server writes to the file itself: there is no pipe that could fill up, and its last words are there when we are
not. Nobody writes prompts or replies there unless the server is told to.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

KEPT = 8
"""Logs of earlier processes that are kept beside ours, where the place is not set by hand."""

_MARK = b"=== "
_TAIL = 8192
_LONGEST = 300
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_TELLING = re.compile(r"\b(error|fail(ed|ure)?|cannot|can't|unable|invalid|unknown|abort(ed)?|out of memory)\b", re.I)


def default_path(environ: Mapping[str, str]) -> Path:
    """The file of this process: below ``AGENTWIRE_DATA_DIR`` if that is set, else where the platform keeps logs."""
    if data := environ.get("AGENTWIRE_DATA_DIR"):
        folder = Path(data).absolute() / "llama"
    else:
        from platformdirs import user_log_path

        folder = user_log_path("agentwire", appauthor=False) / "llama"
    return folder / f"llama-server-{os.getpid()}.log"


class ServerLog:
    """The file. Methods raise :class:`OSError` if it cannot be written."""

    def __init__(self, path: Path, limit: int, *, tidy: bool) -> None:
        self.path = path
        self._limit = limit
        self._tidy = tidy

    def begin(self, argv: Sequence[str]) -> int:
        """Note that a server starts; a descriptor for its output, which the caller closes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._tidy:
            self._drop_old()
        output = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.trim()
        started = time.strftime("%Y-%m-%d %H:%M:%S%z")
        os.write(output, _MARK + f"{started} {' '.join(argv)}\n".encode("utf-8", "replace"))
        return output

    def trim(self) -> None:
        """Drop the older half if the file has grown too large. What is being written at that moment may be lost."""
        try:
            if self.path.stat().st_size <= self._limit:
                return
        except FileNotFoundError:
            return
        with self.path.open("r+b") as file:
            file.seek(-self._limit // 2, os.SEEK_END)
            kept = file.read(self._limit)
            file.truncate(0)
        with self.path.open("ab") as file:  # the server appends too
            file.write(kept.partition(b"\n")[2])

    def tail(self) -> list[str]:
        """The last lines that the last server wrote, without colours."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL))
                data = file.read(_TAIL)
        except OSError:
            return []  # it was deleted: there is nothing to tell
        lines = data.split(b"\n")
        if size > len(data):
            del lines[0]
        for index in range(len(lines) - 1, -1, -1):
            if lines[index].startswith(_MARK):
                del lines[: index + 1]
                break
        texts = (_CONTROL.sub("", line.decode("utf-8", "replace")).strip() for line in lines)
        return [text[:_LONGEST] for text in texts if text]

    def last_words(self) -> str:
        """The line that tells most of why a server ended: the last that speaks of an error, else the last."""
        lines = self.tail()
        return next((line for line in reversed(lines) if _TELLING.search(line)), lines[-1] if lines else "")

    def _drop_old(self) -> None:
        others = [path for path in self.path.parent.glob("llama-server-*.log") if path != self.path]
        others.sort(key=_modified, reverse=True)
        for path in others[KEPT:]:
            path.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0  # somebody else has dropped it
