"""``serve --codec pagent`` and ``pagent-v4`` over real pipes: runs, a permit, a denial, a failure, the end of input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pagent.wire import decode_event_line

import agentwire
from agentwire.events import ApprovalRequested, CallFinished, Text, TurnFinished
from agentwire.host.refused import Refused
from agentwire.messages import AssistantMessage, UserMessage

WRITES = [
    {
        "text": "I write.",
        "tool_calls": [{"id": "t1", "name": "Write", "arguments": {"file_path": "a.txt", "content": "x"}}],
    },
    {"text": "Done."},
]
FAILS = [{"text": "Half an ans", "error": {"kind": "status", "message": "out of order", "retryable": False}}]


class World:
    """A workspace, a script, and the command that serves it."""

    def __init__(self, tmp_path: Path) -> None:
        self.workspace = tmp_path / "work"
        self.workspace.mkdir()
        self.script = tmp_path / "script.jsonl"
        self.environ = {**os.environ, "AGENTWIRE_DATA_DIR": str(tmp_path), "AGENTWIRE_CONFIG_DIR": str(tmp_path)}

    def argv(self, codec: str, replies: list[dict], *more: str) -> list[str]:
        self.script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return [
            sys.executable, "-m", "agentwire", "serve", "--codec", codec, "--provider", "script", "--provider-option",
            f"script={self.script}", "--workspace", str(self.workspace), "--ephemeral", *more,
        ]  # fmt: skip

    def run(self, argv: list[str], *commands: dict) -> tuple[list[dict], str]:
        """Everything said in answer to commands that are all there at once; a run ends before the input does."""
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environ, text=True
        )
        with process:
            process.stdin.write("".join(json.dumps(command) + "\n" for command in commands))
            process.stdin.flush()
            lines = []
            for line in process.stdout:
                lines.append(json.loads(line))
                if lines[-1]["method"] in ("RunEnd", "Error"):
                    break
            rest, errors = process.communicate(timeout=30)
            assert process.returncode == 0, errors
        return [*lines, *map(json.loads, rest.splitlines())], errors


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def methods(lines: list[dict]) -> list[str]:
    return [line["method"] for line in lines if line["method"] not in ("TextDelta", "SlashCommands", "CurrentThread")]


def test_a_classic_run_is_what_pagent_itself_reads(world):
    lines, _ = world.run(world.argv("pagent", [{"text": "Hello there."}]), {"cmd": "user", "text": "hi"})
    assert methods(lines) == ["RunBegin", "TurnBegin", "StepEnd", "TurnEnd", "RunEnd"]
    for line in lines:
        decode_event_line(json.dumps(line))
    assert lines[-1]["params"]["content"] == "Hello there."


def test_classic_never_asks_and_refuses_what_is_not_allowed(world):
    lines, _ = world.run(world.argv("pagent", WRITES), {"cmd": "user", "text": "write"})
    (result,) = [line["params"] for line in lines if line["method"] == "ToolResult"]
    assert result["ok"] is False
    assert not (world.workspace / "a.txt").exists()
    lines, _ = world.run(world.argv("pagent", WRITES, "--allow", "Write"), {"cmd": "user", "text": "write"})
    (result,) = [line["params"] for line in lines if line["method"] == "ToolResult"]
    assert (result["ok"], (world.workspace / "a.txt").read_text()) == (True, "x")


def test_a_failed_classic_run_just_ends_and_a_person_reads_why(world):
    argv = world.argv("pagent", FAILS)
    done = subprocess.run(
        argv, input='{"cmd": "user", "text": "go"}\n', capture_output=True, text=True, env=world.environ, timeout=30,
        check=False,
    )  # fmt: skip
    said = [json.loads(line)["method"] for line in done.stdout.splitlines()]
    assert "RunEnd" not in said
    assert "Error" not in said
    assert done.returncode == 0


def test_an_option_tells_the_failure_on_the_wire(world):
    lines, errors = world.run(
        world.argv("pagent", FAILS, "--codec-option", "errors=true"), {"cmd": "user", "text": "go"}
    )
    assert lines[-1]["method"] == "Error"
    assert "out of order" in lines[-1]["params"]["message"]
    assert "the turn failed: out of order" in errors


def test_an_option_that_the_codec_does_not_have(world):
    done = subprocess.run(
        world.argv("pagent", WRITES, "--codec-option", "colour=red"), input="", capture_output=True, text=True,
        env=world.environ, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "colour" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("answer", "ok"), [(True, "ok"), (False, None)])
async def test_v4_asks_and_is_driven_by_the_host_side(world, answer, ok):
    asked: list[ApprovalRequested] = []

    def on_approval(question: ApprovalRequested) -> bool:
        asked.append(question)
        return answer

    argv = world.argv("pagent-v4", WRITES)
    async with agentwire.connect(argv, codec="pagent-v4", env=world.environ, on_approval=on_approval) as peer:
        events = [event async for event in peer.prompt("write")]
    assert [question.call_id for question in asked] == ["t1"]
    assert (world.workspace / "a.txt").exists() is answer
    if ok:
        assert [event.status for event in events if isinstance(event, CallFinished)] == [ok]
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].outcome == "completed"


async def test_v4_threads_and_messages_reach_a_host(world, tmp_path):
    """What the host side asks for comes as values: sessions, messages, the session that was taken up."""
    argv = [argument for argument in world.argv("pagent-v4", [{"text": "Hello."}]) if argument != "--ephemeral"]
    async with agentwire.connect([*argv, "--session-id", "old"], codec="pagent-v4", env=world.environ) as peer:
        [event async for event in peer.prompt("hi")]
    async with agentwire.connect([*argv, "--session-id", "new"], codec="pagent-v4", env=world.environ) as peer:
        assert [state.id for state in await peer.list(stored=True)] == ["new", "old"]
        session = await peer.resume("old")
        assert (session.id, session.state.workspace) == ("old", str(world.workspace.resolve()))
        assert await session.history() == [UserMessage([Text("hi")]), AssistantMessage("Hello.")]
        with pytest.raises(Refused):
            await peer.resume("nobody")
