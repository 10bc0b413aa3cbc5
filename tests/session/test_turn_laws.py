"""Whatever a host sends and whenever: one end per turn, every shown call closed before it, one outcome a command."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.world import Reply, World

from agentwire.commands import Approve, Deny, Done, InitHistory, Ping, Prompt, SetConfig, SetMode, Stop
from agentwire.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRunning,
    CallStarted,
    StepFinished,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from agentwire.messages import AssistantMessage, ToolMessage
from agentwire.policy import Policy


def check_laws(world: World) -> None:
    """What must hold of any log, whatever led to it."""
    running, shown, open_calls, asked, ran = 0, set(), [], set(), set()
    for record in world.records():
        event = record.event
        if isinstance(event, TurnStarted):
            assert running == 0
            running = record.turn
            continue
        if record.turn:
            assert record.turn == running, f"{event} outside its turn"
        if isinstance(event, CallStarted | CallReady):
            if event.call_id not in shown:
                shown.add(event.call_id)
                open_calls.append(event.call_id)
        elif isinstance(event, ApprovalRequested):
            assert event.call_id in open_calls
            asked.add(event.call_id)
        elif isinstance(event, ApprovalResolved):
            asked.remove(event.call_id)
        elif isinstance(event, CallRunning):
            assert event.call_id in open_calls
            assert event.call_id not in asked
            assert event.call_id not in ran
            ran.add(event.call_id)
        elif isinstance(event, CallFinished | CallCancelled):
            assert event.call_id not in asked
            open_calls.remove(event.call_id)
        elif isinstance(event, TurnFinished):
            assert not open_calls, "a call is open at the end of its turn"
            assert not asked
            running = 0
    assert running == 0, "a turn has no end"
    for command, replies in world.outcomes:
        assert len(replies) == 1, f"{command} had {len(replies)} outcomes"
    check_history(world.session.history.messages())
    for tool in world.tools:
        assert tool.running == 0
        if not tool.overlaps:
            assert tool.most <= 1


def check_history(messages) -> None:
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.call_id == waiting.pop(0)
            continue
        assert not waiting, "a call has no result"
        if isinstance(message, AssistantMessage):
            assert message.text or message.calls
            waiting = [call.call_id for call in message.calls]
    assert not waiting


REPLIES = st.lists(
    st.builds(
        Reply,
        text=st.sampled_from(["", "a", "abc"]),
        calls=st.lists(st.sampled_from(["look", "change", "run", "bug", "unknown", ""]), max_size=3),
        fails=st.sampled_from(["", "", "", "stream", "status", "auth"]),
    ),
    min_size=1,
    max_size=4,
)
POLICIES = st.builds(
    Policy,
    calls=st.sampled_from(["parallel", "sequential", "reads_together"]),
    can_ask=st.booleans(),
    free=st.sampled_from([frozenset(), frozenset({"info"})]),
    empty_answer=st.sampled_from(["end", "retry_then_error"]),
    when_busy=st.sampled_from(["refuse", "queue", "ignore"]),
)
PROMPT = st.just(Prompt("hello", ref="m"))
MOVES = st.lists(
    st.tuples(
        st.one_of(
            PROMPT,
            PROMPT,
            st.just(Stop()),
            st.just(Ping()),
            st.sampled_from(["approve", "approve", "always", "deny"]),
            st.sampled_from([SetMode("yolo"), SetMode("default"), SetMode("auto_edit"), SetConfig(model="n")]),
            st.just(InitHistory("context")),
            st.just("gone"),
        ),
        st.sampled_from([0.0, 0.004, 0.02, 0.06, 0.3]),
    ),
    max_size=12,
)


async def play(replies, policy, moves, workspace: Path) -> World:
    async with trio.open_nursery() as nursery:
        world = World(nursery, replies, policy, workspace)
        world.send(Prompt("first", ref="m0"))
        for move, pause in moves:
            await trio.sleep(pause)
            questions = world.session.approvals.open
            if move == "gone":
                world.server.sessions.get("s").host_gone()
            elif not isinstance(move, str):
                world.send(move)
            elif questions:
                call_id = questions[-1].call_id
                answers = {
                    "approve": Approve(call_id),
                    "always": Approve(call_id, scope="always"),
                    "deny": Deny(call_id),
                }
                assert isinstance(world.send(answers[move]).result, Done)
        await trio.sleep(5)
        world.server.sessions.get("s").host_gone()
        await trio.sleep(200)
        if world.session.active is not None:
            world.send(Stop())
        await world.server.idle()
        nursery.cancel_scope.cancel()
    return world


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(replies=REPLIES, policy=POLICIES, moves=MOVES)
def test_the_laws_hold(replies, policy, moves, tmp_path_factory):
    clock = trio.testing.MockClock(autojump_threshold=0)
    world = trio.run(play, replies, policy, moves, tmp_path_factory.getbasetemp(), clock=clock)
    check_laws(world)


@pytest.mark.parametrize("after", [0.0, 0.005, 0.015, 0.035, 0.06, 0.2])
def test_a_stop_at_any_moment_ends_the_turn_and_the_next_one_works(after, tmp_path):
    replies = [Reply("abc", ["change", "look"]), Reply("done")]
    clock = trio.testing.MockClock(autojump_threshold=0)
    world = trio.run(
        play, replies, Policy(), [(Stop(), after), (SetMode("yolo"), 0.3), (Prompt("again", ref="m1"), 0.0)], tmp_path,
        clock=clock,
    )  # fmt: skip
    check_laws(world)
    ends = [record.event.outcome for record in world.records() if isinstance(record.event, TurnFinished)]
    assert ends == ["cancelled", "completed"]


def test_only_what_was_approved_runs(tmp_path):
    moves = [("deny", 0.1), ("approve", 0.1)]
    clock = trio.testing.MockClock(autojump_threshold=0)
    world = trio.run(play, [Reply("", ["change", "run"]), Reply("end")], Policy(), moves, tmp_path, clock=clock)
    started = {tool.name: tool.started for tool in world.tools}
    assert started == {"look": 0, "change": 1, "run": 0, "bug": 0}


def test_steps_are_numbered_and_finished(tmp_path):
    clock = trio.testing.MockClock(autojump_threshold=0)
    replies = [Reply("a", ["look"]), Reply("b")]
    world = trio.run(play, replies, Policy(free=frozenset({"info"})), [], tmp_path, clock=clock)
    steps = [type(r.event).__name__ + str(r.event.index) for r in world.records()
             if isinstance(r.event, StepStarted | StepFinished)]  # fmt: skip
    assert steps == ["StepStarted0", "StepFinished0", "StepStarted1", "StepFinished1"]
