"""Stop, end of input, signals and a host that is gone: the turn has its end, and nothing is left behind."""

from __future__ import annotations

import signal

import pytest
import trio
from support.agent_process import gone, lines_of
from support.launcher import Launcher
from support.model_service import ModelService, wait_for
from support.patterns import find, kinds, said
from support.replies import Gate, Reply, ToolCall

SLEEPER = "echo $$ > pids; sleep 300 & echo $! >> pids; wait"
"""A shell and its child, both of which write down who they are."""


async def test_s07_stop_in_the_stream_then_go_on(launch: Launcher, model: ModelService) -> None:
    """Protocol section 2.2: the request is dropped, the turn ends, the process serves on. What was said stays."""
    middle = Gate()
    model.script(Reply("Once upon", middle, " a time"), "again indeed")
    agent = await launch()
    await agent.message("m1", "tell")
    await agent.until("text_delta", text="Once upon")
    await agent.stop()
    await agent.expect("stream_end", msg_id="m1")
    await wait_for(model.requests[0].disconnected, "the model request is closed", within=2)
    await agent.message("m2", "again")
    events = await agent.turn("m2")
    assert kinds(events) == ["stream_start", "text_delta", "stream_end"]
    second = model.requests[1]
    assert [message["role"] for message in second.messages] == ["user", "assistant", "user"]
    assert second.texts("assistant") == ["Once upon"]


async def test_s07_a_second_stop_and_a_stop_at_rest_do_nothing(launch: Launcher, model: ModelService) -> None:
    middle = Gate()
    model.script(Reply("x", middle), "fine")
    agent = await launch()
    await agent.stop()
    await agent.fence()
    await agent.message("m1")
    await agent.until("text_delta")
    await agent.send({"type": "stop"}, {"type": "stop"}, {"type": "ping"})
    events = [await agent.next_event() for _ in range(2)]
    assert sorted(event["type"] for event in events) == ["pong", "stream_end"]
    await agent.fence()
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "fine"


async def test_s07_stop_before_the_first_token(launch: Launcher, model: ModelService) -> None:
    start = Gate()
    model.script(Reply(start), "fine")
    agent = await launch()
    await agent.message("m1", "first")
    await model.request(1)
    await agent.stop()
    assert kinds(await agent.turn("m1")) == ["stream_start", "stream_end"]
    await agent.message("m2", "second")
    await agent.turn("m2")
    assert "\n".join(model.requests[1].texts("user")).split() == ["first", "second"]


async def test_s08_stop_while_approvals_wait(launch: Launcher, model: ModelService) -> None:
    calls = [ToolCall(call, "ExecCommand", {"cmd": "touch ran"}) for call in ("t1", "t2")]
    model.script(Reply("Shall I?", *calls), "ok")
    agent = await launch(provider="anthropic")
    await agent.message("m")
    await agent.until("tool_request", call_id="t2")
    await agent.stop()
    for call in ("t1", "t2"):
        await agent.expect_line(
            {"type": "tool_cancelled", "msg_id": "m", "call_id": call, "reason": "Cancelled by user"}
        )
    await agent.expect("stream_end", msg_id="m", usage={"input_tokens": 10, "output_tokens": 5})
    await agent.approve("t1")
    await agent.fence()
    await agent.message("m2")
    await agent.turn("m2")
    assert set(model.requests[1].results) == {"t1", "t2"}
    assert all(block["is_error"] for block in model.requests[1].result_blocks)
    assert model.requests[1].texts("assistant") == ["Shall I?"]
    assert not (launch.workspace / "ran").exists()


async def test_s08_stop_while_a_command_runs(launch: Launcher, model: ModelService) -> None:
    """The command's children go too, and the model is told that the call was cancelled."""
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": SLEEPER})), "ok")
    agent = await launch("--auto-approve")
    await agent.message("m")
    await agent.until("tool_running", call_id="t1")
    pids = await lines_of(launch.workspace / "pids", 2)
    await agent.stop()
    await agent.expect("tool_cancelled", call_id="t1", reason="Cancelled by user")
    await agent.expect("stream_end", msg_id="m")
    for pid in pids:
        await gone(int(pid), within=2)
    await agent.message("m2")
    await agent.turn("m2")
    assert set(model.requests[1].results) == {"t1"}


async def test_s08_a_command_that_will_not_go_is_made_to(launch: Launcher, model: ModelService) -> None:
    """It ignores the polite signal; the turn ends all the same, and so does the command."""
    stubborn = "trap '' TERM; echo $$ > pids; while :; do sleep 0.2; done"
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": stubborn})), "ok")
    agent = await launch("--auto-approve")
    await agent.message("m")
    await agent.until("tool_running", call_id="t1")
    (pid,) = await lines_of(launch.workspace / "pids", 1)
    await agent.stop()
    await agent.fence()
    await agent.expect("tool_cancelled", call_id="t1")
    await agent.expect("stream_end", msg_id="m")
    await gone(int(pid), within=2)
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "ok"


async def test_a_message_and_its_stop_in_one_write(launch: Launcher, model: ModelService) -> None:
    model.script("fine")
    agent = await launch()
    await agent.send({"type": "message", "msg_id": "m1", "content": "first"}, {"type": "stop"}, {"type": "ping"})
    events = [await agent.next_event() for _ in range(3)]
    assert [event["type"] for event in events if event["type"] != "pong"] == ["stream_start", "stream_end"]
    assert model.requests == []
    await agent.message("m2", "second")
    assert said(await agent.turn("m2")) == "fine"


