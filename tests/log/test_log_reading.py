"""The readers' side: places in the log, catching up, giving back, and what is kept for whom."""

from __future__ import annotations

import gc
import itertools
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentwire.events import CallOutputDelta, Notice, ReasoningDelta, TextDelta
from agentwire.log import Cursor, Gap, Journal, JournalHeader, Record, SessionLog


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.create(tmp_path / "s.jsonl", JournalHeader("s"))
    yield journal
    journal.close()


def read(cursor: Cursor) -> list[Record]:
    seen: list[Record] = []
    while taken := cursor.take():
        seen += taken
    return seen


def test_a_new_cursor_stands_at_the_head() -> None:
    log = SessionLog()
    log.append(Notice("before"))
    cursor = log.cursor()
    assert (cursor.position, cursor.behind, cursor.take()) == (1, 0, [])
    record = log.append(Notice("after"))
    assert cursor.behind == 1
    assert cursor.take() == [record]


def test_a_cursor_may_begin_anywhere_in_the_log() -> None:
    log = SessionLog()
    records = [log.append(Notice(str(n))) for n in range(5)]
    assert log.cursor(after=0).take() == records
    assert log.cursor(after=3).take() == records[3:]
    assert log.cursor(after=5).take() == []


def test_a_place_that_the_log_never_had_is_no_silent_gap() -> None:
    log = SessionLog(seq=7)
    with pytest.raises(Gap, match="no record 9 yet") as info:
        log.cursor(after=9)
    assert (info.value.after, info.value.oldest, info.value.newest) == (9, 8, 7)
    with pytest.raises(ValueError, match="from 1"):
        log.cursor(after=-1)


def test_an_ephemeral_log_forgets_what_everybody_has_read_and_says_so() -> None:
    log = SessionLog(resident_limit=4000)
    cursor = log.cursor()
    for _ in range(200):
        log.append(Notice("x" * 100))
        cursor.take()
    assert log.resident < 5000
    with pytest.raises(Gap, match="no longer held") as info:
        log.cursor(after=0)
    assert 100 < info.value.oldest <= 200
    assert [r.seq for r in read(log.cursor(after=info.value.oldest - 1))] == list(range(info.value.oldest, 201))


def test_a_journaled_log_forgets_nothing(journal: Journal) -> None:
    log = SessionLog(journal, resident_limit=4000)
    for n in range(200):
        log.append(Notice(str(n) * 50))
    assert [record.event for record in read(log.cursor(after=0))] == [Notice(str(n) * 50) for n in range(200)]


def test_a_take_is_limited_in_bytes_but_gives_at_least_one_record() -> None:
    log = SessionLog()
    cursor = log.cursor()
    log.append(Notice("x" * 1000))
    log.append(Notice("y" * 1000))
    log.append(Notice("z" * 1000))
    assert [record.seq for record in cursor.take(10)] == [1]
    assert [record.seq for record in cursor.take(2500)] == [2, 3]


def test_a_small_take_of_deltas_just_written_is_small_too() -> None:
    log = SessionLog()
    cursor = log.cursor()
    for _ in range(200):
        log.append(TextDelta("x" * 36))
    assert [record.seq for record in cursor.take(1000)] == list(range(1, 11))


def test_the_default_take_stays_near_its_limit_however_far_behind() -> None:
    log = SessionLog()
    cursor = log.cursor()
    for _ in range(200):
        log.append(Notice("x" * 2000))
        log.append(TextDelta("y" * 2000))
    while taken := cursor.take():
        assert sum(len(record.event.text) for record in taken) <= 65536  # type: ignore[union-attr]


