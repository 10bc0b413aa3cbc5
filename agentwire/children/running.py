"""Running a program for a tool: its output, its end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import PIPE

import trio
from msgspec import Struct

from agentwire.children import watchdog
from agentwire.children.ending import end_group
from agentwire.children.starting import close, start

_CHUNK = 65536
_DRAIN = 0.25
"""Seconds for which output is still read after the program ended, if others hold its pipes."""
_UNREAD = 64
"""Chunks that are at most taken from a pipe when reading it is given up."""

Sink = Callable[[bytes], bool]
"""Takes a chunk of output. False: no more is wanted, the program is ended."""


class Ended(Struct, frozen=True):
    """How a program ended."""

    code: int
    """Its exit status; minus the signal's number if a signal ended it."""
    timed_out: bool = False
    enough: bool = False
    """It was ended because a sink wanted no more."""


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    stdout: Sink,
    stderr: Sink,
    timeout: float | None = None,
) -> Ended:
    """Run a program in a session of its own, with nothing on its standard input, until it ends.

    At the end of ``timeout`` (seconds), or if this is cancelled, its whole process group is ended, within about a
    second, and on Linux whatever has left the group too. Processes that it leaves in the background when it ends by
    itself live on, but not longer than we do.
    Raises :class:`OSError` if it cannot be started and :class:`ValueError` if an argument holds a NUL.
    """
    mark = watchdog.new_mark()
    process = await start(argv, cwd=cwd, environ=environ, stdout=PIPE, stderr=PIPE, mark=mark)
    done = False
    try:
        ended = await _attend(process, stdout, stderr, timeout, mark)
        done = True
        return ended
    finally:
        if not done:
            await end_group(process, mark)
        if process.returncode is not None:
            watchdog.release(process.pid)
        close(process)


async def _attend(process: trio.Process, stdout: Sink, stderr: Sink, timeout: float | None, mark: str) -> Ended:
    assert process.stdout is not None  # noqa: S101 - both were opened as pipes
    assert process.stderr is not None  # noqa: S101
    limit = trio.CancelScope(deadline=trio.current_time() + (float("inf") if timeout is None else timeout))
    enough = False

    async def pump(stream: trio.abc.ReceiveStream, sink: Sink) -> None:
        nonlocal enough
        try:
            while chunk := await stream.receive_some(_CHUNK):
                if not sink(bytes(chunk)):
                    enough = True
                    limit.cancel()
                    return
        except trio.Cancelled:
            # Not even a late scheduler loses what the program wrote before it ended.
            for chunk in _unread(stream):
                if not sink(chunk):
                    break
            raise

    async with trio.open_nursery() as readers:
        readers.start_soon(pump, process.stdout, stdout)
        readers.start_soon(pump, process.stderr, stderr)
        with limit:
            await process.wait()
        if limit.cancelled_caught:
            await end_group(process, mark)
        readers.cancel_scope.deadline = trio.current_time() + _DRAIN
    code = -signal.SIGKILL if process.returncode is None else process.returncode
    return Ended(code, limit.cancelled_caught and not enough, enough)


def _unread(stream: trio.abc.ReceiveStream) -> Iterator[bytes]:
    """What can be read from a pipe without waiting, within reason."""
    if not isinstance(stream, trio.lowlevel.FdStream):
        return
    with contextlib.suppress(BlockingIOError):
        for _ in range(_UNREAD):
            chunk = os.read(stream.fileno(), _CHUNK)
            if not chunk:
                return
            yield chunk
