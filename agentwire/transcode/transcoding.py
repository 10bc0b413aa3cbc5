"""A recording of one wire into what would have been recorded on another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, Literal

from agentwire.codec.checking import Violation
from agentwire.codec.contract import Codec
from agentwire.events import TurnStarted
from agentwire.recording.entries import Entry, RecordingError
from agentwire.recording.reader import Recording, entries_of
from agentwire.transcode.dialogue import Dialogue
from agentwire.transcode.logbook import Logged
from agentwire.transcode.originals import Riders, carries, originals
from agentwire.transcode.output import Output, PlainOutput, RecordingOutput
from agentwire.transcode.reading import LogReader, Read
from agentwire.transcode.recognition import recognise
from agentwire.transcode.report import Dropped, Ledger, Report, losses_of
from agentwire.transcode.writing import LogWriter

SHOWN: Final = 100
"""Violations that a report quotes; of more it says how many."""


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
    """Write a recording of ``source`` as it would have been made of ``target``.

    ``write`` gets the lines as they are made. Of a recording with what the host said, that is a recording with both
    directions. Of an agent's output alone, it is a log of the agent's output or, with ``keep_original``, a recording of
    it. With ``keep_original`` entries carry the lines that they were made of; from such a recording the lines of the
    wire it came from are given back as they were. Lines and report are made while the recording is read: no more than
    the turns under way is held.

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
        self._source, self._target = source, target
        self._reader = LogReader(source, started=recording.header.started)
        self._ledger = Ledger(target.fidelity())
        self._checker = target.checker() if target.checker is not None else None
        self._report = Report(source.name, target.name)
        self._beside: Counter[str] = Counter()
        self._sessions: set[str] = set()
        self._at = self._wall = 0
        self._riders = Riders(source.name) if keep_original else None
        self._both = not recording.plain and any(entry.who == "host" for entry in recording)
        self._output: Output = PlainOutput(write)
        if self._both or keep_original:
            self._output = RecordingOutput(write, target.name, recording.header.started, self._riders)

    def run(self) -> Report:
        self._output.begin()
        report = self._spoken() if self._both else self._told()
        self._output.end(self._at, self._wall)
        if self._checker is not None:
            self._broken("at the end", self._checker.close())
        lost, report.events = self._ledger.close()
        report.losses = losses_of(lost + self._changes)
        report.beside = dict(sorted(self._beside.items()))
        report.sessions = len(self._sessions)
        return report

    # --- an agent's output, or both directions ---

    def _told(self) -> Report:
        writer = LogWriter(self._target, keep=False, told=self._ledger.add)
        self._changes = writer.changes
        for item in self._read():
            if isinstance(item, Logged):
                self._lines(writer.write(item.session, item.record))
        self._lines(writer.close())
        return self._report

    def _spoken(self) -> Report:
        single = self._source.sessions == "one" or self._source.begin is not None
        dialogue = Dialogue(self._target, self._line, single=single, told=self._ledger.add)
        self._changes = dialogue.changes
        for item in self._read():
            dialogue.take(item)
        dialogue.finish()
        report, crossing = self._report, dialogue.crossing
        report.commands = dict(sorted(crossing.asked.items()))
        report.dropped = [Dropped(tag, why, count) for (tag, why), count in sorted(crossing.dropped.items())]
        report.unsaid = dict(sorted(crossing.unsaid.items()))
        report.invented = dict(sorted(crossing.invented.items()))
        return report

    # --- in ---

    def _read(self) -> Iterator[Read]:
        for entry in self._entries():
            self._at, self._wall = entry.at, entry.wall
            if entry.who in ("host", "agent"):
                self._report.lines_read += 1
            elif entry.who == "log" and (self._both or self._riders is not None):
                self._output.beside(entry)
            elif entry.who != "note" or entry.about:
                self._beside[entry.who] += 1
            yield from self._seen(self._reader.feed(entry))
        yield from self._seen(self._reader.close())

    def _seen(self, read: list[Read]) -> Iterator[Read]:
        for item in read:
            if isinstance(item, Logged):
                self._sessions.add(item.session)
                self._report.turns += isinstance(item.record.event, TurnStarted) and not item.record.origin
            yield item

    def _entries(self) -> Iterator[Entry]:
        riders = self._riders
        if riders is None:
            yield from self._recording
            return

        def seen(file: Iterator[bytes]) -> Iterator[bytes]:
            for line in file:
                riders.add(line)
                yield line

        path = self._recording.path
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed below; only opening it is guarded
        except OSError as error:
            raise RecordingError(f"The recording {path} cannot be read: {error.strerror}") from None
        with file:
            yield from entries_of(seen(file), plain=self._recording.plain)

    # --- out ---

    def _lines(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            self._line("agent", line)

    def _line(self, who: Literal["host", "agent"], line: bytes) -> None:
        self._report.lines_written += 1
        if self._checker is not None:
            check = self._checker.agent if who == "agent" else self._checker.host
            self._broken(f"line {self._report.lines_written}", check(line))
        self._output.line(who, line, self._at, self._wall)

    def _broken(self, place: str, found: list[Violation]) -> None:
        """Note rules that peers rely on. What is missing of what they can do without, the source did not tell."""
        for violation in found:
            if violation.severity == "must":
                self._report.broken += 1
                if self._report.broken <= SHOWN:
                    self._report.violations.append(f"{place}: {violation.message}")
