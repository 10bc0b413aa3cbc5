"""From an append to the moment at which the host's ``read`` gives it the line: one event at a time, 200 a second.

Both ends look at the system's monotonic clock. The references: a bare ``os.write`` of a ready line, and pagent's
agent loop with a model that has no cost. All pause in their own way and are awake when the clock is read.

Both ends get a core of their own, where the system lets us say so. Left alone, Linux takes a write to a pipe as the
writer's last deed and wakes the reader on the writer's core, where it waits until the writer sleeps: what is measured
then is mostly what the writer still does afterwards. The notes tell that too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import quantiles
from typing import Any

import trio
from pagent import Agent
from pagent import Session as PagentSession

from agentwire.events import TextDelta
from agentwire.log import SessionLog
from benchmarks import peer
from benchmarks.pipes import LINES_BEFORE, Reader, connected, open_session, reader
from benchmarks.report import Figure, number
from benchmarks.sample import MSG_ID, pieces
from benchmarks.timing import Costs, Effort, take_turns

PAUSE = 0.005
"""Seconds between two events."""

APART, TOGETHER = "a core each", "placed by the system"

LINE = f'{{"type":"text_delta","text":" function","msg_id":"{MSG_ID}"}}\n'.encode()


SENDERS = ("append", "os.write", "pagent")


def measure(effort: Effort) -> Iterator[Figure]:
    """The median, and the slowest of a hundred."""
    texts = pieces(effort.size(200, 4))
    latencies = take_turns(
        {
            (name, placing): partial(_latencies, name, placing, texts)
            for placing in (APART, TOGETHER)
            for name in SENDERS
        },
        effort.at_most(5),
    )
    costs = {
        (percent, placing): Costs(
            {name: [_percentile(found, percent) for found in latencies[name, placing]] for name in SENDERS}
        )
        for percent in (50, 99)
        for placing in (APART, TOGETHER)
    }
    notes = [
        f"{placing}: {name} p50 {_micros(costs[50, placing].median(name))}, p99 "
        f"{_micros(costs[99, placing].median(name))}"
        for placing in (APART, TOGETHER)
        for name in SENDERS
    ]
    for percent, reference, told, goal in (
        (50, "os.write", "os.write of a ready line", 1.5),
        (99, "pagent", "pagent arun_wire, a model without cost", 1.0),
    ):
        ratios = {placing: costs[percent, placing].ratio("append", reference) for placing in (APART, TOGETHER)}
        yield Figure(
            what=f"append to the reader's read, 200 events/s, p{percent}",
            reference=told,
            measured=ratios[APART],
            goal=goal,
            notes=[*notes, f"{TOGETHER}: {number(ratios[TOGETHER].median)} x"],
        )


def _latencies(name: str, placing: str, texts: list[str]) -> list[int]:
    with reader("times") as host, _placed(host, placing):
        sent = _SENDERS[name](host, texts)
        _, *arrived = host.report()
    before, after = _AROUND[name]
    return _between(sent, arrived[before : len(arrived) - after])


@contextmanager
def _placed(host: Reader, placing: str) -> Iterator[None]:
    """This thread on one core and the reader on another; as it is if there is only one, or no way to say so."""
    if placing == TOGETHER or sys.platform != "linux" or len(cores := sorted(os.sched_getaffinity(0))) < 2:
        yield
        return
    os.sched_setaffinity(0, cores[:1])
    os.sched_setaffinity(host.pid, cores[1:2])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _percentile(found: list[int], percent: int) -> float:
    return quantiles(found, n=100, method="inclusive")[percent - 1]


def _micros(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.0f} us"


def _between(sent: list[int], arrived: list[int]) -> list[int]:
    """Nanoseconds from each sending to the arrival of its line."""
    if len(sent) != len(arrived):
        raise AssertionError(f"{len(arrived)} lines for {len(sent)} events")
    return [there - here for here, there in zip(sent, arrived, strict=True)]


def _append(host: Reader, texts: list[str]) -> list[int]:
    session = open_session(SessionLog())
    sent: list[int] = []

    async def run() -> None:
        async with connected(session, host.fd):
            for text in texts:
                await trio.sleep(PAUSE)
                sent.append(time.monotonic_ns())
                session.append(TextDelta(text), 1)

    trio.run(run)
    return sent


def _write(host: Reader, texts: list[str]) -> list[int]:
    sent = []
    for _ in texts:
        time.sleep(PAUSE)
        sent.append(time.monotonic_ns())
        os.write(host.fd, LINE)
    os.close(host.fd)
    return sent


def _pagent(host: Reader, texts: list[str]) -> list[int]:
    sent: list[int] = []

    async def run() -> None:
        model: Any = peer.PacedModel(texts, PAUSE, lambda: sent.append(time.monotonic_ns()))
        agent = Agent(model, PagentSession())  # type: ignore[no-untyped-call]
        with open(host.fd, "w", encoding="utf-8") as out:
            async for line in agent.arun_wire("hello"):
                out.write(line)
                out.flush()

    asyncio.run(run())
    return sent


_SENDERS: dict[str, Callable[[Reader, list[str]], list[int]]] = {
    "append": _append,
    "os.write": _write,
    "pagent": _pagent,
}
_AROUND = {
    "append": (LINES_BEFORE, 0),
    "os.write": (0, 0),
    "pagent": (peer.LINES_BEFORE, peer.LINES_AFTER),
}
"""Lines before and after the deltas."""
