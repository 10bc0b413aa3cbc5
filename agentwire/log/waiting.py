"""Waiting for records, for readers inside this process. The one part of the log that needs trio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentwire.log.cursor import TAKE, Cursor
from agentwire.log.record import Record

if TYPE_CHECKING:
    from types import TracebackType

    from agentwire.log.log import SessionLog


async def next_records(cursor: Cursor, limit_bytes: int = TAKE) -> list[Record]:
    """Wait until there is something to take, and take it. An empty list: the log is closed and read to its end.

    Being cancelled takes nothing.
    """
    import trio

    await trio.lowlevel.checkpoint()
    while True:
        records = cursor.take(limit_bytes)
        if records:
            return records
        appended = trio.Event()
        if cursor.park(appended.set):
            await appended.wait()
        elif not cursor.behind or cursor.closed:
            return []


class Follower:
    """``async for record in follow(log)``: every record, as it comes, until the log is closed.

    Leaving the loop early keeps the place: another loop over the same follower goes on from there.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._ready: list[Record] = []

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Record:
        if not self._ready:
            self._ready = (await next_records(self._cursor))[::-1]
            if not self._ready:
                self.close()
                raise StopAsyncIteration
        return self._ready.pop()

    def close(self) -> None:
        """Stop following."""
        self._cursor.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def follow(log: SessionLog, after: int | None = None) -> Follower:
    """Follow a log from record ``after`` on, or (None) from now. Raises :class:`agentwire.log.Gap`."""
    return Follower(log.cursor(after))


async def sync(log: SessionLog) -> None:
    """Make a log survive a power cut without holding up the program; an error breaks the log's journal."""
    import trio

    try:
        await trio.to_thread.run_sync(log.sync)
    except OSError as error:
        log.fail(error)
