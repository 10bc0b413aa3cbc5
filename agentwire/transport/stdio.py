"""Standard input and output, taken over for a protocol.

:func:`claim` keeps private duplicates of file descriptors 0 and 1 and points the originals elsewhere: 0 at the null
device, 1 at standard error. Whatever a plugin, a tool or a child process prints then lands on standard error, and no
child can read the host's commands or hold the host's pipe open.

The flags of the host's file descriptions are never changed: ``O_NONBLOCK`` is shared with everyone who holds the
same description, and a host that passes one pipe as stdout and stderr would lose log output. A pipe is opened anew
(it then has flags of its own), a socket is written with ``MSG_DONTWAIT``; where neither is possible, at most
``PIPE_BUF`` bytes are written after the descriptor was reported writable, which does not block.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import sys
from collections.abc import Callable

CHUNK = 64 * 1024


class StdioPipes:
    """The host's two pipes, as private file descriptors that no child inherits."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self._write: Callable[[bytearray | memoryview], int]
        kind = os.fstat(write_fd).st_mode
        self._socket: socket.socket | None = None
        self.waits = True
        """The write end can be waited for; regular files and devices just take what they get."""
        if stat.S_ISSOCK(kind):
            self._socket = socket.socket(fileno=write_fd)
            self._write = self._write_socket
        elif stat.S_ISFIFO(kind):
            own = _reopened(write_fd)
            self._write = self._write_nonblocking if own is not None else self._write_pollable
            if own is not None:
                os.close(write_fd)
                write_fd = own
        else:
            self.waits = os.isatty(write_fd)
            self._write = self._write_pollable if self.waits else self._write_blocking
        self.write_fd = write_fd
        self.heard: Callable[[bytes], None] | None = None
        """Told of every piece that was read; for recordings."""
        self.written: Callable[[memoryview], None] | None = None
        """Told of every piece that was written."""
        self.read_waits = not stat.S_ISREG(os.fstat(read_fd).st_mode) and not _is_null(read_fd)

    def write_now(self, data: bytearray | memoryview) -> int:
        """Write what the pipe takes without waiting; the number of bytes taken. Raises ``OSError`` if it is broken."""
        sent = self._write(data)
        if self.written is not None:
            with memoryview(data) as view, view[:sent] as piece:
                self.written(piece)
        return sent

    def read(self) -> bytes:
        """Read what is there; ``b""`` at the end of the input. Blocks if nothing is."""
        data = os.read(self.read_fd, CHUNK)
        if self.heard is not None:
            self.heard(data)
        return data

    def close(self) -> None:
        """Close both ends."""
        os.close(self.read_fd)
        if self._socket is not None:
            self._socket.close()
        else:
            os.close(self.write_fd)

    def _write_nonblocking(self, data: bytearray | memoryview) -> int:
        try:
            return os.write(self.write_fd, data)
        except BlockingIOError:
            return 0

    def _write_socket(self, data: bytearray | memoryview) -> int:
        if self._socket is None:
            raise BrokenPipeError
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def _write_pollable(self, data: bytearray | memoryview) -> int:
        with memoryview(data) as view:
            sent = 0
            while sent < len(view) and select.select([], [self.write_fd], [], 0)[1]:
                sent += os.write(self.write_fd, view[sent : sent + select.PIPE_BUF])
            return sent

    def _write_blocking(self, data: bytearray | memoryview) -> int:
        return os.write(self.write_fd, data)


def claim() -> StdioPipes:
    """Take standard input and output for the protocol. Do this before any tool or plugin code is imported."""
    _open_what_is_closed()
    if sys.stdout is not None:
        sys.stdout.flush()
    pipes = StdioPipes(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return pipes


def _open_what_is_closed() -> None:
    """Point standard descriptors that we were started without at the null device, lest a file gets their number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)


def _reopened(fd: int) -> int | None:
    """The same pipe with a file description of its own, non-blocking; None where the system cannot do that."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def _is_null(fd: int) -> bool:
    found, null = os.fstat(fd), os.stat(os.devnull)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == null.st_rdev


class StdioTransport:
    """The pipes under trio: waiting for what is not ready."""

    def __init__(self, pipes: StdioPipes) -> None:
        self._pipes = pipes

    async def receive(self) -> bytes:
        """The next bytes of the host; ``b""`` at the end of its input."""
        import trio

        if self._pipes.read_waits:
            await trio.lowlevel.wait_readable(self._pipes.read_fd)
        else:
            await trio.lowlevel.checkpoint()
        try:
            return self._pipes.read()
        except ConnectionResetError:
            return b""

    def send_now(self, data: bytearray | memoryview) -> int:
        """Write what the pipe takes at once; raises ``OSError`` if it is broken."""
        return self._pipes.write_now(data)

    async def wait_writable(self) -> None:
        """Wait until the pipe takes more."""
        import trio

        if self._pipes.waits:
            await trio.lowlevel.wait_writable(self._pipes.write_fd)
        else:
            await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close both pipes."""
        self._pipes.close()
