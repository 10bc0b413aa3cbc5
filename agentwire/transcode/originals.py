"""The lines of a recording inside another: what a translation loses can be had back, byte for byte.

Each line of the source's file rides, as it is, on the entry of the next line that was written for it; what is left over
stands on a last note. The header says of which wire they are.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from agentwire.recording.entries import Entry, Header, RecordingError
from agentwire.recording.reader import Recording

KEY: Final = "original"
"""Where they stand in an entry's and a header's ``about``."""

_encode: Final = msgspec.json.Encoder().encode


class OriginalsWriter:
    """Makes the recording that carries them, a piece at a time."""

    def __init__(self, header: Header, codec: str) -> None:
        self.header = header
        header.about = {**header.about, KEY: {"codec": codec}}
        self._riding: list[Any] = []

    def start(self) -> bytes:
        """The first line."""
        return _encode(self.header) + b"\n"

    def source(self, line: bytes) -> None:
        """A line of the source's file, its line end included."""
        self._riding.append(_kept(line))

    def lines(self, data: bytes, at: int, wall: int) -> bytes:
        """Whole lines of the agent that were written now."""
        return b"".join(_encode(self._entry(line + b"\n", at, wall)) + b"\n" for line in data.split(b"\n")[:-1])

    def end(self, at: int, wall: int) -> bytes:
        """The note with what is left over; nothing if nothing is."""
        return _encode(Entry(at, "note", wall=wall, about=self._ride())) + b"\n" if self._riding else b""

    def _entry(self, line: bytes, at: int, wall: int) -> Entry:
        return Entry(at, "agent", line.decode(), wall=wall, about=self._ride())

    def _ride(self) -> dict[str, Any]:
        riding, self._riding = self._riding, []
        return {KEY: riding} if riding else {}


def carries(recording: Recording, codec: str) -> bool:
    """Whether a recording holds the lines of a recording of that wire."""
    about = recording.header.about.get(KEY)
    return isinstance(about, dict) and about.get("codec") == codec


def originals(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Give them back. Raises :class:`agentwire.recording.RecordingError` where they are damaged."""
    for entry in entries:
        riding = entry.about.get(KEY, [])
        if not isinstance(riding, list):
            raise RecordingError("an entry's original lines are damaged")
        for kept in riding:
            yield _given_back(kept)


def _kept(line: bytes) -> Any:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(line).decode()}


def _given_back(kept: Any) -> bytes:
    if isinstance(kept, str):
        return kept.encode()
    try:
        return base64.b64decode(kept["base64"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise RecordingError(f"an original line is damaged: {error}") from None
