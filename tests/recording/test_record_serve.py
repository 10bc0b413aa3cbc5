"""``agentwire serve --record``: a real agent, and everything that crossed its pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentwire.recording import open_recording


def serve(tmp_path: Path, record: Path, lines: list[dict], *options: str) -> subprocess.CompletedProcess:
    (tmp_path / "play.jsonl").write_text('{"text": "Hello — \\u2028 there"}\n')
    command = [
        sys.executable, "-m", "agentwire", "serve", "--provider", "script", "--ephemeral", "--record", str(record),
        "--provider-option", f"script={tmp_path / 'play.jsonl'}", *options,
    ]  # fmt: skip
    given = b"".join(json.dumps(line).encode() + b"\r\n" for line in lines)
    return subprocess.run(command, input=given, capture_output=True, cwd=tmp_path, timeout=60, check=False)


@pytest.mark.parametrize("codec", ["aionrs", "pagent"])
def test_both_directions_are_recorded_as_they_passed(tmp_path, codec):
    lines = (
        [{"type": "message", "msg_id": "m", "content": "hi"}] if codec == "aionrs" else [{"cmd": "user", "text": "x"}]
    )
    done = serve(tmp_path, tmp_path / "r.jsonl", lines, "--codec", codec)
    assert done.returncode == 0, done.stderr
    found = open_recording(tmp_path / "r.jsonl")
    assert (found.header.codec, found.header.role) == (codec, "serve")
    entries = list(found)
    assert b"".join(entry.data for entry in entries if entry.who == "agent") == done.stdout
    assert [entry.data for entry in entries if entry.who == "host"] == [json.dumps(lines[0]).encode() + b"\r\n"]


def test_a_recording_that_cannot_be_written_is_said_before_anything_runs(tmp_path):
    done = serve(tmp_path, tmp_path / "no" / "r.jsonl", [])
    assert done.returncode == 1
    assert b"cannot be written" in done.stderr
    assert b"cannot be written" in done.stdout
