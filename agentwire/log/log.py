"""The log of a session: one writer, many readers, and nobody waits for anybody.

The writer appends; each reader is a :class:`Cursor` that asks for what comes after its place. What is appended goes
to the journal first: no cursor passes a record that is not written there, so a sequence number that a host has seen
is never given out again. A log without a journal (``None``) is ephemeral.

**When it is written.** Deltas are by far the most events, so they are written in batches: with the next event of
another kind, when a cursor takes, or when some hundred wait. Every other event is written at once.

**Memory.** The newest records stay in memory up to ``resident_limit``. Older ones are read back from the journal, or,
without one, from a private unlinked file that is made only if a cursor is that far behind. If none is, an ephemeral
log forgets them, and :meth:`SessionLog.cursor` says so with :class:`Gap`.

**A journal that cannot be written** (disk full, device gone) must not take the turn down with it without a word: the
host would wait for an end that never comes. So :attr:`SessionLog.broken` is set, ``on_broken`` is called once, and the
log goes on as an ephemeral one: the error and the end of the turn still reach every reader. What was written stays;
nothing is written after it, not even if there is room again, for the journal would have a hole. The session must not
start another turn: after a restart the journal's next number is one that these last records had.

Nothing here is safe to call from several threads, except :meth:`SessionLog.sync`.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

from agentwire.events import AnyEvent, CallArgumentsDelta, CallOutputDelta, ReasoningDelta, TextDelta
from agentwire.log.cursor import Cursor, Ticket
from agentwire.log.deltas import RECORD_BYTES, deltas_size, encode_deltas, text_of
from agentwire.log.errors import Gap
from agentwire.log.journal import Journal
from agentwire.log.linefile import LineFile, private_file
from agentwire.log.lines import encode_line, encode_lines
from agentwire.log.record import Record
from agentwire.text import scrub

if TYPE_CHECKING:
    from logging import Logger

RESIDENT_LIMIT = 8 * 1024 * 1024

_CHUNK = 64 * 1024
"""Bytes of records that are kept or dropped together."""

_BATCH = 256
"""Deltas that may wait to be written."""

_STRIDE = 32
"""Deltas between two looks at the clock, while nobody waits for them."""

_LARGE = 4096
"""A delta of this many characters is written at once."""


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class _Chunk:
    """Neighbouring records in memory that are dropped together."""

    __slots__ = ("first", "records", "size")

    def __init__(self, first: int, records: list[Record], size: int) -> None:
        self.first = first
        self.records = records
        self.size = size


class SessionLog:
    """The one ordered list of what was said in a session.

    ``journal``: where it is kept; its records are the beginning of the log. ``seq``: without a journal, the number to
    go on from. ``resident_limit``: bytes of memory (estimated) for records. ``clock``: milliseconds since the epoch.
    """

    __slots__ = (
        "_archive", "_before", "_chunk_limit", "_chunks", "_clock", "_cursors", "_first", "_firsts", "_flushed",
        "_journal", "_last_size", "_oldest", "_parked", "_sealed_size", "_size", "_spill", "_stop", "_tail", "_time",
        "_warned", "broken", "closed", "on_broken", "resident_limit", "seq",
    )  # fmt: skip

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        resident_limit: int = RESIDENT_LIMIT,
        clock: Callable[[], int] = now_ms,
        seq: int = 0,
    ) -> None:
        self.seq = seq if journal is None else journal.seq
        """Sequence number of the last record appended."""
        self.broken: OSError | None = None
        """Why the journal is no longer written."""
        self.on_broken: Callable[[OSError], None] | None = None
        """Called once when the journal breaks, after the append that met the error is complete; may append."""
        self.closed = False
        self.resident_limit = resident_limit
        self._clock = clock
        self._journal = journal
        """What appends are written to; None: nothing is."""
        self._archive = journal
        """What old records are read back from."""
        self._spill: LineFile | None = None
        self._oldest = self.seq + 1 if journal is None else 1
        """First of the records that can still be had without a gap."""
        self._tail: list[Record] = []
        """The newest records: those from ``_first`` on. Those after ``_flushed`` are not committed yet."""
        self._first = self.seq + 1
        self._flushed = self.seq
        self._before = self.seq
        """What ``_flushed`` was before the last commit."""
        self._last_size = 0
        """Memory of the records of the last commit."""
        self._size = 0
        """Memory of the committed records of the tail."""
        self._time = 0
        self._stop = 0
        """Sequence number of the next delta whose append must do more than append."""
        self._chunks: list[_Chunk] = []
        self._firsts: list[int] = []
        self._sealed_size = 0
        self._chunk_limit = min(_CHUNK, resident_limit // 4)
        self._cursors: list[ref[Cursor]] = []
        self._parked: list[Ticket] = []
        """Readers to wake at the next append."""
        self._warned = False

    # --- writing ---------------------------------------------------------------------------------------------

    def append(self, event: AnyEvent, turn: int = 0, origin: str = "") -> Record:
        """Add an event and give its record. Never waits, and never fails because of the journal.

        The log owns the event from here on: strings that no UTF-8 text can hold are mended in place. A delta that
        nobody waits for may bear the time of one up to 31 before it. Raises ``TypeError``, ``ValueError`` or
        ``RecursionError`` for an event that JSON has no words for (then nothing was appended), and ``ValueError``
        after :meth:`close`.
        """
        if origin:
            origin = scrub(origin)
        kind = type(event)
        if kind is TextDelta or kind is ReasoningDelta or kind is CallArgumentsDelta or kind is CallOutputDelta:
            self.seq = seq = self.seq + 1
            record = Record(seq, self._time, event, turn, origin)
            self._tail.append(record)
            if seq >= self._stop:
                self._pause(record)
            return record
        return self._append_whole(event, turn, origin)

    def _pause(self, record: Record) -> None:
        """Do for a delta just appended what need not be done for each."""
        if self.closed:
            self._tail.pop()
            self.seq -= 1
            raise ValueError("the log is closed")
        if self._size > self._chunk_limit:
            self._seal()
        self._time = record.time = self._clock()
        if self._parked:
            self._wake()  # whoever takes commits
        elif record.seq - self._flushed >= _BATCH or len(text_of(record.event)) >= _LARGE:
            self.flush()
        else:
            self._stop = record.seq + _STRIDE

    def _append_whole(self, event: AnyEvent, turn: int, origin: str) -> Record:
        if self.closed:
            raise ValueError("the log is closed")
        self._time = self._clock()
        record = Record(self.seq + 1, self._time, event, turn, origin)
        line = encode_line(record)
        if self._size > self._chunk_limit:
            self._seal()
        waiting = self._tail[self._flushed + 1 - self._first :]
        self.seq = record.seq
        self._tail.append(record)
        self._commit(waiting, line)
        if self._parked:
            self._wake()
        return record

    def flush(self) -> None:
        """Commit the deltas that wait: to the journal, and then to the readers."""
        if self._flushed != self.seq:
            self._commit(self._tail[self._flushed + 1 - self._first :], b"")

    def _commit(self, deltas: list[Record], line: bytes) -> None:
        """Commit what waits: ``deltas``, then the record that is ``line`` if it is not empty."""
        journal = self._journal
        data = b""
        size = 0
        if journal is not None and deltas:
            data = encode_deltas(deltas)
            size = len(data) if data.isascii() else 2 * len(data)
        elif deltas:
            size = deltas_size(deltas)
        size += 2 * len(line) + RECORD_BYTES * (len(deltas) + 1)
        self._size += size
        self._last_size = size
        self._before = self._flushed
        self._flushed = self.seq
        self._stop = 0
        if journal is not None:
            try:
                journal.append(data + line, len(deltas) + bool(line))
            except OSError as error:
                self.broken = error
                self._journal = None
                self._tell_broken(error)

    def fail(self, error: OSError) -> None:
        """Take the journal as broken (:meth:`sync` failed): nothing is written to it any more."""
        if self._journal is not None:
            self.flush()
        if self._journal is not None:
            self.broken = error
            self._journal = None
            self._tell_broken(error)

    def _tell_broken(self, error: OSError) -> None:
        if self.on_broken is not None:
            _call(self.on_broken, error)

    def sync(self) -> None:
        """Make what is committed survive a power cut (``fsync``). Slow; may be called in a thread.

        Raises :class:`OSError`; then call :meth:`fail` from the log's own thread.
        :func:`agentwire.log.waiting.sync` does both.
        """
        journal = self._journal
        if journal is not None:
            journal.sync()

    def close(self) -> None:
        """End the log: commit what waits, unlock the journal, wake all readers. Cursors may still read to the end."""
        if self.closed:
            return
        self.flush()
        self.closed = True
        self._stop = 0
        self._journal = None
        if self._archive is not None:
            self._archive.release()
        self._drop_files_if_unread()
        self._wake()

    def _wake(self) -> None:
        parked, self._parked = self._parked, []
        for ticket in parked:
            cursor, wake = ticket
            if cursor._ticket is ticket:
                cursor._ticket = None
                try:
                    wake()
                except Exception:  # noqa: BLE001 - whatever a reader does must not break the writer
                    _logger().exception("a reader failed to wake")

    # --- keeping ---------------------------------------------------------------------------------------------

    @property
    def resident(self) -> int:
        """Memory that records take, estimated, in bytes."""
        return self._sealed_size + self._size

    @property
    def resident_from(self) -> int:
        """First sequence number that is in memory."""
        return self._firsts[0] if self._firsts else self._first

    def _seal(self) -> None:
        """Close the committed part of the tail as a chunk, and drop the oldest chunks above the limit."""
        rest = self._flushed + 1 - self._first
        self._chunks.append(_Chunk(self._first, self._tail[:rest], self._size))
        self._firsts.append(self._first)
        self._sealed_size += self._size
        self._tail = self._tail[rest:]
        self._first = self._flushed + 1
        self._size = 0
        while self._chunks and self._sealed_size > self.resident_limit - self._chunk_limit:
            if not self._put_away(self._chunks[0]):
                return
            self._drop_chunk()

    def _drop_chunk(self) -> None:
        self._sealed_size -= self._chunks[0].size
        del self._chunks[0], self._firsts[0]

    def _put_away(self, chunk: _Chunk) -> bool:
        """See to it that the records of the oldest chunk are not needed in memory; False: they still are."""
        last = chunk.records[-1].seq
        if self._archive is not None and last <= self._archive.last:
            return True
        furthest_behind = min((cursor.floor for cursor in self._open_cursors()), default=self.seq)
        if self._spill is not None and furthest_behind >= self._spill.last:
            self._oldest = self._spill.last + 1
            self._drop_spill()
        if furthest_behind >= last:
            self._oldest = last + 1
            return True
        try:
            if self._spill is None:
                self._spill = private_file(chunk.first)
            records = chunk.records[self._spill.last + 1 - chunk.first :]
            self._spill.append(encode_lines(records), len(records))
        except OSError as error:
            if not self._warned:
                self._warned = True
                _logger().warning("what a slow reader has not read yet stays in memory: %s", error)
            return False
        return True

    def trim(self) -> None:
        """Free the memory of all records that the journal has. For a session at rest; ephemeral logs keep theirs."""
        self.flush()
        if self._journal is not None:
            if self._flushed >= self._first:
                self._seal()
            while self._chunks:
                self._drop_chunk()

    def _drop_spill(self) -> None:
        if self._spill is not None:
            self._spill.close()
            self._spill = None

    def _drop_files_if_unread(self) -> None:
        cursors = self._open_cursors()
        if self._spill is not None and all(cursor.floor >= self._spill.last for cursor in cursors):
            self._oldest = self._spill.last + 1
            self._drop_spill()
        if self.closed and not cursors and self._archive is not None:
            self._oldest = max(self._oldest, self.resident_from)
            self._archive.close()

    # --- reading ---------------------------------------------------------------------------------------------

    def cursor(self, after: int | None = None) -> Cursor:
        """A new reader of everything after record ``after``; None: of what will be appended from now on.

        Raises :class:`Gap` if a record after ``after`` is no longer held, or ``after`` was never appended.
        """
        position = self.seq if after is None else after
        if position < 0:
            raise ValueError("records are numbered from 1")
        if position > self.seq or position + 1 < self._oldest:
            raise Gap(position, self._oldest, self.seq)
        cursor = Cursor(self, position)
        self._open_cursors()
        self._cursors.append(ref(cursor))
        return cursor

    def _open_cursors(self) -> list[Cursor]:
        found = [(place, place()) for place in self._cursors]
        alive = [(place, cursor) for place, cursor in found if cursor is not None and not cursor.closed]
        self._cursors = [place for place, _ in alive]
        return [cursor for _, cursor in alive]

    def _forget(self, cursor: Cursor) -> None:
        self._parked = [ticket for ticket in self._parked if ticket[0] is not cursor]
        self._drop_files_if_unread()

    def _resident_after(self, position: int) -> list[Record]:
        """Records after ``position``, which is in memory or at its beginning: to the end of their chunk."""
        if position + 1 >= self._first:
            return self._tail[position + 1 - self._first :]
        chunk = self._chunks[bisect_right(self._firsts, position + 1) - 1]
        return chunk.records[position + 1 - chunk.first :]

    def _file_of(self, seq: int) -> LineFile:
        """The file that has record ``seq``, which is not in memory."""
        if self._spill is not None and seq >= self._spill.first:
            return self._spill
        if self._archive is None:
            raise AssertionError(f"record {seq} is nowhere")
        return self._archive


def _logger() -> Logger:
    import logging  # costs milliseconds, and is hardly ever needed

    return logging.getLogger("agentwire.log")


def _call(function: Callable[..., None], *arguments: OSError) -> None:
    try:
        function(*arguments)
    except Exception:  # noqa: BLE001 - whatever a reader does must not break the writer
        _logger().exception("a function that the log called failed")
