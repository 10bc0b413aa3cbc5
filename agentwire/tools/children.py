"""Running other programs for a tool: their surroundings, their output, their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import trio
from msgspec import Struct

from agentwire.tools import reaper, watchdog
from agentwire.tools.contract import ToolContext
from agentwire.tools.secret_variables import hidden

_CHUNK = 65536
_GRACE = 0.5
"""Seconds between asking a group to end and making it."""
_REAP = 0.5
"""Seconds to wait for a killed process; it can only take longer if the kernel holds on to it."""
_DRAIN = 0.25
"""Seconds for which output is still read after the program ended, if others hold its pipes."""
_UNREAD = 64
"""Chunks that are at most taken from a pipe when reading it is given up."""

_GATE = ("/bin/sh", "-c", 'read -r go || exit 125; exec "$@" </dev/null', "sh")
"""Put before a command line: it starts only when it is told so. If we are killed before, it never does."""

Sink = Callable[[bytes], bool]
"""Takes a chunk of output. False: no more is wanted, the program is ended."""


def child_environment(context: ToolContext) -> dict[str, str]:
    """The environment for what a call starts: ours without keys, and with the call's trace context."""
    base = environment(os.environ) if context.environ is None else dict(context.environ)
    return base | {name.upper(): value for name, value in context.trace.items()}


def environment(environ: Mapping[str, str], keep: Iterable[str] = ()) -> dict[str, str]:
    """The environment for child processes: ``environ`` without what pays for model services.

    That is :func:`agentwire.tools.secret_variables.hidden`, except the names in ``keep``.
    """
    secret = hidden().difference(keep)
    return {name: value for name, value in environ.items() if name.upper() not in secret}


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
    with trio.CancelScope(shield=True):  # else a cancellation could lose a process that was just started
        process = await trio.lowlevel.open_process(
            [*_GATE, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**environ, watchdog.MARK: mark},
            start_new_session=True,
        )
    done = False
    try:
        watchdog.guard(process.pid)
        _open_gate(process)
        ended = await _attend(process, stdout, stderr, timeout, mark)
        done = True
        return ended
    finally:
        if not done:
            await end_group(process, mark)
        if process.returncode is not None:
            watchdog.release(process.pid)
        for stream in (process.stdin, process.stdout, process.stderr):
            if isinstance(stream, trio.lowlevel.FdStream):
                stream.close()


def _open_gate(process: trio.Process) -> None:
    assert isinstance(process.stdin, trio.lowlevel.FdStream)  # noqa: S101 - it was opened as a pipe
    with contextlib.suppress(BrokenPipeError):  # it was killed; its exit status will say so
        os.write(process.stdin.fileno(), b"\n")
    process.stdin.close()


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


async def end_group(process: trio.Process, mark: str = "") -> None:
    """End a process that leads its own group, and the whole group: TERM, a short grace, KILL.

    ``mark``, if the process was started with one (:func:`agentwire.tools.watchdog.new_mark`), finds what has left the
    group. Takes a second at most, and is not cancelled.
    """
    with trio.CancelScope(shield=True):
        strays = await _strays(process, mark)
        reaper.kill(strays, signal.SIGTERM)
        if _send(process.pid, signal.SIGTERM) or strays:
            with trio.move_on_after(_GRACE):
                await process.wait()
                while _send(process.pid, 0) or (strays and await _strays(process, mark)):
                    _reap(process.pid)
                    await trio.sleep(0.01)
        _send(process.pid, signal.SIGKILL)
        if mark:
            reaper.kill(await _strays(process, mark), signal.SIGKILL)
        with trio.move_on_after(_REAP):
            await process.wait()


async def _strays(process: trio.Process, mark: str) -> set[int]:
    return await trio.to_thread.run_sync(watchdog.strays, mark, process.pid) if mark else set()


def _send(group: int, number: int) -> bool:
    """Whether there was anybody in the group to be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # the latter is macOS's answer for a group of zombies
        return False
    return True


def _reap(group: int) -> None:
    """Where we are a container's first process, what the leader leaves behind becomes ours to wait for."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass


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
