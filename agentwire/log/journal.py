"""The journal: one session's records in one file, one JSON object a line, only ever appended to.

The first line is a :class:`JournalHeader`, every other a :class:`agentwire.log.Record`. One process at a time has a
journal open, by a lock of the operating system that dies with its owner; anyone may read the whole lines meanwhile.

A process that dies while it writes leaves a partial last line, which the next one to open the journal cuts off. A
file without even a whole first line holds nothing: it counts as not there, and creating the session takes it over.
Anything else that does not fit is damage and is reported with its line, never skipped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec import Struct

from agentwire.log.errors import JournalError, SessionExists, SessionInUse, StoreError, reason
from agentwire.log.filelock import owner, try_lock, unlock
from agentwire.log.linefile import BLOCK, LineFile, read_at, write_all
from agentwire.log.record import Record
from agentwire.text import scrub_value

HEADER_LIMIT = 64 * 1024
"""Longest first line, in bytes."""

VERSION = 1
"""Version of the journal format: a reader refuses a higher one. New events and new fields do not raise it (see
:mod:`agentwire.log.lines`); a new meaning or a new value of an existing field does."""

Visit = Callable[[list[Record]], None]
"""Takes the records of a journal as they are read, some hundreds at a time, in order."""

_BINARY = getattr(os, "O_BINARY", 0)  # Windows
_READ_ONLY = os.O_RDONLY | _BINARY
_READ_WRITE = os.O_RDWR | _BINARY
_HEADER_LINES = 1
_MAGIC = b'{"agentwire":"journal"'
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK}


class JournalHeader(Struct, tag_field="agentwire", tag="journal"):
    """The first line of a journal: what a list of sessions shows."""

    session: str
    version: int = VERSION
    created: int = 0
    """Milliseconds since the epoch."""
    workspace: str = ""
    provider: str = ""
    model: str = ""
    forked_from: str = ""
    root: str = ""
    """The first session of a line of forks; empty: this one."""


class NoHeader(JournalError):
    """The file has no whole first line: whoever created it died in doing so."""


class _Version(Struct, tag_field="agentwire", tag="journal"):
    version: int = VERSION


_decode_header = msgspec.json.Decoder(JournalHeader).decode


class JournalView(LineFile):
    """A journal opened only to read the whole lines that it has now; whoever has it open is not disturbed.

    A context manager. Made by :meth:`open`.
    """

    __slots__ = ("header", "limit")

    def __init__(self, fd: int, path: str, found: _Layout) -> None:
        super().__init__(fd, f"The journal {path}", found.start, 1)
        self.header = found.header
        self.limit = found.end
        """Offset after the last whole line."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> JournalView:
        """Open the file and read its header.

        Raises ``FileNotFoundError``, :class:`NoHeader`, or :class:`JournalError` if it cannot be read.
        """
        path = os.fspath(path)
        try:
            fd = os.open(path, _READ_ONLY)
            with _on_error(partial(os.close, fd)):
                found = _look(fd, path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise JournalError(f"The journal {path} cannot be opened: {reason(error)}") from error
        return cls(fd, path, found)

    def records(self) -> Iterator[list[Record]]:
        """Read and check all records, some hundreds at a time; to be called once. Raises :class:`JournalError`."""
        return self.scan(self.limit, _HEADER_LINES)

    def __enter__(self) -> JournalView:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Journal(LineFile):
    """An open journal, locked by this process. Made by :meth:`create`, :meth:`open` and :meth:`fork`."""

    __slots__ = ("_directory_synced", "_locked", "header", "lost", "path")

    def __init__(self, fd: int, path: str, header: JournalHeader, start: int) -> None:
        super().__init__(fd, f"The journal {path}", start, 1)
        self.path = path
        self.header = header
        self.lost = 0
        """Bytes of a partial last line that :meth:`open` cut off."""
        self._directory_synced = False
        self._locked = True

    @property
    def seq(self) -> int:
        """Sequence number of the last record in it."""
        return self.last

    @classmethod
    def create(cls, path: str | os.PathLike[str], header: JournalHeader) -> Journal:
        """Make a new journal; its directory must be there.

        Raises :class:`SessionExists`, or :class:`StoreError` if the file cannot be written.
        """
        path = os.fspath(path)
        try:
            fd = _acquire(path, header.session, os.O_CREAT)
            with _on_error(partial(os.close, fd)):
                _check_unborn(read_at(fd, HEADER_LIMIT, 0), header.session)
                os.ftruncate(fd, 0)
            with _on_error(partial(os.unlink, path), partial(os.close, fd)):
                return cls._begin(fd, path, header)
        except SessionInUse:
            raise SessionExists(header.session) from None
        except OSError as error:
            raise StoreError(f"The journal {path} cannot be written: {reason(error)}") from error

    @classmethod
    def open(cls, path: str | os.PathLike[str], visit: Visit | None = None) -> Journal:
        """Open a journal to go on with it: lock it, read and check every record, cut off a partial last line.

        Raises ``FileNotFoundError``, :class:`SessionInUse`, :class:`NoHeader`, or :class:`JournalError` for damage, a
        newer version, or a file that cannot be read. A damaged file is left as it is.
        """
        path = os.fspath(path)
        try:
            fd = _acquire(path)
            with _on_error(partial(os.close, fd)):
                found = _look(fd, path)
            journal = cls(fd, path, found.header, found.start)
            with _on_error(journal.close):
                for records in journal.scan(found.end, _HEADER_LINES):
                    if visit is not None:
                        visit(records)
                if found.size > found.end:
                    os.ftruncate(fd, found.end)
                    journal.lost = found.size - found.end
        except FileNotFoundError:
            raise
        except OSError as error:
            raise JournalError(f"The journal {path} cannot be opened: {reason(error)}") from error
        return journal

    @classmethod
    def fork(cls, source: JournalView, path: str | os.PathLike[str], header: JournalHeader) -> Journal:
        """Make a new journal with the records that were read of ``source``.

        The new file appears under its name only when it is complete. Raises what :meth:`create` raises.
        """
        path = os.fspath(path)
        draft = f"{path}.{os.getpid()}.draft"
        try:
            fd = _acquire(draft, header.session, os.O_CREAT | os.O_TRUNC)
            with _on_error(partial(os.unlink, draft), partial(os.close, fd)):
                journal = cls._begin(fd, path, header)
            with _on_error(partial(os.unlink, draft), journal.close):
                journal.copy(source)
                _publish(draft, path)
        except FileExistsError:
            raise SessionExists(header.session) from None
        except OSError as error:
            raise StoreError(f"The journal {path} cannot be written: {reason(error)}") from error
        return journal

    @classmethod
    def _begin(cls, fd: int, path: str, header: JournalHeader) -> Journal:
        header = scrub_value(header)  # a workspace's path need not be UTF-8
        line = msgspec.json.encode(header) + b"\n"
        if len(line) > HEADER_LIMIT:
            raise StoreError(f"The journal {path} cannot be written: its first line would be too long")
        write_all(fd, line, 0)
        return cls(fd, path, header, len(line))

    def sync(self) -> None:
        """Make what was written survive a power cut (``fsync``): slow, and safe to call in a thread.

        Raises :class:`OSError`.
        """
        os.fsync(self.fd)
        if not self._directory_synced and os.name == "posix":
            directory = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
            self._directory_synced = True

    def release(self) -> None:
        """Let others open the journal; nothing may be written any more, but reading goes on until :meth:`close`."""
        if self._locked and self.fd >= 0:
            unlock(self.fd)
        self._locked = False

    def close(self) -> None:
        """Unlock and close the file. Closing twice is allowed."""
        self.release()  # closing alone would not unlock while a child between fork and exec has the file too
        super().close()


def remove_journal(path: str | os.PathLike[str], session: str) -> None:
    """Remove a journal that nobody has open.

    Raises ``FileNotFoundError``, :class:`SessionInUse`, or :class:`StoreError` if the system does not let us.
    """
    path = os.fspath(path)
    try:
        fd = _acquire(path, session)
        try:
            os.unlink(path)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"The journal {path} cannot be removed: {reason(error)}") from error


