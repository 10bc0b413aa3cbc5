"""Timing by ratios. Machines differ and are busy with other things; a ratio to a reference in the same run stays.

Every candidate runs once in each round, in an order that turns around from round to round; a figure is the median of
the rounds' ratios. What only computes is measured on the thread's own CPU clock, what waits for another process on
the wall clock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from statistics import median, quantiles
from time import thread_time
from typing import TypeVar

from msgspec import Struct

K = TypeVar("K")
T = TypeVar("T")

Pass = Callable[[], float]
"""Runs a candidate once and gives its cost: seconds per event, mostly."""


class Effort(Struct, frozen=True):
    """How much is measured: ``rounds``, and the ``scale`` of a pass (1 is the full size)."""

    rounds: int
    scale: float = 1.0

    def size(self, full: int, least: int = 1) -> int:
        """How many events a pass has, where the full number is ``full``."""
        return max(least, round(full * self.scale))

    def at_most(self, rounds: int) -> Effort:
        """The same for a benchmark whose passes take seconds."""
        return Effort(min(self.rounds, rounds), self.scale)


class Ratio(Struct, frozen=True):
    """A median of ratios, and the quartiles around it."""

    median: float
    low: float
    high: float


class Costs(Struct, frozen=True):
    """What each candidate cost in each round."""

    rounds: dict[str, list[float]]

    def ratio(self, candidate: str, reference: str) -> Ratio:
        """Cost of ``candidate`` as a multiple of the cost of ``reference``."""
        return spread([a / b for a, b in zip(self.rounds[candidate], self.rounds[reference], strict=True)])

    def median(self, candidate: str) -> float:
        """What ``candidate`` cost, typically."""
        return median(self.rounds[candidate])


def spread(values: list[float]) -> Ratio:
    """The median and the quartiles of some values."""
    if len(values) == 1:
        return Ratio(values[0], values[0], values[0])
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return Ratio(middle, low, high)


def interleave(passes: Mapping[str, Pass], effort: Effort) -> Costs:
    """Run every candidate once in each round and keep what it cost."""
    return Costs(take_turns(passes, effort))


def take_turns(passes: Mapping[K, Callable[[], T]], effort: Effort) -> dict[K, list[T]]:
    """Run every candidate once in each round, after one round that does not count; what each gave, by name."""
    results: dict[K, list[T]] = {name: [] for name in passes}
    order = list(passes)
    for name in order:
        passes[name]()
    gc.collect()
    gc.freeze()  # what the program has imported is not a candidate's to search through
    try:
        for _ in range(effort.rounds):
            for name in order:
                results[name].append(passes[name]())
            order.reverse()
    finally:
        gc.unfreeze()
    return results


def cpu_time(run: Callable[[], object], events: int) -> Pass:
    """A pass that takes the thread's CPU seconds of ``run`` for each of ``events``."""

    def timed() -> float:
        began = thread_time()
        run()
        return (thread_time() - began) / events

    return timed
