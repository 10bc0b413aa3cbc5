"""Every host drives every agent through one conversation, and what was lost is what the tables say."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from crossing import Agents, Ends, Reply, tools

from agentwire.commands import Approve, Deny, Prompt, Stop
from agentwire.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallCancelled,
    CallFinished,
    TextDelta,
    TurnFinished,
)
from agentwire.transcode import broken_laws
from agentwire.transcode.report import losses_of

pytestmark = pytest.mark.slow

WIRES = ["aionrs", "pagent-v4", "jan", "levpro"]

ASKS = {"aionrs", "pagent-v4", "jan"}
"""Wires on which an agent can ask, and a host be asked."""

CONVERSATION = [
    Reply("I will |do two things", ["change", "run"]),
    Reply("done|."),
    Reply("trying", ["bug"]),
    Reply("it failed"),
    Reply("for ever and ever", fails="never ends"),
    Reply("half an ans", fails="auth"),
]


async def converse(ends: Ends) -> None:
    """Two calls, of which the first is allowed and the second is not; one that fails; a stop; an error."""
    await ends.open()
    asked = 0
    for number, text in enumerate(("do it", "try it", "go on", "and now"), 1):
        before = len(ends.heard)
        session = "s" if ends.codec.name == "levpro" else ""
        await ends.send(Prompt(text, ref=f"t{number}", session=session))
        while len(ends.events(TurnFinished)) < number:
            seen = len(ends.heard)
            questions = ends.events(ApprovalRequested)
            if len(questions) > asked:
                question = questions[asked]
                answer: Any = Deny if question.name == "run" else Approve
                await ends.send(answer(question.call_id, question.approval_id if ends.codec.name == "jan" else ""))
                asked += 1
            if number == 3 and any("ever" in getattr(item.event, "text", "") for item in ends.heard[before:]):
                await ends.send(Stop(session))
                await ends.turns(3)
                break
            await ends.until(lambda: len(ends.heard) > seen)  # noqa: B023
    await ends.leave()


def cross(host: str, agent: str, workspace, monkeypatch, play=converse, replies=CONVERSATION, **options: Any) -> Ends:
    """Have a conversation over a bridge."""

    async def run() -> Ends:
        agents = Agents(agent, replies, tools(), workspace)
        with agents.in_place(monkeypatch):
            async with trio.open_nursery() as nursery:
                ends = Ends(nursery, host, agents, **options)
                with trio.fail_after(30):
                    await play(ends)
                nursery.cancel_scope.cancel()
        return ends

    return trio.run(run)


@pytest.mark.parametrize("agent", WIRES)
@pytest.mark.parametrize("host", WIRES)
def test_one_conversation(host, agent, tmp_path, monkeypatch):
    ends = cross(host, agent, tmp_path, monkeypatch)
    (records,) = ends.logs.values()
    events = [record.event for record in records]
    assert ends.status == 0
    assert [event.outcome for event in events if isinstance(event, TurnFinished)] == [
        "completed", "completed", "cancelled", "failed",
    ]  # fmt: skip
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text == "I will do two thingsdone.tryingit failedfor ever and everhalf an ans"
    fates = {event.name: type(event).__name__ for event in events if isinstance(event, CallFinished | CallCancelled)}
    resolved = [event.decision for event in events if isinstance(event, ApprovalResolved)]
    if host in ASKS and agent in ASKS:
        assert fates == {"change": "CallFinished", "run": "CallCancelled", "bug": "CallFinished"}
        assert resolved == ["allowed", "denied", "allowed"]
    else:
        assert set(fates) == {"change", "run", "bug"}
        assert resolved == []
    assert broken_laws(records) == []


@pytest.mark.parametrize("agent", WIRES)
@pytest.mark.parametrize("host", WIRES)
def test_what_was_lost_is_what_the_table_says(host, agent, tmp_path, monkeypatch):
    ends = cross(host, agent, tmp_path, monkeypatch)
    ((session, records),) = ends.logs.items()
    fidelity = ends.codec.fidelity()
    assert ends.overheard == [item.event for item in fidelity.surviving(records, session)]
    assert ends.bridge.report.losses == losses_of(fidelity.losses(records))


def test_an_agent_that_does_not_say_how_a_run_broke_off(tmp_path, monkeypatch):
    """A classic pagent ends a run that was stopped, or that failed, without a word: silence ends it here."""
    ends = cross("aionrs", "pagent", tmp_path, monkeypatch, silence=0.3)
    (records,) = ends.logs.values()
    assert broken_laws(records) == []
    outcomes = [record.event.outcome for record in records if isinstance(record.event, TurnFinished)]
    assert outcomes == ["completed", "completed", "cancelled", "failed"]


@pytest.mark.parametrize(("host", "agent"), [("aionrs", "jan-stream"), ("jan-stream", "aionrs")])
def test_a_wire_of_one_run(host, agent, tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.send(Prompt("go"))
        await ends.turns(1)
        await ends.leave()

    ends = cross(host, agent, tmp_path, monkeypatch, play, [Reply("at |once")])
    (end,) = ends.events(TurnFinished)
    assert (end.outcome, end.text) == ("completed", "at once")
