"""What a server writes to standard error: a level, a logger, the session it is about, in either form."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_name_level_and_session(form, tmp_path):
    (tmp_path / "play.jsonl").write_text('{"error": {"message": "no fuel", "kind": "auth"}}\n')
    done = subprocess.run(
        [sys.executable, "-m", "agentwire", "serve", "--provider", "script", "--session-id", "mine",
         "--log-format", form, "--provider-option", f"script={tmp_path / 'play.jsonl'}"],
        input=b'{"type":"message","msg_id":"m","content":"hi"}\n', capture_output=True, cwd=tmp_path, timeout=60,
        check=False, env={"AGENTWIRE_DATA_DIR": str(tmp_path), "AGENTWIRE_CONFIG_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stderr.decode().splitlines()
    if form == "text":
        (line,) = [line for line in lines if "no fuel" in line]
        assert " WARNING agentwire.turn [mine]: " in line
        return
    (told,) = [told for told in map(json.loads, lines) if "no fuel" in told["message"]]
    assert (told["level"], told["logger"], told["session"]) == ("warning", "agentwire.turn", "mine")
