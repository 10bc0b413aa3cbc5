"""Where sessions are kept: a directory with one journal each.

A session's file is named after its id, every byte outside ``A-Z a-z 0-9 - _ .`` written as ``%XX``. The directory is
the platform's place for data, or below ``AGENTWIRE_DATA_DIR``. Plain code without an event loop, and cheap to import.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from agentwire.log.errors import (
    BadSessionId,
    JournalError,
    SessionExists,
    SessionInUse,
    SessionNotFound,
    StoreError,
    reason,
)
from agentwire.log.journal import (
    HEADER_LIMIT,
    VERSION,
    Journal,
    JournalHeader,
    JournalView,
    NoHeader,
    Visit,
    parse_header,
    remove_journal,
)
from agentwire.log.record import Record
from agentwire.text import scrub

__all__ = [
    "BadSessionId",
    "JournalError",
    "SessionExists",
    "SessionInUse",
    "SessionInfo",
    "SessionNotFound",
    "SessionStore",
    "StoreError",
    "default_directory",
    "new_session_id",
]

DATA_DIR = "AGENTWIRE_DATA_DIR"

_SUFFIX = ".jsonl"
_LONGEST_NAME = 200
_FIRST_READ = 4096
_PLAIN_NAME = re.compile(rf"(?!\.{{1,2}}$)[A-Za-z0-9_.-]{{1,{_LONGEST_NAME}}}")
_NOT_PLAIN = re.compile(rb"[^A-Za-z0-9_.-]")
_ESCAPE = re.compile(rb"%([0-9A-F]{2})")


class SessionInfo(Struct, gc=False):
    """A stored session, as its journal's first line and its file tell. There may be very many of them."""

    id: str
    created: int = 0
    """Milliseconds since the epoch."""
    workspace: str = ""
    provider: str = ""
    model: str = ""
    forked_from: str = ""
    root: str = ""
    modified: int = 0
    """When something was last written: milliseconds since the epoch."""
    size: int = 0
    """Bytes."""
    problem: str = ""
    """Not empty: the journal cannot be read, and this is why."""


def new_session_id() -> str:
    """Make a UUIDv7: ids sort by the time they were made."""
    now = time.time_ns()
    milliseconds, rest = divmod(now, 1_000_000)
    fraction = rest * 4096 // 1_000_000  # of a millisecond, as RFC 9562 (section 6.2, method 3) has it
    low = int.from_bytes(os.urandom(8)) & (1 << 62) - 1
    digits = f"{milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | low:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def default_directory(environ: Mapping[str, str] = os.environ) -> str:
    """Where sessions are kept unless somebody says otherwise."""
    data = environ.get(DATA_DIR)
    if not data:
        from platformdirs import user_data_dir  # not needed where the variable says it

        data = user_data_dir("agentwire", appauthor=False)
    return os.path.join(data, "sessions")


