"""Recordings shown and told again: byte for byte, as another wire, at a pace, from a turn."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from replaying import RECORDINGS, recorded, replay

from agentwire import load_codec
from agentwire.recording import open_recording
from agentwire.replay.pace import Pace
from agentwire.replay.playing import How, emit, emit_as, show
from agentwire.transcode import transcode, wire_of

pytestmark = pytest.mark.slow

LOGS = sorted(path for path in RECORDINGS.glob("*.jsonl") if path.stem not in ("decode_probes", "http_demo"))
INSTANT = Pace(0)


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_recording_is_told_again_to_the_byte(path):
    out = bytearray()
    recording = open_recording(path)
    lines = emit(recording, out.extend, How(INSTANT))
    agents = b"".join(entry.data for entry in recording if entry.who == "agent")
    assert bytes(out) == agents
    assert lines == agents.count(b"\n")
    if recording.plain:
        assert agents == path.read_bytes()


def told_by_one(path: Path) -> bool:
    return all(entry.who != "host" for entry in open_recording(path))


@pytest.mark.parametrize("target", ["aionrs", "jan", "levpro"])
@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_as_another_wire_it_is_what_transcode_writes(path, target):
    """Where a host was recorded too, transcode writes a dialogue; what is played is the agent's part of the log."""
    recording = open_recording(path)
    source, written = load_codec(wire_of(recording)), load_codec(target)
    played, expected = bytearray(), bytearray()
    emit_as(recording, source, written, played.extend, How(INSTANT))
    assert played.count(b"\n") > 0
    if told_by_one(path):
        transcode(recording, source, written, expected.extend)
        assert played == expected
    else:
        assert written.checker is not None
        checker = written.checker()
        assert [
            found for line in played.splitlines() for found in checker.agent(line) if found.severity == "must"
        ] == []


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_recording_is_shown(path):
    from io import StringIO

    from rich.console import Console

    from agentwire.host.screen import Screen

    out = StringIO()
    recording = open_recording(path)
    show(recording, load_codec(wire_of(recording)), Screen(Console(file=out, width=200)), How(INSTANT))
    assert "turn " in out.getvalue()


def test_the_command_shows_what_a_person_saw():
    done = replay(RECORDINGS / "v4_stdio_session.jsonl", "--instant")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    for words in ("user: run echo hi", "agent asks: may I run", "note: allowed", "note: denied: no way", "boom"):
        assert words in text


def test_from_a_turn_on():
    whole = (RECORDINGS / "two_runs_one_session.jsonl").read_bytes()
    done = replay(RECORDINGS / "two_runs_one_session.jsonl", "--emit", "--from-turn", "2")
    assert whole.endswith(done.stdout)
    assert done.stdout.count(b"RunBegin") == 1
    assert whole.count(b"RunBegin") == 2
    as_aionrs = replay(RECORDINGS / "two_runs_one_session.jsonl", "--emit", "--codec", "aionrs", "--from-turn", "2")
    kinds = [json.loads(line)["type"] for line in as_aionrs.stdout.splitlines()]
    assert (kinds[0], kinds[1], kinds.count("stream_start")) == ("ready", "stream_start", 1)


def test_the_pace_is_the_recordings():
    now = [100.0]
    pace = Pace(2.0, clock=lambda: now[0])
    assert pace.delay(1_000_000) == 0
    assert pace.delay(3_000_000) == 1.0
    now[0] += 0.4
    assert pace.delay(3_000_000) == pytest.approx(0.6)
    now[0] += 5
    assert pace.delay(3_000_000) == 0
    pace.restart(9_000_000)
    assert pace.delay(10_000_000) == 0.5
    assert Pace(0).delay(10**12) == 0


