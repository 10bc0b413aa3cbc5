"""Failure cases S-c: stop, approvals, end of input, signals, and what tools may put out."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest
import trio
from support.agent_process import AgentProcess, gone, lines_of
from support.cases import case, expect_each, play, replies
from support.launcher import Launcher
from support.mcp_commands import SERVER, add_server
from support.model_service import ModelService, wait_for
from support.patterns import find, kinds, said
from support.replies import Gate, JsonObject, Reply, ToolCall

pytestmark = pytest.mark.slow


@case("S-c01")
async def test_stop_while_an_approval_is_pending(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given, expected = case["input"], case["expect"]
    model.script(*replies(given["provider_script"]))
    agent = await launch(provider="anthropic")
    await play(agent, given["steps"][:3])
    with trio.fail_after(expected["within_s"]):
        await expect_each(agent, expected["after_stop"])
    events = await play(agent, given["steps"][4:])
    assert said(events) == "second turn"
    assert not find(agent.events, "tool_running")
    assert len(find(agent.events, "stream_end", msg_id="m1")) == 1
    (block,) = model.requests[1].result_blocks
    assert block["tool_use_id"] == "t1"
    assert block["is_error"] is True
    assert not (launch.workspace / "ran").exists()


@case("S-c02")
async def test_an_approval_after_stop_gives_nothing(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given = case["input"]
    model.script(*replies(given["provider_script"]))
    agent = await launch()
    await play(agent, given["steps"])
    assert [event["type"] for event in agent.events if event.get("call_id") == "t1"] == [
        "tool_request", "tool_cancelled",
    ]  # fmt: skip
    assert next(event for event in agent.events if event.get("call_id") == "t2")["type"] == "tool_request"
    assert not find(agent.events, "error")
    await agent.stop()
    await agent.turn("m2")
    assert list(launch.workspace.iterdir()) == []


@case("S-c03")
async def test_answering_twice(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    """An answer to what is settled is silent; one to what never was is an error."""
    given = case["input"]
    model.script(*replies(given["provider_script"]))
    agent = await launch()
    await play(agent, given["steps"][:4])
    assert len(find(agent.events, "tool_running", call_id="t1")) == 1
    assert len(find(agent.events, "tool_result", call_id="t1", status="success")) == 1
    assert not find(agent.events, "tool_cancelled")
    assert not find(agent.events, "error")
    assert (launch.workspace / "count").read_text() == case["expect"]["workspace"]["count"]
    await play(agent, given["steps"][4:])
    await agent.expect("error", msg_id=None, error__code="protocol_error", error__retryable=False)
    await agent.fence()


@case("S-c04")
async def test_a_second_message_in_a_turn(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given, expected = case["input"], case["expect"]
    gate = Gate()
    model.script(*replies(given["provider_script"], gate))
    agent = await launch()
    await play(agent, given["steps"][:3])
    await agent.expect("error", msg_id="m2", error__code="protocol_error", error__retryable=True)
    await play(agent, given["steps"][3:], gate)
    assert said(agent.events) == expected["m1"]["text_delta_concat"]
    assert not [event for event in agent.events if event.get("msg_id") == "m2" and event["type"] != "error"]


@case("S-c05")
async def test_input_ends_while_the_model_streams(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    gate = Gate()
    model.script(*replies(case["input"]["provider_script"], gate))
    agent = await launch()
    await play(agent, case["input"]["steps"])
    await wait_for(gate.reached, "the model is asked")
    gate.open()
    assert await agent.wait_exit() == 0
    assert said(agent.events) == case["expect"]["model_streaming"]["text_delta_concat"]
    assert agent.events[-1]["type"] == "stream_end"


@case("S-c05")
async def test_input_ends_while_an_approval_is_pending(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    variant = case["input"]["variant_pending_approval"]
    model.script(*replies(variant["provider_script"]))
    agent = await launch()
    await agent.message("m1")
    await agent.until(variant["close_stdin_after"]["type"])
    await agent.close_stdin()
    assert await agent.wait_exit(within=5) == 0
    assert kinds(agent.rest()) == ["tool_cancelled", "text_delta", "stream_end"]
    assert not (launch.workspace / "ran").exists()


async def resumed(launch: Launcher, model: ModelService, session: str) -> None:
    """The session must load, and its next request must answer the call that was open."""
    model.script("welcome back")
    agent = await launch("--resume", session)
    await agent.message("again")
    assert said(await agent.turn("again")) == "welcome back"
    assert set(model.requests[-1].results) == {"t1"}


@case("S-c06")
@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_while_a_shell_runs(
    which: signal.Signals, case: JsonObject, launch: Launcher, model: ModelService, tmp_path: Path
) -> None:
    command = re.search(r"ExecCommand '(.+)' and connect", case["input"]["text"])
    assert command
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": command[1].replace('"', "'")})))
    agent = await launch("--auto-approve", "--session-id", "s", expected=(0, 128 + which))
    record, shell = tmp_path / "record", tmp_path / "shell"
    script = f"echo $$ > {shell}; {sys.executable} {SERVER} --record {record}; true"
    await agent.send({**add_server("wrapped"), "command": "sh", "args": ["-c", script]})
    await agent.expect("mcp_ready")
    await agent.message("m1")
    await agent.until("tool_running")
    pids = [*await lines_of(launch.workspace / "pids", 2), *await lines_of(shell, 1)]
    pids.append(json.loads((await lines_of(record, 1))[0])["pid"])
    agent.send_signal(which)
    assert await agent.wait_exit(within=case["expect"]["within_s"]) in (0, 128 + which)
    assert kinds(agent.rest()) in (["tool_cancelled", "stream_end"], ["tool_result", "stream_end"])
    for pid in pids:
        await gone(int(pid), within=2)
    if which is signal.SIGTERM:
        await resumed(launch, model, "s")


@case("S-c07")
async def test_output_that_is_no_clean_text(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given, expected = case["input"], case["expect"]["tool_result"]
    model.script(Reply(ToolCall("t1", given["tool"], given["args"])), "done", "second")
    agent = await launch("--auto-approve")
    await agent.message("m1")
    events = await agent.turn("m1")
    (result,) = find(events, "tool_result", status=expected["status"])
    for text in expected["output_contains"]:
        assert text in result["output"]
    assert "\0" not in result["output"]
    assert model.requests[1].results["t1"] == result["output"]
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "second"


async def longest_silence(agent: AgentProcess, msg_id: str, every: float) -> float:
    """Ping until the turn ends; the longest time in seconds that a pong took."""
    longest = 0.0
    while True:
        await agent.send({"type": "ping"})
        sent = trio.current_time()
        passed = await agent.until("pong")
        longest = max(longest, trio.current_time() - sent)
        if find(passed, "stream_end", msg_id=msg_id):
            return longest
        await trio.sleep(every)


@case("S-c08")
async def test_huge_and_endless_output(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given, expected = case["input"], case["expect"]
    model.script("warm", *replies(given["provider_script"]))
    agent = await launch(*given["argv"])
    await agent.message("m0")
    await agent.turn("m0")
    before = agent.memory()
    await play(agent, given["steps"][:1])
    with trio.fail_after(30):
        silence = await longest_silence(agent, "m1", given["steps"][1]["every_s"])
    growth = agent.memory() - before
    assert silence <= expected["pong_latency_s_max"]
    assert growth < expected["rss_growth_mib_max"] << 20
    assert max(map(len, agent.stdout.split(b"\n"))) < 50_000 + 64 * 1024
    (huge,) = find(agent.events, "tool_result", call_id="t1")
    assert huge["status"] == "success"
    (cut,) = re.findall(r"\[truncated (\d+) chars\]", huge["output"])
    assert int(cut) + 50_000 >= 200_000_000
    (endless,) = find(agent.events, "tool_result", call_id="t2")
    assert endless["status"] == "error"
    assert endless["output"].startswith("Command timed out after 2000ms\n")
