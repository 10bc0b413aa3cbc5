"""The command, the wires it recognises, the originals it keeps, and several sessions on a wire that knows one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result
from strategies import complete_log
from wires import RECORDINGS, STREAMS, WIRES, entries, logs_of, rendered, split

from agentwire import events as bus
from agentwire.cli import agentwire
from agentwire.cli.closed_output import until_closed
from agentwire.codec import Record
from agentwire.recording import RecordingError, open_recording
from agentwire.transcode import LogWriter, Unrecognised, broken_laws, read_log, recognise, transcode
from agentwire.transcode.originals import originals

pytestmark = pytest.mark.slow


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(agentwire, ["transcode", *map(str, arguments)], standalone_mode=False)


def test_a_recording_goes_to_standard_output_and_its_losses_to_standard_error() -> None:
    done = run(RECORDINGS / "tool_two_turns.jsonl", "--to", "levpro")
    assert done.return_value == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.get("event", line["type"]) for line in lines][:2] == ["run_start", "llm_start"]
    assert "pagent -> levpro: 1 sessions, 1 turns, 13 lines read, 12 written" in done.stderr
    assert "absent    step_finished.usage" in done.stderr


def test_a_file_and_a_report(tmp_path: Path) -> None:
    out, report = tmp_path / "out.jsonl", tmp_path / "report.json"
    done = run(RECORDINGS / "reasoning.jsonl", "--to", "levpro", "-o", out, "--report", report, "-q")
    assert (done.return_value, done.stdout, done.stderr) == (0, "", "")
    told = json.loads(report.read_bytes())
    assert (told["source"], told["target"], told["lines_written"]) == ("pagent", "levpro", len(split(out.read_bytes())))
    absent = {"event": "reasoning_delta", "field": "", "verdict": "absent", "note": "the wire has no reasoning"}
    (found,) = [loss for loss in told["losses"] if loss["event"] == "reasoning_delta"]
    assert found == {**absent, "count": told["events"]["reasoning_delta"]["told"]}
    assert told["events"]["reasoning_delta"]["heard"] == 0


def test_rows_with_the_standard_streams_are_read_both_ways() -> None:
    done = run(RECORDINGS / "v4_stdio_session.jsonl", "--to", "jan-stream")
    assert done.return_value == 0
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (told[0]["agentwire"], told[0]["codec"]) == ("recording", "jan-stream")
    lines = [(entry["who"], entry["text"]) for entry in told[1:] if entry["who"] in ("host", "agent")]
    assert ("agent", '{"type":"permission_decision","request_id":"call_1","decision":"allow_once"}\n') in lines
    assert ("host", '{"type":"permission","request_id":"call_1","decision":"allow_once"}\n') in lines
    assert "the host asked: 1 approve, 1 deny," in done.stderr
    assert "dropped: 3 prompt (too_late)" in done.stderr


def test_a_recording_that_says_its_wire_need_not_be_recognised(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    header = b'{"agentwire":"recording","version":1,"codec":"pagent-v4"}\n'
    line = '{"jsonrpc": "2.0", "method": "RunBegin", "params": {"user_input": "x"}}\n'
    path.write_bytes(header + json.dumps({"at": 1, "who": "agent", "text": line}).encode() + b"\n")
    assert "pagent-v4 -> pagent" in run(path, "--to", "pagent").stderr
    assert "aionrs -> pagent" in run(path, "--to", "pagent", "--from", "aionrs").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "morse"], "Unknown codec: 'morse'"),
        (["--to", "jan", "--from", "morse"], "Unknown codec: 'morse'"),
        (["--to", "jan"], "no installed codec knows these lines"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"sparkle":1}\n[]\nx\n')
    error = run(path, *arguments).exception
    assert isinstance(error, click.ClickException)
    assert said in error.message


def test_a_file_is_not_written_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(STREAMS["single_turn"][1])
    assert isinstance(run(path, "--to", "jan", "-o", path).exception, click.UsageError)
    assert path.read_bytes() == STREAMS["single_turn"][1]


# --- originals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v4_stdio_session.jsonl", "v4_stdio_cancel_during_permit.jsonl"])
def test_a_recording_of_both_directions_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    there, back = tmp_path / "there.jsonl", tmp_path / "back.jsonl"
    assert run(RECORDINGS / name, "--to", "aionrs", "-o", there, "--keep-original").return_value == 0
    done = run(there, "--to", "pagent-v4", "-o", back)
    assert back.read_bytes() == (RECORDINGS / name).read_bytes()
    assert done.stderr == "aionrs -> pagent-v4: the original lines were given back\n"


def test_even_what_is_no_line_of_the_wire_comes_back(tmp_path: Path) -> None:
    """Blank lines, carriage returns, bytes that are no text, and a last line that was torn."""
    source, there, back = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    lines = split(STREAMS["tool_two_turns"][1])
    source.write_bytes(b"\n\xff\xfe\n" + b"\r\n".join(lines[:4]) + b"\n\n" + b"\n".join(lines[4:]) + b'\n{"torn')
    run(source, "--to", "jan", "-o", there, "--keep-original")
    run(there, "--to", "pagent", "-o", back)
    assert back.read_bytes() == source.read_bytes()


def test_damaged_originals_are_no_secret() -> None:
    for about in ({"original": "x"}, {"original": [1]}, {"original": [{"base64": "?"}]}):
        entry = msgspec.structs.replace(entries(b"x\n")[0], about=about)
        with pytest.raises(RecordingError, match="damaged"):
            list(originals([entry]))


# --- which wire is it? ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WIRES)
def test_every_wire_is_told_by_what_we_write(name: str) -> None:
    stream, _ = rendered(WIRES[name], {"s": complete_log()})
    assert recognise(split(stream)) == name


def test_lines_of_several_wires_wait_for_one_that_tells() -> None:
    shared = split(STREAMS["v4_single_turn"][1])[:3]
    assert recognise([*shared, *split(STREAMS["v4_single_turn"][1])[3:]]) == "pagent-v4"
    assert recognise(shared) == "pagent"
    with pytest.raises(Unrecognised):
        recognise([b"1", b"{}", b"nonsense"])


# --- several sessions ----------------------------------------------------------------------------------------


def turn(session: str, call: str, first: int) -> list[tuple[str, Record]]:
    events: list[bus.Event] = [
        bus.SessionOpened(session), bus.TurnStarted(f"t-{session}"), bus.StepStarted(0),
        bus.CallReady(call, "Read", "{}"), bus.StepFinished(0, "", "", [bus.CallRef(call, "Read", "{}")]),
        bus.CallRunning(call, "Read"), bus.CallFinished(call, "Read", "ok", session), bus.TurnFinished("completed"),
    ]  # fmt: skip
    return [(session, Record(n + 1, first + n, event, int(n > 0))) for n, event in enumerate(events)]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["aionrs", "pagent", "pagent-v4"])
def test_on_a_wire_of_one_session_turns_follow_each_other(name: str) -> None:
    mixed = sorted(turn("A", "c", 0) + turn("B", "c", 3), key=lambda pair: pair[1].time)
    writer, out = LogWriter(WIRES[name]), b""
    for session, record in mixed:
        out += writer.write(session, record)
    out += writer.close()
    (log,) = writer.logs.values()
    assert broken_laws(log) == []
    assert [record.event.id for record in log if isinstance(record.event, bus.TurnStarted)] == ["t-A", "t-B"]
    finished = [record.event for record in log if isinstance(record.event, bus.CallFinished)]
    assert [(event.call_id, event.output) for event in finished] == [("c", "A"), ("c-2", "B")]
    counted = {(change.event, change.field): count for change, count in writer.changes.items()}
    assert counted["record", "session"] == counted["record", "call_id"] == 1
    (read,) = logs_of(WIRES[name], entries(out)).values()
    assert broken_laws(read) == []


@pytest.mark.parametrize("name", ["jan", "levpro"])
def test_on_a_wire_of_many_sessions_each_keeps_its_own(name: str) -> None:
    mixed = sorted(turn("A", "c", 0) + turn("B", "c", 3), key=lambda pair: pair[1].time)
    writer, out = LogWriter(WIRES[name]), b""
    for session, record in mixed:
        out += writer.write(session, record)
    assert list(writer.logs) == ["A", "B"]
    assert not writer.changes
    logs = logs_of(WIRES[name], entries(out + writer.close()))
    assert len(logs) == 2
    assert all(broken_laws(records) == [] for records in logs.values())


@pytest.mark.parametrize(
    "words",
    [["transcode", "{long}", "--to", "jan"], ["replay", "{long}", "--emit", "--instant"], ["inspect", "{long}"]],
)
def test_whoever_reads_may_have_seen_enough(words: list[str], tmp_path: Path) -> None:
    """As after ``| head -1``: quiet, and the same for every command."""
    long = tmp_path / "long.jsonl"
    long.write_bytes(STREAMS["tool_two_turns"][1] * 2000)
    command = [sys.executable, "-m", "agentwire", *(word.format(long=long) for word in words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


CLOSED = """
import sys
from agentwire.cli.closed_output import until_closed
sys.stdin.readline()  # by then nobody reads
sys.exit(until_closed(lambda: print("x" * int(sys.argv[1])) or 3))
"""


@pytest.mark.parametrize(("size", "status"), [(1, 3), (1_000_000, 0)])
def test_what_a_command_came_to_is_its_status_whoever_reads(size: int, status: int) -> None:
    """Only a command that was cut off has nothing to say."""
    words = [sys.executable, "-c", CLOSED, str(size)]
    pipe, env = subprocess.PIPE, {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=env) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, said = process.communicate(b"\n")
    assert (process.returncode, said) == (status, b"")


@pytest.mark.parametrize("option", ["--output", "--report"])
def test_a_file_that_cannot_be_written_is_named(option: str, tmp_path: Path) -> None:
    path = tmp_path / "none" / "file"
    error = run(RECORDINGS / "tool_two_turns.jsonl", "--to", "levpro", option, path).exception
    assert isinstance(error, click.ClickException)
    assert error.message == f"{path} cannot be written: No such file or directory"


def test_another_pipe_that_breaks_is_an_error() -> None:
    def run() -> int:
        reading, writing = os.pipe()
        os.close(reading)
        try:
            return os.write(writing, b"x")
        finally:
            os.close(writing)

    with pytest.raises(RuntimeError, match="not standard output"):
        until_closed(run)


def test_a_command_may_be_started_without_standard_output() -> None:
    words = ["sh", "-c", 'exec "$0" -m agentwire codecs >&-', sys.executable]
    done = subprocess.run(words, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def long_recording(path: Path, turns: int) -> None:
    """An aionrs agent and its host: so many turns of twelve events or more, each with a call."""
    one = path.with_suffix(".one")
    one.write_bytes(STREAMS["tool_two_turns"][1])
    told = bytearray()
    transcode(open_recording(one), WIRES["pagent"], WIRES["aionrs"], told.extend)
    ready, *lines = split(bytes(told))
    with path.open("w") as file:

        def put(who: str, line: str) -> None:
            file.write(json.dumps({"at": 0, "who": who, "text": line + "\n"}) + "\n")

        file.write('{"agentwire":"recording","version":1,"codec":"aionrs"}\n')
        put("agent", ready.decode())
        for turn in range(turns):
            put("host", json.dumps({"type": "message", "msg_id": f"m{turn}", "content": "hi"}))
            for line in lines:
                put("agent", line.decode().replace("run-1", f"m{turn}").replace('"call_1"', f'"c{turn}"'))


PEAK = """
import resource, sys
from agentwire.cli import agentwire
from agentwire.cli.closed_output import until_closed
agentwire.main(sys.argv[1:], standalone_mode=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""
"""Runs a command, and says how much memory it took at most."""


@pytest.mark.parametrize("target", ["levpro", "pagent"])
def test_a_long_recording_takes_no_more_memory_than_a_short_one(target: str, tmp_path: Path) -> None:
    """5,000 events against 50,000, of both directions: logs, lines and losses go by, and ids alone are remembered."""

    def peak(turns: int) -> int:
        path, report = tmp_path / f"{turns}.jsonl", tmp_path / "report.json"
        long_recording(path, turns)
        words = ["transcode", path, "--to", target, "-o", tmp_path / "out", "-q", "--report", report]
        done = subprocess.run([sys.executable, "-c", PEAK, *map(str, words)], stderr=subprocess.PIPE, check=True)
        told = json.loads(report.read_bytes())
        assert (told["turns"], "violations" in told) == (turns, False)
        assert sum(passage["told"] for passage in told["events"].values()) >= 9 * turns
        return int(done.stderr)

    assert peak(5600) < 1.15 * peak(560)


def test_reading_holds_what_is_open_and_not_what_is_over() -> None:
    """A long recording is read a turn at a time; the reader grows with neither turns nor deltas."""
    import tracemalloc

    body = split(STREAMS["tool_two_turns"][1])

    def long(turns: int) -> Any:
        return (entry for _ in range(turns) for entry in entries(b"\n".join(body) + b"\n"))

    def peak(turns: int) -> int:
        tracemalloc.start()
        for _ in read_log(long(turns), WIRES["pagent"]):
            pass
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(20)
    assert peak(1000) < peak(50) + 300_000


def test_a_recording_can_be_read_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(STREAMS["single_turn"][1])
    recording = open_recording(path)
    assert list(read_log(recording, WIRES["pagent"])) == list(read_log(recording, WIRES["pagent"]))