def test_lines_come_when_they_came(tmp_path):
    ticks = iter([0, 0, 400_000_000, 400_000_000])
    from agentwire.recording import Recorder

    recorder = Recorder(tmp_path / "r", "aionrs", monotonic=lambda: next(ticks))
    recorder.agent(b'{"type":"pong"}\n')
    recorder.agent(b'{"type":"pong"}\n')
    recorder.close()
    times = []
    emit(open_recording(tmp_path / "r"), lambda data: times.append(time.monotonic()), How(Pace()))
    assert 0.35 < times[1] - times[0] < 5
    emit(open_recording(tmp_path / "r"), lambda data: times.append(time.monotonic()), How(Pace(1000)))
    assert times[3] - times[2] < 0.35


def test_step_by_step_each_line_waits_for_enter():
    command = [
        sys.executable,
        "-m",
        "agentwire",
        "replay",
        str(RECORDINGS / "empty_response.jsonl"),
        "--emit",
        "--step",
    ]
    lines = (RECORDINGS / "empty_response.jsonl").read_bytes().splitlines(keepends=True)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        assert not process.stdout.read()
        os.set_blocking(process.stdout.fileno(), True)
        for line in lines[:2]:
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == line
        process.stdin.close()  # nobody presses it any more: the rest comes
        assert process.stdout.read() == b"".join(lines[2:])
        assert process.wait(30) == 0


def test_what_cannot_be_replayed_is_said(tmp_path):
    (tmp_path / "x").write_text("hello\n")
    done = replay(tmp_path / "x")
    assert done.returncode == 1
    assert b"no installed codec knows these lines" in done.stderr
    assert replay(tmp_path / "x", "--emit").stdout == b"hello\n"
    assert replay(tmp_path / "x", "--lenient").returncode == 2
    assert replay(tmp_path / "x", "--verify", "--step").returncode == 2
    assert replay(tmp_path / "x", "--from", "nope").returncode == 2


def test_a_bar_for_a_terminal_and_none_for_a_pipe(tmp_path):
    lines = [("agent", b'{"type":"text_delta","text":"%s","msg_id":"m"}\n' % (b"x" * 500))] * 2000
    path = recorded(tmp_path / "r", "aionrs", lines)
    plain = replay(path, "--emit", "--instant")
    assert plain.stderr == b""
    ours, theirs = pty.openpty()
    seen = bytearray()

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:
                return
            if not data:
                return
            seen.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    command = [sys.executable, "-m", "agentwire", "replay", str(path), "--emit", "--instant"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=theirs, check=False, timeout=60, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    reader.join(30)
    os.close(ours)
    assert done.stdout == plain.stdout
    assert "\u2501" in seen.decode("utf-8", "replace")


@pytest.mark.slow
def test_a_million_lines_pass_in_constant_memory(tmp_path):
    """Told again, told as another wire, and read: the peak is that of a few lines."""
    small, large = tmp_path / "small", tmp_path / "large"
    _long(small, 2_000)
    for lines, options in ((1_000_000, ["--emit"]), (200_000, ["--emit", "--codec", "pagent"]), (100_000, ["--show"])):
        _long(large, lines)
        peaks = [_peak(path, *options) for path in (small, large)]
        assert peaks[1] < peaks[0] + 24 * 1024, (options, peaks)


def _long(path: Path, lines: int) -> None:
    with path.open("w") as file:
        file.write('{"agentwire":"recording","version":1,"codec":"aionrs"}\n')
        for n in range(lines // 200):
            file.write(_row(n, {"type": "stream_start", "msg_id": f"m{n}"}))
            row = _row(n, {"type": "text_delta", "text": "some words", "msg_id": f"m{n}"})
            file.write(row * 198)
            file.write(_row(n, {"type": "stream_end", "msg_id": f"m{n}", "usage": {"input_tokens": 1}}))


def _row(n: int, line: dict) -> str:
    return json.dumps({"at": n, "who": "agent", "text": json.dumps(line) + "\n"}) + "\n"


def _peak(path: Path, *options: str) -> int:
    """Kilobytes."""
    program = (
        "import resource, sys; from agentwire.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "replay", str(path), "--instant", *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, timeout=580)
    return int(done.stderr.split()[-1])
