"""A recording's entries with their places in the file, for messages and progress."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from agentwire.recording import Entry, Recording, RecordingError, entries_of, header_of


class Placed(Struct):
    """An entry, and where it stands."""

    entry: Entry
    line: int
    """In the file, from 1."""
    end: int
    """Bytes of the file up to its end."""
    part: int = 0
    """Which recording of the file, from 0: one may have been made after the other."""
    codec: str = ""
    """The wire of that recording, as it says."""


def placed(recording: Recording) -> Iterator[Placed]:
    """Give the entries in order, in constant memory. Raises :class:`agentwire.recording.RecordingError`."""
    line = end = part = 0
    codec = recording.header.codec

    def counted(file: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal line, end, part, codec
        for data in file:
            line += 1
            end += len(data)
            if line > 1 and (header := header_of(data)) is not None:
                part, codec = part + 1, header.codec
            yield data

    try:
        file = open(recording.path, "rb")  # noqa: SIM115 - closed below; only opening it is guarded
    except OSError as error:
        raise RecordingError(f"The recording {recording.path} cannot be read: {error.strerror}") from None
    with file:
        for entry in entries_of(counted(file), plain=recording.plain):
            yield Placed(entry, line, end, part, codec)


def one_sided(recording: Recording) -> bool:
    """Whether it holds nothing that a host said: a log of an agent's output."""
    return recording.plain or not any(entry.who == "host" for entry in recording)
