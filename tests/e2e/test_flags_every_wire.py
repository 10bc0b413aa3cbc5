"""Command lines that mean nothing: said in one line, on every wire, and not passed over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MANY = ("jan", "jan-stream", "levpro")


def refused(workspace: Path, *arguments: str, module: str = "agentwire") -> tuple[int, str, str]:
    """What a command line that is refused comes to: status, standard output, standard error."""
    script = workspace / "script.jsonl"
    script.write_text('{"text": "x"}\n')
    model = ("--provider", "script", "--provider-option", f"script={script}", "--ephemeral")
    words = (*arguments, *model) if module == "agentwire" else arguments
    done = subprocess.run(
        [sys.executable, "-m", module, *words], input="", capture_output=True, text=True, cwd=workspace, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr.strip()


@pytest.mark.parametrize("codec", MANY)
@pytest.mark.parametrize("flags", [("--session-id", "s"), ("--resume", "s"), ("--fork-session",)], ids=lambda f: f[0])
def test_one_session_flags_where_a_host_opens_its_own(codec: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    status, _, errors = refused(tmp_path, "serve", "--codec", codec, *flags)
    wanted = f"Error: {flags[0]} is for wires with one session a process; a host of '{codec}' opens its own"
    assert (status, errors) == (1, wanted)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--codec", "jan", "a task"), "The codec 'jan' takes no TASK"),
        (("--codec", "aionrs", "--pagent-errors"), "The codec 'aionrs' takes no --pagent-errors"),
        (("--codec", "jan", "--codec-option", "x=1"), "The codec 'jan' has no option 'x'; it has none"),
        (("--codec", "jan-stream", "--codec-option", "x=1"), "has no option 'x'; it has task, input_format"),
        (("--codec", "jan-stream", "--codec-option", "input_format=xml"), "input_format is one of text, stream-json"),
        (("--codec", "jan-stream", "--codec-option", "host_tools=5"), "The codec 'jan-stream' refuses its options"),
        (("--codec", "jan-stream", "--codec-option", "x"), "Invalid value for --codec-option: 'x' is not KEY=VALUE"),
    ],
)
def test_options_that_a_codec_does_not_take(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    status, _, errors = refused(tmp_path, "serve", *arguments)
    assert status == 2
    assert words in errors.splitlines()[-1]


@pytest.mark.parametrize("arguments", [(), ("nope",)])
def test_a_person_who_tries_local_ai_reads_no_wire(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Only what starts `serve-stdio` has a host to tell."""
    status, out, errors = refused(tmp_path, *arguments, module="agentwire_levpro.command")
    assert (status, out) == (1, "")
    assert "agentwire-local-ai" in errors
    status, out, _ = refused(tmp_path, "serve-stdio", "--nope", module="agentwire_levpro.command")
    assert status == 1
    assert out.startswith('{"id":null,"type":"error",')


@pytest.mark.parametrize("codec", ["jan", "levpro"])
def test_a_provider_that_is_none_is_told_at_the_start(codec: str, tmp_path: Path) -> None:
    """Where sessions open by command, the first of them may be a long way off."""
    words = ("serve", "--codec", codec, "--provider", "nope")
    status, out, errors = refused(tmp_path, *words, module="agentwire.__main__")
    assert (status, out) == (0, "")
    (line,) = errors.splitlines()
    assert "WARNING" in line
    assert "no session can be opened: Unknown provider: 'nope'. Installed: anthropic," in line
