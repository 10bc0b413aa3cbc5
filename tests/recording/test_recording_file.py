"""Recordings: what is read is what passed, whatever the pieces, the bytes and the crash."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.recording import Entry, Recorder, RecordingError, entries_of, open_recording

PAGENT = Path(__file__).parents[1] / "pagent" / "recordings"


def ticking() -> itertools.count:
    return itertools.count(1_000_000, 5_000)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["host", "agent", "log"]), st.binary(max_size=30) | st.just(b"a\r\n\xe2\x80\xa8b\n")),
        max_size=20,
    )
)
def test_bytes_come_back_as_they_were(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("r") / "r.jsonl"
    clock = ticking()
    with Recorder(path, "aionrs", role="tap", monotonic=lambda: next(clock)) as recorder:
        for who, data in pieces:
            getattr(recorder, who)(data)
    entries = list(open_recording(path))
    for who in ("host", "agent", "log"):
        passed = b"".join(data for by, data in pieces if by == who)
        lines = [found.data for found in entries if found.who == who]
        assert b"".join(lines) == passed
        assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines[:-1])
    times = [found.at for found in entries]
    assert times == sorted(times)


def test_the_header_says_what_it_is(tmp_path):
    with Recorder(tmp_path / "r", "jan", role="serve", about={"model": "m"}) as recorder:
        recorder.aside("tool", {"call_id": "c"})
    found = open_recording(tmp_path / "r")
    assert (found.header.codec, found.header.role, found.header.about) == ("jan", "serve", {"model": "m"})
    (aside,) = found
    assert aside.about == {"call_id": "c"}
    assert os.stat(tmp_path / "r").st_mode & 0o777 == 0o600


def test_a_recording_cut_at_any_byte_is_read_up_to_there(tmp_path):
    path = tmp_path / "r"
    with Recorder(path, "aionrs") as recorder:
        recorder.host(b"one\n")
        recorder.agent("zwei — \u2028\n".encode() + b"\xff\n")
    whole = path.read_bytes()
    every = [found.data for found in open_recording(path)]
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole) + 1):
        path.write_bytes(whole[:cut])
        got = [found.data for found in open_recording(path)]
        assert got == every[: len(got)]
        assert len(got) >= whole[:cut].count(b"\n") - 1
        with Recorder(path, "aionrs") as recorder:  # and can be gone on with
            recorder.agent(b"more\n")
        assert [found.data for found in open_recording(path)][-1] == b"more\n"
        assert len(list(open_recording(path))) == len(got) + 1


def test_times_go_on_in_a_file_that_is_gone_on_with(tmp_path):
    for _ in range(2):
        clock = ticking()
        with Recorder(tmp_path / "r", "aionrs", monotonic=lambda clock=clock: next(clock)) as recorder:
            recorder.agent(b"a\n")
            recorder.agent(b"b\n")
    assert [found.at for found in open_recording(tmp_path / "r")] == [5, 10, 15, 20]


def test_a_plain_log_is_read_as_the_agents_lines():
    path = PAGENT / "single_turn.jsonl"
    found = open_recording(path)
    assert found.plain
    assert b"".join(entry.data for entry in found) == path.read_bytes()
    assert {entry.who for entry in found} == {"agent"}


def test_rows_of_streams_are_read():
    found = open_recording(PAGENT / "v4_stdio_session.jsonl")
    assert not found.plain
    entries = list(found)
    assert [entry.who for entry in entries[:3]] == ["agent", "log", "host"]
    assert entries[2] == Entry(0, "host", '{"cmd": "commands"}\n')


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(RecordingError, match="nowhere"):
        open_recording(tmp_path / "nowhere")
    (tmp_path / "new").write_bytes(b'{"agentwire":"recording","version":99}\n')
    with pytest.raises(RecordingError, match="version 99"):
        open_recording(tmp_path / "new")
    (tmp_path / "journal").write_bytes(b'{"agentwire":"journal","version":1}\n')
    with pytest.raises(RecordingError, match="journal, not a recording"):
        open_recording(tmp_path / "journal")
    with pytest.raises(RecordingError, match="cannot be written"):
        Recorder(tmp_path / "no" / "r", "aionrs")


def test_a_full_disk_ends_the_recording_and_nothing_else(caplog):
    recorder = Recorder("/dev/full", "aionrs") if os.path.exists("/dev/full") else pytest.skip("no /dev/full")
    recorder.agent(b"x\n")
    assert recorder.broken
    recorder.agent(b"y\n")
    recorder.close()
    assert caplog.text.count("ends here") == 1


@pytest.mark.parametrize("line", [b'{"at":"soon","who', b'{"at":1.5,"who":"agent","text":"\xff', b"[" * 100_000])
def test_a_line_that_is_wrong_and_torn_is_left_out(line):
    rest = b'{"at":3,"who":"agent","text":"a\\n"}\n'
    assert [found.data for found in entries_of([line, b"\n", rest])] == [b"a\n"]


def test_a_command_line_is_kept_without_its_secrets(tmp_path):
    argv = [
        "agent", "--api-key", "k-1", "--token=k-2", "-o", "api_key=k-3", "--max-tokens", "5", "--header",
        "Authorization: Bearer k-4", "--base-url", "https://me:k-5@host/v1", "API_KEY=k-6", "--password",
    ]  # fmt: skip
    Recorder(tmp_path / "r", "aionrs", role="tap", about={"argv": argv}).close()
    kept = open_recording(tmp_path / "r").header.about["argv"]
    assert kept == [
        "agent", "--api-key", "***", "--token=***", "-o", "api_key=***", "--max-tokens", "5", "--header",
        "Authorization:***", "--base-url", "https://***@host/v1", "API_KEY=***", "--password",
    ]  # fmt: skip
