"""Failure cases S-b: what can go wrong between bytes and lines."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator

import pytest
import trio
from support import noisy_plugin
from support.agent_process import gone
from support.cases import case, expect_each, lines, replies, stdin
from support.launcher import Launcher
from support.mcp_commands import add_server
from support.model_service import ModelService, wait_for
from support.patterns import find, kinds, said
from support.replies import Bytes, Gate, JsonObject, Reply, ToolCall, sse


@case("S-b01")
async def test_long_lines(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given = case["input"]
    agent = await launch()
    for number, size in enumerate(given["sizes"], 1):
        model.script(*replies(given["provider_script"]))
        await agent.send_bytes(lines(given["lines"], size))
        events = await agent.turn("big")
        if not find(events, "pong"):
            await agent.expect("pong")
        assert kinds([event for event in events if event["type"] != "pong"])[0] == "stream_start"
        request = await model.request(number)
        assert request.texts("user")[-1] == "x" * size
    await agent.send_bytes(lines(given["lines"], given["over_limit_sizes"]["aionrs"]))
    await agent.expect("error", msg_id=None, error__code="protocol_error", error__retryable=False)
    await agent.expect_line({"type": "pong"})
    await agent.fence()


@case("S-b02")
async def test_malformed_lines(case: JsonObject, launch: Launcher) -> None:
    agent = await launch()
    await agent.send_bytes(lines(case["input"]["lines"]))
    await expect_each(agent, case["expect"]["aionrs"])
    await agent.fence()


@case("S-b03")
async def test_line_ends(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    model.script("a\r\nb")
    agent = await launch()
    await agent.send_bytes(stdin(case))
    await expect_each(agent, case["expect"]["aionrs"])
    await agent.fence()
    await agent.send_bytes(b'{"type":"message","msg_id":"m1","content":"x"}\r\n')
    assert said(await agent.turn("m1")) == "a\r\nb"
    assert b"\r" not in agent.stdout


@case("S-b04")
async def test_unicode_line_separators(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given = case["input"]
    model.script(*replies(given["provider_script"]))
    agent = await launch()
    await agent.send_bytes(lines(given["lines"]))
    events = await agent.turn("u1")
    assert kinds(events) == ["stream_start", "text_delta", "stream_end"]
    assert said(events) == "x\u2028y\u0085z\nnext"
    assert model.requests[0].texts("user") == ["a\u2028b\u2029c\u0085d"]


@case("S-b05")
async def test_lone_surrogates(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given = case["input"]
    for name in given["workspace_files_bytes_names"]:
        try:
            (launch.workspace / os.fsdecode(base64.b64decode(name))).touch()
        except OSError:
            pytest.skip("this file system takes no names that are not UTF-8")
    halves, good, ping = given["lines"]
    model.script(*replies(given["provider_script"]), Reply(ToolCall("g", "Glob", {"pattern": "*.txt"})), "done")
    agent = await launch("--auto-approve")
    await agent.send_bytes(lines([halves]))
    events = await agent.until("stream_end")
    assert said(events) == "half \ufffd pair"
    assert model.requests[0].texts("user") == ["bad \ufffd end"]
    await agent.send_bytes(lines([good]))
    assert said(await agent.turn("s2")) == "fine"
    assert model.requests[1].texts("user")[-1] == "good \U0001f600"
    await agent.send_bytes(lines([ping]))
    await agent.expect_line({"type": "pong"})
    await agent.message("s3")
    events = await agent.turn("s3")
    (result,) = find(events, "tool_result", status="success")
    assert result["output"] == "caf\ufffd.txt"
    for journal in (launch.data / "sessions").rglob("*"):
        if journal.is_file():
            journal.read_bytes().decode("utf-8")


@case("S-b07")
async def test_batches_and_bare_values(case: JsonObject, launch: Launcher) -> None:
    agent = await launch()
    await agent.send_bytes(lines(case["input"]["codec_variants"]["aionrs"]))
    await expect_each(agent, case["expect"]["aionrs"])
    await agent.fence()


@case("S-b08")
async def test_noise_on_stdout(case: JsonObject, launch: Launcher) -> None:
    """A provider plugin, installed as any third party's, whose body and calls write to stdout in every way."""
    environ = noisy_plugin.install(launch.home, case["input"]["python"])
    arguments = ("serve", "--codec", "aionrs", "--provider", "noisy", "--workspace", str(launch.workspace))
    agent = await launch.spawn(*arguments, environ=environ)
    await agent.expect("ready")
    await agent.message("m1")
    events = await agent.turn("m1")
    assert kinds(events) == ["stream_start", "text_delta", "stream_end"]
    assert said(events) == noisy_plugin.SAYS
    await agent.fence()
    await launch.close(agent)
    for text in ("loading model", "raw bytes", "careful", "from child"):
        assert text in agent.errors


