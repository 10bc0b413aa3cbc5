"""The command itself: real processes on both sides of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

import agentwire
from agentwire.events import ApprovalRequested, CallCancelled, CallFinished, TurnFinished
from agentwire.recording import open_recording

pytestmark = pytest.mark.slow

AGENTWIRE = [sys.executable, "-m", "agentwire"]

SCRIPT = [
    {
        "text": "I will run two things.",
        "tool_calls": [
            {"id": "a", "name": "{shell}", "arguments": {"cmd": "echo one"}},
            {"id": "b", "name": "{shell}", "arguments": {"cmd": "echo two"}},
        ],
    },
    {"text": "Done.", "usage": {"input_tokens": 20, "output_tokens": 4}},
]

SHELL = {"jan": "shell"}


def argv(directory: Path, host: str, agent: str, *more: str) -> list[str]:
    script = directory / "script.jsonl"
    text = "".join(json.dumps(reply) + "\n" for reply in SCRIPT)
    script.write_text(text.replace("{shell}", SHELL.get(agent, "ExecCommand")))
    serve = ["serve", "--codec", agent, "--provider", "script", "--provider-option", f"script={script}", "--ephemeral"]
    return [*AGENTWIRE, "bridge", "--host", host, "--agent", agent, *more, "--", *AGENTWIRE, *serve]


@pytest.mark.parametrize(("host", "agent"), [("jan", "aionrs"), ("aionrs", "jan"), ("pagent-v4", "aionrs")])
async def test_a_conversation_between_processes(host: str, agent: str, tmp_path: Path) -> None:
    report, record = tmp_path / "report.json", tmp_path / "wire.jsonl"
    command = argv(tmp_path, host, agent, "--report", str(report), "--record", str(record))
    asked: list[str] = []

    async def on_approval(question: ApprovalRequested) -> bool:
        asked.append(question.call_id)
        return len(asked) == 1

    with trio.fail_after(60):
        async with agentwire.connect(command, codec=host, cwd=tmp_path, on_approval=on_approval) as peer:
            events = [event async for event in peer.prompt("go")]
    assert len(asked) == 2
    (finished,) = [event for event in events if isinstance(event, CallFinished)]
    (cancelled,) = [event for event in events if isinstance(event, CallCancelled)]
    assert "one" in finished.output or host == "pagent-v4"
    assert cancelled.cause == "denied"
    assert isinstance(events[-1], TurnFinished)
    assert (events[-1].outcome, events[-1].text) == ("completed", "Done.")
    told = json.loads(report.read_text())
    assert (told["host"], told["agent"], told["sessions"], told["turns"]) == (host, agent, 1, 1)
    assert told["losses"]
    assert "bridge: " in peer.stderr
    for path, codec in ((record, host), (tmp_path / "wire.agent-1.jsonl", agent)):
        recording = open_recording(path)
        assert recording.header.codec == codec
        assert {"host", "agent"} <= {entry.who for entry in recording}


def run(*more: str, said: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*AGENTWIRE, "bridge", *more], input=said, capture_output=True, timeout=60, check=False)


def test_an_agent_that_cannot_be_started_is_told_as_the_wire_tells_it() -> None:
    done = run("--host", "aionrs", "--agent", "jan", "--", "/no/such/program")
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["type"] == "error"
    assert b"/no/such/program" in done.stdout
    assert b"cannot be started" in done.stderr


def test_on_a_wire_of_many_sessions_that_is_the_answer_to_opening_one() -> None:
    chat = b'{"id":"1","method":"chat","params":{"session_id":"s","input":"hi"}}\n'
    done = run("--host", "levpro", "--agent", "jan", "--", "/no/such/program", said=chat)
    assert done.returncode == 0
    (answer,) = [line for line in map(json.loads, done.stdout.splitlines()) if line.get("id") == "1"]
    assert answer["type"] == "error"
    assert "cannot be started" in answer["message"]


def test_a_wire_that_is_not_there() -> None:
    done = run("--host", "morse", "--agent", "jan", "--", "true")
    assert done.returncode == 2
    assert b"morse" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "pagent", "--codec-option", "colour=red"], b"has no option 'colour'; it has errors"),
        (["--host", "levpro", "--codec-option", "x=1"], b"has no option 'x'; it has none"),
        (["--host", "jan", "--resume", "latest"], b"--resume is for wires with one session"),
        (["--host", "pagent", "--codec-option", "x"], b"is not KEY=VALUE"),
    ],
)
def test_options_that_the_wire_of_the_host_does_not_have(options: list[str], said: bytes) -> None:
    done = run(*options, "--agent", "aionrs", "--", "true")
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr


def test_options_of_the_codec_of_the_host() -> None:
    """A classic pagent tells why it cannot begin if it is asked to, and says nothing if not."""
    for options, lines in (([], 0), (["--codec-option", "errors=true"], 1)):
        done = run("--host", "pagent", *options, "--agent", "aionrs", "--", "/no/such/program")
        assert (done.returncode, len(done.stdout.splitlines())) == (1, lines)


async def test_sessions_are_kept_where_it_is_said(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    told: list[str] = []
    for more in ([], ["--resume", "latest"]):
        command = argv(tmp_path, "aionrs", "levpro", "--session-dir", str(kept), "--auto-approve", *more)
        with trio.fail_after(60):
            async with agentwire.connect(command, codec="aionrs", cwd=tmp_path) as peer:
                told.append(peer.session_id)
                assert await peer.ask("go")
    assert told[0] == told[1]
    assert [path.name for path in kept.iterdir()] == [f"{told[0]}.jsonl"]


async def test_a_signal_ends_both(tmp_path: Path) -> None:
    process = await trio.lowlevel.open_process(
        argv(tmp_path, "aionrs", "jan"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    with trio.fail_after(60):
        assert b'"ready"' in await process.stdout.receive_some()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
