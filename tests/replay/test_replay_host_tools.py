"""Recorded requests to run a tool of the host, put to a host of another wire."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from replaying import replay, serve

from agentwire import connect
from agentwire.events import HostTool, TurnFinished

pytestmark = pytest.mark.slow

LIGHT = HostTool("light", "Turns a light on.", {"type": "object", "properties": {"on": {"type": "boolean"}}})
PLAY = [
    {"tool_calls": [
        {"id": "c1", "name": "host__light", "arguments": {"on": True}},
        {"id": "c2", "name": "host__light", "arguments": {"on": False}},
    ]},
    {"text": "It is on."},
]  # fmt: skip


def turned(given: dict[str, Any]) -> str:
    return f"on: {json.dumps(given['on'])}"


@pytest.fixture
async def recording(tmp_path) -> Path:
    with trio.fail_after(60):
        async with connect(serve(tmp_path, "jan", PLAY), codec="jan", record=tmp_path / "r") as peer:
            session = await peer.open(tools=[(LIGHT, turned)], host_permissions=True)
            events = [event async for event in session.prompt("hi")]
    assert isinstance(events[-1], TurnFinished)
    assert "on: true" in (tmp_path / "r").read_text()
    return tmp_path / "r"


class Streaming:
    """A host of jan-stream that answers when its tools are asked for."""

    def __init__(self, path: Path, *options: str) -> None:
        argv = [sys.executable, "-m", "agentwire", "replay", "--serve", "--instant", "--codec", "jan-stream"]
        self._argv = [*argv, *options, str(path)]
        self.asked: list[Any] = []
        self.heard: list[dict[str, Any]] = []
        self.stderr = ""

    async def run(self, answer: Any, *, abort: bool = False) -> int | None:
        with trio.fail_after(60):
            process = await trio.lowlevel.open_process(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            await self._say(process, {"type": "user", "content": [{"type": "text", "text": "hi"}]})
            data = b""
            while chunk := await process.stdout.receive_some():
                *lines, data = (data + chunk).split(b"\n")
                for line in map(json.loads, lines):
                    self.heard.append(line)
                    if line["type"] == "tool_request":
                        self.asked.append((line["tool_name"], line["args"]))
                        said = {
                            "type": "tool_result",
                            "request_id": line["request_id"],
                            "content": answer(line["args"]),
                        }
                        await self._say(process, {"type": "abort"} if abort else said)
                    elif line["type"] in ("done", "aborted"):
                        await process.stdin.aclose()
            async for chunk in process.stderr:
                self.stderr += chunk.decode()
            return await process.wait()

    async def _say(self, process: trio.Process, line: dict[str, Any]) -> None:
        assert process.stdin is not None
        await process.stdin.send_all(json.dumps(line).encode() + b"\n")


async def test_the_host_is_asked_and_waited_for(recording):
    host = Streaming(recording)
    assert await host.run(turned) == 0, host.stderr
    assert host.asked == [("light", {"on": True}), ("light", {"on": False})]
    kinds = [line["type"] for line in host.heard]
    assert [kind for kind in kinds if kind.startswith("tool_re")] == ["tool_request"] * 2 + ["tool_result"] * 2
    assert "It is on." in [line.get("result") for line in host.heard]
    assert "replay:" not in host.stderr


async def test_a_result_that_was_another_is_told(recording):
    host = Streaming(recording, "--lenient")
    assert await host.run(lambda given: "no idea") == 0
    assert "the host's tool 'light' gave 'no idea' where the recording has 'on: true'" in host.stderr
    assert "It is on." in [line.get("result") for line in host.heard]
    host = Streaming(recording)
    assert await host.run(lambda given: "no idea") == 1
    assert "It is on." not in [line.get("result") for line in host.heard]


async def test_a_host_that_stops_instead(recording):
    host = Streaming(recording)
    assert await host.run(turned, abort=True) is not None
    assert not [line for line in host.heard if line["type"] == "tool_result" and not line["is_error"]]
    assert any(line["type"] == "tool_request_cancelled" for line in host.heard)


async def test_a_wire_without_such_tools_says_that_they_are_not_carried(recording):
    given = b'{"type":"message","msg_id":"m","content":"hi"}\n'
    arguments = [recording, "--serve", "--instant", "--codec", "aionrs"]
    done = await trio.to_thread.run_sync(lambda: replay(*arguments, given=given))
    assert done.returncode == 0
    assert b"It is on." in b"".join(
        json.loads(line).get("text", "").encode() for line in done.stdout.splitlines() if b"text_delta" in line
    )
    (line,) = [line for line in done.stderr.decode().splitlines() if line.startswith("replay: ")]
    assert line.startswith(f"replay: {recording}, line ")
    assert line.endswith("run its tool 'light'; aionrs has no word for that, and it is not carried")
