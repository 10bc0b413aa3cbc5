"""Opening and replacing the files that tools name, safely.

Every path here was resolved before (:func:`agentwire.tools.paths.admit`), so none of its parts is a link. It is
walked part by part from the workspace (or the root, for what lies outside) without following links: whoever swaps a
folder for a link in the meantime gets an error, not another file. What is no regular file is never opened, for
opening a pipe can block and opening a device can do things.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from agentwire.tools.paths import inside

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW | getattr(os, "O_PATH", 0)
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW

Stamp = tuple[int, int]
"""Modification time in nanoseconds and size: two that differ mean that a file was changed."""


class FileChangedError(Exception):
    """The file is not what it was when the change was worked out; it was left alone."""


def stamp(status: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return status.st_mtime_ns, status.st_size


def cause(error: OSError) -> str:
    """Why an operation failed, as the model reads it: ``No such file or directory (os error 2)``."""
    if not error.errno:
        return str(error)
    return f"{os.strerror(error.errno)} (os error {error.errno})"


@contextlib.contextmanager
def folder_of(workspace: Path, path: Path, *, create: bool = False) -> Iterator[int]:
    """The folder that holds ``path``, open for use as ``dir_fd``; missing folders are made if ``create`` is set.

    Raises :class:`OSError`.
    """
    root = Path(os.path.realpath(workspace)) if inside(workspace, path) else Path(path.anchor)
    if path == root:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    folder = os.open(root, _FOLDER)
    try:
        for part in path.relative_to(root).parts[:-1]:
            inner = _enter(folder, part, create=create)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _enter(folder: int, part: str, *, create: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):  # somebody else made it just now
        os.mkdir(part, dir_fd=folder)
    return os.open(part, _FOLDER, dir_fd=folder)


def status_of(folder: int, name: str) -> os.stat_result | None:
    """The status of the regular file ``name`` in ``folder``; None if there is nothing.

    Raises :class:`OSError` for what is no regular file.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return _regular(status)


def _regular(status: os.stat_result) -> os.stat_result:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")
    return status


def open_to_read(folder: int, name: str) -> tuple[int, os.stat_result]:
    """Open the regular file ``name`` in ``folder``. Raises :class:`OSError`."""
    if status_of(folder, name) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        return descriptor, _regular(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise


def read_all(descriptor: int, limit: int) -> bytes:
    """The rest of an open file, at most ``limit`` bytes of it."""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := os.read(descriptor, min(limit, 1 << 20))):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def replace(folder: int, name: str, data: bytes, *, unchanged: Stamp | None = None) -> os.stat_result:
    """Give the regular file ``name`` in ``folder`` the content ``data``, all at once or not at all.

    A new file gets the usual mode; an existing one keeps its mode and, where we may set it, its owner. With
    ``unchanged`` it must still have that stamp. Raises :class:`FileChangedError` and :class:`OSError`.
    """
    old = status_of(folder, name)
    if old is not None and not os.access(name, os.W_OK, dir_fd=folder, effective_ids=True):
        # A file that we may not write is not replaced either, although its folder would allow it.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    # Nobody else may read the new content of a private file while it is being written.
    temporary = f".agentwire-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, _CREATE, 0o666 if old is None else 0o600, dir_fd=folder)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if old is not None:
                _dress(descriptor, old)
            new = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if unchanged is not None:
            _insist(folder, name, unchanged)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    return new


def _insist(folder: int, name: str, unchanged: Stamp) -> None:
    now = status_of(folder, name)
    if now is None or stamp(now) != unchanged:
        raise FileChangedError


def _dress(descriptor: int, old: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(OSError):  # only root may give files away, and not to everybody
            os.fchown(descriptor, old.st_uid, old.st_gid)
    # As after a plain write, new content does not inherit the right to run as somebody else.
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
