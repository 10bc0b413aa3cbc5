"""A recording's entries with their places in the file, for messages and progress."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from agentwire.recording import Entry, Recording, RecordingError, entries_of


class Placed(Struct):
    """An entry, and where it stands."""

    entry: Entry
    line: int
    """In the file, from 1."""
    end: int
    """Bytes of the file up to its end."""


def placed(recording: Recording) -> Iterator[Placed]:
    """Give the entries in order, in constant memory. Raises :class:`agentwire.recording.RecordingError`."""
    line = end = 0

    def counted(file: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal line, end
        for data in file:
            line += 1
            end += len(data)
            yield data

    try:
        file = open(recording.path, "rb")  # noqa: SIM115 - closed below; only opening it is guarded
    except OSError as error:
        raise RecordingError(f"The recording {recording.path} cannot be read: {error.strerror}") from None
    with file:
        for entry in entries_of(counted(file), plain=recording.plain):
            yield Placed(entry, line, end)


def one_sided(recording: Recording) -> bool:
    """Whether it holds nothing that a host said: a log of an agent's output."""
    return recording.plain or not any(entry.who == "host" for entry in recording)
