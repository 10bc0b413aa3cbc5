"""Lines a second out of a pipe that another process fills: read, cut, checked and decoded into commands.

Ours is what a connection does: the transport's ``receive``, the framer, the codec's ``receive``. The reference reads
with asyncio's StreamReader, a line at a time, and decodes with the same codec.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import trio

from agentwire.codec.framing import Framer
from agentwire.transport.stdio import StdioPipes, StdioTransport
from agentwire_aionrs import codec
from benchmarks.pipes import PROCESSES
from benchmarks.report import Figure, rate
from benchmarks.sample import MSG_ID, NoSessions
from benchmarks.timing import Effort, interleave

LINE = (
    f'{{"type":"message","msg_id":"{MSG_ID}","content":"The last line of a file that ends without a line feed is lost:'
    ' please look into split_lines"}'
)
"""147 bytes, a short message."""


def measure(effort: Effort) -> Iterator[Figure]:
    """Lines of the size of a short message."""
    count = effort.size(150_000)
    costs = interleave({"framer": lambda: _ours(count), "StreamReader": lambda: _asyncio(count)}, effort)
    yield Figure(
        what="lines read from a pipe and decoded, lines/s",
        reference="asyncio StreamReader, same decoder",
        measured=costs.ratio("StreamReader", "framer"),
        goal=2.2,
        sense="at least",
        notes=[f"{name}: {rate(costs.median(name))}" for name in ("framer", "StreamReader")],
    )


@contextmanager
def _filled(count: int) -> Iterator[tuple[int, Callable[[], None]]]:
    """A pipe that a process fills once the function is called."""
    command = [sys.executable, "-I", "-S", str(PROCESSES / "writer.py"), LINE, str(count)]
    read_fd, write_fd = os.pipe()
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=write_fd, stderr=pipe) as process:
        os.close(write_fd)
        try:
            if process.stdin is None or process.stderr is None or process.stderr.readline() != b"ready\n":
                raise AssertionError("the writing process did not start")
            yield read_fd, process.stdin.close
        except BaseException:
            process.kill()
            raise


def _ours(count: int) -> float:
    """Seconds per line."""
    side, view = codec.agent(), NoSessions()

    async def run() -> int:
        framer, found = Framer(codec.max_line), 0
        while chunk := await transport.receive():
            for line in framer.feed(chunk):
                found += side.receive(line, view) is not None
        return found

    with _filled(count) as (read_fd, begin):
        transport = StdioTransport(StdioPipes(read_fd, os.open(os.devnull, os.O_WRONLY)))
        began = perf_counter()
        begin()
        found = trio.run(run)
        spent = perf_counter() - began
        transport.close()
    _check(found, count)
    return spent / count


def _asyncio(count: int) -> float:
    """Seconds per line."""
    side, view = codec.agent(), NoSessions()

    async def run() -> int:
        found = 0
        reader = asyncio.StreamReader(limit=codec.max_line)
        loop = asyncio.get_running_loop()
        with open(read_fd, "rb", buffering=0) as pipe:
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            while line := await reader.readline():
                found += side.receive(line[:-1], view) is not None
        return found

    with _filled(count) as (read_fd, begin):
        began = perf_counter()
        begin()
        found = asyncio.run(run())
        spent = perf_counter() - began
    _check(found, count)
    return spent / count


def _check(found: int, count: int) -> None:
    if found != count:
        raise AssertionError(f"{found} lines of {count} were read")
