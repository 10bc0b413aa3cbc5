"""Where a timeline comes from: a recording of a wire, or the journal of a session."""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Iterator

from msgspec import Struct

from agentwire import registry
from agentwire.codec.contract import Codec
from agentwire.log.errors import JournalError
from agentwire.log.journal import JournalView, NoHeader
from agentwire.recording import Recording, RecordingError, open_recording
from agentwire.timeline.building import Builder
from agentwire.timeline.items import Timeline
from agentwire.transcode import Asked, Logged, LogReader, Read, wire_of

_JOURNAL = b'{"agentwire":"journal"'


class RawLine(Struct):
    """A line of the source as it was."""

    who: str
    at: int
    """Microseconds since the recording began."""
    data: bytes


class RecordingSource:
    """A recording of a wire; ``codec`` reads it."""

    def __init__(self, recording: Recording, codec: Codec) -> None:
        self.recording = recording
        self.codec = codec

    def timeline(self, *, keep: bool = False) -> Timeline:
        """Read all of it. Raises :class:`agentwire.recording.RecordingError`."""
        header = self.recording.header
        found = Timeline(self.recording.path, self.codec.name, header.made_by, header.started)
        builder = Builder(found, keep=keep)
        reader = LogReader(self.codec, started=header.started)
        times = array("q")
        for entry in self.recording:
            times.append(entry.at)
            builder.passed(entry.who, entry.at)
            for read in reader.feed(entry):
                _tell(builder, read, times)
        for read in reader.close():
            _tell(builder, read, times)
        return builder.close()

    def lines(self, wanted: Collection[int]) -> Iterator[tuple[int, RawLine]]:
        """Give some entries by their numbers. Raises :class:`agentwire.recording.RecordingError`."""
        for number, entry in enumerate(self.recording):
            if number in wanted:
                yield number, RawLine(entry.who, entry.at, entry.data)


class JournalSource:
    """The journal of a session, whoever has it open; its records are its lines."""

    def __init__(self, path: str) -> None:
        self.path = path

    def timeline(self, *, keep: bool = False) -> Timeline:
        """Read all of it. Raises :class:`agentwire.log.JournalError`."""
        with JournalView.open(self.path) as view:
            header = view.header
            found = Timeline(self.path, "", started=header.created)
            builder = Builder(found, keep=keep)
            began = -1
            number = 0
            for records in view.records():
                for record in records:
                    if began < 0:
                        began = found.started = record.time
                    at = max(0, record.time - began) * 1000
                    builder.passed("records", at)
                    builder.record(header.session, record, at, number)
                    number += 1
        return builder.close()

    def lines(self, wanted: Collection[int]) -> Iterator[tuple[int, RawLine]]:
        """None: what a journal's lines say are the records themselves."""
        return iter(())


Source = RecordingSource | JournalSource


def open_source(path: str | os.PathLike[str], wire: str = "") -> Source:
    """Find out what a file is. ``wire``: the codec of a recording; empty: as it says, else as its lines look.

    Raises :class:`agentwire.recording.RecordingError`, :class:`agentwire.transcode.Unrecognised`,
    :class:`agentwire.registry.UnknownName`, or :class:`agentwire.log.JournalError`.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            first = file.read(len(_JOURNAL))
    except OSError as error:
        raise RecordingError(f"The recording {name} cannot be read: {error.strerror}") from None
    if first != _JOURNAL:
        recording = open_recording(name)
        return RecordingSource(recording, registry.load_codec(wire or wire_of(recording)))
    try:
        JournalView.open(name).close()
    except (FileNotFoundError, NoHeader):
        raise JournalError(f"The journal {name} has no whole first line") from None
    return JournalSource(name)


def timeline_of(source: Source, *, keep: bool = False) -> Timeline:
    """Read a source; ``keep``: every item keeps what was told of it. Raises what the source's ``timeline`` does."""
    return source.timeline(keep=keep)


def _tell(builder: Builder, read: Read, times: array[int]) -> None:
    """What is read late belongs to the time of the line that told it."""
    at = times[read.source] if times else 0
    if isinstance(read, Logged):
        builder.record(read.session, read.record, at, read.source)
    elif isinstance(read, Asked):
        builder.asked(read.command, read.refusal, read.number, at, read.source)
    else:
        builder.settled(read.number, read.result, at, read.source)
