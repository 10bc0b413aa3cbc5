"""The last line of stream-json is there however little the host says (section 4.1)."""

from __future__ import annotations

import json
import subprocess
import sys


def test_the_end_of_input_before_any_task_is_told_by_a_result(tmp_path):
    (tmp_path / "play.jsonl").write_text('{"text": "x"}\n')
    done = subprocess.run(
        [sys.executable, "-m", "agentwire", "serve", "--codec", "jan-stream", "--provider", "script", "--ephemeral",
         "--provider-option", f"script={tmp_path / 'play.jsonl'}"],
        input=b"", capture_output=True, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in told] == ["init", "done", "result"]
    assert (told[-1]["stop_reason"], told[-1]["is_error"]) == ("aborted", False)
