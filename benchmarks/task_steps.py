"""How often the scheduler runs a task for an event, when events come as fast as they can.

A count, not a time: the producer appends 1,000 events and lets the others have their turn, again and again, while a
connection writes what there is into a pipe that another process reads.
"""

from __future__ import annotations

from collections.abc import Iterator

import trio

from agentwire.events import TextDelta
from agentwire.log import SessionLog
from benchmarks.pipes import connected, open_session, reader
from benchmarks.report import Figure
from benchmarks.sample import pieces
from benchmarks.timing import Effort, spread

APPENDS = 1_000
"""Between two checkpoints of the producer."""


def measure(effort: Effort) -> Iterator[Figure]:
    """All tasks of the loop count, the producer's own too."""
    texts = pieces(effort.size(100, 3) * APPENDS)
    yield Figure(
        what="task steps per event at saturation",
        measured=spread([_steps(texts) / len(texts) for _ in range(effort.rounds)]),
        goal=0.1,
        unit="steps",
    )


class _Steps(trio.abc.Instrument):
    """Counts steps of tasks."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """One more."""
        self.count += 1


def _steps(texts: list[str]) -> int:
    session = open_session(SessionLog())

    async def run() -> int:
        async with connected(session, host.fd):
            steps = _Steps()
            trio.lowlevel.add_instrument(steps)
            for start in range(0, len(texts), APPENDS):
                for text in texts[start : start + APPENDS]:
                    session.append(TextDelta(text), 1)
                await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(steps)
        return steps.count

    with reader() as host:
        found = trio.run(run)
        host.report()
    return found
