"""A recording of one wire into what an agent of another would have written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import chain

from agentwire.codec.checking import Violation
from agentwire.codec.contract import Codec
from agentwire.codec.framing import HOST_LIMIT, Framer
from agentwire.events import TurnStarted
from agentwire.recording.entries import Entry, Header, RecordingError
from agentwire.recording.reader import Recording, entries_of
from agentwire.transcode.logbook import Logged
from agentwire.transcode.originals import OriginalsWriter, carries, originals
from agentwire.transcode.reading import Asked, LogReader, Read
from agentwire.transcode.recognition import recognise
from agentwire.transcode.report import Report, account, losses_of
from agentwire.transcode.writing import LogWriter


def wire_of(recording: Recording) -> str:
    """The name of a recording's wire: as its header says, else as its lines look.

    Raises :class:`agentwire.transcode.Unrecognised` and :class:`agentwire.recording.RecordingError`.
    """
    if recording.header.codec:
        return recording.header.codec
    return recognise(line for entry in recording if entry.who == "agent" for line in entry.data.splitlines())


def transcode(
    recording: Recording, source: Codec, target: Codec, write: Callable[[bytes], object], *, keep_original: bool = False
) -> Report:
    """Write a recording of ``source`` as an agent of ``target`` would have said it.

    ``write`` gets the lines as they are made: a log of the agent's output or, with ``keep_original``, a recording whose
    entries carry the lines that they were made of. From such a recording the lines of the wire it came from are given
    back as they were. What is written streams; the report is made of whole logs, so those are kept until it is.

    Raises :class:`agentwire.recording.RecordingError` for what cannot be read.
    """
    if carries(recording, target.name):
        for line in originals(recording):
            write(line)
        return Report(source.name, target.name, restored=True)
    return _Transcoder(recording, source, target, write, keep_original).run()


class _Transcoder:
    def __init__(
        self,
        recording: Recording,
        source: Codec,
        target: Codec,
        write: Callable[[bytes], object],
        keep_original: bool,
    ) -> None:
        self._recording = recording
        self._target = target
        self._write = write
        self._reader = LogReader(source, started=recording.header.started)
        self._writer = LogWriter(target)
        self._checker = target.checker() if target.checker is not None else None
        self._framer = Framer(HOST_LIMIT)
        self._report = Report(source.name, target.name)
        self._commands: Counter[str] = Counter()
        self._sessions: set[str] = set()
        self._kept = OriginalsWriter(_header(recording, target), source.name) if keep_original else None

    def run(self) -> Report:
        at = wall = 0
        if self._kept is not None:
            self._write(self._kept.start())
        for entry in self._entries():
            at, wall = entry.at, entry.wall
            self._report.lines_read += entry.who in ("host", "agent")
            self._out(self._rendered(self._reader.feed(entry)), at, wall)
        self._out(chain(self._rendered(self._reader.close()), [self._writer.close()]), at, wall)
        if self._kept is not None:
            self._write(self._kept.end(at, wall))
        return self._finished()

    def _entries(self) -> Iterator[Entry]:
        kept = self._kept
        if kept is None:
            yield from self._recording
            return

        def seen(file: Iterator[bytes]) -> Iterator[bytes]:
            for line in file:
                kept.source(line)
                yield line

        path = self._recording.path
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed below; only opening it is guarded
        except OSError as error:
            raise RecordingError(f"The recording {path} cannot be read: {error.strerror}") from None
        with file:
            yield from entries_of(seen(file), plain=self._recording.plain)

    def _rendered(self, read: list[Read]) -> Iterator[bytes]:
        for item in read:
            if isinstance(item, Logged):
                self._sessions.add(item.session)
                self._report.turns += isinstance(item.record.event, TurnStarted) and not item.record.origin
                yield self._writer.write(item.session, item.record)
            elif isinstance(item, Asked):
                name = "unreadable" if item.command is None else str(type(item.command).__struct_config__.tag)
                self._commands[name] += 1

    def _out(self, pieces: Iterator[bytes], at: int, wall: int) -> None:
        data = b"".join(pieces)
        if not data:
            return
        self._check(data)
        self._write(data if self._kept is None else self._kept.lines(data, at, wall))

    def _check(self, data: bytes) -> None:
        for line in self._framer.feed(data):
            self._report.lines_written += 1
            if self._checker is not None:
                place = f"line {self._report.lines_written}"
                self._report.violations += _broken(place, self._checker.agent(line))

    def _finished(self) -> Report:
        report, writer = self._report, self._writer
        if self._checker is not None:
            report.violations += _broken("at the end", self._checker.close())
        lost, report.events = account(self._target.fidelity(), writer.logs)
        report.losses = losses_of(lost + writer.changes)
        report.commands = dict(sorted(self._commands.items()))
        report.sessions = len(self._sessions)
        return report


def _broken(place: str, found: list[Violation]) -> list[str]:
    """Rules that peers rely on. What is missing of what they can do without, the source did not tell."""
    return [f"{place}: {violation.message}" for violation in found if violation.severity == "must"]


def _header(recording: Recording, target: Codec) -> Header:
    return Header(
        codec=target.name,
        made_by=f"agentwire {version('agentwire')}",
        role="transcode",
        started=recording.header.started,
    )
