"""A journal that cannot be written: the turn fails with an end, the session takes no more, the process lives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_the_turn_fails_and_the_process_lives(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    chunks = ["x" * 3000] * 40
    script.write_text("".join(json.dumps({"chunks": chunks}) + "\n" for _ in range(3)))
    environ = {**os.environ, "AGENTWIRE_DATA_DIR": str(tmp_path / "data"), "AGENTWIRE_CONFIG_DIR": str(tmp_path)}
    serve = [
        sys.executable, "-m", "agentwire", "serve", "--codec", "aionrs", "--provider", "script", "--session-id", "s",
        "--provider-option", f"script={script}", "--log-level", "error",
    ]  # fmt: skip
    # 64 KiB is the largest file that this process may write: the journal is full in the middle of the first turn.
    process = subprocess.Popen(
        ["sh", "-c", 'ulimit -f 128; exec "$@"', "sh", *serve], cwd=tmp_path, env=environ,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None

    def send(message: dict) -> None:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()

    def until(kind: str) -> list[dict]:
        events = []
        while not events or events[-1]["type"] != kind:
            events.append(json.loads(process.stdout.readline()))
        return events

    with process:
        until("ready")
        send({"type": "message", "msg_id": "m1", "content": "go"})
        events = until("stream_end")
        (error,) = [event for event in events if event["type"] == "error"]
        assert error["msg_id"] == "m1"
        assert "journal" in error["error"]["message"]
        assert sum(event["type"] == "stream_end" for event in events) == 1
        send({"type": "message", "msg_id": "m2", "content": "again"})
        (refused,) = until("error")
        assert refused["msg_id"] == "m2"
        assert "takes no more messages" in refused["error"]["message"]
        send({"type": "ping"})
        assert until("pong")[-1] == {"type": "pong"}
        process.stdin.close()
        assert process.wait(timeout=20) == 0

    # What was written before is whole, and the session can be resumed.
    resumed = subprocess.run(
        [*serve[:-6], "--resume", "s", *serve[-4:]], input="", capture_output=True, text=True, cwd=tmp_path,
        env=environ, timeout=60, check=False,
    )  # fmt: skip
    assert json.loads(resumed.stdout.splitlines()[0])["session_id"] == "s"
    assert resumed.returncode == 0
