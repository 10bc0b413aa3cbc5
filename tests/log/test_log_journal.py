"""The journal file: what is in it, what it survives, and what it says about damage."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from agentwire.events import (
    ALL_EVENTS,
    CallFinished,
    CallReady,
    HostToolDetails,
    Notice,
    StepFinished,
    TextDelta,
    TurnStarted,
    Unknown,
)
from agentwire.log import (
    Journal,
    JournalError,
    JournalHeader,
    JournalView,
    Record,
    SessionExists,
    SessionInUse,
    SessionLog,
    StoreError,
)
from agentwire.log.journal import NoHeader
from agentwire.log.lines import RAW_FIELDS

HEADER = JournalHeader("s", created=1764468000000, workspace="/w", provider="openai", model="m")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def write(path: Path, *events: Any) -> list[Record]:
    log = SessionLog(Journal.create(path, HEADER))
    records = [log.append(event, 1) for event in events]
    log.close()
    return records


def read(path: Path) -> tuple[Journal, list[Record]]:
    records: list[Record] = []
    journal = Journal.open(path, records.extend)
    journal.close()
    return journal, records


def test_it_is_one_header_and_then_one_record_a_line(path: Path) -> None:
    write(path, TurnStarted("t"), TextDelta("é\n"), Notice("x"))
    lines = path.read_bytes().split(b"\n")
    assert msgspec.json.decode(lines[0]) == {
        "agentwire": "journal",
        "version": 1,
        "session": "s",
        "created": 1764468000000,
        "workspace": "/w",
        "provider": "openai",
        "model": "m",
        "forked_from": "",
        "root": "",
    }
    assert [msgspec.json.decode(line)["event"]["type"] for line in lines[1:-1]] == [
        "turn_started",
        "text_delta",
        "notice",
    ]
    assert lines[-1] == b""


def test_what_was_written_is_read_again(path: Path) -> None:
    written = write(path, TurnStarted("t", 1.5), CallReady("c", "n", "{}", Raw(b'{"a":1}')), TextDelta("x"))
    journal, records = read(path)
    assert (journal.header, journal.seq, journal.lost) == (HEADER, 3, 0)
    assert msgspec.json.encode(records) == msgspec.json.encode(written)


def test_only_its_owner_may_read_it(path: Path) -> None:
    previous = os.umask(0)
    try:
        write(path)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_going_on_continues_the_numbers(path: Path) -> None:
    write(path, Notice("1"), Notice("2"))
    for n in (3, 4):
        log = SessionLog(Journal.open(path))
        assert log.append(Notice(str(n))).seq == n
        log.close()
    assert [record.seq for record in read(path)[1]] == [1, 2, 3, 4]


def test_long_journals_are_read_in_blocks_and_any_place_is_found_again(path: Path) -> None:
    events = [Notice("x" * (n % 977 * 10)) for n in range(300)] + [Notice("y" * 1_000_000), Notice("z")]
    write(path, *events)
    journal = Journal.open(path)
    for after in (0, 1, 7, 150, 299, 300, 301):
        records, offset = journal.read(after)
        assert records[0].seq == after + 1
        assert records[0].event == events[after]
        if records[-1].seq < journal.seq:
            following, _ = journal.read(records[-1].seq, offset)
            assert following[0].seq == records[-1].seq + 1
    journal.close()


def test_records_hold_no_more_of_the_file_than_they_are(path: Path) -> None:
    write(
        path,
        StepFinished(0, "t", items=[Raw(b'{"a":1}')]),
        HostToolDetails("c", Raw(b"[1]")),
        CallFinished("c", "n", "ok", "x" * 10_000),
    )
    records = read(path)[1]
    raws = [records[0].event.items[0], records[1].event.details]  # type: ignore[union-attr]
    assert [sys.getsizeof(raw) < 200 and len(memoryview(raw).obj) < 100 for raw in raws] == [True, True]


def test_the_table_of_ready_made_json_is_complete() -> None:
    from typing import get_args, get_type_hints

    def holds_raw(hint: Any) -> bool:
        return hint is Raw or any(holds_raw(part) for part in get_args(hint))

    found = {(kind, name) for kind in ALL_EVENTS for name, hint in get_type_hints(kind).items() if holds_raw(hint)}
    assert found == set(RAW_FIELDS.items())


# --- dying in the middle ---


def test_cut_at_any_byte_it_loses_at_most_the_record_being_written(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    write(whole, TurnStarted("t"), TextDelta("é🙂"), CallReady("c", "n", "{}", Raw(b'{"a":1}')), Notice("end"))
    data = whole.read_bytes()
    ends = [n + 1 for n, byte in enumerate(data) if byte == ord("\n")]
    path = tmp_path / "s.jsonl"
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        if size < ends[0]:
            with pytest.raises(NoHeader):
                Journal.open(path)
            Journal.create(path, HEADER).close()
            assert path.read_bytes() == data[: ends[0]]
            continue
        kept = max(end for end in ends if end <= size)
        journal = Journal.open(path)
        assert (journal.lost, journal.seq) == (size - kept, ends.index(kept))
        log = SessionLog(journal)
        log.append(Notice("after"))
        log.close()
        assert read(path)[1][-1] == Record(ends.index(kept) + 1, read(path)[1][-1].time, Notice("after"))


WRITER = """
import sys
from agentwire.events import Notice, TextDelta
from agentwire.log import Journal, JournalHeader, SessionLog
log = SessionLog(Journal.create(sys.argv[1], JournalHeader("s")))
print("ready", flush=True)
while True:
    log.append(TextDelta("x" * 50))
    log.append(Notice("y" * 200))
