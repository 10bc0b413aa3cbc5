"""A model service that refuses, is overloaded, or breaks off: what the host is told, and what is tried again."""

from __future__ import annotations

import pytest
import trio
from support.agent_process import AgentProcess
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import find, kinds, said
from support.replies import Bytes, Cut, Gate, Refused, Reply, Thinking, ToolCall


async def failed(agent: AgentProcess, msg_id: str) -> dict[str, object]:
    """Play a turn that fails: one error of that turn, then its end. The error's fields."""
    await agent.message(msg_id)
    events = await agent.turn(msg_id)
    errors = find(events, "error", msg_id=msg_id, error__code="provider_error")
    assert len(errors) == len(find(events, "error")) == 1
    assert kinds(events)[-2:] == ["error", "stream_end"]
    told: dict[str, object] = errors[0]["error"]
    return told


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_s20_a_long_rate_limit_ends_the_turn(provider: str, launch: Launcher, model: ModelService) -> None:
    """Protocol section 4.2; the next message works."""
    model.script(Refused(429, "slow down", {"retry-after": "30"}), "back")
    agent = await launch(provider=provider)
    told = await failed(agent, "m3")
    assert told["message"] == "Rate limit exceeded. Retry after 30s."
    assert told["retryable"] is True
    assert len(model.requests) == 1
    await agent.message("m4")
    assert said(await agent.turn("m4")) == "back"


async def test_s20_a_short_rate_limit_is_waited_for(launch: Launcher, model: ModelService) -> None:
    """At most twice, and the host is told each time with the turn's id."""
    wait = Refused(429, "slow down", {"retry-after": "0"})
    model.script(wait, wait, "through", wait, wait, wait)
    agent = await launch()
    await agent.message("m1")
    events = await agent.turn("m1")
    assert len(find(events, "info", msg_id="m1")) == 2
    assert said(events) == "through"
    assert not find(events, "error")
    told = await failed(agent, "m2")
    assert told["retryable"] is True
    assert len(model.requests) == 6


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_s20_a_refusal_for_good_is_told_at_once(provider: str, launch: Launcher, model: ModelService) -> None:
    """It is not retryable, it is not tried again, and no key of ours is repeated."""
    agent = await launch(provider=provider)
    for number, status in enumerate((400, 401, 403, 404), 1):
        model.script(Refused(status, "sk-test-openai sk-test-anthropic is no good here"))
        told = await failed(agent, f"m{status}")
        assert told["retryable"] is False
        assert "sk-test" not in str(told["message"])
        assert len(model.requests) == number
    model.script("back")
    await agent.message("m")
    assert said(await agent.turn("m")) == "back"


async def test_an_overloaded_service_is_asked_again_and_pings_are_answered(
    launch: Launcher, model: ModelService
) -> None:
    model.script(Refused(503, "overloaded", {"retry-after": "1"}), "back")
    agent = await launch()
    await agent.message("m1")
    await agent.until("info", msg_id="m1")
    await agent.fence()
    events = await agent.turn("m1")
    assert said(events) == "back"
    assert not find(events, "error")
    assert len(model.requests) == 2


async def test_a_stop_ends_the_wait_for_a_retry(launch: Launcher, model: ModelService) -> None:
    model.script(Refused(429, "slow down", {"retry-after": "20"}), "back")
    agent = await launch()
    await agent.message("m1")
    await agent.until("info", msg_id="m1")
    await agent.stop()
    await agent.expect("stream_end", msg_id="m1")
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "back"


@pytest.mark.parametrize("reset", [False, True])
async def test_s21_a_stream_that_breaks_off_after_thinking_is_tried_again(
    reset: bool, launch: Launcher, model: ModelService
) -> None:
    """Protocol section 1.11."""
    model.script(Reply(Thinking("Hm."), Cut(reset)), Reply(Thinking("Ah."), "Yes."), "ok")
    agent = await launch()
    await agent.message("m1")
    await agent.until("thinking", text="Hm.")
    await agent.expect_line({"type": "info", "msg_id": "m1", "message": "Stream interrupted, retrying... (1/2)"})
    events = await agent.turn("m1")
    assert kinds(events) == ["thinking", "text_delta", "stream_end"]
    assert said(events) == "Yes."
    await agent.message("m2")
    await agent.turn("m2")
    assert model.requests[2].texts("assistant") == ["Yes."]


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_s21_a_stream_that_breaks_off_after_text_is_an_error(
    provider: str, launch: Launcher, model: ModelService
) -> None:
    """It is never started again behind the host's back; what was said stays."""
    model.script(Reply("Half an ans", Cut()), "ok")
    agent = await launch(provider=provider)
    told = await failed(agent, "m1")
    assert told["retryable"] is True
    assert len(model.requests) == 1
    await agent.message("m2")
    await agent.turn("m2")
    assert model.requests[1].texts("assistant") == ["Half an ans"]


async def test_a_call_that_was_cut_is_not_run(launch: Launcher, model: ModelService) -> None:
    first = b'{"index":0,"id":"t1","type":"function","function":{"name":"ExecCommand","arguments":"{\\"cmd\\":"}}'
    chunk = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[' + first + b']},"finish_reason":null}]}\n\n'
    model.script(Reply("Running: ", Bytes(chunk), Cut()), "ok")
    agent = await launch("--auto-approve")
    await agent.message("m1")
    events = await agent.turn("m1")
    assert not find(events, "tool_running")
    assert find(events, "error", msg_id="m1", error__code="provider_error")
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "ok"


async def test_nobody_listens_at_the_address(launch: Launcher) -> None:
    async def free_port() -> int:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        async with listener:
            return int(listener.socket.getsockname()[1])

    agent = await launch("--base-url", f"http://127.0.0.1:{await free_port()}/v1")
    told = await failed(agent, "m1")
    assert told["retryable"] is True


async def test_an_error_in_the_second_step_leaves_a_history_that_works(launch: Launcher, model: ModelService) -> None:
    """The call of the first step keeps its result."""
    path = launch.write("a.txt", "x\n")
    model.script(Reply("Reading.", ToolCall("t1", "Read", {"file_path": path})), Refused(400, "no"), "ok")
    agent = await launch("--auto-approve")
    await agent.message("m1")
    await agent.turn("m1")
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "ok"
    assert model.requests[2].results == {"t1": "     1\tx"}


async def test_the_service_may_be_silent_for_a_while(launch: Launcher, model: ModelService) -> None:
    """Pings are answered; nothing is invented meanwhile."""
    middle = Gate()
    model.script(Reply("a", middle, "b"))
    agent = await launch()
    await agent.message("m1")
    await agent.until("text_delta", text="a")
    for _ in range(3):
        await agent.fence()
    middle.open()
    assert said(await agent.turn("m1")) == "b"
