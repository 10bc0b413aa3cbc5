"""The writer's side: the journal comes first, readers are woken, and nothing that readers do breaks an append."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from agentwire.events import (
    CallArgumentsDelta,
    CallFinished,
    CallReady,
    HostToolDetails,
    Notice,
    ReasoningDelta,
    TextDelta,
    TurnFinished,
    Usage,
)
from agentwire.log import Journal, JournalHeader, Record, SessionLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    journal = Journal.create(path, JournalHeader("s"))
    yield journal
    journal.close()


def lines(path: Path) -> list[Record]:
    return [msgspec.json.decode(line, type=Record) for line in path.read_bytes().split(b"\n")[1:-1]]


def test_records_are_numbered_from_one_and_timed() -> None:
    times = iter((100, 200))
    log = SessionLog(clock=lambda: next(times))
    assert log.append(Notice("a"), 3, "sub") == Record(1, 100, Notice("a"), 3, "sub")
    assert log.append(TextDelta("b")) == Record(2, 200, TextDelta("b"))
    assert log.seq == 2


def test_an_ephemeral_log_may_go_on_from_a_number() -> None:
    log = SessionLog(seq=41)
    assert log.append(Notice("a")).seq == 42


def test_an_event_that_is_no_delta_is_written_at_once_and_takes_waiting_deltas_along(
    journal: Journal, path: Path
) -> None:
    log = SessionLog(journal)
    log.append(TextDelta("a"))
    log.append(ReasoningDelta("b"))
    assert lines(path) == []
    log.append(Notice("c"))
    assert [record.seq for record in lines(path)] == [1, 2, 3]


def test_deltas_are_written_when_a_reader_takes_them(journal: Journal, path: Path) -> None:
    log = SessionLog(journal)
    cursor = log.cursor()
    log.append(TextDelta("a"))
    assert cursor.take() == lines(path)


def test_deltas_are_written_when_many_wait(journal: Journal, path: Path) -> None:
    log = SessionLog(journal)
    for _ in range(1000):
        log.append(TextDelta("a"))
    assert len(lines(path)) > 700


def test_a_large_delta_is_written_at_once(journal: Journal, path: Path) -> None:
    log = SessionLog(journal)
    log.append(CallArgumentsDelta("c", "x" * 10_000))
    log.append(CallArgumentsDelta("c", "x" * 10_000))
    assert len(lines(path)) == 2


def test_deltas_that_a_reader_waits_for_bear_their_own_time() -> None:
    now = 0

    def clock() -> int:
        return now

    log = SessionLog(clock=clock)
    cursor = log.cursor()
    for now in range(1000, 1100):
        assert cursor.park(lambda: None)
        log.append(TextDelta("a"))
        assert [record.time for record in cursor.take()] == [now]


@pytest.mark.parametrize("ephemeral", [True, False])
def test_no_reader_sees_half_a_surrogate_pair(journal: Journal, ephemeral: bool) -> None:
    log = SessionLog(None if ephemeral else journal)
    cursor = log.cursor()
    log.append(TextDelta("a\ud83d"))
    log.append(TextDelta("plain", "id\udcff"))
    log.append(CallArgumentsDelta("c\ude00", "x"))
    log.append(Notice("\ud83d\ude00"), 1, "sub\ud83d")
    log.append(TextDelta("plain"), 1, "sub\ud83d")
    log.append(CallFinished("c", "n", "ok", "fine", metadata={"k\ud83d": ["\ud83d"]}))
    records = cursor.take()
    assert [record.event for record in records] == [
        TextDelta("a\ufffd"),
        TextDelta("plain", "id\ufffd"),
        CallArgumentsDelta("c\ufffd", "x"),
        Notice("\U0001f600"),
        TextDelta("plain"),
        CallFinished("c", "n", "ok", "fine", metadata={"k\ufffd": ["\ufffd"]}),
    ]
    assert [record.origin for record in records] == ["", "", "", "sub\ufffd", "sub\ufffd", ""]


@pytest.mark.parametrize("ephemeral", [True, False])
@pytest.mark.parametrize(
    ("event", "seen"),
    [
        (TextDelta("plain", "id\udcff"), TextDelta("plain", "id\ufffd")),
        (ReasoningDelta("a\ud83d"), ReasoningDelta("a\ufffd")),
        (CallArgumentsDelta("c\udcff", "plain"), CallArgumentsDelta("c\ufffd", "plain")),
    ],
)
def test_half_a_pair_is_found_among_plain_deltas(
    journal: Journal, ephemeral: bool, event: TextDelta, seen: TextDelta
) -> None:
    log = SessionLog(None if ephemeral else journal)
    cursor = log.cursor()
    log.append(TextDelta("plain"))
    log.append(event)
    log.append(TextDelta("plain"))
    assert [record.event for record in cursor.take()] == [TextDelta("plain"), seen, TextDelta("plain")]


def test_ready_made_json_stays_on_one_line(journal: Journal, path: Path) -> None:
    log = SessionLog(journal)
    log.append(CallReady("c", "n", "{}", Raw(b'{\n  "a": "x\\n"\r\n}')))
    (record,) = lines(path)
    assert isinstance(record.event, CallReady)
    assert bytes(record.event.arguments) == b'{"a":"x\\n"}'  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "event",
    [
        HostToolDetails("c", Raw(b'{"a":')),
        HostToolDetails("c", Raw(b'"\xff"')),
        HostToolDetails("c", Raw(b"[" * 100_000)),
        CallFinished("c", "n", "ok", "", metadata={"a": object()}),
    ],
)
def test_what_is_not_json_is_refused_and_takes_no_number(journal: Journal, path: Path, event: HostToolDetails) -> None:
    log = SessionLog(journal)
    with pytest.raises((ValueError, TypeError)):
        log.append(event)
    log.append(Notice("next"))
    assert [record.event for record in lines(path)] == [Notice("next")]
    assert log.seq == 1


# --- waking ---


def test_a_parked_reader_is_woken_once_and_may_take_in_the_append() -> None:
    log = SessionLog()
    cursor = log.cursor()
    got: list[list[Record]] = []
    assert cursor.park(lambda: got.append(cursor.take()))
    first = log.append(TextDelta("a"))
    second = log.append(TextDelta("b"))
    assert got == [[first]]
    assert not cursor.park(lambda: None)
    assert cursor.take() == [second]


def test_a_reader_that_joins_among_deltas_nobody_waited_for_is_woken_by_the_next() -> None:
    log = SessionLog()
    for _ in range(3):
        log.append(TextDelta("a"))
    cursor = log.cursor()
    woken: list[str] = []
    assert cursor.park(lambda: woken.append("now"))
    log.append(TextDelta("b"))
    assert woken == ["now"]


def test_a_reader_that_parks_again_when_woken_is_served_by_every_append() -> None:
    log = SessionLog()
    cursor = log.cursor()
    got: list[Record] = []

    def serve() -> None:
        got.extend(cursor.take())
        assert cursor.park(serve)

    serve()
    for text in "abc":
        log.append(TextDelta(text))
        log.append(Notice(text))
    assert [record.seq for record in got] == [1, 2, 3, 4, 5, 6]


def test_a_reader_may_append_when_woken() -> None:
    log = SessionLog()
    first, second = log.cursor(), log.cursor()
    assert first.park(lambda: log.append(Notice("of the reader")))  # type: ignore[arg-type,func-returns-value]
    assert second.park(lambda: None)
    assert log.append(Notice("of the writer")).seq == 1
    assert [record.event for record in second.take()] == [Notice("of the writer"), Notice("of the reader")]


def test_a_reader_that_fails_disturbs_neither_the_writer_nor_other_readers(caplog: pytest.LogCaptureFixture) -> None:
    log = SessionLog()
    woken: list[str] = []
    cursors = [log.cursor(), log.cursor()]

    def fail() -> None:
        raise RuntimeError("no")

    cursors[0].park(fail)
    cursors[1].park(lambda: woken.append("second"))
    assert log.append(Notice("a")).seq == 1
    assert woken == ["second"]
    assert "RuntimeError: no" in caplog.text


def test_a_reader_closed_while_others_are_woken_is_not_woken() -> None:
    log = SessionLog()
    woken: list[str] = []
    first, second = log.cursor(), log.cursor()
    first.park(second.close)
    second.park(lambda: woken.append("second"))
    log.append(Notice("a"))
    assert woken == []


def test_a_reader_parked_again_while_others_are_woken_is_woken_by_the_next_append() -> None:
    log = SessionLog()
    woken: list[str] = []
    first, second = log.cursor(), log.cursor()

    def wake_second() -> None:
        woken.append(f"second at {log.seq}")

    def serve_both() -> None:
        first.take()
        second.take()
        assert second.park(wake_second)

    first.park(serve_both)
    second.park(wake_second)
    log.append(Notice("a"))
    assert woken == []
    log.append(Notice("b"))
    assert woken == ["second at 2"]


def test_parking_again_replaces_the_wake() -> None:
    log = SessionLog()
    cursor = log.cursor()
    woken: list[str] = []
    cursor.park(lambda: woken.append("old"))
    cursor.park(lambda: woken.append("new"))
    log.append(Notice("a"))
    assert woken == ["new"]


# --- a journal that cannot be written ---


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """A disk that is full: writing beyond ``size`` bytes of any file fails (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_when_the_journal_breaks_the_turn_can_still_end_and_the_file_stays_whole(journal: Journal, path: Path) -> None:
    log = SessionLog(journal)
    cursor = log.cursor()
    errors: list[OSError] = []
    log.on_broken = errors.append
    log.append(Notice("fits"))
    room = os.path.getsize(path) + 300
    with file_size_limit(room):
        for _ in range(100):
            log.append(TextDelta("0123456789"))
        log.append(Notice("does not fit"))
        assert errors == [log.broken]
        assert isinstance(log.broken, OSError)
        log.append(TextDelta("more"))
        log.append(TurnFinished("failed", usage=Usage(1, 2)))
    log.append(Notice("there is room again"))
    assert len(errors) == 1
    seen = []
    while taken := cursor.take():
        seen += taken
    assert [record.seq for record in seen] == list(range(1, 106))
    log.close()
    kept: list[Record] = []
    again = Journal.open(path, kept.extend)
    assert again.lost == 0
    assert kept == seen[: len(kept)]
    assert 1 < len(kept) < 10
    again.close()


def test_the_owner_may_say_in_the_log_that_it_broke(journal: Journal) -> None:
    log = SessionLog(journal)
    cursor = log.cursor()
    log.on_broken = lambda error: log.append(Notice(f"broken: {error.strerror}"))  # type: ignore[assignment,func-returns-value,return-value]
    os.close(journal.fd)
    journal.fd = os.open(journal.path, os.O_RDONLY)
    log.append(TextDelta("a"))
    log.append(Notice("b"))
    events = [record.event for record in cursor.take()]
    assert events == [TextDelta("a"), Notice("b"), Notice("broken: Bad file descriptor")]


def test_a_slow_reader_gets_all_of_a_log_that_broke(journal: Journal) -> None:
    log = SessionLog(journal, resident_limit=8000)
    slow = log.cursor()
    for _ in range(300):
        log.append(Notice("x" * 100))
    with file_size_limit(os.path.getsize(journal.path) + 2000):
        for _ in range(300):
            log.append(Notice("y" * 100))
    assert log.broken is not None
    for _ in range(300):
        log.append(Notice("z" * 100))
    assert log.resident < 9000
    seen = []
    while taken := slow.take():
        seen += taken
    assert [record.seq for record in seen] == list(range(1, 901))


def test_a_full_disk_makes_a_slow_reader_cost_memory_rather_than_lose(caplog: pytest.LogCaptureFixture) -> None:
    log = SessionLog(resident_limit=4000)
    slow = log.cursor()
    with file_size_limit(1000):
        for _ in range(100):
            log.append(Notice("x" * 100))
        assert log.resident > 20_000
    assert len([record for record in caplog.records if "slow reader" in record.message]) == 1
    for _ in range(100):
        log.append(Notice("x" * 100))
    assert log.resident < 5000
    seen = []
    while taken := slow.take():
        seen += taken
    assert [record.seq for record in seen] == list(range(1, 201))


def test_a_failed_sync_breaks_the_journal(journal: Journal, path: Path) -> None:
    log = SessionLog(journal)
    errors: list[OSError] = []
    log.on_broken = errors.append
    log.append(TextDelta("a"))
    log.sync()
    error = OSError(5, "Input/output error")
    log.fail(error)
    log.fail(error)
    assert errors == [error]
    log.append(Notice("b"))
    assert [record.event for record in lines(path)] == [TextDelta("a")]


# --- the end ---


def test_a_closed_log_takes_nothing_more_and_readers_still_read_to_its_end(journal: Journal, path: Path) -> None:
    log = SessionLog(journal, resident_limit=4000)
    slow, parked = log.cursor(), log.cursor()
    woken: list[str] = []
    for _ in range(200):
        log.append(Notice("x" * 100))
    log.append(TextDelta("last"))
    while parked.take():
        pass
    parked.park(lambda: woken.append("end"))
    log.close()
    log.close()
    assert woken == ["end"]
    assert not parked.park(lambda: None)
    for event in (Notice("no"), TextDelta("no")):
        with pytest.raises(ValueError, match="closed"):
            log.append(event)
    assert log.seq == 201
    Journal.open(path).close()  # unlocked
    seen = []
    while taken := slow.take():
        seen += taken
    assert [record.seq for record in seen] == list(range(1, 202))
    slow.close()
    parked.close()
    assert journal.fd == -1
