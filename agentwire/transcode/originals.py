"""The lines of a recording inside another: what a translation loses can be had back, byte for byte.

Each line of the source's file rides, as it is, on the entry of the next line that was written for it; what is left over
stands on a last note. The header says of which wire they are.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any, Final

from agentwire.recording.entries import Entry, Header, RecordingError
from agentwire.recording.reader import Recording

KEY: Final = "original"
"""Where they stand in an entry's and a header's ``about``."""


class Riders:
    """Lines of the source that wait for an entry to ride on."""

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self._waiting: list[Any] = []

    def announced(self, header: Header) -> Header:
        """The header, which says whose lines ride."""
        header.about = {**header.about, KEY: {"codec": self._codec}}
        return header

    def add(self, line: bytes) -> None:
        """A line of the source's file, its line end included."""
        self._waiting.append(_kept(line))

    def mount(self, about: dict[str, Any]) -> dict[str, Any]:
        """What an entry is about, with those that wait."""
        waiting, self._waiting = self._waiting, []
        return {**about, KEY: waiting} if waiting else about


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
