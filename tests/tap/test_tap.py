"""``agentwire tap``: nothing that passes is changed, everything is seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from agentwire import connect
from agentwire.recording import open_recording

TAP = [sys.executable, "-m", "agentwire", "tap"]
ECHO = "import os\nwhile data := os.read(0, 65536): os.write(1, data)"
NOISE = os.urandom(300_000) + b"\n" + "\u2028 — é\r\n".encode() * 1000 + b"no end"


def serve(workspace: Path, codec: str) -> list[str]:
    (workspace / "play.jsonl").write_text('{"text": "Hello there."}\n')
    return [
        sys.executable, "-m", "agentwire", "serve", "--codec", codec, "--provider", "script", "--ephemeral",
        "--provider-option", f"script={workspace / 'play.jsonl'}", "--provider-option", "repeat=true",
    ]  # fmt: skip


def test_no_byte_is_changed_in_either_direction(tmp_path):
    record = tmp_path / "r.jsonl"
    done = subprocess.run(
        [*TAP, "--no-check", "--record", str(record), "--", sys.executable, "-c", ECHO],
        input=NOISE, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == NOISE
    entries = list(open_recording(record))
    for who in ("host", "agent"):
        assert b"".join(entry.data for entry in entries if entry.who == who) == NOISE


@pytest.mark.parametrize("codec", ["aionrs", "pagent", "pagent-v4", "jan", "levpro"])
async def test_our_own_host_and_agent_break_no_rule(codec, tmp_path):
    argv = [*TAP, "--codec", codec, "--strict", "--", *serve(tmp_path, codec)]
    with trio.fail_after(60):
        async with connect(argv, codec=codec) as peer:
            assert await peer.ask("hi") == "Hello there."
            assert await peer.ask("hi") == "Hello there."
        assert peer.process.process.returncode == 0, peer.stderr
    assert " 0 violations" in peer.stderr


def test_what_breaks_the_rules_is_told_with_its_line(tmp_path):
    wrong = 'print(\'{"type":"stream_end","msg_id":"m"}\'); print("not json")'
    command = [*TAP, "--codec", "aionrs", "--", sys.executable, "-c", wrong]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert b"tap: agent, line 1: must:" in done.stderr
    assert b"tap: agent, line 2: must:" in done.stderr
    strict = subprocess.run([*TAP, "--strict", *command[4:]], input=b"", capture_output=True, timeout=60, check=False)
    assert strict.returncode == 3


@pytest.mark.parametrize("status", [0, 7])
def test_the_exit_status_is_the_agents(status):
    command = [*TAP, "--no-check", "--", sys.executable, "-c", f"raise SystemExit({status})"]
    assert subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False).returncode == status


def test_a_signal_is_passed_on():
    waits = (
        "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(9))\nprint('up', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen(
        [*TAP, "--no-check", "--", sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 9
    process.stdin.close()
    process.stdout.close()


def test_an_agent_does_not_outlive_a_tap_that_was_killed(tmp_path):
    said = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    stays = f"import os, time\n{said}\nprint('up', flush=True)\ntime.sleep(60)"
    process = subprocess.Popen(
        [*TAP, "--no-check", "--", sys.executable, "-c", stays], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    process.kill()
    process.wait(20)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline, "the agent lives on"
        time.sleep(0.02)
    process.stdin.close()
    process.stdout.close()


def test_a_host_that_reads_no_more_ends_the_agent():
    floods = "import os\nwhile True: os.write(1, b'x' * 65536)"
    process = subprocess.Popen(
        [*TAP, "--no-check", "--", sys.executable, "-c", floods], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.wait(20) != 0
    process.stdin.close()


def test_wrong_arguments_are_one_line():
    for arguments, status in ((["--codec", "nope", "--", "true"], 2), (["--", "/no/such"], 1), ([], 2)):
        done = subprocess.run([*TAP, *arguments], input="", capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == status
        assert "Traceback" not in done.stderr


def test_a_message_of_any_size_is_whole_for_the_checker():
    line = json.dumps({"type": "message", "msg_id": "m", "content": "x" * 3_000_000}).encode() + b"\n"
    done = subprocess.run(
        [*TAP, "--codec", "aionrs", "--", sys.executable, "-c", "import os\nwhile os.read(0, 65536): pass"],
        input=line, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert b"1 lines from the host" in done.stderr
    assert b"host, line" not in done.stderr
