"""A file of record lines that grows at its end and is read back in ranges.

The journal is one, with a header before the records; so is the private spill file of a log without a journal. A
sparse index (a place about every 64 KiB) finds a sequence number without reading from the start.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator

from agentwire.log.errors import JournalError, reason
from agentwire.log.lines import BadLine, decode_lines
from agentwire.log.record import Record

BLOCK = 128 * 1024
"""Bytes that one read takes, unless a line is longer."""

_INDEX_STEP = 64 * 1024
_COPY_BLOCK = 1024 * 1024


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Read up to ``size`` bytes at ``offset``; fewer only at the end of the file."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    os.lseek(fd, offset, os.SEEK_SET)  # Windows
    return os.read(fd, size)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write at ``offset`` and give the number of bytes written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, data, offset)
    os.lseek(fd, offset, os.SEEK_SET)  # Windows
    return os.write(fd, data)


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset``."""
    while data:
        written = write_at(fd, data, offset)
        data = data[written:]
        offset += written


def whole_lines(fd: int, offset: int, end: int) -> bytes:
    """Read the lines that begin at ``offset``: about one block, at least one line if there is one before ``end``."""
    size = BLOCK
    while True:
        data = read_at(fd, min(size, end - offset), offset)
        cut = data.rfind(b"\n") + 1
        if cut or len(data) < size:
            return data[:cut]
        size *= 4


class LineFile:
    """Lines ``first`` to ``last`` (sequence numbers) of an open file. It owns ``fd``.

    ``start`` is the offset of the first record's line, ``end`` that of the next to be written. ``first > last``:
    there are none yet.
    """

    __slots__ = ("_marked", "_offsets", "_seqs", "end", "fd", "first", "last", "name", "start")

    def __init__(self, fd: int, name: str, start: int, first: int) -> None:
        self.fd = fd
        self.name = name
        """For messages."""
        self.start = start
        self.end = start
        self.first = first
        self.last = first - 1
        self._seqs = array("Q")
        self._offsets = array("Q")
        self._marked = start - _INDEX_STEP

    def scan(self, end: int, lines_before: int = 0) -> Iterator[list[Record]]:
        """Read all lines up to ``end`` once, in blocks; what was read then belongs to the file.

        Raises :class:`JournalError` naming the line (``lines_before`` of them come before the records).
        """
        while self.end < end:
            try:
                data = whole_lines(self.fd, self.end, end)
                records = decode_lines(data, self.last + 1)
            except OSError as error:
                raise JournalError(f"{self.name} cannot be read: {reason(error)}") from error
            except BadLine as bad:
                line = lines_before + self.last - self.first + 2 + bad.index
                raise JournalError(
                    f"{self.name} is damaged at line {line}: {bad.problem}. The lines before it are whole"
                ) from None
            if not records:
                raise JournalError(f"{self.name} became shorter while it was read")
            self._grow(len(data), len(records))
            yield records

    def append(self, data: bytes, count: int) -> None:
        """Write ``count`` whole lines, the records after ``last``.

        Raises :class:`OSError` if not all could be written. Then the lines that could be are kept, and a partial one
        is cut off again if the system lets us; ``last`` tells how far it came.
        """
        written = 0
        try:
            while written < len(data):
                rest = memoryview(data)[written:] if written else data
                written += write_at(self.fd, rest, self.end + written)
        except OSError:
            whole = data.rfind(b"\n", 0, written) + 1
            self._grow(whole, data.count(b"\n", 0, whole))
            self._cut()
            raise
        self._grow(len(data), count)

    def copy(self, source: LineFile) -> None:
        """Write all that was read of ``source``, into a file that has no records yet. Raises :class:`OSError`."""
        offset = source.start
        shift = self.start - source.start
        while offset < source.end:
            data = read_at(source.fd, min(_COPY_BLOCK, source.end - offset), offset)
            if not data:
                raise JournalError(f"{source.name} became shorter while it was read")
            write_all(self.fd, data, offset + shift)
            offset += len(data)
        self._seqs = source._seqs[:]
        self._offsets = array("Q", [place + shift for place in source._offsets])
        self._marked = source._marked + shift
        self.end = source.end + shift
        self.last = source.last

    def _grow(self, size: int, count: int) -> None:
        if count:
            if self.end - self._marked >= _INDEX_STEP:
                self._seqs.append(self.last + 1)
                self._offsets.append(self.end)
                self._marked = self.end
            self.end += size
            self.last += count

    def _cut(self) -> None:
        """Cut the file at ``end``. Where even that fails the reader of a journal drops the partial line."""
        try:
            os.ftruncate(self.fd, self.end)
        except OSError:
            return

    def read(self, after: int, offset: int = -1) -> tuple[list[Record], int]:
        """Read about one block of the records after ``after``, and give the offset of the next line.

        ``offset`` is what the last call gave, or -1: look it up. Raises :class:`JournalError` if they cannot be read.
        """
        first = after + 1
        if offset < 0:
            place = bisect_right(self._seqs, first) - 1
            first, offset = self._seqs[place], self._offsets[place]
        try:
            while True:
                data = whole_lines(self.fd, offset, self.end)
                records = decode_lines(data, first)
                if not records:
                    raise JournalError(f"{self.name} has lost the records after {after}")
                offset += len(data)
                first += len(records)
                if first > after + 1:
                    return records[max(0, after + 1 - records[0].seq) :], offset
        except BadLine as bad:
            raise JournalError(f"{self.name} cannot be read back after record {after}: {bad.problem}") from None
        except OSError as error:
            raise JournalError(f"{self.name} cannot be read: {reason(error)}") from error

    def close(self) -> None:
        """Close the file; reading and writing fail from here on. Closing twice is allowed."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        # Not what a subclass does in good order: nothing can be imported any more when an interpreter ends.
        LineFile.close(self)


def private_file(first: int) -> LineFile:
    """Make an unlinked temporary file for records from ``first`` on. Raises :class:`OSError`."""
    import tempfile  # costs milliseconds, and is hardly ever needed

    with tempfile.TemporaryFile(prefix="agentwire-") as file:
        return LineFile(os.dup(file.fileno()), "The private file for slow readers", 0, first)
