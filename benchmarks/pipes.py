"""Real pipes between this process and one that reads, and a session's log with a connection that writes into one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import trio
import trio.testing

from agentwire.events import SessionOpened, TextDelta, TurnStarted
from agentwire.log import Cursor, SessionLog
from agentwire.log.history import History
from agentwire.server.connection import Connection
from agentwire.server.outbox import Outbox
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.transport.stdio import StdioPipes, StdioTransport
from agentwire_aionrs import codec
from benchmarks.sample import MSG_ID

PROCESSES = Path(__file__).parent / "processes"

IN_FLIGHT = 256
"""Events that a producer says before the connection gets its turn: about a network read of a model's stream. To a
reader that is further behind, neighbouring deltas go joined, and that is not what is to be measured."""


class Reader:
    """A process that reads lines from a pipe; ``fd`` is the end to write to, and belongs to the caller."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self._process = process
        self.pid = process.pid
        self.fd = fd

    def report(self) -> list[int]:
        """Wait until the pipe ended: how many lines came, then their times if they were asked for."""
        if self._process.stdout is None:
            raise AssertionError("the reader has no standard output")
        return [int(line) for line in self._process.stdout.read().split()]


@contextmanager
def reader(*arguments: str) -> Iterator[Reader]:
    """Start a reading process and wait until it reads."""
    read_fd, write_fd = os.pipe()
    command = [sys.executable, "-I", "-S", str(PROCESSES / "reader.py"), *arguments]
    with subprocess.Popen(command, stdin=read_fd, stdout=subprocess.PIPE) as process:
        os.close(read_fd)
        try:
            if process.stdout is None or process.stdout.readline() != b"ready\n":
                raise AssertionError("the reading process did not start")
            yield Reader(process, write_fd)
        except BaseException:
            process.kill()
            raise


def open_session(log: SessionLog) -> Session:
    """A session on ``log``, in the middle of a turn."""
    session = Session(
        "s", log, History(), settings=SessionSettings(workspace=os.curdir), policy=codec.policy, ephemeral=True
    )
    session.opened = session.append(SessionOpened("s", ephemeral=True))
    session.append(TurnStarted(MSG_ID, MSG_ID), 1)
    return session


LINES_BEFORE = 2
"""Lines that a connection to such a session begins with: ready, and the start of the turn."""


@asynccontextmanager
async def connected(session: Session, fd: int) -> AsyncIterator[Cursor]:
    """A connection that follows ``session`` and writes to ``fd``, which it closes; gives its cursor on the log.

    At the end everything is written.
    """
    commands, no_commands = os.pipe()
    transport = StdioTransport(StdioPipes(commands, fd))
    outbox = Outbox(codec.agent())
    follow = outbox.follow(session, after=0)
    leaving = False

    async def serve(nursery: trio.Nursery) -> None:
        connection = Connection(
            Server(nursery), outbox.side, transport, max_line=codec.max_line, session=session.id, outbox=outbox
        )
        await connection.run()
        if not leaving:
            raise AssertionError("the connection ended too early")

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, nursery)
            await trio.testing.wait_all_tasks_blocked()
            with open(no_commands, "wb"):
                yield follow.cursor
                leaving = True  # the host says no more: write what is due, and end
    finally:
        transport.close()
        follow.cursor.close()


async def produce(log: SessionLog, texts: list[str], cursor: Cursor) -> None:
    """Say every text in turn 1, as fast as the connection takes it."""
    for start in range(0, len(texts), IN_FLIGHT):
        for text in texts[start : start + IN_FLIGHT]:
            log.append(TextDelta(text), 1)
        await trio.lowlevel.checkpoint()
        while cursor.behind:
            await trio.lowlevel.checkpoint()
