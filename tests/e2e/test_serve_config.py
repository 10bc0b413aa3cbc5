"""set_mode and set_config, at rest and in a turn; flags that reach the model service."""

from __future__ import annotations

from typing import Any

import pytest
from support.agent_process import AgentProcess
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import find
from support.replies import Gate, Reply, ToolCall


async def configure(agent: AgentProcess, **fields: Any) -> tuple[str, dict[str, Any]]:
    """Send a set_config at rest: the text of its info, and the capabilities that follow."""
    await agent.send({"type": "set_config", **fields})
    told = await agent.expect("info", msg_id="")
    changed = await agent.expect("config_changed")
    return told["message"], changed["capabilities"]


async def test_s14_set_config_at_rest(launch: Launcher, model: ModelService) -> None:
    """Protocol section 2.7, with each change named."""
    agent = await launch(provider="anthropic", model="claude-sonnet-4-20250514")
    before = agent.events[0]["capabilities"]
    assert await configure(agent) == ("set_config: no changes", before)
    text, capabilities = await configure(
        agent, model="claude-opus-4", image_input="supported", thinking="enabled", thinking_budget=16000,
        effort="high", compaction="FULL",
    )  # fmt: skip
    assert text == (
        "config updated: model: claude-sonnet-4-20250514 → claude-opus-4, image input: Unknown → Supported, "
        "thinking: enabled (budget: 16000), effort: not supported by current provider, compaction: safe → full"
    )
    assert capabilities == {**before, "image_input": "supported"}

    model.script("ok")
    await agent.message("m1")
    await agent.turn("m1")
    body = model.requests[0].body
    assert body["model"] == "claude-opus-4"
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 16000}

    text, capabilities = await configure(agent, model="claude-haiku")
    assert text == "config updated: model: claude-opus-4 → claude-haiku, image input: Supported → Unknown"
    assert capabilities == before
    text, _ = await configure(agent, thinking="maybe", effort=None)
    assert text == 'config updated: thinking: ignored invalid value "maybe"'


async def test_s14_set_config_effort(launch: Launcher, model: ModelService) -> None:
    agent = await launch()
    text, _ = await configure(agent, effort="max")
    assert text == 'config updated: effort: invalid level "max" (valid: low, medium, high)'
    text, _ = await configure(agent, effort="low")
    assert text == "config updated: effort: none → low"
    model.script("ok", "ok")
    await agent.message("m1")
    await agent.turn("m1")
    assert model.requests[0].body["reasoning_effort"] == "low"
    text, _ = await configure(agent, effort="")
    assert text == "config updated: effort: cleared"
    await agent.message("m2")
    await agent.turn("m2")
    assert "reasoning_effort" not in model.requests[1].body


TOLD: list[tuple[dict[str, Any], str]] = [
    ({"model": "test-model"}, "config updated: model: test-model → test-model"),
    ({"image_input": "unknown"}, "config updated: image input: Unknown → Unknown"),
    ({"thinking_budget": 5}, "set_config: no changes"),
    ({"thinking": "enabled"}, "config updated: thinking: enabled (budget: 10000)"),
    ({"thinking_budget": 2000}, "config updated: thinking budget: 2000"),
    ({"thinking": "disabled", "thinking_budget": 5}, "config updated: thinking: disabled"),
    ({"compaction": "Off"}, "config updated: compaction: safe → off"),
    (
        {"compaction": "x"},
        "config updated: compaction: invalid (unknown compaction level: 'x' (expected: off, safe, full))",
    ),
    ({"model": None, "effort": None}, "set_config: no changes"),
    ({"unknown": {"a": 1}}, "set_config: no changes"),
]


async def test_s14_what_set_config_says(launch: Launcher) -> None:
    """One after the other: a budget alone counts only while thinking is enabled."""
    agent = await launch()
    for fields, told in TOLD:
        assert (await configure(agent, **fields))[0] == told


async def test_s14_set_mode_is_confirmed_also_without_a_change(launch: Launcher) -> None:
    agent = await launch()
    for mode in ("default", "auto_edit", "yolo", "yolo", "default"):
        await agent.send({"type": "set_mode", "mode": mode})
        await agent.expect_line({"type": "info", "msg_id": "", "message": f"mode updated: {mode}"})
        await agent.expect("config_changed", capabilities__current_mode=mode)


