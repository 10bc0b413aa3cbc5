"""Driving an agent: the host side of the codec against what a real server says, plain and with chatter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.launcher import Launcher
from support.model_service import ModelService
from support.replies import JsonObject, Reply, ToolCall
from support.wire_rules import compact

from agentwire.codec.contract import Heard
from agentwire.commands import Prompt
from agentwire.events import CallFinished, CallRunning, SessionOpened, TextDelta, TurnFinished
from agentwire.registry import load_codec

CHATTER: list[bytes] = [
    b"aionrs 0.9.1 (a banner that is not JSON)",
    b"",
    b"[]",
    b'{"type":"info","msg_id":"","message":"Tool call: Read"}',
    b'{"type":"info","msg_id":"m1","message":"[Read success] 1 line"}',
    b'{"type":"provider_retry","msg_id":"m1","attempt":1}',
    b'{"type":"input_accepted","msg_id":"m1"}',
    b'{"no":"type"}',
]


def talkative(event: JsonObject) -> list[bytes]:
    """An event as forks of the original say it: with keys that nobody knows, and chatter around it."""
    more: JsonObject = {**event, "execution_id": "e-1", "x": {"y": [1]}}
    if event["type"] == "ready":
        more["version"] = "0.9.1"
        more["capabilities"] = {**event["capabilities"], "inject": True, "context_limit": 200_000}
    if event["type"] == "tool_result":
        more |= {"content_blocks": [], "structured_content": {"a": 1}, "truncation": None}
    return [*CHATTER, compact(dict(reversed(more.items())))] if event["type"] != "ready" else [compact(more), *CHATTER]


def heard(lines: list[bytes]) -> dict[str, Any]:
    """What a host learns from a conversation of one turn."""
    side = load_codec("aionrs").host()
    out = bytearray()
    told: dict[str, Any] = {"text": "", "tools": []}
    for line in lines:
        for item in side.receive(line):
            if not isinstance(item, Heard):
                continue
            event = item.event
            if isinstance(event, SessionOpened):
                assert isinstance(side.send(Prompt("go", ref="m1"), out), int)
                assert json.loads(out)["msg_id"] == "m1"
            elif isinstance(event, TextDelta):
                told["text"] += event.text
            elif isinstance(event, CallRunning):
                told["tools"].append((event.call_id, event.name))
            elif isinstance(event, CallFinished):
                told["tools"].append((event.call_id, event.name, event.status, event.output))
            elif isinstance(event, TurnFinished):
                told["end"] = (event.outcome, event.usage.input_tokens, item.ref)
    return told


@pytest.mark.parametrize("chatter", [False, True])
async def test_s34_a_client_is_not_led_astray_by_chatter(chatter: bool, launch: Launcher, model: ModelService) -> None:
    """Protocol section 6 and the rule that unknown events and keys are ignored."""
    path = launch.write("a.txt", "x\n")
    model.script(Reply("Reading. ", ToolCall("t1", "Read", {"file_path": path})), Reply("It says ", "x."))
    agent = await launch("--auto-approve")
    await agent.message("m1")
    await agent.turn("m1")
    lines = [compact(event) for event in agent.events]
    if chatter:
        lines = [line for event in agent.events for line in talkative(event)]
    assert heard(lines) == {
        "text": "Reading. It says x.",
        "tools": [("t1", "Read"), ("t1", "Read", "ok", "     1\tx")],
        "end": ("completed", 20, "m1"),
    }
