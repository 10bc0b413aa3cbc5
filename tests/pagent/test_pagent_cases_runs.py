"""Failure cases S-c: stops, permits, the end of input, signals, and what tools may put out."""

from __future__ import annotations

import re
import signal

import pytest
import trio
from pagentcases import both, classic, commands, say
from pagentserved import PagentLauncher, names, text
from support.agent_process import gone, lines_of
from support.cases import case, replies
from support.model_service import ModelService
from support.patterns import find
from support.replies import Gate, JsonObject, Reply, ToolCall

pytestmark = pytest.mark.slow


@case("S-c01")
async def test_stop_while_a_permit_is_pending(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """Unlike the peer, which takes the stop for a denial and goes on."""
    given, expected = case["input"], case["expect"]
    model.script(*replies(given["provider_script"]))
    agent = await serve(provider="anthropic")
    await agent.send(*commands(given["steps"][0]))
    await agent.until("PermitRequest", tool_call_id="t1")
    with trio.fail_after(expected["within_s"]):
        await agent.send(*commands(given["steps"][2]))
        assert names(await agent.run()) == ["ToolResult", "TurnEnd", "RunEnd"]
    (result,) = find(agent.events, "ToolResult")
    assert result["ok"] is False
    assert find(agent.events, "RunEnd")[0]["stop_reason"] == "cancelled"
    await agent.send(*commands(given["steps"][4]))
    assert text(await agent.run()) == "second turn"
    (block,) = model.requests[1].result_blocks
    assert (block["tool_use_id"], block["is_error"]) == ("t1", True)
    assert not (serve.workspace / "ran").exists()


@case("S-c02")
async def test_a_permit_after_stop_gives_nothing(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    given = case["input"]
    model.script(*replies(given["provider_script"]))
    agent = await serve()
    await agent.send(*commands(given["steps"][0]))
    await agent.until("PermitRequest", tool_call_id="t1")
    await agent.send(*commands(given["steps"][2]))
    await agent.run()
    await agent.send(*commands(given["steps"][4]))
    await agent.until("PermitRequest", tool_call_id="t2")
    assert not find(agent.events, "Error")
    await agent.send({"cmd": "cancel"})
    await agent.run()
    assert list(serve.workspace.iterdir()) == []


@case("S-c03")
async def test_answering_twice(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """An answer to what is settled, or never was, is only logged: so does the peer."""
    given = case["input"]
    model.script(*replies(given["provider_script"]))
    agent = await serve()
    await agent.send(*commands(given["steps"][0]))
    await agent.until("PermitRequest", tool_call_id="t1")
    await agent.send(*commands(given["steps"][2]))
    await agent.run()
    assert len(find(agent.events, "ToolResult", tool_call_id="t1", ok=True)) == 1
    assert (serve.workspace / "count").read_text() == case["expect"]["workspace"]["count"]
    for step in given["steps"][4:]:
        await agent.send(*commands(step))
    await agent.fence()
    assert not find(agent.events, "Error")


@both
@case("S-c04")
async def test_a_second_input_in_a_run(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    """It is ignored, as by the peer, and that is said on standard error."""
    given, expected = case["input"], case["expect"]
    gate = Gate()
    model.script(*replies(given["provider_script"], gate))
    agent = await serve(codec=codec)
    await agent.send(*commands(given["steps"][0]))
    await agent.until("TextDelta")
    await agent.send(*commands(given["steps"][2]))
    await agent.says("a second input is ignored")
    gate.open()
    await agent.run()
    assert text(agent.events) == expected["m1"]["text_delta_concat"]
    assert len(find(agent.events, "RunBegin")) == len(model.requests) == 1


@both
@case("S-c05")
async def test_input_ends_while_the_model_streams(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    """The end of input cancels the run, as with the peer, and v4 says so."""
    assert "turn cancelled" in case["expect"]["model_streaming"]["accept_instead"][0]
    model.script(*replies(case["input"]["provider_script"], Gate()))
    agent = await serve(codec=codec)
    await agent.send(*commands(case["input"]["steps"][0]))
    await agent.until("TextDelta", text="Hel")
    await agent.close_stdin()
    assert await agent.wait_exit() == 0
    rest = agent.rest()
    assert names(rest) == ([] if codec == "pagent" else ["TurnResult", "TurnEnd", "RunEnd"])
    assert all(event.get("stop_reason", "cancelled") == "cancelled" for event in rest)


@case("S-c05")
async def test_input_ends_while_a_permit_is_pending(
    case: JsonObject, serve: PagentLauncher, model: ModelService
) -> None:
    model.script(*replies(case["input"]["variant_pending_approval"]["provider_script"]))
    agent = await serve()
    await agent.user()
    await agent.until("PermitRequest")
    await agent.close_stdin()
    assert await agent.wait_exit(within=5) == 0
    rest = agent.rest()
    assert (rest[0]["type"], rest[0]["ok"]) == ("ToolResult", False)
    assert (rest[-1]["type"], rest[-1]["stop_reason"]) == ("RunEnd", "cancelled")
    assert not (serve.workspace / "ran").exists()


@case("S-c06")
@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_while_a_shell_runs(
    which: signal.Signals, case: JsonObject, serve: PagentLauncher, model: ModelService
) -> None:
    command = re.search(r"ExecCommand '(.+)' and connect", case["input"]["text"])
    assert command
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": command[1].replace('"', "'")})), "welcome back")
    agent = await serve("--auto-approve", "--session-id", "s", expected=(0, 128 + which))
    await agent.user()
    await agent.until("ToolCallBegin")
    pids = await lines_of(serve.workspace / "pids", 2)
    agent.send_signal(which)
    assert await agent.wait_exit(within=case["expect"]["within_s"]) in (0, 128 + which)
    assert names(agent.rest()) == ["ToolResult", "TurnEnd", "RunEnd"]
    for pid in pids:
        await gone(int(pid), within=2)
    again = await serve("--resume", "s")
    await again.expect("HistoryReplay")
    assert text(await say(again)) == "welcome back"
    assert set(model.requests[-1].results) == {"t1"}


@case("S-c07")
@classic
async def test_output_that_is_no_clean_text(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    given, expected = case["input"], case["expect"]["tool_result"]
    model.script(Reply(ToolCall("t1", given["tool"], given["args"])), "done", "second")
    agent = await serve("--auto-approve", codec=codec)
    (result,) = find(await say(agent), "ToolResult", ok=True)
    for said in expected["output_contains"]:
        assert said in result["content"]
    assert "\0" not in result["content"]
    assert model.requests[1].results["t1"] == result["content"]
    assert text(await say(agent)) == "second"


@case("S-c08")
async def test_huge_and_endless_output(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """That commands are read meanwhile is seen by the answers to ``commands``."""
    given, expected = case["input"], case["expect"]
    model.script("warm", *replies(given["provider_script"]))
    agent = await serve(*given["argv"])
    await say(agent)
    before = agent.memory()
    await agent.user()
    longest = 0.0
    with trio.fail_after(30):
        while True:
            sent = trio.current_time()
            await agent.send({"cmd": "commands"})
            passed = await agent.until("SlashCommands")
            longest = max(longest, trio.current_time() - sent)
            if find(passed, "RunEnd"):
                break
            await trio.sleep(given["steps"][1]["every_s"])
    assert longest <= expected["pong_latency_s_max"]
    assert agent.memory() - before < expected["rss_growth_mib_max"] << 20
    assert max(map(len, agent.stdout.split(b"\n"))) < 50_000 + 64 * 1024
    huge, endless = find(agent.events, "ToolResult")
    assert (huge["ok"], endless["ok"]) == (True, False)
    assert re.search(r"\[truncated \d+ chars\]", huge["content"])
    assert endless["content"].startswith("Command timed out after 2000ms\n")
