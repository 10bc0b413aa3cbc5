"""Standard input and output taken over: every kind of descriptor, and the flags that are not ours to change."""

from __future__ import annotations

import fcntl
import os
import pty
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

from agentwire.transport import stdio
from agentwire.transport.stdio import StdioPipes, StdioTransport

BIG = os.urandom(3 * 1024 * 1024)


def nonblocking(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK)


async def send_all(transport: StdioTransport, data: bytes) -> None:
    """Write everything, waiting as often as the descriptor asks for it."""
    rest = bytearray(data)
    while rest:
        sent = transport.send_now(rest)
        del rest[:sent]
        if rest:
            await transport.wait_writable()


def read_to_end(fd: int, into: bytearray) -> None:
    while chunk := os.read(fd, 65536):
        into += chunk
    os.close(fd)


@pytest.mark.parametrize("kind", ["pipe", "pipe that cannot be opened anew", "socket"])
async def test_a_slow_reader_gets_every_byte_and_nobodys_flags_change(kind, monkeypatch):
    if kind == "socket":
        ours, theirs = socket.socketpair()
        write_fd, read_fd = ours.detach(), theirs.detach()
    else:
        read_fd, write_fd = os.pipe()
    if kind == "pipe that cannot be opened anew":
        monkeypatch.setattr(stdio, "_reopened", lambda fd: None)
    host_fd = os.dup(write_fd)  # the same description, as a host that passes one pipe twice would hold it
    transport = StdioTransport(StdioPipes(os.open(os.devnull, os.O_RDONLY), write_fd))
    with trio.fail_after(30):
        assert transport.send_now(BIG[:100]) == 100
        got = bytearray()
        assert transport.send_now(BIG[100:]) < len(BIG) - 100, "the pipe took more than a pipe can hold"
        reader = threading.Thread(target=read_to_end, args=(read_fd, got))
        # What was taken so far is not known exactly here; send a second copy and look for it whole.
        reader.start()
        await send_all(transport, b"<" + BIG + b">")
        assert not nonblocking(host_fd)
        os.close(host_fd)
        transport.close()
        await trio.to_thread.run_sync(reader.join)
    assert got.startswith(BIG[:100])
    assert got.endswith(b"<" + BIG + b">")


async def test_a_reader_that_is_gone():
    read_fd, write_fd = os.pipe()
    transport = StdioTransport(StdioPipes(os.open(os.devnull, os.O_RDONLY), write_fd))
    os.close(read_fd)
    with pytest.raises(BrokenPipeError):
        transport.send_now(bytearray(b"x"))
    transport.close()


async def test_a_file_is_written_and_read_to_its_end(tmp_path: Path):
    (tmp_path / "in").write_bytes(b"line\n")
    read_fd = os.open(tmp_path / "in", os.O_RDONLY)
    write_fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    transport = StdioTransport(StdioPipes(read_fd, write_fd))
    with trio.fail_after(5):
        assert await transport.receive() == b"line\n"
        assert await transport.receive() == b""
        await send_all(transport, BIG)
    transport.close()
    assert (tmp_path / "out").read_bytes() == BIG


async def test_a_terminal():
    host, terminal = pty.openpty()
    transport = StdioTransport(StdioPipes(os.dup(terminal), terminal))
    with trio.fail_after(5):
        os.write(host, b"typed\n")
        assert await transport.receive() == b"typed\n"
        await send_all(transport, b"shown\n")
        seen = b""
        while b"shown" not in seen:  # the terminal echoes what was typed, too
            seen += os.read(host, 4096)
    transport.close()
    os.close(host)


CLAIMS = """
import os, subprocess, sys
from agentwire.transport.stdio import claim
pipes = claim()
print("printed")
os.write(1, b"written\\n")
subprocess.run([sys.executable, "-c", "import sys; print('child'); print(repr(sys.stdin.read()))"], close_fds=False)
pipes.write_now(bytearray(b"protocol " + pipes.read()))
"""


@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "2>&-"])
def test_nothing_but_the_protocol_reaches_the_pipe(closed):
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", CLAIMS], input=b"command\n",
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == {"": b"protocol command\n", "<&-": b"protocol ", "2>&-": b"protocol command\n"}.get(
        closed, b""
    )
    if closed != "2>&-":
        # Without a descriptor 1 Python has no sys.stdout, and print says nothing.
        printed = [] if closed == ">&-" else [b"printed"]
        assert sorted(done.stderr.split()) == [b"''", b"child", *printed, b"written"]
