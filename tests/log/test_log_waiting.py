"""Readers inside the process: waiting for records on trio, and syncing without holding up the program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
import trio.testing

from agentwire.events import Notice, TextDelta
from agentwire.log import Gap, Journal, JournalHeader, SessionLog
from agentwire.log.waiting import follow, next_records, sync


async def test_a_reader_waits_for_the_next_append() -> None:
    log = SessionLog()
    cursor = log.cursor()
    got: list[int] = []

    async def reading() -> None:
        got.extend(record.seq for record in await next_records(cursor))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reading)
        await trio.testing.wait_all_tasks_blocked()
        assert got == []
        log.append(TextDelta("a"))
        log.append(TextDelta("b"))
    assert got == [1, 2]


async def test_a_cancelled_wait_takes_nothing_and_leaves_nothing_behind() -> None:
    log = SessionLog()
    cursor = log.cursor()
    with trio.move_on_after(0):
        await next_records(cursor)
    record = log.append(Notice("a"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await next_records(cursor)
    assert await next_records(cursor) == [record]


async def test_following_yields_every_record_until_the_log_is_closed() -> None:
    log = SessionLog()
    log.append(Notice("0"))
    got: list[int] = []

    async def reading() -> None:
        async for record in follow(log, after=0):
            got.append(record.seq)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reading)
        for n in range(1, 6):
            await trio.testing.wait_all_tasks_blocked()
            assert got == list(range(1, n + 1))
            log.append(TextDelta(str(n)))
        log.append(Notice("last"))
        log.close()
    assert got == list(range(1, 8))
    assert await next_records(log.cursor()) == []


async def test_a_follower_that_left_the_loop_goes_on_where_it_was() -> None:
    log = SessionLog()
    with follow(log) as following:
        for n in range(4):
            log.append(Notice(str(n)))
        async for record in following:
            if record.seq == 2:
                break
        assert (await anext(following)).seq == 3
    with pytest.raises(Gap):
        follow(SessionLog(), after=1)


async def test_syncing_is_done_in_a_thread_and_an_error_breaks_the_journal(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "s.jsonl", JournalHeader("s"))
    log = SessionLog(journal)
    log.append(Notice("a"))
    await sync(log)
    assert log.broken is None
    read, write = os.pipe()  # cannot be synced
    os.close(read)
    os.dup2(write, journal.fd)
    os.close(write)
    await sync(log)
    assert isinstance(log.broken, OSError)
    log.append(Notice("goes on"))
    assert log.seq == 2
    log.close()
