"""Resident memory of a session, as the growth of a process from 1,000 to 10,000 of them.

At rest a session is a plain object with its log. With an approval pending a turn runs in it: the built-in agent with
its tools has asked the model, and one call waits for the host's answer.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.pipes import PROCESSES
from benchmarks.report import Figure
from benchmarks.timing import Effort, spread

KIB = 1024


def measure(effort: Effort) -> Iterator[Figure]:
    """Each state in processes of its own; memory does not waver like time does."""
    first, second = effort.size(1_000), effort.size(10_000)
    for state, what, goal in (
        ("rest", "session resident memory, ephemeral, at rest", 4.0),
        ("asked", "session resident memory, one approval pending", 16.0),
    ):
        sizes = [_grown(state, first, second) / KIB for _ in range(effort.at_most(3).rounds)]
        yield Figure(what=what, measured=spread(sizes), goal=goal, unit="KiB")


def _grown(state: str, first: int, second: int) -> float:
    command = [sys.executable, str(PROCESSES / "many_sessions.py"), state, str(first), str(second)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