"""


def test_killed_at_any_moment_it_goes_on_without_gap(path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, os.fspath(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    while path.stat().st_size < 200_000:
        assert writer.poll() is None
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    records = read(path)[1]
    assert len(records) > 100
    log = SessionLog(Journal.open(path))
    assert log.append(Notice("on")).seq == len(records) + 1
    log.close()


@pytest.mark.parametrize("junk", [b"\0" * 300, b"", b'{"agentwire":"journ', b'{"agentwire":"journal","session":"s"'])
def test_a_file_whose_creation_was_cut_short_is_taken_over(path: Path, junk: bytes) -> None:
    path.write_bytes(junk)
    write(path, Notice("a"))
    assert len(read(path)[1]) == 1


@pytest.mark.parametrize("other", [b"my notes", b"my notes\n", b'{"agentwire":"journal","session":"s"}\n'])
def test_any_other_file_is_left_alone(path: Path, other: bytes) -> None:
    path.write_bytes(other)
    with pytest.raises(SessionExists, match="Session ID 's' already exists"):
        Journal.create(path, HEADER)
    assert path.read_bytes() == other


# --- damage and other versions ---


def edit(path: Path, line: int, change: Any) -> bytes:
    """Change one line, counted from 1 as editors do; gives the file's bytes."""
    lines = path.read_bytes().split(b"\n")
    lines[line - 1] = change(lines[line - 1])
    path.write_bytes(b"\n".join(lines))
    return path.read_bytes()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda line: line[:-3], "truncated"),
        (lambda line: b"\0" * len(line), "malformed"),
        (lambda line: b"", "truncated"),
        (lambda line: line + line, "malformed"),
        (lambda line: line.replace(b'"seq":3', b'"seq":2'), "record 2 where 3 must be"),
        (lambda line: line.replace(b'"seq":3', b'"seq":4'), "record 4 where 3 must be"),
        (lambda line: line.replace(b'"seq":3,', b""), "seq"),
        (lambda line: line.replace(b'"text":', b'"test":'), "text"),
    ],
)
def test_damage_is_reported_with_its_line_and_left_as_it_is(path: Path, change: Any, problem: str) -> None:
    write(path, Notice("1"), Notice("2"), Notice("3"), Notice("4"))
    data = edit(path, 4, change)
    with pytest.raises(JournalError, match=r"s\.jsonl is damaged at line 4: .*" + problem) as info:
        Journal.open(path)
    assert "\n" not in info.value.message
    assert path.read_bytes() == data
    with JournalView.open(path) as view, pytest.raises(JournalError, match="line 4"):
        list(view.records())


def test_damage_far_into_the_file_has_the_right_line(path: Path) -> None:
    write(path, *(Notice("x" * 1000) for _ in range(500)))
    edit(path, 400, lambda line: line[1:])
    with pytest.raises(JournalError, match="line 400"):
        Journal.open(path)