async def test_s15_config_and_mode_in_a_turn(launch: Launcher, model: ModelService) -> None:
    """A configuration waits for the end of the turn, field by field; a mode holds at once, for what comes."""
    pending = Reply(ToolCall("t1", "ExecCommand", {"cmd": "true"}))
    model.script(pending, Reply(ToolCall("t2", "ExecCommand", {"cmd": "true"})), "done", "next")
    agent = await launch(model="a")
    await agent.message("m1")
    await agent.until("tool_request", call_id="t1")
    for fields in ({"model": "c"}, {"model": "b"}, {"effort": "low"}):
        await agent.send({"type": "set_config", **fields})
        queued = "set_config: queued, will apply after current response"
        await agent.expect_line({"type": "info", "msg_id": "", "message": queued})
    await agent.send({"type": "set_mode", "mode": "yolo"})
    await agent.expect_line({"type": "info", "msg_id": "", "message": "mode updated: yolo"})
    await agent.expect("config_changed", capabilities__current_mode="yolo")
    await agent.fence()
    await agent.approve("t1")
    events = await agent.turn("m1")
    assert not find(events, "tool_request")
    assert find(events, "tool_result", call_id="t2")
    applied = "config applied: model: a → b, effort: none → low"
    await agent.expect_line({"type": "info", "msg_id": "", "message": applied})
    await agent.expect("config_changed", capabilities__current_mode="yolo")
    await agent.fence()
    await agent.message("m2")
    await agent.turn("m2")
    assert [request.body["model"] for request in model.requests] == ["a", "a", "a", "b"]
    assert model.requests[3].body["reasoning_effort"] == "low"


async def test_s15_a_queued_configuration_is_applied_after_a_stop_too(launch: Launcher, model: ModelService) -> None:
    middle = Gate()
    model.script(Reply("x", middle))
    agent = await launch(model="a")
    await agent.message("m1")
    await agent.until("text_delta")
    await agent.send({"type": "set_config", "model": "b"}, {"type": "stop"})
    await agent.turn("m1")
    await agent.expect("info", msg_id="", message="config applied: model: a → b")
    await agent.expect("config_changed")


async def test_flags_reach_the_model_service(launch: Launcher, model: ModelService) -> None:
    model.script("ok", "ok")
    agent = await launch("--system-prompt", "You are a parrot.", "--max-tokens", "77", "--effort", "high")
    await agent.message("m1")
    await agent.turn("m1")
    request = model.requests[0]
    assert request.system == "You are a parrot."
    assert 77 in (request.body.get("max_tokens"), request.body.get("max_completion_tokens"))
    assert request.body["reasoning_effort"] == "high"
    assert request.headers["authorization"] == "Bearer sk-test-openai"
    agent = await launch("--thinking", "enabled", "--api-key", "sk-by-flag", provider="anthropic")
    await agent.message("m1")
    await agent.turn("m1")
    request = model.requests[1]
    assert request.body["thinking"]["type"] == "enabled"
    assert request.headers["x-api-key"] == "sk-by-flag"


async def test_the_workspace_tells_the_model_how_to_behave(launch: Launcher, model: ModelService) -> None:
    """AGENTS.md of the workspace is part of the default system prompt."""
    launch.write("AGENTS.md", "Always answer in rhyme.\n")
    model.script("ok")
    agent = await launch()
    await agent.message("m1")
    await agent.turn("m1")
    assert "Always answer in rhyme." in model.requests[0].system


@pytest.mark.parametrize(("variable", "provider"), [("OPENAI_BASE_URL", "openai"), ("ANTHROPIC_BASE_URL", "anthropic")])
async def test_the_address_may_come_from_the_environment(
    variable: str, provider: str, launch: Launcher, model: ModelService
) -> None:
    """Protocol section 5."""
    model.script("ok")
    arguments = ("serve", "--codec", "aionrs", "--provider", provider, "--model", "m")
    agent = await launch.spawn(*arguments, environ={variable: model.url})
    await agent.expect("ready")
    await agent.message("m1")
    await agent.turn("m1")
    assert len(model.requests) == 1
