"""One truth under all wires: the same turns, driven through each codec, leave the same log."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.stage import Stage
from support.world import Reply, tools

from agentwire.commands import Approve, Deny, Prompt, Stop
from agentwire.events import (
    ApprovalRequested,
    CallRef,
    CallStarted,
    Event,
    ReasoningDelta,
    SessionOpened,
    TextDelta,
    TurnFinished,
    TurnStarted,
    Usage,
)
from agentwire.policy import Policy
from agentwire.provider.contract import Completion, Emit, ModelRequest, ProviderError

ASKING = ["aionrs", "pagent-v4", "jan", "jan-stream"]
"""Wires on which a host can answer a question."""

EVERY = [*ASKING, "pagent", "levpro"]


class Player:
    """A model that reasons, speaks, calls, takes its time and fails, as told."""

    name, model, thinking, effort_levels = "model", "m", True, ()

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = iter(replies)

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        reply = next(self.replies)
        emit(ReasoningDelta("let me see"))
        for piece in reply.text.split("|"):
            emit(TextDelta(piece))
            await trio.sleep(0.01)
        if reply.fails == "never ends":
            await trio.sleep_forever()
        if reply.fails:
            raise ProviderError("the service broke", kind="auth")
        calls = [CallRef(f"call_{index}", name, "{}") for index, name in enumerate(reply.calls)]
        for call in calls:
            emit(CallStarted(call.call_id, call.name))
        finish = "tool_calls" if calls else "stop"
        return Completion(reply.text.replace("|", ""), "let me see", calls, Usage(3, 2), finish)

    async def aclose(self) -> None:
        pass


def normalised(stage: Stage) -> list[tuple[int, Event]]:
    """The log without what differs by right: ids, times, who said it, what the host calls its turns."""
    ids: dict[str, str] = {}

    def plain(event: Event) -> Any:
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        for name in ("approval_id", "request_id", "run_id"):
            if fields.get(name):
                fields[name] = ids.setdefault(fields[name], f"{name}-{len(ids)}")
        if isinstance(event, TurnStarted):
            fields.update(id="", ref=None, agent="", user="")
        if isinstance(event, SessionOpened):
            fields.update(id="", ephemeral=True)
        if "by" in fields and fields["by"] not in ("stop", "policy", "client_gone"):
            fields["by"] = ""
        if "duration_ms" in fields:
            fields["duration_ms"] = 0
        return type(event).__name__, fields

    return [(record.turn, plain(record.event)) for record in stage.records()]


async def play_asking(nursery: trio.Nursery, codec: str, workspace) -> Stage:
    replies = [
        Reply("I will |do two things", ["change", "run"]),
        Reply("done|."),
        Reply("trying", ["bug"]),
        Reply("it failed"),
        Reply("for ever and ever", fails="never ends"),
        Reply("half an ans", fails="auth"),
    ]
    stage = Stage(nursery, codec, Policy(calls="sequential"), Player(replies), tools(), workspace)
    await stage.open()
    await stage.send(Prompt("do it", ref="t1"))
    for call_id, answer in (("call_0", Approve), ("call_1", Deny)):
        await stage.until(lambda: list(stage.server.sessions) and stage.session.approvals.open)
        (question,) = stage.session.approvals.open
        assert question.call_id == call_id
        await stage.until(lambda: call_id in asked_about(stage))  # noqa: B023
        await stage.send(answer(call_id))
        await stage.until(lambda: not any(q.call_id == call_id for q in stage.session.approvals.open))  # noqa: B023
    await stage.until(lambda: stage.ends() == 1)
    return stage


def asked_about(stage: Stage) -> set[str]:
    """Calls that the host has read a question about."""
    return {item.event.call_id for item in stage.heard if isinstance(item.event, ApprovalRequested)}


async def play_free(nursery: trio.Nursery, codec: str, workspace) -> Stage:
    replies = [
        Reply("I will |do two things", ["look", "run"]),
        Reply("done|."),
        Reply("trying", ["bug"]),
        Reply("it failed"),
        Reply("for ever and ever", fails="never ends"),
        Reply("half an ans", fails="auth"),
    ]
    policy = Policy(calls="sequential", can_ask=False, free=frozenset({"info", "mcp"}))
    stage = Stage(nursery, codec, policy, Player(replies), tools(), workspace)
    await stage.open()
    for number, text in enumerate(("do it", "try it"), 1):
        await prompt(stage, text, number)
        await stage.until(lambda: stage.ends() == number)  # noqa: B023
    await prompt(stage, "go on", 3)
    await stage.until(lambda: "for ever" in said(stage))
    await stage.send(Stop())
    await stage.until(lambda: stage.ends() == 3)
    await prompt(stage, "and now", 4)
    await stage.until(lambda: stage.ends() == 4)
    return stage


def said(stage: Stage) -> str:
    """Everything that the host has read of the answers."""
    return "".join(item.event.text for item in stage.heard if isinstance(item.event, TextDelta))


async def prompt(stage: Stage, text: str, number: int) -> None:
    await stage.until(lambda: number == 1 or stage.session.active is None)
    if stage.codec.name != "pagent":  # which says nothing of how a run broke off
        await stage.until(lambda: sum(isinstance(item.event, TurnFinished) for item in stage.heard) == number - 1)
    await stage.send(Prompt(text, ref=f"t{number}", session="s" if stage.codec.name == "levpro" else ""))


def logs(play, codecs: list[str], workspace) -> dict[str, list]:
    async def one(codec: str) -> list:
        async with trio.open_nursery() as nursery:
            stage = await play(nursery, codec, workspace)
            found = normalised(stage)
            nursery.cancel_scope.cancel()
        return found

    return {codec: trio.run(one, codec) for codec in codecs}


@pytest.mark.parametrize("codec", [name for name in ASKING if name != "aionrs"])
def test_a_turn_with_questions(codec, tmp_path):
    found = logs(play_asking, ["aionrs", codec], tmp_path)
    assert found[codec] == found["aionrs"]


ONE_RUN = {"jan-stream"}
"""Wires whose process ends with its first turn."""


@pytest.mark.parametrize("codec", [name for name in EVERY if name != "aionrs" and name not in ONE_RUN])
def test_turns_that_end_well_fail_and_are_stopped(codec, tmp_path):
    found = logs(play_free, ["aionrs", codec], tmp_path)
    assert found[codec] == found["aionrs"]
    ends = [fields["outcome"] for _, (name, fields) in found[codec] if name == TurnFinished.__name__]
    assert ends == ["completed", "completed", "cancelled", "failed"]
