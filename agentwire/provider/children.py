"""A program that a provider runs beside us: in a group of its own, with no pipe of ours, and never longer than us.

The door for provider packages to what ends the built-in tools' processes. Unlike those, such a program has no task
that attends to it: it writes to a file, and whoever started it looks now and then whether it still runs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from agentwire.tools import watchdog
from agentwire.tools.children import end_group, environment

_GATE = ("/bin/sh", "-c", 'read -r go || exit 125; exec "$@" </dev/null', "sh")
"""Put before a command line: it starts only when it is told so. If we are killed before, it never does."""


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` without the keys that pay for model services."""
    return environment(environ)


async def start_child(argv: Sequence[str], *, cwd: Path, environ: Mapping[str, str], output: int) -> trio.Process:
    """Start a program in a session of its own, both its outputs going to the descriptor ``output``.

    It is ended with us, even if we are killed; in good order it is ended by :func:`end_child`, which the caller owes
    it also after it ended by itself. Not cancelled half-way. Raises :class:`OSError` if nothing can be started, and
    :class:`ValueError` if an argument holds a NUL; that ``argv[0]`` is no program shows as exit status 126 or 127.
    """
    with trio.CancelScope(shield=True):  # else a cancellation could lose a process that was just started
        process = await trio.lowlevel.open_process(
            [*_GATE, *argv],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env=environ,
            start_new_session=True,
        )
        gate = process.stdin
        assert isinstance(gate, trio.lowlevel.FdStream)  # noqa: S101 - it was opened as a pipe
        try:
            watchdog.guard(process.pid)
            os.write(gate.fileno(), b"\n")
        except BaseException:
            await end_child(process)
            raise
        finally:
            gate.close()
    return process


async def end_child(process: trio.Process) -> None:
    """End a program and all of its group: TERM, a short grace, KILL. Takes a second at most, and is not cancelled.

    Right also for one that has ended: what it left running goes too.
    """
    await end_group(process)
    if process.returncode is not None:
        watchdog.release(process.pid)