async def test_s11_end_of_input_with_an_approval_pending(launch: Launcher, model: ModelService) -> None:
    """Nobody can answer any more: this question and every later one is settled, and the turn runs to its end."""
    model.script(
        Reply(ToolCall("t1", "ExecCommand", {"cmd": "touch ran"})),
        Reply(ToolCall("t2", "ExecCommand", {"cmd": "touch ran"})),
        "bye",
    )
    agent = await launch()
    await agent.message("m")
    await agent.until("tool_request", call_id="t1")
    await agent.close_stdin()
    assert await agent.wait_exit() == 0
    events = agent.rest()
    gone_away = {"type": "tool_cancelled", "msg_id": "m", "call_id": "t1", "reason": "Client disconnected"}
    assert events[0] == gone_away
    assert find(events, "tool_cancelled", call_id="t2", reason="Client disconnected")
    assert said(events) == "bye"
    assert events[-1]["type"] == "stream_end"
    assert not (launch.workspace / "ran").exists()


async def test_s11_one_message_through_a_pipe(launch: Launcher, model: ModelService) -> None:
    """A message and the end of input in one go: a full turn, then exit 0."""
    middle = Gate()
    model.script(Reply("Hel", middle, "lo"))
    agent = await launch()
    await agent.message("m1")
    await agent.close_stdin()
    await wait_for(middle.reached, "the model is asked")
    middle.open()
    assert await agent.wait_exit() == 0
    assert said(agent.events) == "Hello"
    assert agent.events[-1]["type"] == "stream_end"


async def test_s11_a_message_written_before_ready_is_not_lost(launch: Launcher, model: ModelService) -> None:
    model.script("Hello")
    agent = await launch.spawn(*launch.serve())
    await agent.message("m1")
    await agent.close_stdin()
    assert await agent.wait_exit() == 0
    assert kinds(agent.events) == ["ready", "stream_start", "text_delta", "stream_end"]


async def test_end_of_input_at_rest(launch: Launcher) -> None:
    agent = await launch()
    await agent.close_stdin()
    assert await agent.wait_exit(within=2) == 0
    assert len(agent.events) == 1


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_at_rest(which: signal.Signals, launch: Launcher) -> None:
    agent = await launch()
    agent.send_signal(which)
    assert await agent.wait_exit(within=2) == 0


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_in_a_turn_ends_it_in_good_order(
    which: signal.Signals, launch: Launcher, model: ModelService
) -> None:
    """The turn is stopped, its end is written, the command's processes die, exit 0, all within two seconds."""
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": SLEEPER})))
    agent = await launch("--auto-approve")
    await agent.message("m")
    await agent.until("tool_running", call_id="t1")
    pids = await lines_of(launch.workspace / "pids", 2)
    agent.send_signal(which)
    assert await agent.wait_exit(within=2) == 0
    assert kinds(agent.rest()) == ["tool_cancelled", "stream_end"]
    for pid in pids:
        await gone(int(pid), within=1)


async def test_a_signal_while_nobody_reads(launch: Launcher, model: ModelService) -> None:
    """What is due cannot be written: the process waits a moment for its host, no longer, and the command dies."""
    model.script(Reply(*["x" * 1000] * 300, ToolCall("t1", "ExecCommand", {"cmd": SLEEPER})))
    agent = await launch("--auto-approve", expected=(0, 1))
    agent.hold_reading()
    await agent.message("m")
    pids = await lines_of(launch.workspace / "pids", 2)
    agent.send_signal(signal.SIGTERM)
    with trio.fail_after(4):
        await agent.process.wait()
    for pid in pids:
        await gone(int(pid), within=1)
    agent.deaf = True
    await agent.hang_up()
    agent.resume_reading()


async def test_two_signals_are_one(launch: Launcher, model: ModelService) -> None:
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": SLEEPER})))
    agent = await launch("--auto-approve")
    await agent.message("m")
    await agent.until("tool_running", call_id="t1")
    await lines_of(launch.workspace / "pids", 2)
    agent.send_signal(signal.SIGTERM)
    agent.send_signal(signal.SIGINT)
    assert await agent.wait_exit(within=3) == 0
    assert kinds(agent.rest()) == ["tool_cancelled", "stream_end"]


async def test_a_signal_while_the_model_streams(launch: Launcher, model: ModelService) -> None:
    middle = Gate()
    model.script(Reply("begun", middle))
    agent = await launch()
    await agent.message("m")
    await agent.until("text_delta")
    agent.send_signal(signal.SIGTERM)
    assert await agent.wait_exit(within=2) == 0
    assert kinds(agent.rest()) == ["stream_end"]
    await wait_for(model.requests[0].disconnected, "the model request is closed")


async def test_a_host_that_no_longer_reads_ends_the_process(launch: Launcher, model: ModelService) -> None:
    """The pipe of the events is closed at the other end (EPIPE): cancel and leave."""
    middle = Gate()
    model.script(Reply("begun", middle, *["more"] * 100, Gate()))
    agent = await launch(expected=(0, 1))
    await agent.message("m")
    await agent.until("text_delta")
    await agent.hang_up()
    middle.open()
    assert await agent.wait_exit() in (0, 1)
    await wait_for(model.requests[0].disconnected, "the model request is closed")


async def test_killed_with_a_command_running_leaves_no_orphan(launch: Launcher, model: ModelService) -> None:
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": SLEEPER})))
    agent = await launch("--auto-approve", expected=(-signal.SIGKILL,))
    await agent.message("m")
    await agent.until("tool_running", call_id="t1")
    pids = await lines_of(launch.workspace / "pids", 2)
    agent.kill()
    await agent.wait_exit()
    for pid in pids:
        await gone(int(pid), within=5)
