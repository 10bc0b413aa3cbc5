"""Whatever is appended and however slowly it is read: every reader gets all of it, and memory stays bounded."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_events import deltas, essence, events, mended, places

from agentwire.events import AnyEvent
from agentwire.log import Cursor, Gap, Journal, JournalHeader, Record, SessionLog

LIMIT = 6000
"""Bytes of memory for records: a few dozen of them."""

BATCH = 256 * (192 + 2 * 1000)
"""Memory that the deltas of one batch may take above the limit."""


class Reader:
    """A cursor, where it began, what it was given, and how often it was woken since it parked."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.start = cursor.position
        self.records: list[Record] = []
        self.parked = False
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


class LogMachine(RuleBasedStateMachine):
    """Appends and readers of any speed, interleaved in any way."""

    journaled = False

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name, "s.jsonl")
        self.said: list[tuple[int, str, bytes]] = []
        self.readers: list[Reader] = []

    @initialize()
    def open(self) -> None:
        journal = Journal.create(self.path, JournalHeader("s")) if self.journaled else None
        self.log = SessionLog(journal, resident_limit=LIMIT)

    def teardown(self) -> None:
        while self.readers:
            self.read_to_end(self.readers.pop())
        self.log.close()
        if self.journaled:
            found: list[Record] = []
            Journal.open(self.path, found.extend).close()
            assert [(r.seq, r.turn, r.origin, mended(r.event)) for r in found] == self.expected(0)
        self.directory.cleanup()

    def expected(self, after: int) -> list[tuple[Any, ...]]:
        return [(seq, *self.said[seq - 1]) for seq in range(after + 1, len(self.said) + 1)]

    def append(self, event: AnyEvent, turn: int, origin: str) -> None:
        self.said.append((turn, origin, mended(event)))
        record = self.log.append(event, turn, origin)
        assert record.seq == self.log.seq == len(self.said)
        for reader in self.readers:
            assert reader.woken == reader.parked
            reader.parked, reader.woken = False, 0

    @rule(event=events, place=places)
    def say(self, event: AnyEvent, place: tuple[int, str]) -> None:
        self.append(event, *place)

    @rule(event=deltas, count=st.integers(2, 400), place=places)
    def say_often(self, event: Any, count: int, place: tuple[int, str]) -> None:
        for _ in range(count if len(mended(event)) < 1000 else 5):
            self.append(msgspec.structs.replace(event), *place)

    @rule(back=st.integers(0, 600))
    @precondition(lambda self: len(self.readers) < 4)
    def join(self, back: int) -> None:
        after = max(0, self.log.seq - back)
        try:
            cursor = self.log.cursor(after)
        except Gap as gap:
            oldest = gap.oldest
            cursor = self.log.cursor(oldest - 1)
        else:
            oldest = 1
        assert oldest == 1 or (not self.journaled and after + 1 < oldest <= self.log.seq + 1)
        self.readers.append(Reader(cursor))

    @rule()
    @precondition(lambda self: len(self.readers) < 4)
    def join_at_the_head(self) -> None:
        self.readers.append(Reader(self.log.cursor()))
        assert self.readers[-1].cursor.behind == 0

    @rule(which=st.integers(0, 3), limit=st.sampled_from((1, 500, 65536)), give_back=st.booleans())
    @precondition(lambda self: self.readers)
    def take(self, which: int, limit: int, give_back: bool) -> None:
        reader = self.readers[which % len(self.readers)]
        behind = reader.cursor.behind
        taken = reader.cursor.take(limit)
        assert bool(taken) == bool(behind)
        if give_back:
            consumed = len(taken) // 2
            reader.cursor.unread(taken, consumed)
            taken = taken[:consumed]
        reader.records += taken
        if taken:
            assert reader.cursor.position == taken[-1].seq

    @rule(which=st.integers(0, 3))
    @precondition(lambda self: self.readers)
    def park(self, which: int) -> None:
        reader = self.readers[which % len(self.readers)]
        parked = reader.cursor.park(reader.wake)
        assert parked == (reader.cursor.behind == 0)
        reader.parked = parked

    @rule(closing=st.booleans())
    @precondition(lambda self: self.readers)
    def leave(self, closing: bool) -> None:
        reader = self.readers.pop()
        self.read_to_end(reader)
        if closing:
            reader.cursor.close()
            assert reader.cursor.take() == []

    @rule()
    def trim(self) -> None:
        self.log.trim()
        if self.journaled:
            assert self.log.resident == 0

    @rule()
    @precondition(lambda self: self.journaled)
    def reopen(self) -> None:
        while self.readers:
            self.read_to_end(self.readers.pop())
        self.log.close()
        self.log = SessionLog(Journal.open(self.path), resident_limit=LIMIT)
        assert self.log.seq == len(self.said)

    def read_to_end(self, reader: Reader) -> None:
        while taken := reader.cursor.take():
            reader.records += taken
        assert reader.cursor.position == self.log.seq
        said = [
            Record(seq, 0, msgspec.json.decode(event, type=AnyEvent), turn, origin)
            for seq, turn, origin, event in self.expected(reader.start)
        ]
        assert essence(reader.records) == essence(said)

    @invariant()
    def memory_is_bounded(self) -> None:
        if self.said:
            assert self.log.resident <= LIMIT + BATCH


class JournaledLogMachine(LogMachine):
    """The same with a journal, which is now and then closed and opened again."""

    journaled = True


_FEW = settings(max_examples=20, stateful_step_count=30, deadline=None)

TestEphemeral = LogMachine.TestCase
TestEphemeral.settings = _FEW
TestJournaled = JournaledLogMachine.TestCase
TestJournaled.settings = _FEW
