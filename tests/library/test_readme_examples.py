"""Every example of the README runs as it stands there, offline."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: ([\w-]+) -->\n```python\n(.*?)```", README, re.DOTALL))

CALLS_WEATHER = [
    {"text": "Let me look.", "tool_calls": [{"id": "c1", "name": "weather", "arguments": {"city": "Rome"}}]},
    {"match": "Sunny in Rome", "text": "It is sunny in Rome."},
]


@pytest.fixture
def example(tmp_path: Path):
    """Write an example and the model's script to a workspace; returns what runs it."""

    def run(name: str, replies: list[dict] = (), host: str = "") -> str:
        workspace, user = tmp_path / "work", tmp_path / "user"
        workspace.mkdir()
        user.mkdir()
        (workspace / "notes.txt").write_text("hello\n")
        (workspace / "README.md").write_text("# A project\n")
        script = tmp_path / "script.jsonl"
        script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        (user / "agentwire.toml").write_text(
            f'provider = "script"\n[providers.script]\nscript = "{script}"\n', encoding="utf-8"
        )
        program = tmp_path / "example.py"
        program.write_text(EXAMPLES[name], encoding="utf-8")
        environ = {
            **os.environ,
            "AGENTWIRE_CONFIG_DIR": str(user),
            "AGENTWIRE_DATA_DIR": str(tmp_path / "data"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        done = subprocess.run(
            [sys.executable, str(program)], input=host, capture_output=True, text=True, cwd=workspace, env=environ,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def lines(*messages: dict) -> str:
    return "".join(json.dumps(message) + "\n" for message in messages)


def events(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


def text_of(found: list[dict]) -> str:
    return "".join(event["text"] for event in found if event["type"] == "text_delta")


def test_no_example_is_left_out():
    here = Path(__file__).read_text(encoding="utf-8")
    assert len(EXAMPLES) == README.count("```python")
    for name in EXAMPLES:
        assert f'example("{name}"' in here


def test_an_agent_with_a_tool_of_its_own_served(example):
    host = lines(
        {"type": "set_mode", "mode": "yolo"}, {"type": "message", "msg_id": "m1", "content": "How is the weather?"}
    )
    found = events(example("served", CALLS_WEATHER, host))
    result = next(event for event in found if event["type"] == "tool_result")
    assert (result["tool_name"], result["output"]) == ("weather", "Sunny in Rome")
    assert text_of(found).endswith("It is sunny in Rome.")
    assert found[-1]["type"] == "stream_end"


def test_the_same_in_process(example):
    output = example("in-process", CALLS_WEATHER)
    assert "ApprovalRequested(" in output
    assert "output='Sunny in Rome'" in output
    assert output.splitlines()[-1].startswith("TurnFinished(outcome='completed', text='It is sunny in Rome.'")


def test_an_agent_of_ones_own(example):
    host = lines({"type": "set_mode", "mode": "yolo"}, {"type": "message", "msg_id": "m1", "content": "look"})
    found = events(example("custom", (), host))
    assert text_of(found) == "Let me see. Here is what I found:\nnotes.txt"
    assert found[-1]["type"] == "stream_end"


def test_a_codec_by_hand(example):
    output = example("codec").splitlines()
    assert "TextDelta(text='Hi!'" in output[0]
    assert events("\n".join(output[1:]).strip()) == [
        {"type": "stream_start", "msg_id": "m1"},
        {"type": "text_delta", "text": "Hi!", "msg_id": "m1"},
    ]


def test_driving_an_agent_process(example):
    replies = [
        {"text": "Reading.", "tool_calls": [{"id": "c1", "name": "Read", "arguments": {"file_path": "README.md"}}]},
        {"match": "# A project", "text": "It is a project."},
    ]
    output = example("connect", replies)
    assert "ApprovalRequested(" in output
    assert "# A project" in output
    assert "TurnFinished(outcome='completed'" in output.splitlines()[-1]


def test_sessions_and_tools_of_the_host(example):
    replies = [
        {"tool_calls": [{"name": "host__move_arm", "arguments": {"to": "bin"}}]},
        {"match": "The arm is at bin.", "text": "Done."},
    ]
    assert example("sessions", replies) == "Done.\n"