@contextmanager
def _on_error(*undo: Callable[[], None]) -> Iterator[None]:
    """Call ``undo`` if something goes wrong: leave no file locked, and none half-made."""
    try:
        yield
    except BaseException:
        for step in undo:
            step()
        raise


def _acquire(path: str, session: str = "", flags: int = 0) -> int:
    """Open and lock a file, and make sure that it is still the one of that name."""
    while True:
        fd = os.open(path, _READ_WRITE | flags, 0o600)
        with _on_error(partial(os.close, fd)):
            _lock(fd, path, session)
            if _has_name(fd, path):
                return fd
        os.close(fd)  # removed between opening and locking: see what is there now


def _lock(fd: int, path: str, session: str) -> None:
    if not try_lock(fd):
        raise SessionInUse(session or _look(fd, path).header.session, owner(fd))


def _has_name(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _check_unborn(data: bytes, session: str) -> None:
    """See that a file that we locked is new, or one whose creation was cut short."""
    # A power cut can leave zeros in place of what was written.
    if data.strip(b"\0") and (b"\n" in data or not (data.startswith(_MAGIC) or _MAGIC.startswith(data))):
        raise SessionExists(session)


def _publish(draft: str, path: str) -> None:
    """Give a complete file its name, unless that is taken."""
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.exists(path):
            raise FileExistsError(errno.EEXIST, "File exists", path) from None
        os.rename(draft, path)
        return
    os.unlink(draft)


def parse_header(data: bytes, path: str) -> tuple[JournalHeader, int]:
    """Read the header at the beginning of ``data``, and give the offset of the line after it.

    Raises :class:`NoHeader` if there is no whole line, and :class:`JournalError` if it is no header of ours.
    """
    start = data.find(b"\n") + 1
    if not start:
        raise NoHeader(f"The journal {path} has no whole first line")
    line = data[:start]
    try:
        header = _decode_header(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        version = _version(line)
        if version <= VERSION:
            what = "has a damaged first line" if version else "is not a journal of agentwire"
            raise JournalError(f"The file {path} {what}") from None
    else:
        version = header.version
        if version <= VERSION:
            return header, start
    raise JournalError(f"The journal {path} was written by a newer version of agentwire (format {version})")


def _version(line: bytes) -> int:
    """Give the format version of a header that cannot be read otherwise; 0 if it is none."""
    try:
        return msgspec.json.decode(line, type=_Version).version
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return 0


class _Layout(NamedTuple):
    """Where things are in a journal: offsets in bytes."""

    header: JournalHeader
    start: int
    """Of the first record."""
    end: int
    """After the last whole line."""
    size: int


def _look(fd: int, path: str) -> _Layout:
    size = os.fstat(fd).st_size
    header, start = parse_header(read_at(fd, HEADER_LIMIT, 0), path)
    end = size
    while end > start:
        begin = max(start, end - BLOCK)
        cut = read_at(fd, end - begin, begin).rfind(b"\n") + 1
        if cut:
            return _Layout(header, start, begin + cut, size)
        end = begin
    return _Layout(header, start, start, size)
