"""A reader of a session log: a place in it, and what comes after that place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agentwire.events import ReasoningDelta, TextDelta
from agentwire.log.deltas import DELTAS, RECORD_BYTES, Joiner, text_of
from agentwire.log.lines import encode_lines
from agentwire.log.record import Record

if TYPE_CHECKING:
    from agentwire.log.linefile import LineFile
    from agentwire.log.log import SessionLog

TAKE = 64 * 1024
"""Bytes that one take gives, about."""

_FAR_BEHIND = 256
"""More records than this between a cursor and the head: neighbouring deltas are joined."""

_MOST_AT_ONCE = 2048
"""Records that one take goes through, joined or not: a limit on how long it holds up the program."""

_TEXTS = frozenset({TextDelta, ReasoningDelta})

_PER_RECORD = 64
"""What a delta that is not joined weighs beside its text."""


Ticket = tuple["Cursor", Callable[[], None]]


class Cursor:
    """One reader's place in a log. Made by :meth:`agentwire.log.SessionLog.cursor`; close it when done.

    It never holds the writer up. What it has not read is kept for it, in memory or on disk; an abandoned cursor
    (garbage collected) no longer keeps anything.
    """

    __slots__ = (
        "__weakref__", "_ahead", "_file", "_log", "_offset", "_ticket", "closed", "floor", "position",
    )  # fmt: skip

    def __init__(self, log: SessionLog, position: int) -> None:
        self._log = log
        self.position = position
        """Sequence number of the last record taken."""
        self.floor = position
        """Position before the last take: everything after it is kept, so that it can be given back."""
        self.closed = False
        self._ticket: Ticket | None = None
        """While parked: the entry in the log's list that wakes this cursor; any other one of it is stale."""
        self._ahead: list[Record] = []
        """The last block read back from disk."""
        self._file: LineFile | None = None
        self._offset = -1
        """Where in ``_file`` the line after ``_ahead`` begins."""

    @property
    def behind(self) -> int:
        """Records between this cursor and the head of the log."""
        return self._log.seq - self.position

    def take(self, limit_bytes: int = TAKE) -> list[Record]:
        """Give the records after :attr:`position` and move it after them; an empty list if there are none.

        At most about ``limit_bytes`` of text, but at least one record. Everything given is in the journal. Far behind,
        neighbouring deltas of one item come joined. Raises :class:`agentwire.log.JournalError` if older records are
        needed and the disk does not give them back.
        """
        log = self._log
        while log._flushed != log.seq:
            log.flush()
        start = self.position + 1 - log._first
        if start < 0 or self.closed:
            return self._catch_up(limit_bytes)
        records = log._tail[start:]
        if len(records) > 1:
            text = log._size - RECORD_BYTES * len(log._tail)
            if text > limit_bytes and (self.position != log._before or log._last_size > limit_bytes):
                return self._catch_up(limit_bytes)
        self.floor = self.position
        if records:
            self.position = log.seq
        return records

    def _catch_up(self, limit: int) -> list[Record]:
        log = self._log
        position = self.floor = self.position
        if self.closed:
            return []
        join = self.behind > _FAR_BEHIND or position + 1 < log.resident_from
        last = min(log.seq, position + _MOST_AT_ONCE)
        joiner = Joiner()
        taken: list[Record] = []
        room = limit
        while position < last and room > 0:
            batch = self._after(position)[: last - position]
            count = 0
            whole = _weight_of_texts(batch, join)
            if whole is not None and whole <= room:
                count = len(batch)
                room -= whole
            for record in batch[count:]:
                weight = _weight(record, join)
                if weight > room and position + count > self.position:
                    room = 0
                    break
                room -= weight
                count += 1
            if join:
                joiner.add(batch[:count])
            else:
                taken += batch[:count]
            position += count
        self.position = position
        if position + 1 >= log.resident_from:
            self._ahead, self._file, self._offset = [], None, -1
        return joiner.finish() if join else taken

    def _after(self, position: int) -> list[Record]:
        """Give some of the records after ``position``, from memory or from disk."""
        log = self._log
        first = position + 1
        if first >= log.resident_from:
            return log._resident_after(position)
        ahead = self._ahead
        if ahead and ahead[0].seq <= first <= ahead[-1].seq:
            return ahead[first - ahead[0].seq :]
        file = log._file_of(first)
        follows = file is self._file and ahead[-1].seq == position
        self._ahead, self._offset = file.read(position, self._offset if follows else -1)
        self._file = file
        return self._ahead

    def rewind(self, seq: int) -> None:
        """Go back to just after record ``seq``, at most to where the last take began. Raises ``ValueError``."""
        if not self.floor <= seq <= self.position:
            raise ValueError(f"cannot rewind to {seq}: the last take went from {self.floor} to {self.position}")
        self.position = seq

    def unread(self, records: Sequence[Record], consumed: int) -> None:
        """Give back all but the first ``consumed`` of ``records``, which are what the last take gave."""
        self.rewind(records[consumed - 1].seq if consumed else self.floor)

    def park(self, wake: Callable[[], None]) -> bool:
        """Have ``wake`` called once, by the next append; False (and not parked) if there is something to take now.

        ``wake`` is called when the append is complete and may take at once, park again, or append. It must not wait;
        what it raises is logged. On a closed log nothing is parked.
        """
        log = self._log
        if self.position < log.seq or self.closed or log.closed:
            return False
        if self._ticket is not None:
            log._parked = [ticket for ticket in log._parked if ticket is not self._ticket]
        self._ticket = (self, wake)
        log._parked.append(self._ticket)
        log._stop = 0
        return True

    def close(self) -> None:
        """Stop reading: nothing is kept for this cursor any more, and it takes nothing. Closing twice is allowed."""
        if not self.closed:
            self.closed = True
            self._ticket = None
            self._ahead, self._file = [], None
            self._log._forget(self)


def _weight_of_texts(batch: list[Record], joined: bool) -> int | None:
    """What a batch of text and reasoning weighs, found at once, for that is nearly all there is; None for others."""
    events: list[Any] = [record.event for record in batch]
    if not _TEXTS.issuperset(map(type, events)):
        return None
    return sum([len(event.text) for event in events]) + (0 if joined else _PER_RECORD * len(batch))


def _weight(record: Record, joined: bool) -> int:
    if type(record.event) in DELTAS:
        return len(text_of(record.event)) + (0 if joined else _PER_RECORD)
    return len(encode_lines([record]))
