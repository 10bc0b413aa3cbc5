"""``agentwire inspect`` as a person runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from strategies import complete_log
from timed_recordings import CONVERSATION, RECORDINGS, write, write_journal

from agentwire import cli
from agentwire.store import SessionStore

Capture = pytest.CaptureFixture[str]


def run(*arguments: object) -> int:
    return cli.run(cli.agentwire, ["inspect", *map(str, arguments)], "agentwire")


def test_a_recording(tmp_path: Path, capsys: Capture) -> None:
    assert run(write(tmp_path / "r", CONVERSATION)) == 0
    out = capsys.readouterr().out
    assert "turn 1 completed" in out
    assert "\x1b" not in out


def test_a_locale_with_few_letters(tmp_path: Path) -> None:
    path = next(path for path in RECORDINGS if path.stem == "unicode_and_newlines")
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    argv = [sys.executable, "-m", "agentwire", "inspect", str(path)]
    done = subprocess.run(argv, env=environ, capture_output=True, check=True, timeout=60)
    assert done.stdout.isascii()
    assert b"turn 1 completed" in done.stdout
    assert b"step 1" in done.stdout
    assert re.search(rb"\.+=+\.*\n", done.stdout)


def test_one_turn(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "r", CONVERSATION)
    assert run(path, "--turn", "2") == 0
    out = capsys.readouterr().out
    assert "turn 2 failed" in out
    assert "turn 1 completed" not in out
    assert run(path, "--turn", "3") == 1
    assert "There is no turn 3: there are 2." in capsys.readouterr().err


def test_a_page(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "page.html"
    assert run(write(tmp_path / "r", CONVERSATION), "--html", out) == 0
    assert out.read_text().startswith("<!doctype html>")
    assert "page.html" in capsys.readouterr().err
    assert run(tmp_path / "r", "--html", "-") == 0
    assert capsys.readouterr().out == out.read_text()


def test_the_recording_is_not_overwritten(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "r", CONVERSATION)
    before = path.read_bytes()
    assert run(path, "--html", path) == 2
    assert path.read_bytes() == before


def test_a_stored_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(tmp_path))
    store = SessionStore.default()
    Path(store.directory).mkdir()
    write_journal(Path(store.path("s1")), "s1")
    for name in ("s1", "latest"):
        assert run("--session", name) == 0
        assert f"{len(complete_log())} records" in capsys.readouterr().out
    assert run("--session", "other") == 1
    assert "other" in capsys.readouterr().err


def test_the_wire_of_a_log_can_be_said(capsys: Capture) -> None:
    path = next(path for path in RECORDINGS if path.stem == "single_turn")
    assert run(path, "--from", "pagent") == 0
    assert "pagent" in capsys.readouterr().out
    assert run(path, "--from", "nonsense") == 2


def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x"
    path.write_text("no wire\n")
    assert run(path) == 1
    assert capsys.readouterr().err.count("\n") == 1
    path.write_text('{"agentwire":"journal","session":"s","version":999}\n')
    assert run(path) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [(), ("FILE", "--session", "s"), ("--session", "s", "--from", "jan"), ("FILE", "--html", "x", "--all")]
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = write(tmp_path / "r", CONVERSATION)
    assert run(*(path if word == "FILE" else word for word in arguments)) == 2