@pytest.mark.parametrize("resident", [4000, 8 << 20])
def test_far_behind_neighbouring_deltas_of_one_item_come_joined(resident: int) -> None:
    log = SessionLog(resident_limit=resident)
    cursor = log.cursor()
    for _ in range(500):
        log.append(TextDelta("ab"), 1)
    log.append(TextDelta("m", "other message"), 1)
    log.append(ReasoningDelta("r"), 1)
    log.append(Notice("n"), 1)
    log.append(TextDelta("c"), 1)
    log.append(TextDelta("d"), 2)
    log.append(TextDelta("e"), 2, "sub")
    log.append(CallOutputDelta("c1", "o", "stdout"), 2)
    log.append(CallOutputDelta("c1", "p", "stdout"), 2)
    log.append(CallOutputDelta("c1", "q", "stderr"), 2)
    log.append(CallOutputDelta("c2", "q", "stderr"), 2)
    last = log.append(Notice("end"), 2)
    records = read(cursor)
    assert [(record.seq, record.event, record.turn, record.origin) for record in records] == [
        (500, TextDelta("ab" * 500), 1, ""),
        (501, TextDelta("m", "other message"), 1, ""),
        (502, ReasoningDelta("r"), 1, ""),
        (503, Notice("n"), 1, ""),
        (504, TextDelta("c"), 1, ""),
        (505, TextDelta("d"), 2, ""),
        (506, TextDelta("e"), 2, "sub"),
        (508, CallOutputDelta("c1", "op", "stdout"), 2, ""),
        (509, CallOutputDelta("c1", "q", "stderr"), 2, ""),
        (510, CallOutputDelta("c2", "q", "stderr"), 2, ""),
        (511, last.event, 2, ""),
    ]


def test_a_joined_delta_has_the_time_of_its_last_piece() -> None:
    times = itertools.count(1)
    log = SessionLog(clock=lambda: next(times))
    cursor = log.cursor()
    for _ in range(400):
        log.append(TextDelta("a"))
        log.flush()
    assert [(record.seq, record.time) for record in cursor.take()] == [(400, 400)]


def test_a_joined_delta_stays_below_64_kib() -> None:
    log = SessionLog()
    cursor = log.cursor()
    for _ in range(1000):
        log.append(TextDelta("x" * 1000))
    sizes = [len(record.event.text) for record in cursor.take(10_000_000)]  # type: ignore[union-attr]
    assert sizes == [65_000] * 15 + [25_000]


def test_near_the_head_nothing_is_joined() -> None:
    log = SessionLog()
    cursor = log.cursor()
    for _ in range(200):
        log.append(TextDelta("a"))
    assert [record.seq for record in read(cursor)] == list(range(1, 201))


def test_joining_leaves_the_records_of_other_readers_alone() -> None:
    log = SessionLog()
    slow, quick = log.cursor(), log.cursor()
    seen: list[Record] = []
    for _ in range(500):
        log.append(TextDelta("a"))
        seen += quick.take()
    slow.take()
    assert [record.event for record in seen] == [TextDelta("a")] * 500


# --- giving back ---


@pytest.mark.parametrize("resident", [4000, 8 << 20])
def test_what_was_not_consumed_is_given_again(resident: int) -> None:
    log = SessionLog(resident_limit=resident)
    cursor = log.cursor()
    for n in range(400):
        log.append(Notice(str(n) * 20))
    seen: list[Record] = []
    while taken := cursor.take():
        consumed = (len(taken) + 1) // 2
        cursor.unread(taken, consumed)
        assert cursor.position == taken[consumed - 1].seq
        seen += taken[:consumed]
    assert [record.seq for record in seen] == list(range(1, 401))


def test_a_take_from_disk_given_back_whole_is_given_again_the_same(journal: Journal) -> None:
    log = SessionLog(journal, resident_limit=4000)
    for n in range(1000):
        log.append(Notice(str(n) * 300))
    cursor = log.cursor(after=0)
    seen: list[Record] = []
    while taken := cursor.take():
        cursor.unread(taken, 0)
        assert cursor.take() == taken
        seen += taken
    assert [record.seq for record in seen] == list(range(1, 1001))


