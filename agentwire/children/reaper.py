"""The helper process of :mod:`agentwire.children.watchdog`: ends process groups when its standard input ends.

It is run as a script by a bare interpreter, so it imports nothing of this package. Its input is lines: ``+N`` guard
the process group N, ``-N`` its leader is gone, forget it as soon as it is empty. Its argument is the mark that is in
the environment of all our children: those that left their group (``setsid``) are found by it, on Linux.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

GRACE = 1.0
"""Seconds between asking the groups to end and making them."""


def send(group: int, number: int) -> bool:
    """Signal a process group; False if there is none, or if its number now belongs to somebody else."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def listen(source: int) -> set[int]:
    """Read lines from a descriptor until it ends; gives the groups that are left then."""
    guarded: set[int] = set()
    released: set[int] = set()
    rest = b""
    while True:
        # The number of an empty group can be given to others: it must be forgotten in time.
        released = {group for group in released if send(group, 0)}
        if not select.select([source], [], [], 1.0 if released else None)[0]:
            continue
        chunk = os.read(source, 65536)
        if not chunk:
            return guarded | released
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            group = int(line[1:])
            if line.startswith(b"+"):
                guarded.add(group)
                released.discard(group)
            else:
                guarded.discard(group)
                released.add(group)


def marked(mark: str) -> set[int]:
    """Find the processes that were started with ``mark`` in their environment.

    Only Linux tells a process's environment cheaply; elsewhere none are found. Reads all of ``/proc``, which takes
    some milliseconds.
    """
    found: set[int] = set()
    wanted = mark.encode()
    try:
        names = os.listdir("/proc") if wanted else []
    except OSError:
        return found
    for name in names:
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                held = file.read()
        except OSError:  # gone meanwhile, or somebody else's
            continue
        if wanted in held:
            found.add(int(name))
    return found - {os.getpid()}


def kill(processes: set[int], number: int) -> None:
    """Signal single processes; those that are gone are passed over."""
    for process in processes:
        try:
            os.kill(process, number)
        except (ProcessLookupError, PermissionError):
            continue


def end(groups: set[int], mark: str = "") -> None:
    """End the groups, and whatever else has the mark: TERM, the grace, KILL."""
    left = {group for group in groups if send(group, signal.SIGTERM)}
    strays = marked(mark)
    kill(strays, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while (left or strays) and time.monotonic() < deadline:
        time.sleep(0.02)
        left = {group for group in left if send(group, 0)}
        strays = marked(mark) if strays else strays
    for group in left:
        send(group, signal.SIGKILL)
    kill(marked(mark), signal.SIGKILL)


if __name__ == "__main__":
    for stop in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)  # it has to be there when the others are gone
    end(listen(0), *sys.argv[1:])
