"""Events a second from a session's log, through connection and codec, into a pipe that another process reads.

The producer is as fast as it can be: it says a batch of text deltas, then lets the connection have its turn. Nothing
is joined: every event is a line (the reader counts). The reference is pagent's encoder, each line written and
flushed, into a pipe that is read in the same way; it has no log, no history, no session and no event loop. The notes
tell of its agent loop too, which has most of these.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import trio
from pagent import Agent
from pagent import Session as PagentSession
from pagent.events import TextDelta as PagentDelta
from pagent.wire import encode_event_line

from agentwire.log import Journal, JournalHeader, SessionLog
from benchmarks import peer
from benchmarks.pipes import LINES_BEFORE, connected, open_session, produce, reader
from benchmarks.report import Figure, rate
from benchmarks.sample import pieces
from benchmarks.timing import Effort, interleave


def measure(effort: Effort) -> Iterator[Figure]:
    """Without a journal, and with one."""
    texts = pieces(effort.size(60_000))
    with tempfile.TemporaryDirectory() as folder:
        costs = interleave(
            {
                "pagent": lambda: _pagent(texts),
                "pagent arun_wire": lambda: _pagent_loop(texts),
                "ephemeral": lambda: _ours(SessionLog, texts),
                "journaled": lambda: _ours(lambda: SessionLog(_journal(Path(folder))), texts),
            },
            effort,
        )
    for log, goal in (("ephemeral", 8.0), ("journaled", 4.0)):
        yield Figure(
            what=f"log to pipe, saturated, events/s, {log}",
            reference="pagent encode_event_line, flushed lines",
            measured=costs.ratio("pagent", log),
            goal=goal,
            sense="at least",
            notes=[
                f"{name}: {rate(costs.median(name))}, {costs.ratio(name, log).median:.2f} x"
                for name in (log, "pagent", "pagent arun_wire")
            ],
        )


def _journal(folder: Path) -> Journal:
    path = folder / "journal.jsonl"
    path.unlink(missing_ok=True)
    return Journal.create(path, JournalHeader("s"))


def _ours(new_log: Callable[[], SessionLog], texts: list[str]) -> float:
    """Seconds per event."""
    session = open_session(new_log())

    async def run() -> float:
        with reader() as host:
            async with connected(session, host.fd) as cursor:
                began = perf_counter()
                await produce(session.log, texts, cursor)
            (count,) = host.report()
            spent = perf_counter() - began
        return _checked(spent, count - LINES_BEFORE, texts)

    try:
        return trio.run(run)
    finally:
        session.log.close()


def _pagent(texts: list[str]) -> float:
    """Seconds per event."""
    with reader() as host:
        with open(host.fd, "w", encoding="utf-8") as out:
            began = perf_counter()
            for text in texts:
                out.write(encode_event_line(PagentDelta(text)))
                out.flush()
        (count,) = host.report()
        spent = perf_counter() - began
    return _checked(spent, count, texts)


def _pagent_loop(texts: list[str]) -> float:
    """Seconds per event."""
    model: Any = peer.ReadyModel(texts)
    agent = Agent(model, PagentSession())  # type: ignore[no-untyped-call]

    async def run() -> None:
        async for line in agent.arun_wire("hello"):
            out.write(line)
            out.flush()

    with reader() as host:
        with open(host.fd, "w", encoding="utf-8") as out:
            began = perf_counter()
            asyncio.run(run())
        (count,) = host.report()
        spent = perf_counter() - began
    return _checked(spent, count - peer.LINES_BEFORE - peer.LINES_AFTER, texts)


def _checked(spent: float, count: int, texts: list[str]) -> float:
    if count != len(texts):
        raise AssertionError(f"{count} lines for {len(texts)} events")
    return spent / len(texts)
