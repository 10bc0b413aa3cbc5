"""The end of a program and of all that came of it."""

from __future__ import annotations

import contextlib
import os
import signal

import trio

from agentwire.children import reaper, watchdog

_GRACE = 0.5
"""Seconds between asking a group to end and making it."""
_REAP = 0.5
"""Seconds to wait for a killed process; it can only take longer if the kernel holds on to it."""


async def end_group(process: trio.Process, mark: str = "") -> None:
    """End a process that leads its own group, and the whole group: TERM, a short grace, KILL.

    ``mark``, if it was started with one (:func:`agentwire.children.watchdog.new_mark`), finds what has left the group.
    Takes a second at most, and is not cancelled.
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
