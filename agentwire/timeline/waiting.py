"""What a stretch of time was spent on, when several things went on at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from agentwire.timeline.items import Wait

Stretch = tuple[int, int]

ORDER: Final[tuple[Wait, ...]] = ("person", "tools", "subagents", "retry")


def shares(start: int, end: int, busy: Mapping[Wait, Sequence[Stretch]]) -> dict[Wait, int]:
    """Divide the time from ``start`` to ``end``: every moment counts once, for the first of :data:`ORDER` that is busy.

    The rest is the model's. What is nothing is left out.
    """
    found: dict[Wait, int] = {}
    taken: list[Stretch] = []
    covered = 0
    for wait in ORDER:
        stretches = busy.get(wait)
        if not stretches:
            continue
        taken = union((*taken, *((max(s, start), min(e, end)) for s, e in stretches)))
        total = length(taken)
        if total > covered:
            found[wait] = total - covered
            covered = total
    if end - start > covered:
        found["model"] = end - start - covered
    return found


def union(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same time as stretches that do not overlap, in order; empty ones are left out."""
    joined: list[Stretch] = []
    for start, end in sorted(stretches):
        if end <= start:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def length(stretches: Iterable[Stretch]) -> int:
    """How long they are together."""
    return sum(end - start for start, end in stretches)
