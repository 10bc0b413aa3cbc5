"""What a recording is made of."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, Literal

from msgspec import Struct

VERSION: Final = 1

FORMAT: Final = "recording"

Who = Literal["host", "agent", "log", "model", "tool", "note"]
"""Who wrote it: the host or the agent (lines of the wire), the agent's standard error (``log``), a model service or a
tool (what the agent was given: ``about``), or whoever made the recording."""


class RecordingError(Exception):
    """A recording cannot be read or written; the message says which and why, in one line."""


class Header(Struct, rename={"format": "agentwire"}):
    """The first line: of which wire what follows is, and how it came to be."""

    format: str = FORMAT
    version: int = VERSION
    codec: str = ""
    """Name of the wire; empty: not known."""
    made_by: str = ""
    """Program and version."""
    role: str = ""
    """What recorded it: ``serve``, ``connect``, ``bridge``, ``tap``, ..."""
    started: int = 0
    """Milliseconds since the epoch."""
    about: dict[str, Any] = {}
    """Whatever else a reader may want to know; never a secret."""


class Entry(Struct, omit_defaults=True):
    """One line of the wire, or one thing beside it."""

    at: int
    """Microseconds since the recording began, by a clock that never goes back."""
    who: Who
    text: str = ""
    """The line as it was, its line end included; the last one before the end may have none."""
    base64: str = ""
    """Instead of ``text``, for bytes that are not UTF-8."""
    wall: int = 0
    """Milliseconds since the epoch."""
    about: dict[str, Any] = {}
    """Of a model's or a tool's entry, and of notes."""

    @property
    def data(self) -> bytes:
        """The bytes as they were. Raises :class:`RecordingError` for a damaged entry."""
        if not self.base64:
            return self.text.encode()
        try:
            return base64.b64decode(self.base64, validate=True)
        except binascii.Error as error:
            raise RecordingError(f"an entry's base64 is damaged: {error}") from None


def entry(at: int, who: Who, data: bytes, wall: int = 0) -> Entry:
    """An entry of some bytes."""
    try:
        return Entry(at, who, data.decode(), wall=wall)
    except UnicodeDecodeError:
        return Entry(at, who, base64=base64.b64encode(data).decode(), wall=wall)
