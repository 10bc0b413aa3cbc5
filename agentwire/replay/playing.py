"""Recordings for people and programs: shown in a terminal, or told again line by line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from agentwire import events as bus
from agentwire.codec.contract import Codec
from agentwire.recording import Entry, Recording
from agentwire.replay.pace import Pace
from agentwire.replay.places import placed
from agentwire.transcode import Logged, LogReader, LogWriter, Read

if TYPE_CHECKING:
    from agentwire.host.screen import Screen

Write = Callable[[bytes], object]

STREAMED: Final = (bus.TextDelta, bus.ReasoningDelta, bus.CallArgumentsDelta, bus.CallOutputDelta)
"""Events that go on with what was begun: nobody wants to press a key for each."""


class How(Struct):
    """How a recording is played."""

    pace: Pace
    from_turn: int = 1
    """Turns before this one are passed over; what came before the first turn is not."""
    step: Callable[[], bool] | None = None
    """Asks whether to go on, before each line or event; False: no more questions."""
    progress: Callable[[int], object] | None = None
    """Told how many bytes of the file are done."""

    def wait(self, at: int, *, ask: bool = True) -> None:
        """Wait until something that happened at ``at`` is due."""
        if self.step is not None:
            if ask and not self.step():
                self.step = None
                self.pace = Pace(0)
        elif delay := self.pace.delay(at):
            time.sleep(delay)


def emit(recording: Recording, write: Write, how: How, codec: Codec | None = None) -> int:
    """Write the agent's lines again, byte for byte; how many there were.

    ``codec`` is needed to find a turn. Raises :class:`agentwire.recording.RecordingError`.
    """
    turns = _Turns(how.from_turn, LogReader(codec)) if codec is not None and how.from_turn > 1 else None
    lines = 0
    for entry in _paced(recording, how):
        due = turns is None or turns.due(turns.reader.feed(entry))
        if entry.who == "agent" and due:
            how.wait(entry.at)
            write(entry.data)
            lines += 1
    return lines


def emit_as(recording: Recording, source: Codec, target: Codec, write: Write, how: How) -> None:
    """Write what the agent of another wire would have written. Raises :class:`agentwire.recording.RecordingError`."""
    reader = LogReader(source, started=recording.header.started)
    writer, turns = LogWriter(target, keep=False), _Turns(how.from_turn, reader)

    greeting = target.greets

    def out(read: Sequence[Read], at: int) -> None:
        nonlocal greeting
        for item in read:
            due = turns.due([item])
            data = writer.write(item.session, item.record) if isinstance(item, Logged) else b""
            if data and not due and greeting:
                data, due = data[: data.find(b"\n") + 1], True  # the wire's first line, whatever follows is passed over
            if data and due:
                greeting = False
                how.wait(at)
                write(data)

    at = 0
    for entry in _paced(recording, how):
        at = entry.at
        out(reader.feed(entry), at)
    out(reader.close(), at)
    if rest := writer.close():
        write(rest)


def show(recording: Recording, codec: Codec, screen: Screen, how: How) -> None:
    """Show what was said and done as a person at the host saw it.

    Raises :class:`agentwire.recording.RecordingError`.
    """
    reader = LogReader(codec, started=recording.header.started)
    turns = _Turns(how.from_turn, reader)

    def out(read: Sequence[Read], at: int) -> None:
        for item in read:
            if turns.due([item]) and isinstance(item, Logged) and not item.record.origin:
                how.wait(at, ask=not isinstance(item.record.event, STREAMED))
                _show(screen, item.record.event)

    at = 0
    for entry in _paced(recording, how):
        at = entry.at
        out(reader.feed(entry), at)
    out(reader.close(), at)


def _show(screen: Screen, event: bus.AnyEvent) -> None:
    if isinstance(event, bus.TurnStarted):
        screen.say("user", "\n".join(part.text for part in event.input if isinstance(part, bus.Text)))
    elif isinstance(event, bus.ApprovalResolved) and event.decision != "cancelled":
        screen.note(f"{event.decision}: {event.reason}" if event.reason else event.decision)
    else:
        screen.event(event)


def _paced(recording: Recording, how: How) -> Iterator[Entry]:
    for place in placed(recording):
        yield place.entry
        if how.progress is not None:
            how.progress(place.end)


class _Turns:
    """Counts turns, and says from where on a recording is played."""

    def __init__(self, wanted: int, reader: LogReader) -> None:
        self.reader = reader
        self._wanted = wanted
        self._turn = 0

    def due(self, read: Sequence[Read]) -> bool:
        """Whether what was just read is played."""
        self._turn += sum(
            isinstance(item, Logged) and isinstance(item.record.event, bus.TurnStarted) and not item.record.origin
            for item in read
        )
        return self._turn == 0 or self._turn >= self._wanted
