"""What ``agentwire tap`` adds to the way of a line: a ping and its pong, one pair at a time, with tap and without.

Tap checks and records both lines, as it is used; it does so after it has passed them on. The figure is for the two
lines of a pair together, and each passes tap once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import quantiles

from benchmarks.pipes import PROCESSES
from benchmarks.report import Figure
from benchmarks.timing import Effort, spread, take_turns

PAUSE = 0.005
"""Seconds between two pairs."""

PING = b'{"type":"ping"}\n'

AGENT = (sys.executable, "-I", "-S", str(PROCESSES / "answering.py"))


def measure(effort: Effort) -> Iterator[Figure]:
    """The slowest of a hundred, and the median in the notes."""
    pairs = effort.size(400, 4)
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder, "recording")
        tap = (sys.executable, "-m", "agentwire", "tap", "--codec", "aionrs", "--record", str(recording), "--", *AGENT)
        ways = {"straight": AGENT, "through tap": tap}
        trips = take_turns({way: partial(_trips, argv, pairs) for way, argv in ways.items()}, effort.at_most(5))
    added = {
        percent: [
            (_percentile(through, percent) - _percentile(straight, percent)) / 1e6
            for straight, through in zip(trips["straight"], trips["through tap"], strict=True)
        ]
        for percent in (50, 99)
    }
    yield Figure(
        what="tap, recording and checking: added to a ping and its pong, p99",
        reference="the same agent without tap",
        measured=spread(added[99]),
        goal=1.0,
        unit="ms",
        notes=[
            f"p50: {spread(added[50]).median:.3f} ms added",
            *(
                f"{way}: p50 {min(_percentile(found, 50) for found in rounds) / 1000:.0f} us, "
                f"p99 {min(_percentile(found, 99) for found in rounds) / 1000:.0f} us"
                for way, rounds in trips.items()
            ),
        ],
    )


def _percentile(found: list[int], percent: int) -> float:
    return quantiles(found, n=100, method="inclusive")[percent - 1]


def _trips(argv: tuple[str, ...], pairs: int) -> list[int]:
    """Nanoseconds from writing a ping to reading its pong."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as agent:
        if agent.stdin is None or agent.stdout is None:
            raise AssertionError("the agent has no pipes")
        lines = iter(agent.stdout.readline, b"")
        next(lines)  # ready
        trips = []
        for number in range(pairs + 1):
            time.sleep(PAUSE)
            began = time.monotonic_ns()
            os.write(agent.stdin.fileno(), PING)
            line = next(lines, b"")
            if b"pong" not in line:
                raise AssertionError(f"no pong but {line!r}")
            if number:  # the first finds a checker that was never used
                trips.append(time.monotonic_ns() - began)
        agent.stdin.close()
    return trips
