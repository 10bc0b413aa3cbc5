"""Child processes do not outlive this one, however it ends.

One small helper process reads the names of process groups from a pipe whose other end only we hold. When the pipe
ends, because we closed it, crashed or were killed with no chance to tidy up, it ends the groups that are left (TERM,
a second's grace, KILL) and itself. It is started with the first group and runs in a session of its own, out of reach
of the terminal's signals. Its program is :mod:`agentwire.children.reaper`.

A child may leave its group (``setsid``, as daemons do). So every child gets a mark in its environment, which all that
it starts inherits, and where the system tells the environments of processes (Linux) the mark finds them.
"""

from __future__ import annotations

import atexit
import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path

from agentwire.children import reaper

_EXIT_WAIT = 0.3
"""Seconds that our own exit waits for the helper. With groups left to end it takes longer, and does so without us."""

_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that the helper gets of our environment: what an interpreter may need to start."""

_OURS = f"{os.getpid()}-{os.urandom(6).hex()}"
"""Tells this process's children from those of any other."""

MARK = "AGENTWIRE_CHILD"
"""The variable in a child's environment that says whose it is."""

_PROGRAM = str(Path(__file__).with_name("reaper.py"))


class _Watchdog:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def guard(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        with self._lock:
            if group in self._groups:
                self._groups.discard(group)
                self._tell(f"-{group}\n")

    def close(self) -> None:
        with self._lock:
            process, self._process = self._process, None
            if process is None or process.stdin is None:
                return
            process.stdin.close()
            try:
                process.wait(_EXIT_WAIT)
            except subprocess.TimeoutExpired:
                process.returncode = 0  # it ends by itself; do not warn that it still runs

    def forget(self) -> None:
        """We are a fork of the process that owns the helper: drop our copy of its pipe."""
        process, self._process = self._process, None
        self._groups.clear()
        self._lock = threading.Lock()
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.returncode = 0  # not our child

    def _tell(self, line: str) -> None:
        if self._process is None:
            self._process = self._start()
        elif not self._write(self._process, line):
            # Somebody killed it. Another one has to know all that it knew.
            self._process.wait()
            self._process = self._start()
        else:
            return
        if not self._write(self._process, "".join(f"+{group}\n" for group in self._groups)):
            raise OSError("the helper process that ends our children does not start")

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable or "python3", "-I", "-S", _PROGRAM, _mark()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            start_new_session=True,
        )

    @staticmethod
    def _write(process: subprocess.Popen[bytes], text: str) -> bool:
        assert process.stdin is not None  # noqa: S101 - it was opened with a pipe
        try:
            process.stdin.write(text.encode())
        except BrokenPipeError:
            return False
        return True


_numbers = itertools.count(1)
_watchdog = _Watchdog()
atexit.register(_watchdog.close)
os.register_at_fork(after_in_child=_watchdog.forget)


def new_mark() -> str:
    """Give a value of :data:`MARK` for one more child and all that descends from it."""
    return f"{_OURS}.{next(_numbers)}."


def _mark(value: str = "") -> str:
    """What is in the environment of the children with that value, or (empty) of all of ours."""
    return f"{MARK}={value or f'{_OURS}.'}"


def strays(value: str, group: int) -> set[int]:
    """Find the processes that have that value of :data:`MARK` and have left the group of their first ancestor.

    None where the system does not tell (all but Linux). For a thread: it reads all of ``/proc``.
    """
    return {process for process in reaper.marked(_mark(value)) if _group_of(process) != group}


def _group_of(process: int) -> int:
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return -1


def guard(pgid: int) -> None:
    """End the process group ``pgid`` when this process ends, unless it is gone by then.

    May be called from any thread. Raises :class:`OSError` if the helper cannot be started.
    """
    if pgid <= 1 or pgid == os.getpgrp():
        raise ValueError(f"not a process group of a child: {pgid}")
    _watchdog.guard(pgid)


def release(pgid: int) -> None:
    """The group's own leader has ended and was waited for.

    Processes that it left in the background stay guarded for as long as there are any. Unknown groups are ignored.
    """
    _watchdog.release(pgid)
