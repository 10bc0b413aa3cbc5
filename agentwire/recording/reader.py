"""Reading a recording, in constant memory, whatever made it.

Three forms are read: our own; a plain log of one wire, every line as the agent wrote it; and rows of ``stream`` and
``line`` (``stdin``, ``stdout``, ``stderr``), as some peers' recorders write them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from agentwire.recording.entries import FORMAT, VERSION, Entry, Header, RecordingError, Who, entry

_decode_entry: Final = msgspec.json.Decoder(Entry).decode
_decode_header: Final = msgspec.json.Decoder(Header).decode
_decode: Final = msgspec.json.Decoder().decode

_STREAMS: Final[dict[Any, Who]] = {"stdin": "host", "stdout": "agent", "stderr": "log"}

_HEADER_START: Final = b'{"agentwire":"recording"'


class Recording:
    """A file that was recorded: what its first header says, and its entries as often as they are asked for."""

    def __init__(self, path: str, header: Header, *, plain: bool) -> None:
        self.path = path
        self.header = header
        self.plain = plain
        """A log of the agent's lines only: no header, no times."""

    def __iter__(self) -> Iterator[Entry]:
        """Give the entries in order, read as they are asked for. Raises :class:`RecordingError`."""
        with _open(self.path) as file:
            yield from entries_of(file, plain=self.plain)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.path.getsize(self.path)


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Look at a file's first line. Raises :class:`RecordingError` if it cannot be read or is of a newer version."""
    name = os.fspath(path)
    with _open(name) as file:
        first = file.readline()
    if not first.startswith(b'{"agentwire"'):
        return Recording(name, Header(version=0), plain=_row(first) is None)
    try:
        header = _decode_header(first)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingError(f"{name} does not begin like a recording: {error}") from None
    if header.format != FORMAT:
        raise RecordingError(f"{name} is a {header.format}, not a recording")
    if header.version > VERSION:
        raise RecordingError(f"{name} is a recording of version {header.version}; this program reads up to {VERSION}")
    return Recording(name, header, plain=False)


def entries_of(lines: Iterable[bytes], *, plain: bool = False) -> Iterator[Entry]:
    """Give the entries of a recording's lines; ``plain``: every line is one that the agent wrote.

    A header in the middle begins a further recording in the same file: times go on from where they were. Lines that
    are no entries (torn by a crash) are left out.
    """
    began = latest = 0
    for line in lines:
        if plain:
            yield entry(0, "agent", line)
            continue
        if line.startswith(_HEADER_START):
            began = latest
            continue
        found = _entry(line)
        if found is not None:
            latest = found.at = began + found.at
            yield found


def header_of(line: bytes) -> Header | None:
    """The header that a line is; None if it is none, or cannot be read."""
    try:
        return _decode_header(line) if line.startswith(_HEADER_START) else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _entry(line: bytes) -> Entry | None:
    try:
        return _decode_entry(line)
    except msgspec.ValidationError:
        return _row(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _row(line: bytes) -> Entry | None:
    try:
        row = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(row, dict) and row.get("stream") in _STREAMS and isinstance(row.get("line"), str):
        return Entry(0, _STREAMS[row["stream"]], row["line"])
    return None


def _open(path: str) -> Any:
    try:
        return open(path, "rb")
    except OSError as error:
        raise RecordingError(f"The recording {path} cannot be read: {error.strerror}") from None
