"""A host of a real aionrs, point by point: what it must do, against a program that behaves as that one does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import aclosing
from typing import Any

import pytest
import trio
from stand_ins import HELLO, StandIn, end, killed_at, of, shell, stopped_after, turn, write

from agentwire.commands import AddMcpServer, SetConfig
from agentwire.events import (
    ApprovalRequested,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRunning,
    ErrorRaised,
    SessionOpened,
    TextDelta,
    Usage,
)
from agentwire.host.connect import AgentDied
from agentwire.host.refused import Refused

ENDLESS = [{"say": "Once upon a time", "seconds": 600}]


# --- 1 to 3: starting ----------------------------------------------------------------------------------------


async def test_c01_the_workspace_is_its_directory_and_no_choice_of_ours_is_handed_down(
    aionrs: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PROVIDER", "API_KEY", "BASE_URL", "MODEL"):
        monkeypatch.setenv(name, "stray")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    async with aionrs.connect("--json-stream", "--base-url", "http://127.0.0.1:1") as peer:
        assert await peer.ask("hi") == "Hello."
    assert aionrs.diary("cwd") == [str(aionrs.workspace)]
    assert aionrs.diary("argv")[0][-2:] == ["--base-url", "http://127.0.0.1:1"]  # as the user said it, and no more
    (environment,) = aionrs.diary("env")
    assert not {"PROVIDER", "API_KEY", "BASE_URL", "MODEL"} & set(environment)
    assert {"OPENAI_API_KEY", "PATH"} <= set(environment)
    async with aionrs.connect(env={**os.environ, "MODEL": "chosen"}):  # whoever says so gets it
        assert aionrs.diary("model") == [None, "chosen"]


@pytest.mark.parametrize("flags", [("--workspace", "/w"), ("--fork-session", "--resume", "x")])
async def test_c01_flags_that_it_does_not_know_end_it(aionrs: StandIn, flags: tuple[str, ...]) -> None:
    with pytest.raises(AgentDied, match=r"status 2.*unrecognized arguments"):
        async with aionrs.connect(*flags):
            raise AssertionError("it did not start")


async def test_c02_its_log_is_read_whatever_else_goes_on(aionrs: StandIn) -> None:
    """A pipe holds 64 KiB: whoever does not read more lets the program wait for ever, before it is even ready."""
    aionrs.play(HELLO, chatter=500_000)
    async with aionrs.connect() as peer:
        assert await peer.ask("hi") == "Hello."
        assert 0 < len(peer.stderr) < 100_000  # the end of it is kept


async def test_c03_it_may_take_half_a_minute_until_it_is_ready(
    aionrs: StandIn, mock_clock: trio.testing.MockClock
) -> None:
    """A server of its configuration that does not answer holds it up for thirty seconds."""
    aionrs.play(HELLO, ready_after="connected")

    async def thirty_seconds() -> None:
        await aionrs.noted("pid")
        mock_clock.jump(35)
        (aionrs.workspace / "connected").touch()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(thirty_seconds)
        async with aionrs.connect(within=1000) as peer:
            assert trio.current_time() >= 35
            assert await peer.ask("hi") == "Hello."


async def test_c03_too_late_is_too_late(aionrs: StandIn) -> None:
    aionrs.play(HELLO, ready_after=60)
    with pytest.raises(trio.TooSlowError):
        async with aionrs.connect(ready_timeout=0.3) as peer:
            raise AssertionError(peer)


async def test_a_start_that_fails_is_told_on_standard_error(aionrs: StandIn) -> None:
    with pytest.raises(AgentDied, match="status 1: Error: Session 'nobody' not found"):
        async with aionrs.connect("--resume", "nobody"):
            raise AssertionError("it did not start")


# --- 6: one message at a time --------------------------------------------------------------------------------


async def test_c06_no_message_before_the_turn_has_ended(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "calls": [write()]}, {"say": "b"}], HELLO)
    async with aionrs.connect() as peer:
        async for event in peer.prompt("go"):
            if isinstance(event, ApprovalRequested):
                with pytest.raises(Refused, match="a turn is running") as busy:
                    await peer.ask("and this")
                assert busy.value.refusal.retryable
                await peer.approve(event.call_id)
        assert await peer.ask("again") == "Hello."
    assert aionrs.kinds().count("message") == 2
    assert aionrs.diary("lost") == []


# --- 7: always -----------------------------------------------------------------------------------------------


async def test_c07_always_is_remembered_by_us(aionrs: StandIn) -> None:
    """It asks again all the same: that is answered here, at once, and nobody is asked."""
    aionrs.play(
        [{"say": "a", "calls": [write("w1"), write("w2", "Edit"), shell("x1")]}, {"say": "b"}],
        [{"say": "c", "calls": [write("w1")]}, {"say": "d"}],
    )
    asked = []
    async with aionrs.connect() as peer:
        for text in ("one", "two"):
            async for event in peer.prompt(text):
                if isinstance(event, ApprovalRequested):
                    asked.append(event.name)
                    await peer.approve(event.call_id, "always" if event.name == "Write" else "once")
    assert asked == ["Write", "ExecCommand"]
    assert [line["call_id"] for line in aionrs.written if line["type"] == "tool_approve"] == ["w1", "w2", "x1", "w1"]
    events = [record.event for record in peer.log.cursor(after=0).take()]
    assert len(of(CallReady, events)) == len(of(CallRunning, events)) == len(of(CallFinished, events)) == 4


async def test_c07_once_is_once(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "calls": [write("w1"), write("w2")]}, {"say": "b"}])
    asked = []
    async with aionrs.connect(on_approval=lambda question: asked.append(question.call_id) is None) as peer:
        await turn(peer)
    assert asked == ["w1", "w2"]


# --- 8: stopping ends it -------------------------------------------------------------------------------------


async def test_c08_a_stop_ends_it_and_the_next_message_resumes(aionrs: StandIn) -> None:
    aionrs.play(ENDLESS, HELLO)
    async with aionrs.connect("--json-stream", "--session-id", "conv-1", "--model", "m") as peer:
        events = await stopped_after(peer, TextDelta)
        assert (end(events).outcome, end(events).usage) == ("cancelled", Usage())
        assert len(aionrs.diary("pid")) == 1  # not before it is needed
        assert await peer.ask("again") == "Hello."
        assert peer.session_id == "conv-1"
        kinds = [event.kind for event in of(SessionOpened, [r.event for r in peer.log.cursor(after=0).take()])]
    assert kinds == ["new", "resumed"]
    assert aionrs.diary("exit") == [0, 0]
    first, second = aionrs.diary("argv")
    assert first[2:] == ["--json-stream", "--session-id", "conv-1", "--model", "m"]
    assert second[2:] == ["--json-stream", "--model", "m", "--resume", "conv-1"]


async def test_c08_what_only_the_process_knew_is_told_to_the_next(aionrs: StandIn) -> None:
    aionrs.play(ENDLESS, [{"say": "a", "calls": [write()]}, {"say": "b"}], servers={"one": ["tool_a"]})
    async with aionrs.connect("--session-id=conv-1") as peer:
        await peer.call(AddMcpServer("one", "stdio", "node"))
        await peer.call(SetConfig(model="other"))
        await peer.set_mode("auto_edit")
        await stopped_after(peer, TextDelta)
        before = len(aionrs.written)
        events = await turn(peer)
    assert [line["type"] for line in aionrs.written[before:]] == ["add_mcp_server", "set_config", "set_mode", "message"]
    assert aionrs.written[before + 1]["model"] == "other"
    assert of(ApprovalRequested, events) == []
    assert end(events).text == "b"
    assert aionrs.diary("argv")[1][2:] == ["--resume", "conv-1"]


async def test_c08_at_rest_a_stop_is_not_sent(aionrs: StandIn) -> None:
    async with aionrs.connect() as peer:
        await peer.stop()
        await peer.ping()
        assert await peer.ask("hi") == "Hello."
        await peer.stop()
        assert await peer.ask("hi") == "Hello."
    assert "stop" not in aionrs.kinds()
    assert len(aionrs.diary("pid")) == 1


async def test_c08_a_stop_that_is_not_heeded_is_made_to(aionrs: StandIn, mock_clock: trio.testing.MockClock) -> None:
    """A program that it runs may have read the stop."""
    aionrs.play([{"say": "a", "calls": [shell(eats=99)]}], HELLO)
    events = []
    async with aionrs.connect(within=1000) as peer:
        async for event in peer.prompt("go"):
            events.append(event)
            if isinstance(event, ApprovalRequested):
                await peer.approve(event.call_id)
            elif isinstance(event, CallRunning):
                await peer.stop()
                await aionrs.noted("eaten")
                mock_clock.jump(5.1)
        assert end(events).outcome == "cancelled"
        assert of(CallCancelled, events)[0].cause == "stopped"
        assert peer.process.process.returncode == -signal.SIGTERM
        await turn(peer, "again")
        assert len(aionrs.diary("pid")) == 2
    assert [json.loads(line) for line in aionrs.diary("eaten")] == [{"type": "stop"}]


async def test_c08_a_stop_does_not_pass_the_message_that_starts_it_again(aionrs: StandIn) -> None:
    aionrs.play(ENDLESS, ready_after=0.2)
    events: list[Any] = []
    async with aionrs.connect() as peer:
        await stopped_after(peer, TextDelta)

        async def again() -> None:
            events.extend(await turn(peer))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(again)
            await aionrs.noted("pid", 2)
            await peer.stop()
    assert end(events).outcome == "cancelled"


async def test_c08_one_that_cannot_be_started_again_is_dead(aionrs: StandIn) -> None:
    aionrs.play(ENDLESS)
    async with aionrs.connect("--session-id", "gone") as peer:
        await stopped_after(peer, TextDelta)
        shutil.rmtree(aionrs.workspace / ".aionrs")
        for _ in range(2):
            with pytest.raises(AgentDied, match="Session 'gone' not found"):
                await peer.ask("again")


async def test_c08_a_message_whose_time_is_up_before_it_is_sent(aionrs: StandIn) -> None:
    aionrs.play(ENDLESS, HELLO, ready_after=0.3)
    async with aionrs.connect() as peer:
        await stopped_after(peer, TextDelta)
        with pytest.raises(trio.TooSlowError):
            await peer.ask("at once", timeout=0.1)
        assert await peer.ask("when you are ready") == "Hello."
    assert [line["content"] for line in aionrs.written if line["type"] == "message"] == ["go", "when you are ready"]
    assert len(aionrs.diary("pid")) == 2


async def test_c08_leaving_a_turn_ends_it_too(aionrs: StandIn) -> None:
    aionrs.play(ENDLESS, HELLO)
    async with aionrs.connect() as peer:
        async with aclosing(peer.prompt("go")) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        assert await peer.ask("again") == "Hello."


async def test_c08_a_death_is_no_stop(aionrs: StandIn) -> None:
    aionrs.play(ENDLESS, HELLO)
    async with aionrs.connect() as peer:
        await killed_at(peer, TextDelta)
        with pytest.raises(AgentDied):
            await peer.ask("again")
    assert len(aionrs.diary("pid")) == 1


async def test_c08_a_stop_that_comes_too_late_ends_it_as_well(aionrs: StandIn) -> None:
    """The turn had ended by itself: an idle agent reads the stop, and leaves; the message after it is not lost."""
    aionrs.play([{"say": "a", "seconds": 0.05}])
    async with aionrs.connect() as peer:
        async for event in peer.prompt("go"):
            if isinstance(event, TextDelta):
                process = peer.process.process
                process.send_signal(signal.SIGSTOP)  # it reads nothing, but what it says next is on its way
                await peer.stop()
                process.send_signal(signal.SIGCONT)
        assert await peer.ask("again") == "a"


# --- 9 and 16: questions that are open -----------------------------------------------------------------------


async def test_c09_its_input_is_not_closed_while_a_question_is_open(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "calls": [write("w1")]}, *ENDLESS])
    async with aionrs.connect() as peer:
        follow = peer.prompt("go")
        async for event in follow:
            if isinstance(event, ApprovalRequested):
                break  # the question stays open, and the connection is left
    assert peer.process.process.returncode == 0
    assert aionrs.diary("hangs") == []
    assert aionrs.kinds() == ["message", "tool_deny", "ping", "stop"]


async def test_c09_the_end_of_its_input_would_have_hung_it(aionrs: StandIn) -> None:
    """That the stand-in is as the real one is."""
    aionrs.play([{"say": "a", "calls": [write("w1")]}, {"say": "b"}])
    process = await trio.lowlevel.open_process(
        aionrs.argv(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=aionrs.workspace
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with trio.fail_after(30):
        await process.stdin.send_all(b'{"type":"message","msg_id":"m","content":"go"}\n')
        said = b""
        while b"tool_request" not in said:
            said += await process.stdout.receive_some()
        await process.stdin.aclose()
        await aionrs.noted("hangs")
        process.kill()
        await process.wait()


async def test_c16_to_stop_an_open_question_is_denied_first(aionrs: StandIn) -> None:
    """Else the session has a call without a result, and the service refuses the next turn."""
    aionrs.play([{"say": "a", "calls": [write("w1"), write("w2")]}, *ENDLESS], HELLO)
    async with aionrs.connect() as peer:
        events = await stopped_after(peer, ApprovalRequested)
        assert end(events).outcome == "cancelled"
        assert {call.cause for call in of(CallCancelled, events)} == {"stopped"}
        assert len(of(ApprovalRequested, events)) == 1  # what is asked after the stop is nobody's question any more
        assert await peer.ask("again") == "Hello."
    stop = aionrs.kinds().index("stop")
    assert set(aionrs.kinds()[1:stop]) == {"tool_deny", "ping"}
    reads = [json.loads(line)["type"] for line in aionrs.diary("read")]
    assert reads[: reads.index("stop")] == aionrs.kinds()[:stop]


async def test_c16_whoever_answers_questions_may_stop_at_one(aionrs: StandIn) -> None:
    """The answer comes after the stop, which has settled the question."""
    aionrs.play([{"say": "a", "calls": [write("w1")]}, *ENDLESS])
    async with aionrs.connect(on_approval=lambda question: True) as peer:
        assert end(await stopped_after(peer, ApprovalRequested)).outcome == "cancelled"
    assert "tool_approve" not in aionrs.kinds()


async def test_c16_a_bare_stop_would_have_spoilt_the_session(aionrs: StandIn) -> None:
    """That the stand-in is as strict as the real one: a kill at the question does what a stop at it would do."""
    aionrs.play([{"say": "a", "calls": [write("w1")]}, {"say": "b"}], HELLO)
    async with aionrs.connect("--session-id", "s") as peer:
        await killed_at(peer, ApprovalRequested)
    async with aionrs.connect("--resume", "s") as peer:
        events = await turn(peer)
    assert "tool_use ids were found without tool_result blocks" in of(ErrorRaised, events)[0].error.message