def test_everything_of_the_last_take_can_be_given_back_whatever_was_appended_meanwhile() -> None:
    log = SessionLog(resident_limit=4000)
    cursor = log.cursor()
    seen: list[Record] = []
    for n in range(50):
        log.append(Notice(str(n) * 50))
        taken = cursor.take()
        for _ in range(20):
            log.append(Notice("x" * 100))
        cursor.unread(taken, 0)
        seen += read(cursor)
    assert [record.seq for record in seen] == list(range(1, 1051))


def test_going_back_further_than_the_last_take_is_refused() -> None:
    log = SessionLog()
    cursor = log.cursor()
    for _ in range(3):
        log.append(Notice("a"))
        cursor.take()
    cursor.rewind(2)
    for seq in (1, 4):
        with pytest.raises(ValueError, match="cannot rewind"):
            cursor.rewind(seq)
    assert [record.seq for record in cursor.take()] == [3]


# --- what is kept ---


@pytest.mark.parametrize("journaled", [True, False])
def test_a_reader_that_never_reads_costs_no_more_than_the_limit(journal: Journal, journaled: bool) -> None:
    limit = 1 << 20
    tracemalloc.start()
    try:
        log = SessionLog(journal if journaled else None, resident_limit=limit)
        slow = log.cursor()
        before = tracemalloc.get_traced_memory()[0]
        for n in range(30_000):
            log.append(TextDelta(f"word {n} "), 1)
            if n % 50 == 0:
                log.append(Notice("x" * 2000), 1)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert log.resident <= limit + 64 * 1024
    assert grown <= 1.2 * limit
    assert sum(isinstance(record.event, Notice) for record in read(slow)) == 600


def spilled() -> int:
    """Open unlinked files of this process."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += "agentwire-" in os.readlink(f"/proc/self/fd/{fd}") or "(deleted)" in os.readlink(
                f"/proc/self/fd/{fd}"
            )
        except OSError:
            continue
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files by /proc")
@pytest.mark.parametrize("how", ["close", "forget", "catch up"])
def test_the_private_file_goes_when_nobody_needs_it(how: str) -> None:
    gc.collect()
    before = spilled()
    log = SessionLog(resident_limit=4000)
    slow: Cursor | None = log.cursor()
    for _ in range(200):
        log.append(Notice("x" * 100))
    assert spilled() == before + 1
    assert slow is not None
    if how == "close":
        slow.close()
    elif how == "forget":
        slow = None
    for seq in range(201, 251):
        if how == "catch up":
            assert slow is not None
            assert read(slow)[-1].seq == seq - 1
        log.append(Notice("x" * 100))
    assert spilled() == before
    with pytest.raises(Gap):
        log.cursor(after=0)


def test_no_file_is_made_for_readers_that_keep_up() -> None:
    log = SessionLog(resident_limit=4000)
    cursor = log.cursor()
    before = spilled()
    for _ in range(500):
        log.append(Notice("x" * 100))
        cursor.take()
    assert spilled() == before


def test_a_log_at_rest_can_free_what_its_journal_has(journal: Journal) -> None:
    log = SessionLog(journal)
    cursor = log.cursor()
    for n in range(100):
        log.append(Notice(str(n)))
        log.append(TextDelta("a"))
    log.trim()
    assert log.resident == 0
    log.append(Notice("on"))
    assert [record.seq for record in read(cursor)] == list(range(1, 202))
    ephemeral = SessionLog()
    ephemeral.append(Notice("kept"))
    ephemeral.trim()
    assert [record.event for record in ephemeral.cursor(0).take()] == [Notice("kept")]


def test_a_damaged_disk_is_reported_to_the_reader_that_needs_it(journal: Journal) -> None:
    from agentwire.log import JournalError

    log = SessionLog(journal)
    cursor = log.cursor()
    for n in range(100):
        log.append(Notice(str(n)))
    log.trim()
    with open(journal.path, "r+b") as file:
        file.seek(500)
        file.write(b"\0" * 10)
    with pytest.raises(JournalError, match=r"s\.jsonl cannot be read back"):
        read(cursor)
    log.append(Notice("the writer does not mind"))
