"""Whatever a host sends and whenever: one end per turn, every shown call closed before it, one outcome a command."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentwire.agent.loop import Agent
from agentwire.commands import Approve, Command, Deny, Done, InitHistory, Outcome, Ping, Prompt, SetConfig, SetMode, Stop
from agentwire.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRef,
    CallRunning,
    CallStarted,
    StepFinished,
    StepStarted,
    TextDelta,
    TurnFinished,
    TurnStarted,
    Usage,
)
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.messages import AssistantMessage, ToolMessage
from agentwire.policy import Policy
from agentwire.provider.contract import Completion, Emit, ModelRequest, ProviderError
from agentwire.server.runtime import make_runner
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult


@dataclass
class Reply:
    """What the model does when it is asked."""

    text: str = ""
    calls: list[str] = field(default_factory=list)
    fails: str = ""


class Model:
    """A provider that does what it is told, with a pause at every piece."""

    name = "model"
    model = "m"
    thinking = True
    effort_levels = ("low",)

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = replies
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        reply = self.replies[len(self.requests) % len(self.replies)] if self.replies else Reply("end")
        if len(self.requests) > 30:
            reply = Reply("enough")
        self.requests.append(request)
        emit(Usage(input_tokens=1))
        for piece in reply.text:
            await trio.sleep(0.01)
            emit(TextDelta(piece))
        refs = []
        for index, name in enumerate(reply.calls):
            await trio.sleep(0.01)
            emit(CallStarted(f"call_{index}", name))
            refs.append(CallRef(f"call_{index}", name, "{}"))
        if reply.fails:
            raise ProviderError("it broke", kind=reply.fails, retryable=True)  # type: ignore[arg-type]
        return Completion(reply.text, calls=refs, usage=Usage(1, 1), finish_reason="tool_calls" if refs else "stop")

    async def aclose(self) -> None:
        pass


class Slow(Tool):
    """A tool that takes its time and counts how often it runs."""

    def __init__(self, name: str, category: str, overlaps: bool, outcome: str) -> None:
        self.name, self.category, self.overlaps, self.outcome = name, category, overlaps, outcome  # type: ignore[assignment]
        self.started = self.running = self.most = 0

    def describe(self, arguments: dict[str, Any]) -> str:
        return self.name

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        self.started += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            context.output("some output", "stdout")
            await trio.sleep(0.05)
        finally:
            self.running -= 1
        if self.outcome == "error":
            raise ToolError("no")
        if self.outcome == "bug":
            raise ZeroDivisionError
        return ToolResult("done")


def tools() -> list[Slow]:
    return [
        Slow("look", "info", True, "ok"),
        Slow("change", "edit", False, "ok"),
        Slow("run", "exec", False, "error"),
        Slow("bug", "mcp", False, "bug"),
    ]


class World:
    """A server with one session, driven by commands as a host would."""

    def __init__(self, nursery: trio.Nursery, replies: list[Reply], policy: Policy, workspace: Path) -> None:
        self.model = Model(replies)
        self.tools = tools()
        self.session = Session(
            "s", SessionLog(None), History(), settings=SessionSettings(workspace=str(workspace)), policy=policy,
            provider=self.model, ephemeral=True,
        )  # fmt: skip
        self.server = Server(nursery)
        self.server.add(make_runner(self.session, Agent(tools=self.tools, builtins=False), nursery))
        self.cursor = self.session.log.cursor(after=0)
        self.outcomes: list[tuple[Command, list[Outcome]]] = []

    def send(self, command: Command) -> Outcome:
        replies: list[Outcome] = []
        self.outcomes.append((command, replies))
        self.server.dispatch(command, "s", replies.append)
        return replies[0]

    def records(self):
        cursor = self.session.log.cursor(after=0)
        found = []
        while batch := cursor.take():
            found += batch
        return found


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
                world.server.sessions["s"].host_gone()
            elif not isinstance(move, str):
                world.send(move)
            elif questions:
                call_id = questions[-1].call_id
                answers = {"approve": Approve(call_id), "always": Approve(call_id, scope="always"), "deny": Deny(call_id)}
                assert isinstance(world.send(answers[move]).result, Done)
        await trio.sleep(5)
        world.server.sessions["s"].host_gone()
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
