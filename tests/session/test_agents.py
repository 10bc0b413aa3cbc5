"""Agents of every kind: async, plain, asyncio, broken; all get one end, and nothing after it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import trio

import agentwire
from agentwire.agent.threads import TurnOver
from agentwire.events import (
    ApprovalRequested,
    CallFinished,
    ErrorRaised,
    Notice,
    StepFinished,
    StepStarted,
    TextDelta,
    TurnFinished,
)
from agentwire.host.refused import Refused
from agentwire.provider.contract import ConfigError


async def events_of(agent: object, workspace: Path, text: str = "hello", **options) -> list:
    async with agentwire.open_session(agent, workspace=str(workspace), **options) as session:
        return [event async for event in session.prompt(text)]


def kinds(events: list) -> list[str]:
    return [type(event).__name__ for event in events]


async def speaking(turn: agentwire.Turn) -> None:
    turn.reasoning("hm")
    turn.text(f"you said {turn.prompt}")
    turn.notice("just so you know")


async def on_asyncio(turn: agentwire.Turn) -> None:
    await asyncio.sleep(0)
    turn.text("from asyncio: ")
    result = await turn.call("Glob", {"pattern": "*.txt"})
    turn.text(result.output)


def plain(turn: agentwire.Turn) -> None:
    turn.text(f"from a thread: {threading.current_thread() is not threading.main_thread()} ")
    turn.text(turn.call("Glob", {"pattern": "*.txt"}).output)


class WithRun:
    """An object with run, and tools of its own."""

    async def run(self, turn: agentwire.Turn) -> None:
        turn.text("from an object")


async def test_an_async_function(tmp_path):
    events = await events_of(speaking, tmp_path)
    assert kinds(events) == [
        "TurnStarted", "StepStarted", "ReasoningDelta", "TextDelta", "Notice", "StepFinished", "TurnFinished",
    ]  # fmt: skip
    assert events[-1].text == "you said hello"
    assert events[-2] == StepFinished(0, "you said hello", "hm", finish_reason="stop")


@pytest.mark.parametrize(
    ("agent", "answer"),
    [
        (agentwire.on_asyncio(on_asyncio), "from asyncio: a.txt"),
        (plain, "from a thread: True a.txt"),
        (WithRun(), "from an object"),
    ],
)
async def test_other_kinds(agent, answer, tmp_path):
    (tmp_path / "a.txt").write_text("")
    events = await events_of(agent, tmp_path, allow=("info",))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == answer
    assert events[-1].outcome == "completed"
    assert len([event for event in events if isinstance(event, StepStarted)]) == len(
        [event for event in events if isinstance(event, StepFinished)]
    )


@pytest.mark.parametrize("agent", [42, "name"])
async def test_what_is_no_agent_is_refused_at_once(agent, tmp_path):
    with pytest.raises(ConfigError, match="an agent is"):
        await events_of(agent, tmp_path)


async def test_an_agent_that_breaks_ends_its_turn_and_not_the_session(tmp_path):
    async def breaks(turn: agentwire.Turn) -> None:
        turn.text("half an ans")
        if turn.prompt == "break":
            raise ZeroDivisionError("by zero")

    async with agentwire.open_session(breaks, workspace=str(tmp_path)) as session:
        events = [event async for event in session.prompt("break")]
        (error,) = [event for event in events if isinstance(event, ErrorRaised)]
        assert error.error.code == "internal_error"
        assert error.error.message == "The agent failed: ZeroDivisionError: by zero"
        assert (events[-1].outcome, events[-1].text) == ("failed", "half an ans")
        assert await session.ask("go on") == "half an ans"


async def test_an_agent_in_a_thread_that_does_not_heed_a_stop_says_nothing_more(tmp_path):
    stopped, tried = threading.Event(), threading.Event()
    caught: list[BaseException] = []

    def stubborn(turn: agentwire.Turn) -> None:
        turn.text("working")
        stopped.wait(10)
        try:
            turn.text("too late")
        except BaseException as error:
            caught.append(error)
        tried.set()

    async with agentwire.open_session(stubborn, workspace=str(tmp_path)) as session:
        async for event in session.prompt("go"):
            if isinstance(event, TextDelta):
                session.stop()
        last = session.session.log.seq
        stopped.set()
        assert await trio.to_thread.run_sync(tried.wait, 10)
        assert isinstance(caught[0], TurnOver)
        assert session.session.log.seq == last


async def test_a_second_prompt_is_refused_while_one_runs(tmp_path):
    async def waits(turn: agentwire.Turn) -> None:
        turn.text("waiting")
        await trio.sleep_forever()

    async with agentwire.open_session(waits, workspace=str(tmp_path)) as session:
        async for event in session.prompt("first"):
            if isinstance(event, TextDelta):
                with pytest.raises(Refused, match="A turn is running"):
                    await session.ask("second")
                session.stop()
        assert event.outcome == "cancelled"


async def test_leaving_the_loop_stops_the_turn(tmp_path):
    cancelled = trio.Event()

    async def waits(turn: agentwire.Turn) -> None:
        try:
            turn.text("waiting")
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with agentwire.open_session(waits, workspace=str(tmp_path)) as session:
        events = session.prompt("go")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        with trio.fail_after(5):
            await cancelled.wait()


@pytest.mark.parametrize(("answer", "status"), [(True, "ok"), (False, None)])
async def test_approvals_by_callback(answer, status, tmp_path):
    asked: list[ApprovalRequested] = []

    async def on_approval(question: ApprovalRequested) -> bool:
        asked.append(question)
        return answer

    async def writes(turn: agentwire.Turn) -> None:
        result = await turn.call("Write", {"file_path": "new.txt", "content": "x"})
        turn.text(result.output)

    events = await events_of(writes, tmp_path, on_approval=on_approval)
    assert [(question.name, question.category, question.prompt_kind) for question in asked] == [
        ("Write", "edit", "write")
    ]
    assert "+x" in asked[0].diff.unified
    assert (tmp_path / "new.txt").exists() is answer
    assert [event.status for event in events if isinstance(event, CallFinished)] == ([status] if status else [])
    assert events[-1].text == ("Created new.txt (1 lines)" if answer else "Tool denied: Not allowed")


async def test_outside_the_workspace_is_asked_even_if_allowed_and_refused_when_confined(tmp_path):
    workspace, secret = tmp_path / "work", tmp_path / "secret.txt"
    workspace.mkdir()
    secret.write_text("s3cret")

    async def reads(turn: agentwire.Turn) -> None:
        turn.text((await turn.call("Read", {"file_path": "../secret.txt"})).output)

    asked: list[ApprovalRequested] = []

    def deny(question: ApprovalRequested) -> bool:
        asked.append(question)
        return False

    events = await events_of(reads, workspace, allow=("Read", "info"), on_approval=deny)
    assert [(question.prompt_kind, question.path) for question in asked] == [("read_escape", str(secret))]
    assert "s3cret" not in repr(events)
    confined = await events_of(reads, workspace, allow=("info",), confine=True, auto_approve=True)
    assert "outside the workspace" in confined[-1].text
    assert "s3cret" not in repr(confined)
    yolo = await events_of(reads, workspace, auto_approve=True)
    assert "s3cret" in yolo[-1].text


async def test_live_output_stops_at_its_limit_with_a_notice(tmp_path):
    async def prints(turn: agentwire.Turn) -> None:
        await turn.call("ExecCommand", {"cmd": "head -c 3000000 /dev/zero | tr '\\0' x"})

    events = await events_of(prints, tmp_path, auto_approve=True)
    live = sum(len(event.delta) for event in events if type(event).__name__ == "CallOutputDelta")
    assert live == 1024 * 1024
    assert len([event for event in events if isinstance(event, Notice)]) == 1
    assert isinstance(events[-1], TurnFinished)
