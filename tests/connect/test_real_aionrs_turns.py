"""A host of a real aionrs: what it must make of what it is told, against a program that behaves as that one does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec import UNSET
from stand_ins import HELLO, StandIn, end, of, shell, stopped_after, turn, write

from agentwire import connect
from agentwire.commands import InitHistory, Ping, SetConfig, SetMode
from agentwire.events import (
    ApprovalRequested,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRunning,
    ErrorRaised,
    ModeChanged,
    Notice,
    TextDelta,
    TurnFinished,
    TurnStarted,
    Usage,
)
from agentwire.host.refused import Refused

ENDLESS = [{"say": "Once upon a time", "seconds": 600}]


# --- 10 to 13: what it says ----------------------------------------------------------------------------------


async def test_c10_an_error_without_a_turn_is_that_of_the_running_one(aionrs: StandIn) -> None:
    aionrs.play([{"fail": "Provider error: API error 500: x"}], HELLO)
    async with aionrs.connect() as peer:
        events = await turn(peer)
        assert end(events).outcome == "failed"
        assert (
            end(events).error.message == of(ErrorRaised, events)[0].error.message == "Provider error: API error 500: x"
        )
        assert await peer.ask("again") == "Hello."
    assert "msg_id" not in next(line for line in aionrs.said if line["type"] == "error")


async def test_c10_also_when_it_never_says_that_the_turn_began(aionrs: StandIn) -> None:
    async with aionrs.connect() as peer:
        shown = await turn(peer, "/help")
        assert of(Notice, shown)[0].text.startswith("Available commands:")
        failed = await turn(peer, "/quit")
        assert (end(shown).outcome, end(failed).outcome) == ("completed", "failed")
        assert end(failed).error.message == "User aborted the session"
        assert [type(event) for event in failed] == [TurnStarted, ErrorRaised, TurnFinished]
        assert await peer.ask("hi") == "Hello."


async def test_c11_usage_is_a_running_total(aionrs: StandIn) -> None:
    aionrs.play(
        [{"say": "a", "usage": [10, 5]}], [{"say": "b", "usage": [7, 2]}], [{"fail": "x"}],
        [{"say": "c", "usage": [3, 1]}],
    )  # fmt: skip
    async with aionrs.connect("--session-id", "s") as peer:
        used = [end(await turn(peer)).usage for _ in range(4)]
    assert used == [Usage(10, 5), Usage(7, 2), Usage(), Usage(3, 1)]
    async with aionrs.connect("--resume", "s") as peer:  # what was used before nobody here knows
        assert [end(await turn(peer)).usage for _ in range(2)] == [Usage(), Usage(7, 2)]


async def test_c11_also_after_a_stop(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "usage": [10, 5]}], ENDLESS, [{"say": "c", "usage": [3, 1]}])
    async with aionrs.connect() as peer:
        first = end(await turn(peer)).usage
        await stopped_after(peer, TextDelta)
        assert (first, end(await turn(peer)).usage) == (Usage(10, 5), Usage(3, 1))


async def test_c12_a_denied_call_has_no_result(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "calls": [write("w1")]}, {"say": "b"}])
    async with aionrs.connect(on_approval=lambda question: False) as peer:
        events = await turn(peer)
    (cancelled,) = of(CallCancelled, events)
    assert (cancelled.call_id, cancelled.cause, cancelled.reason) == ("w1", "denied", "Not allowed")
    assert of(CallFinished, events) == of(CallRunning, events) == []
    assert (end(events).outcome, end(events).text) == ("completed", "b")


async def test_c13_ids_come_again_in_the_next_turn_and_in_the_next_reply(aionrs: StandIn) -> None:
    rounds = [{"say": "a", "calls": [write("call_0")]}, {"say": "b", "calls": [write("call_0")]}, {"say": "c"}]
    aionrs.play(rounds)
    asked = []
    async with aionrs.connect(on_approval=lambda question: asked.append(question.call_id) is None) as peer:
        for _ in range(2):
            finished = [call.call_id for call in of(CallFinished, await turn(peer))]
            assert finished == asked[-2:]
    assert len(set(asked)) == 4
    assert {line["call_id"] for line in aionrs.written if "call_id" in line} == {"call_0"}


# --- 14 and 15: what it does not do --------------------------------------------------------------------------


async def test_c14_rules_do_not_go_into_a_history_that_it_forgets(aionrs: StandIn) -> None:
    async with aionrs.connect("--system-prompt", "Be brief.") as peer:
        with pytest.raises(Refused, match="--system-prompt") as refused:
            await peer.call(InitHistory("[Assistant System Rules]\nBe brief."))
        assert refused.value.refusal.code == "unsupported"
    assert "init_history" not in aionrs.kinds()


async def test_c15_what_it_does_not_answer_a_ping_settles(aionrs: StandIn) -> None:
    """A mode that it does not know makes the line one that it cannot read: not a word comes back."""
    async with aionrs.connect() as peer:
        with pytest.raises(Refused, match="did not answer"):
            await peer.call(SetMode("plan"))  # type: ignore[arg-type]  # a mode of some fork
        await peer.call(SetMode("yolo"))
        assert peer.capabilities.current_mode == "yolo"
    assert aionrs.kinds()[:3] == ["set_mode", "ping", "set_mode"]


# --- the rest of the twenty ----------------------------------------------------------------------------------


async def test_what_can_wait_is_not_written_while_a_program_reads_its_input(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "calls": [shell(seconds=0.2)]}, {"say": "b"}])
    async with aionrs.connect() as peer, trio.open_nursery() as nursery:
        answered = trio.Event()

        async def ping() -> None:
            await peer.ping()
            answered.set()

        async for event in peer.prompt("go"):
            if isinstance(event, ApprovalRequested):
                await peer.approve(event.call_id)
            elif isinstance(event, CallRunning):
                nursery.start_soon(ping)
                await peer.set_mode("yolo")
                assert aionrs.kinds()[-1] == "tool_approve"
            elif isinstance(event, CallFinished):
                await answered.wait()
    assert aionrs.kinds() == ["message", "tool_approve", "set_mode", "ping"] or aionrs.kinds()[2:] == [
        "ping",
        "set_mode",
    ]


async def test_one_held_configuration_is_all_it_keeps(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "calls": [write()]}, {"say": "b"}])
    async with aionrs.connect() as peer:
        async for event in peer.prompt("go"):
            if isinstance(event, ApprovalRequested):
                await peer.call(SetConfig(model="other"))
                await peer.call(SetConfig(thinking="enabled"))
                await peer.approve(event.call_id)
    last = [line for line in aionrs.written if line["type"] == "set_config"][-1]
    assert last == {"type": "set_config", "model": "other", "thinking": "enabled"}


async def test_modes_in_a_turn_are_confirmed_after_it(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "calls": [write("w1"), write("w2")]}, {"say": "b"}], HELLO)
    async with aionrs.connect() as peer:
        asked = []
        async for event in peer.prompt("go"):
            if isinstance(event, ApprovalRequested):
                asked.append(event.call_id)
                await peer.call(SetMode("yolo"))
                await peer.approve(event.call_id)
        assert asked == ["w1"]
        assert await peer.ask("hi") == "Hello."
        assert len(of(ModeChanged, [record.event for record in peer.log.cursor(after=0).take()])) == 1
    assert peer.capabilities.current_mode == "yolo"


async def test_calls_that_it_does_not_ask_about(aionrs: StandIn) -> None:
    """Reads are free for it in every mode, and everything is with a flag that leaves the mode as it was."""
    aionrs.play([{"say": "a", "calls": [write("r1", "Read"), shell("x1")]}, {"say": "b"}])
    async with aionrs.connect("--auto-approve") as peer:
        assert peer.capabilities.current_mode == "default"
        events = await turn(peer)
    assert of(ApprovalRequested, events) == []
    assert [(call.call_id, call.name) for call in of(CallReady, events)] == [("r1", "Read"), ("x1", "ExecCommand")]
    assert [call.status for call in of(CallFinished, events)] == ["ok", "ok"]
    assert end(events).text == "b"


async def test_notices_of_a_turn_name_none(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "info": "Autocompact: summarized 9 messages (1k tokens → compact)"}])
    async with aionrs.connect() as peer:
        events = await turn(peer)
    assert [notice.text for notice in of(Notice, events)] == [
        "Autocompact: summarized 9 messages (1k tokens → compact)"
    ]


async def test_a_turn_that_is_silent_for_long_is_waited_for(
    aionrs: StandIn, mock_clock: trio.testing.MockClock
) -> None:
    """It tries a broken service again for up to two minutes without a word."""
    aionrs.play([{"say": "a", "seconds": 0.5}, {"say": "b"}])
    events: list[Any] = []
    async with aionrs.connect(within=1000) as peer:
        async for event in peer.prompt("go"):
            events.append(event)
            if isinstance(event, TextDelta):
                mock_clock.jump(120)
    assert end(events).text == "ab"


async def test_a_session_of_our_own_is_none_of_this(tmp_path: Path) -> None:
    """What is done for the real one is done for nobody else: our own agent is stopped as the protocol says."""
    script = tmp_path / "play.jsonl"
    script.write_text(
        '{"text": "a", "tool_calls": [{"name": "ExecCommand", "arguments": {"cmd": "true"}}]}\n{"text": "b"}\n'
    )
    argv = [
        sys.executable, "-m", "agentwire", "serve", "--codec", "aionrs", "--provider", "script", "--ephemeral",
        "--provider-option", f"script={script}", "--workspace", str(tmp_path),
    ]  # fmt: skip
    lines: list[Any] = []
    async with connect(argv, tap=lambda way, line: lines.append((way, json.loads(line)))) as peer:
        events = await stopped_after(peer, ApprovalRequested)
        assert (end(events).outcome, of(CallCancelled, events)[0].cause) == ("cancelled", "stopped")
        await peer.call(Ping())
        assert await peer.ask("again") == "b"
    assert [line["type"] for way, line in lines if way == "in"] == ["message", "stop", "ping", "message"]
    assert end(events).usage is not UNSET