@case("S-b09")
async def test_children_and_the_protocol_input(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given, expected = case["input"], case["expect"]
    model.script(*replies(given["provider_script"]))
    agent = await launch(*given["argv"])
    await agent.send(given["steps"][0]["send"])
    with trio.fail_after(expected["within_s"]):
        await agent.until("tool_running", call_id="t1")
        await agent.send({"type": "ping"})
        events = await agent.turn("m1")
    (result,) = find(events, "tool_result", call_id="t1", status="success")
    assert "done" in result["output"]
    assert "ping" not in result["output"]
    assert len(find(events, "pong")) == 1
    assert said(events) == "ok"


@case("S-b09")
async def test_children_left_behind_hold_no_pipe(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    """A prompt that waits for a person fails at once; a child in the background neither reads nor keeps our pipes."""
    assert case["expect"]["also"]
    background = "(sleep 300 & echo $! > pid) ; cat /dev/stdin; echo done"
    model.script(
        Reply(ToolCall("t1", "ExecCommand", {"cmd": f"{sys.executable} -c 'input()'"})),
        Reply(ToolCall("t2", "ExecCommand", {"cmd": background})),
        "ok",
    )
    agent = await launch("--auto-approve")
    await agent.send(add_server("tools"))
    await agent.expect("mcp_ready")
    await agent.message("m1")
    events = await agent.turn("m1")
    (prompt,) = find(events, "tool_result", call_id="t1", status="error")
    assert "EOFError" in prompt["output"]
    assert find(events, "tool_result", call_id="t2", status="success")
    for _ in range(10):
        await agent.fence()
    await agent.close_stdin()
    assert await agent.wait_exit() == 0
    await gone(int((launch.workspace / "pid").read_text()), within=5)


@case("S-b10")
@pytest.mark.parametrize("variant", ["complete", "cut"])
async def test_the_last_line_without_an_end(variant: str, case: JsonObject, launch: Launcher) -> None:
    agent = await launch()
    await agent.send_bytes(case["input"]["variants"][variant].encode())
    await agent.close_stdin()
    expected = case["expect"][variant]
    await expect_each(agent, expected["events"])
    assert await agent.wait_exit() == expected["exit_code"]
    assert agent.rest() == []


@case("S-b11")
async def test_input_that_is_not_utf8(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    agent = await launch()
    await agent.send_bytes(stdin(case))
    await expect_each(agent, case["expect"]["aionrs"])
    await agent.fence()
    assert model.requests == []


CHUNKS, CHUNK = 50_000, 200
GROWTH = 64 * 1024 * 1024


def numbered() -> list[str]:
    """The case's chunks: they show if one is lost or out of order."""
    return [f"{n:08}".ljust(CHUNK - 1, ".") + "\n" for n in range(CHUNKS)]


def packed(texts: list[str]) -> Iterator[Bytes]:
    """The chunks as events of their own, many of them in each write: this test is not about the network."""
    events = [sse({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}) for text in texts]
    for start in range(0, len(events), 50):
        yield Bytes(b"".join(events[start : start + 50]))


@case("S-b12")
async def test_a_host_that_does_not_read_loses_nothing(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    """The model is not slowed (its whole stream is taken while nobody reads), and memory stays bounded."""
    assert "50,000 chunks of 200" in case["input"]["text"]
    end = Gate()
    chunks = numbered()
    model.script("warm", Reply(*packed(chunks), end))
    agent = await launch()
    await agent.message("m0")
    await agent.turn("m0")
    before = agent.memory()
    await agent.message("m1")
    await agent.until("text_delta")
    agent.hold_reading()
    await wait_for(end.reached, "the model's stream is taken while nobody reads", within=30)
    await agent.send({"type": "ping"})
    growth = agent.memory() - before
    end.open()
    await wait_for(model.requests[1].answered, "the model's reply is complete")
    agent.resume_reading()
    events = await agent.turn("m1")
    assert growth < GROWTH, f"memory grew by {growth >> 20} MiB"
    text = "".join(e["text"] for e in agent.events if e["type"] == "text_delta" and e["msg_id"] == "m1")
    assert text == "".join(chunks)
    place = next(n for n, event in enumerate(events) if event["type"] == "pong")
    assert place < len(events) - 1, "the pong does not wait for all that is unread"


@case("S-b12")
async def test_a_stop_is_heard_while_nobody_reads(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    assert "stop" in case["input"]["text"]
    end = Gate()
    model.script(Reply(*packed(numbered()[: CHUNKS // 5]), end), "next")
    agent = await launch()
    await agent.message("m1")
    await agent.until("text_delta")
    agent.hold_reading()
    await wait_for(end.reached, "the model's stream is taken while nobody reads", within=30)
    await agent.send({"type": "ping"}, {"type": "stop"})
    await wait_for(model.requests[0].disconnected, "the stop takes effect", within=1)
    agent.resume_reading()
    events = await agent.turn("m1")
    assert len(find(events, "pong")) == 1
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "next"


@case("S-b13")
async def test_known_commands_with_wrong_fields(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    agent = await launch()
    await agent.send_bytes(lines(case["input"]["lines"]))
    events = await expect_each(agent, case["expect"]["aionrs"])
    names = [json.loads(line)["type"] for line in case["input"]["lines"][:-1]]
    for name, event in zip(names, events, strict=False):
        message = event["error"]["message"]
        assert name in message or "AddMcpServer" in message
        assert len(message) < 1000
    await agent.fence()
    assert model.requests == []
