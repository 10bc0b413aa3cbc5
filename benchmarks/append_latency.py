"""From an append to the moment at which the host's ``read`` gives it the line: one event at a time, 200 a second.

Both ends look at the system's monotonic clock. The references: a bare ``os.write`` of a ready line, and pagent's
agent loop with a model that has no cost. All pause in their own way and are awake when the clock is read.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from statistics import quantiles
from types import SimpleNamespace
from typing import Any

import trio
from pagent import Agent
from pagent import Session as PagentSession

from agentwire.events import TextDelta
from agentwire.log import SessionLog
from benchmarks.pipes import LINES_BEFORE, connected, open_session, reader
from benchmarks.report import Figure
from benchmarks.sample import MSG_ID, pieces
from benchmarks.timing import Costs, Effort, take_turns

PAUSE = 0.005
"""Seconds between two events."""

LINE = f'{{"type":"text_delta","text":" function","msg_id":"{MSG_ID}"}}\n'.encode()


def measure(effort: Effort) -> Iterator[Figure]:
    """The median, and the slowest of a hundred."""
    texts = pieces(effort.size(400, 4))
    latencies = take_turns(
        {
            "append": lambda: _ours(texts),
            "os.write": lambda: _bare(texts),
            "pagent": lambda: _pagent(texts),
        },
        effort.at_most(5),
    )
    p50, p99 = (_costs(latencies, percent) for percent in (50, 99))
    notes = [f"{name}: p50 {_micros(p50.median(name))}, p99 {_micros(p99.median(name))}" for name in latencies]
    yield Figure(
        what="append to the reader's read, 200 events/s, p50",
        reference="os.write of a ready line",
        measured=p50.ratio("append", "os.write"),
        goal=1.5,
        notes=notes,
    )
    yield Figure(
        what="append to the reader's read, 200 events/s, p99",
        reference="pagent arun_wire, a model without cost",
        measured=p99.ratio("append", "pagent"),
        goal=1.0,
        notes=notes,
    )


def _costs(latencies: dict[str, list[list[int]]], percent: int) -> Costs:
    return Costs(
        {
            name: [quantiles(found, n=100, method="inclusive")[percent - 1] for found in rounds]
            for name, rounds in latencies.items()
        }
    )


def _micros(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.0f} us"


def _between(sent: list[int], arrived: list[int]) -> list[int]:
    """Nanoseconds from each sending to the arrival of its line."""
    if len(sent) != len(arrived):
        raise AssertionError(f"{len(arrived)} lines for {len(sent)} events")
    return [there - here for here, there in zip(sent, arrived, strict=True)]


def _ours(texts: list[str]) -> list[int]:
    session = open_session(SessionLog())
    sent: list[int] = []

    async def run() -> None:
        async with connected(session, host.fd):
            for text in texts:
                await trio.sleep(PAUSE)
                sent.append(time.monotonic_ns())
                session.append(TextDelta(text), 1)

    with reader("times") as host:
        trio.run(run)
        _, *arrived = host.report()
    return _between(sent, arrived[LINES_BEFORE:])


def _bare(texts: list[str]) -> list[int]:
    sent = []
    with reader("times") as host:
        for _ in texts:
            time.sleep(PAUSE)
            sent.append(time.monotonic_ns())
            os.write(host.fd, LINE)
        os.close(host.fd)
        _, *arrived = host.report()
    return _between(sent, arrived)


class _Model:
    """What pagent asks: a model that says its pieces, one a pause."""

    def __init__(self, texts: list[str], saying: Callable[[], None]) -> None:
        self._texts = texts
        self._saying = saying

    async def invoke_stream(self, messages: Any, tools: Any = None) -> AsyncIterator[Any]:
        """The stream, in the shape of the SDK's chunks."""
        for text in self._texts:
            chunk = SimpleNamespace(
                choices=[SimpleNamespace(delta=SimpleNamespace(content=text, reasoning_content=None, tool_calls=None))],
                usage=None,
            )
            await asyncio.sleep(PAUSE)
            self._saying()
            yield chunk


def _pagent(texts: list[str]) -> list[int]:
    sent: list[int] = []

    async def run() -> None:
        model: Any = _Model(texts, lambda: sent.append(time.monotonic_ns()))
        agent = Agent(model, PagentSession())  # type: ignore[no-untyped-call]
        with open(host.fd, "w", encoding="utf-8") as out:
            async for line in agent.arun_wire("hello"):
                out.write(line)
                out.flush()

    with reader("times") as host:
        asyncio.run(run())
        _, *arrived = host.report()
    before, after = 2, 3  # lines around the deltas: the beginning of run and turn; the end of step, turn and run
    return _between(sent, arrived[before:-after])