def test_what_a_newer_version_says_is_kept(path: Path) -> None:
    write(path, Notice("1"), Notice("2"), TextDelta("3"))
    edit(path, 3, lambda line: line.replace(b'"type":"notice"', b'"type":"telepathy","to":["you"]'))
    edit(path, 4, lambda line: line.replace(b'"type":"text_delta"', b'"mood":{"x":1},"type":"text_delta"'))
    edit(path, 4, lambda line: line.replace(b'{"seq"', b'{"new":[1],"seq"'))
    records = read(path)[1]
    unknown = records[1].event
    assert isinstance(unknown, Unknown)
    assert (unknown.wire, unknown.name) == ("agentwire", "telepathy")
    assert msgspec.json.decode(unknown.raw) == {"type": "telepathy", "to": ["you"], "text": "2"}
    assert records[2].event == TextDelta("3")
    assert (records[1].turn, records[1].seq) == (1, 2)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b'{"agentwire":"journal","version":2,"session":"s"}\n', r"newer version of agentwire \(format 2\)"),
        (b'{"agentwire":"journal","version":9,"session":{"id":"s"}}\n', r"newer version of agentwire \(format 9\)"),
        (b'{"agentwire":"journal","version":1,"session":5}\n', "has a damaged first line"),
        (b'{"agentwire":"recording"}\n', "is not a journal of agentwire"),
        (b"hello\n", "is not a journal of agentwire"),
        (b"\xff\xfe\n", "is not a journal of agentwire"),
    ],
)
def test_other_files_and_formats_are_refused_in_plain_words(path: Path, header: bytes, message: str) -> None:
    path.write_bytes(header)
    with pytest.raises(JournalError, match=message):
        Journal.open(path)
    with pytest.raises(JournalError, match=message):
        JournalView.open(path)


def test_a_header_may_hold_what_is_not_utf_8(path: Path) -> None:
    Journal.create(path, JournalHeader("s", workspace="/w/\udcff")).close()
    assert read(path)[0].header.workspace == "/w/\ufffd"


def test_a_header_that_nobody_could_read_again_is_refused(path: Path) -> None:
    with pytest.raises(StoreError, match="first line would be too long"):
        Journal.create(path, JournalHeader("s", model="m" * 70_000))
    assert not path.exists()


def test_the_system_s_errors_are_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        Journal.create(tmp_path / "no" / "s.jsonl", HEADER)
    with pytest.raises(FileNotFoundError):
        Journal.open(tmp_path / "s.jsonl")
    (tmp_path / "d.jsonl").mkdir()
    with pytest.raises(JournalError, match=r"cannot be opened: Is a directory"):
        Journal.open(tmp_path / "d.jsonl")


# --- one writer ---

HOLDER = """
import os, sys
from agentwire.log import Journal
journal = Journal.open(sys.argv[1])
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_gone_however_it_dies(path: Path) -> None:
    write(path, Notice("a"))
    before = path.read_bytes()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, os.fspath(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    pid = int(holder.stdout.readline())
    with pytest.raises(SessionInUse) as info:
        Journal.open(path)
    if sys.platform == "linux":
        assert info.value.pid == pid
        assert info.value.message == f"Session 's' is in use by another process (pid {pid})"
    else:
        assert info.value.message == "Session 's' is in use by another process"
    assert path.read_bytes() == before
    with JournalView.open(path) as view:
        assert [record.seq for records in view.records() for record in records] == [1]
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    read(path)


def test_this_process_excludes_itself_too(path: Path) -> None:
    journal = Journal.create(path, HEADER)
    with pytest.raises(SessionInUse, match=r"in use by (this|another) process"):
        Journal.open(path)
    with pytest.raises(SessionExists):
        Journal.create(path, HEADER)
    journal.close()
    Journal.open(path).close()


def test_children_do_not_inherit_it(path: Path) -> None:
    journal = Journal.create(path, HEADER)
    program = f"import os; os.fstat({journal.fd})"
    child = subprocess.run([sys.executable, "-c", program], close_fds=False, capture_output=True, text=True)
    assert "Bad file descriptor" in child.stderr
    journal.close()


def test_a_reader_sees_only_whole_lines_while_it_is_written(path: Path) -> None:
    write(path, Notice("1"), Notice("2"))
    with open(path, "ab") as file:
        file.write(b'{"seq":3,"time":1,"event":{"type":"not')
    with JournalView.open(path) as view:
        assert [record.seq for records in view.records() for record in records] == [1, 2]


def test_opening_leaves_no_descriptor_behind_when_it_fails(path: Path) -> None:
    write(path, Notice("1"), Notice("2"))
    edit(path, 2, lambda line: line[1:])
    fds = len(os.listdir("/dev/fd"))
    for _ in range(5):
        with pytest.raises(JournalError):
            Journal.open(path)
        with pytest.raises(SessionExists):
            Journal.create(path, HEADER)
    assert len(os.listdir("/dev/fd")) == fds
