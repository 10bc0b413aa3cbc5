"""How a program starts: in a session of its own, and not before somebody is sure to end it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from agentwire.children import watchdog
from agentwire.children.ending import end_group

_GATE = ("/bin/sh", "-c", 'read -r go || exit 125; exec "$@" </dev/null', "sh")
"""Put before a command line: it starts only when it is told so. If we are killed before, it never does."""


async def start(
    argv: Sequence[str], *, cwd: Path, environ: Mapping[str, str], stdout: int, stderr: int, mark: str
) -> trio.Process:
    """Start a program with nothing on its standard input, guarded by the watchdog before it begins.

    ``stdout`` and ``stderr`` are what :mod:`subprocess` takes: descriptors or ``PIPE``; ``mark`` comes from
    :func:`agentwire.children.watchdog.new_mark`. Not cancelled half-way. Raises :class:`OSError` if nothing can be
    started, and :class:`ValueError` if an argument holds a NUL; that ``argv[0]`` is no program shows as exit status
    126 or 127.
    """
    with trio.CancelScope(shield=True):  # else a cancellation could lose a process that was just started
        process = await trio.lowlevel.open_process(
            [*_GATE, *argv],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env={**environ, watchdog.MARK: mark},
            start_new_session=True,
        )
        gate = process.stdin
        assert isinstance(gate, trio.lowlevel.FdStream)  # noqa: S101 - it was opened as a pipe
        try:
            watchdog.guard(process.pid)
            with contextlib.suppress(BrokenPipeError):  # it was killed; its exit status will say so
                os.write(gate.fileno(), b"\n")
        except BaseException:
            await end_group(process, mark)
            close(process)
            raise
        finally:
            gate.close()
    return process


def close(process: trio.Process) -> None:
    """Let go of what is left of a process's pipes."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if isinstance(stream, trio.lowlevel.FdStream):
            stream.close()


class Child:
    """A program that runs beside us, with no task that attends to it: whoever started it looks now and then."""

    def __init__(self, process: trio.Process, mark: str) -> None:
        self.process = process
        self._mark = mark

    async def end(self) -> None:
        """End it and all of its group: TERM, a short grace, KILL. Takes a second at most, and is not cancelled.

        Right also for one that has ended: what it left running goes too.
        """
        await end_group(self.process, self._mark)
        if self.process.returncode is not None:
            watchdog.release(self.process.pid)


async def start_child(argv: Sequence[str], *, cwd: Path, environ: Mapping[str, str], output: int) -> Child:
    """Start a program that stays, both its outputs going to the descriptor ``output``.

    It is ended with us, even if we are killed; in good order it is ended by :meth:`Child.end`, which the caller owes
    it also after it ended by itself. Raises as :func:`start` does.
    """
    mark = watchdog.new_mark()
    return Child(await start(argv, cwd=cwd, environ=environ, stdout=output, stderr=output, mark=mark), mark)