class SessionStore:
    """The sessions in one directory, which is made when the first one is.

    Every method raises :class:`StoreError` (or a subclass named with it) with one line that says what is wrong.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.directory = os.path.abspath(default_directory() if directory is None else directory)

    @classmethod
    def default(cls, environ: Mapping[str, str] = os.environ) -> SessionStore:
        """The store that the environment names."""
        return cls(default_directory(environ))

    def path(self, session: str) -> str:
        """The file of a session, there or not. Raises :class:`StoreError` for what cannot be a session's id."""
        return os.path.join(self.directory, _file_name(session))

    def create(
        self, session: str, *, workspace: str | os.PathLike[str] = "", provider: str = "", model: str = ""
    ) -> Journal:
        """Make the journal of a new session. Raises :class:`SessionExists`."""
        path = self.path(session)
        self._make_directory()
        created = time.time_ns() // 1_000_000
        return Journal.create(
            path,
            JournalHeader(session, created=created, workspace=os.fspath(workspace), provider=provider, model=model),
        )

    def open(self, session: str, visit: Visit | None = None) -> Journal:
        """Take up a session: lock its journal, and give all its records to ``visit``, some hundreds at a time.

        Raises :class:`SessionNotFound`, :class:`SessionInUse` and :class:`JournalError`.
        """
        path = self.path(session)
        try:
            journal = Journal.open(path, visit)
        except (FileNotFoundError, NoHeader):
            raise SessionNotFound(session) from None
        if journal.header.session != session:
            journal.close()
            raise _other_session(path, journal.header, session)
        return journal

    def view(self, session: str) -> JournalView:
        """Open a session's journal only to read what is whole in it now, whoever has it open; close it afterwards.

        Raises :class:`SessionNotFound` and :class:`JournalError`.
        """
        path = self.path(session)
        try:
            view = JournalView.open(path)
        except (FileNotFoundError, NoHeader):
            raise SessionNotFound(session) from None
        if view.header.session != session:
            view.close()
            raise _other_session(path, view.header, session)
        return view

    def read(self, session: str) -> Iterator[Record]:
        """Give a session's records, whoever has it open. Raises what :meth:`view` raises, also while it reads."""
        return _records(self.view(session))

    def fork(self, source: str, session: str, visit: Visit | None = None) -> Journal:
        """Make a new session that begins with the records that ``source`` has now; ``visit`` is given them.

        The source is only read, and may be in use. Its turn under way, if any, is under way in the copy too. Raises
        :class:`SessionNotFound`, :class:`SessionExists` and :class:`JournalError`.
        """
        path = self.path(session)
        with self.view(source) as view:
            for records in view.records():
                if visit is not None:
                    visit(records)
            header = structs.replace(
                view.header,
                session=session,
                version=VERSION,
                created=time.time_ns() // 1_000_000,
                forked_from=source,
                root=view.header.root or source,
            )
            return Journal.fork(view, path, header)

    def list(self, workspace: str | os.PathLike[str] | None = None) -> Sequence[SessionInfo]:
        """Give the sessions (of one workspace), newest first. Journals that cannot be read say so in ``problem``.

        They belong to no workspace. Only first lines are read.
        """
        found: Iterable[SessionInfo] = self._infos()
        if workspace is not None:
            wanted = scrub(os.fspath(workspace))
            found = (info for info in found if info.workspace == wanted and not info.problem)
        return sorted(found, key=_newest, reverse=True)

    def latest(self, workspace: str | os.PathLike[str] | None = None) -> SessionInfo:
        """Give the session (of this workspace) that was created last. Raises :class:`SessionNotFound`."""
        whole = [info for info in self.list(workspace) if not info.problem]
        if not whole:
            raise SessionNotFound
        return whole[0]

    def remove(self, session: str) -> None:
        """Remove a session's journal. Raises :class:`SessionNotFound` and :class:`SessionInUse`."""
        path = self.path(session)
        try:
            remove_journal(path, session)
        except FileNotFoundError:
            raise SessionNotFound(session) from None

    def put_aside(self, session: str) -> str:
        """Rename a journal that cannot be read, so that the session can begin anew; gives the new path.

        Raises :class:`StoreError`.
        """
        path = self.path(session)
        aside = f"{path}.damaged-{time.time_ns() // 1_000_000}"
        try:
            os.rename(path, aside)
        except OSError as error:
            raise StoreError(f"The journal {path} cannot be put aside: {reason(error)}") from error
        return aside

    def _infos(self) -> Iterator[SessionInfo]:
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    session = _session_of(entry.name)
                    if session:
                        yield _info(entry.path, session)
        except FileNotFoundError:
            return  # made when the first session is
        except OSError as error:
            raise StoreError(f"The session directory {self.directory} cannot be read: {reason(error)}") from error

    def _make_directory(self) -> None:
        try:
            os.makedirs(self.directory, 0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(f"The session directory {self.directory} cannot be made: {reason(error)}") from error


def _file_name(session: str) -> str:
    if session in {"", ".", ".."}:
        raise BadSessionId(f"'{session}' cannot be a session's id")
    try:
        plain = session.encode()
    except UnicodeEncodeError:
        raise BadSessionId(f"'{scrub(session)}' cannot be a session's id: it is not text") from None
    name = _NOT_PLAIN.sub(lambda found: f"%{found[0][0]:02X}".encode(), plain).decode()
    if len(name) > _LONGEST_NAME:
        raise BadSessionId(f"'{session[:20]}...' cannot be a session's id: it is too long")
    return name + _SUFFIX


def _session_of(name: str) -> str:
    """Give the session whose file has this name; empty: none has."""
    if not name.endswith(_SUFFIX):
        return ""
    stem = name.removesuffix(_SUFFIX)
    if _PLAIN_NAME.fullmatch(stem):  # nearly all are
        return stem
    plain = stem.encode(errors="surrogateescape")
    try:
        session = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), plain).decode()
        return session if _file_name(session) == name else ""
    except (UnicodeDecodeError, StoreError):
        return ""


def _info(path: str, session: str) -> SessionInfo:
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            status = os.fstat(fd)
            data = os.read(fd, _FIRST_READ)
            if b"\n" not in data:
                data += os.read(fd, HEADER_LIMIT - len(data))
        finally:
            os.close(fd)
        header = parse_header(data, path)[0]
        if header.session != session:
            raise _other_session(path, header, session)
    except StoreError as error:
        return SessionInfo(session, problem=error.message)
    except OSError as error:
        return SessionInfo(session, problem=f"The journal {path} cannot be read: {reason(error)}")
    return SessionInfo(
        session,
        header.created,
        header.workspace,
        header.provider,
        header.model,
        header.forked_from,
        header.root,
        status.st_mtime_ns // 1_000_000,
        status.st_size,
    )


def _other_session(path: str, header: JournalHeader, session: str) -> JournalError:
    return JournalError(f"The journal {path} is of session '{header.session}', not '{session}'")


def _newest(info: SessionInfo) -> tuple[int, str]:
    return info.created, info.id


def _records(view: JournalView) -> Iterator[Record]:
    with view:
        for records in view.records():
            yield from records
