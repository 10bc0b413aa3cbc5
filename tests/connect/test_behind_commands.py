"""The same stand-ins behind ``agentwire chat`` and ``agentwire bridge``."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import trio
from stand_ins import StandIn, end, of, shell, write

from agentwire import connect
from agentwire.events import ApprovalRequested, CallCancelled, CallFinished, CallRunning, TextDelta

pytestmark = pytest.mark.slow

AGENTWIRE = [sys.executable, "-m", "agentwire"]

WORK = [{"say": "Two things. ", "calls": [write("w1"), write("w2", "Edit"), shell("x1")]}, {"say": "Done."}]
ENDLESS = [{"say": "Once upon a time", "seconds": 600}]


def chat(stand_in: StandIn, *more: str, typed: str = "", codec: str) -> subprocess.CompletedProcess[str]:
    command = [*AGENTWIRE, "chat", "--codec", codec, "--cwd", str(stand_in.workspace), *more, "--", *stand_in.argv()]
    return subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60, check=False)


def test_a_person_who_says_always_is_asked_once(aionrs: StandIn) -> None:
    aionrs.play(WORK, chatter=200_000)
    shown = chat(aionrs, typed="go\na\nn too dangerous\n", codec="aionrs")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("agent asks: may I run") == 2
    assert "not run (too dangerous)" in shown.stdout
    assert "turn completed" in shown.stdout
    reads = [json.loads(line) for line in aionrs.diary("read")]
    assert [line.get("call_id") for line in reads] == [None, "w1", "w2", "x1"]


def test_a_person_who_leaves_in_the_middle_of_a_question(aionrs: StandIn) -> None:
    """The end of input is no answer: the call is denied, and the agent ends by itself."""
    aionrs.play(WORK)
    shown = chat(aionrs, typed="go\n", codec="aionrs")
    assert shown.returncode == 0, shown.stderr
    assert aionrs.diary("hangs") == []
    assert aionrs.diary("exit") == [0]


def test_one_thing_said_to_jan(jan: StandIn) -> None:
    jan.play(
        [{"say": "It is done. ", "calls": [{"id": "c1", "name": "shell", "args": {"cmd": "ls"}}]}, {"say": "Bye."}]
    )
    shown = chat(jan, "--prompt", "go", "--yes", codec="jan")
    assert shown.returncode == 0, shown.stderr
    assert "tool shell: ok" in shown.stdout
    assert "Bye." in shown.stdout


def bridge(stand_in: StandIn, host: str) -> list[str]:
    return [*AGENTWIRE, "bridge", "--host", host, "--agent", stand_in.codec, "--", *stand_in.argv()]


@pytest.mark.parametrize("host", ["jan", "aionrs"])
async def test_a_bridge_to_aionrs_goes_on_after_a_stop(aionrs: StandIn, host: str) -> None:
    """The process that the stop has ended is none of the host's affair."""
    aionrs.play(WORK, ENDLESS, [{"say": "Here again."}])
    asked: list[str] = []

    async with connect(bridge(aionrs, host), codec=host, cwd=aionrs.workspace) as peer:
        with trio.fail_after(60):
            events: list[Any] = []
            async for event in peer.prompt("go"):
                events.append(event)
                if isinstance(event, ApprovalRequested):
                    asked.append(event.name)
                    if event.name == "ExecCommand":
                        await peer.deny(event.call_id, "no")
                    else:
                        await peer.approve(event.call_id, "always")
            assert (end(events).outcome, end(events).text) == ("completed", "Done.")
            # "always" covers a category on the one wire and a tool on the other; neither is heard of by the agent.
            assert asked == (["Write", "ExecCommand"] if host == "aionrs" else ["Write", "Edit", "ExecCommand"])
            assert len(of(CallFinished, events)) == len(of(CallRunning, events)) == 2
            assert len(of(CallCancelled, events)) == 1
            async for event in peer.prompt("tell me a story"):
                if isinstance(event, TextDelta):
                    await peer.stop()
                last = event
            assert last.outcome == "cancelled"
            assert await peer.ask("are you there?") == "Here again."
    first, second = aionrs.diary("argv")
    assert "--resume" not in first
    assert "--resume" in second
    assert aionrs.diary("exit") == [0, 0]


async def test_a_host_that_leaves_a_bridge_at_a_question(aionrs: StandIn) -> None:
    aionrs.play(WORK)
    async with connect(bridge(aionrs, "jan"), codec="jan", cwd=aionrs.workspace) as peer:
        with trio.fail_after(60):
            events = peer.prompt("go")
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    break
    assert peer.process.process.returncode == 0
    assert aionrs.diary("hangs") == []
    assert aionrs.diary("exit") == [0]


async def test_a_bridge_to_jan(jan: StandIn) -> None:
    jan.play(
        [{"say": "It is done. ", "calls": [{"id": "c1", "name": "shell", "args": {"cmd": "ls"}}]}, {"say": "Bye."}]
    )
    asked: list[str] = []

    def answer(question: ApprovalRequested) -> bool:
        asked.append(question.name)
        return True

    async with connect(bridge(jan, "aionrs"), codec="aionrs", cwd=jan.workspace, on_approval=answer) as peer:
        with trio.fail_after(60):
            events = [event async for event in peer.prompt("go")]
            assert await peer.ask("again") == "Bye."
    assert asked == ["shell", "shell"]
    assert [done.name for done in of(CallFinished, events)] == ["shell"]
    assert jan.diary("exit") == [0]
