"""``agentwire chat`` in a real terminal: a person types, an agent process answers, Ctrl-C stops."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SLOW = json.dumps({"steps": [step for n in range(400) for step in ({"text": f"<{n}> "}, {"delay_ms": 50})]})
PLAY = (
    '{"text": "I will look. ", "tool_calls": [{"name": "ExecCommand", "arguments": {"cmd": "echo made"}}]}\n'
    '{"text": "It is done."}\n' + SLOW + '\n{"text": "Fine."}\n'
)


class Person:
    """Types into a terminal in which a program runs, and reads what it shows."""

    def __init__(self, argv: list[str], cwd: Path) -> None:
        ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, start_new_session=True,
            env={**os.environ, "TERM": "dumb", "COLUMNS": "200"},
        )  # fmt: skip
        os.close(theirs)
        self._fd = ours
        self.seen = ""

    def until(self, text: str) -> str:
        """What is shown up to and with ``text``."""
        deadline = time.monotonic() + 40
        while text not in self.seen:
            assert time.monotonic() < deadline, f"never saw {text!r} in {self.seen!r}"
            if select.select([self._fd], [], [], 1)[0]:
                try:
                    self.seen += os.read(self._fd, 4096).decode(errors="replace")
                except OSError:
                    pytest.fail(f"it ended without {text!r}: {self.seen!r}")
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def types(self, line: str) -> None:
        os.write(self._fd, line.encode() + b"\n")

    def interrupts(self) -> None:
        os.kill(self.process.pid, signal.SIGINT)

    def close(self) -> int:
        os.close(self._fd)
        return self.process.wait(20)


def command(workspace: Path, *options: str, codec: str = "aionrs") -> list[str]:
    (workspace / "play.jsonl").write_text(PLAY)
    return [
        sys.executable, "-m", "agentwire", "chat", "--codec", codec, *options, "--",
        sys.executable, "-m", "agentwire", "serve", "--codec", codec, "--provider", "script", "--ephemeral",
        "--provider-option", f"script={workspace / 'play.jsonl'}",
    ]  # fmt: skip


def test_a_person_talks_approves_stops_and_leaves(tmp_path):
    person = Person(command(tmp_path), tmp_path)
    person.until("> ")
    person.types("do something")
    assert "I will look." in person.until("run it?")
    person.types("y")
    assert "made" in person.until("It is done.")
    person.until("turn completed")
    person.until("> ")
    person.types("count")
    person.until("<3>")
    person.interrupts()
    person.until("stopping the turn")
    person.until("turn cancelled")
    person.until("> ")
    person.types("again")
    person.until("turn completed")
    person.until("> ")
    person.interrupts()
    assert person.process.wait(20) == 0


def test_a_no_and_its_reason_reach_the_agent(tmp_path):
    person = Person(command(tmp_path), tmp_path)
    person.until("> ")
    person.types("do something")
    person.until("run it?")
    person.types("n not today")
    assert "not today" in person.until("It is done.")
    person.process.kill()
    person.close()


@pytest.mark.parametrize("codec", ["aionrs", "jan", "levpro", "pagent-v4"])
def test_one_thing_said(codec, tmp_path):
    (tmp_path / "play.jsonl").write_text('{"text": "Hello."}\n')
    argv = command(tmp_path, "--prompt", "hi", "--yes", "--record", str(tmp_path / "r.jsonl"), codec=codec)
    (tmp_path / "play.jsonl").write_text('{"text": "Hello."}\n')
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Hello." in done.stdout
    assert (tmp_path / "r.jsonl").read_text().startswith('{"agentwire":"recording"')


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--codec", "nope", "--", "true"], 2, "Unknown codec"),
        (["--", "/no/such/program"], 1, "cannot be started"),
        (["--codec", "jan", "--prompt", "hi", "--", sys.executable, "-c", "raise SystemExit('out of order')"], 1,
         "out of order"),
        ([], 2, "Missing argument"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_line(arguments, status, said, tmp_path):
    argv = [sys.executable, "-m", "agentwire", "chat", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
