"""What transcoding writes: the agent's lines as they are, or a recording with everything that crossed the wire."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Final, Literal, Protocol

import msgspec
from msgspec.structs import replace

from agentwire.recording.entries import Entry, Header
from agentwire.transcode.originals import Riders

_encode: Final = msgspec.json.Encoder().encode

Write = Callable[[bytes], object]


class Output(Protocol):
    """Where lines go."""

    def begin(self) -> None:
        """Write what comes first."""
        ...

    def line(self, who: Literal["host", "agent"], line: bytes, at: int, wall: int) -> None:
        """Write a line of the wire, without its line end; times as in :class:`agentwire.recording.Entry`."""
        ...

    def beside(self, entry: Entry) -> None:
        """Write something that stood beside the wire, if there is a place for it."""
        ...

    def end(self, at: int, wall: int) -> None:
        """Write what comes last."""
        ...


class PlainOutput:
    """The agent's lines and nothing else."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def begin(self) -> None:
        """Nothing comes first."""

    def line(self, who: Literal["host", "agent"], line: bytes, at: int, wall: int) -> None:
        """Write a line, if it is the agent's."""
        if who == "agent":
            self._write(line + b"\n")

    def beside(self, entry: Entry) -> None:
        """There is no place for it."""

    def end(self, at: int, wall: int) -> None:
        """Nothing comes last."""


class RecordingOutput:
    """A recording. ``riders``: lines of the source that its entries carry."""

    def __init__(self, write: Write, codec: str, started: int, riders: Riders | None = None) -> None:
        self._write = write
        self._riders = riders
        header = Header(codec=codec, made_by=f"agentwire {version('agentwire')}", role="transcode", started=started)
        self._header = header if riders is None else riders.announced(header)

    def begin(self) -> None:
        """Write the header."""
        self._write(_encode(self._header) + b"\n")

    def line(self, who: Literal["host", "agent"], line: bytes, at: int, wall: int) -> None:
        """Write an entry."""
        self._entry(Entry(at, who, line.decode() + "\n", wall=wall))

    def beside(self, entry: Entry) -> None:
        """Write the entry as it is, but for what it carried of another file."""
        self._entry(replace(entry, about={}))

    def end(self, at: int, wall: int) -> None:
        """Write a note with the riders that are left over, if any are."""
        note = Entry(at, "note", wall=wall)
        if self._riders is not None and (about := self._riders.mount({})):
            note.about = about
            self._write(_encode(note) + b"\n")

    def _entry(self, entry: Entry) -> None:
        if self._riders is not None:
            entry.about = self._riders.mount(entry.about)
        self._write(_encode(entry) + b"\n")
