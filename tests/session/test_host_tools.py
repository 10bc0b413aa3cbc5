"""Host tools: checked, judged, put to the host, answered or withdrawn, whoever is quicker."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw
from scripted import Bench, Call, Model, Probe, Reply, bench, calling, kinds, of

from agentwire.agent.host_tools import HostTools
from agentwire.commands import AnswerHostTool, Approve, Deny, Done, Prompt, Refusal, SetHostTools, SetMode, Stop
from agentwire.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRunning,
    HostTool,
    HostToolCancelled,
    HostToolRequested,
    Image,
    SubagentFinished,
    SubagentStarted,
    Text,
    TurnFinished,
)
from agentwire.messages import ToolMessage
from agentwire.policy import Policy

POSITION = {"type": "object", "properties": {"position": {"type": "string"}}, "required": ["position"]}
MOVE = HostTool("host__arm_move", "Move the arm.", POSITION, "arm_move")
LOOK = HostTool("host__look", "Look.", {"type": "object", "properties": {}}, "look", "read")
FIRE = HostTool("host__fire", "Fire.", {"type": "object", "properties": {}}, "fire", "actuator")
JAN = Policy("jan", calls="reads_together", always_covers="tool", delegates=True, shows_subagents=True)

CALLS = (CallReady, ApprovalRequested, ApprovalResolved, CallRunning, HostToolRequested, HostToolCancelled,
         CallFinished, CallCancelled, TurnFinished)  # fmt: skip


async def test_a_call_is_asked_about_then_put_to_the_host_and_its_answer_is_the_result(tmp_path):
    model = Model(calling("host__arm_move", {"position": "bin"}), Reply("moved"))
    async with bench(model, tmp_path, policy=JAN, host=[MOVE]) as b:
        b.send(Prompt("go"))
        question = await b.until(ApprovalRequested)
        assert (question.name, question.category, question.prompt_kind) == ("host__arm_move", "mcp", "mcp")
        assert question.offers_always
        assert not b.runner.toolbox.host.open
        assert b.send(Approve(approval_id=question.approval_id)) == Done()
        request = await b.until(HostToolRequested)
        assert (request.name, bytes(request.arguments), request.run_id) == ("arm_move", b'{"position":"bin"}', "")
        assert b.runner.pending(request.request_id)
        image = Image("image/png", "iVBORw0KGgo=")
        answer = AnswerHostTool(request.request_id, [Text("frame"), image, Text("captured")], False, Raw(b'{"n":7}'))
        assert b.send(answer) == Done()
        assert isinstance(b.send(answer), Refusal)
        assert b.send(answer).code == "not_pending"
        await b.server.idle()
        [finished] = of(CallFinished, b.turn())
        assert (finished.status, finished.output, finished.images) == ("ok", "frame\ncaptured", [image])
        assert bytes(finished.details) == b'{"n":7}'
        assert kinds(b.turn(), *CALLS) == [
            "CallReady", "ApprovalRequested", "ApprovalResolved", "CallRunning", "HostToolRequested", "CallFinished",
            "TurnFinished",
        ]  # fmt: skip
        assert model.requests[0].tools[0].parameters == POSITION


@pytest.mark.parametrize(
    ("content", "is_error", "output"),
    [
        ([Text("")], False, ""),
        ([], False, ""),
        ([Image("image/png", "aGk=")], False, "(image)"),
        ([Text("  no \x1b[31mposition\x1b[0m\n\n")], True, "  no \x1b[31mposition\x1b[0m\n\n"),
        ([Text("x" * 200_000)], False, "x" * 200_000),
    ],
)
async def test_the_text_of_an_answer_is_left_as_it_is(content, is_error, output, tmp_path):
    async with bench(Model(calling("host__look"), Reply("ok")), tmp_path, policy=JAN, host=[LOOK]) as b:
        b.send(Prompt("go"))
        request = await b.until(HostToolRequested)
        b.send(AnswerHostTool(request.request_id, content, is_error))
        finished = await b.until(CallFinished)
        assert (finished.output, finished.status) == (output, "error" if is_error else "ok")
        await b.server.idle()


@pytest.mark.parametrize(
    ("name", "mode", "host_decides", "asked"),
    [
        ("host__look", "default", False, False),
        ("host__arm_move", "default", False, True),
        ("host__arm_move", "yolo", False, False),
        ("host__fire", "default", False, True),
        ("host__fire", "yolo", False, True),
        ("host__fire", "default", True, False),
        ("host__arm_move", "default", True, False),
    ],
)
async def test_who_is_asked(name, mode, host_decides, asked, tmp_path):
    model = Model(calling(name, {"position": "bin"}), Reply("ok"))
    options = {"host": [MOVE, LOOK, FIRE], "host_permissions": host_decides, "mode": mode}
    async with bench(model, tmp_path, policy=JAN, **options) as b:
        b.send(Prompt("go"))
        event = await b.until((ApprovalRequested, HostToolRequested))
        assert isinstance(event, ApprovalRequested) == asked


async def test_an_actuator_is_asked_about_whatever_is_allowed_until_the_host_frees_it_itself(tmp_path):
    model = Model(calling("host__fire"), calling("host__fire"), calling("host__fire"), Reply("ok"))
    allow = frozenset({"mcp", "host__fire"})
    async with bench(model, tmp_path, policy=JAN, host=[FIRE], allow=allow, mode="yolo") as b:
        b.send(Prompt("go", approve=["host__fire", "mcp"]))
        for scope in ("once", "category"):
            b.send(Approve(approval_id=(await b.until(ApprovalRequested)).approval_id, scope=scope))
            b.send(AnswerHostTool((await b.until(HostToolRequested)).request_id, [Text("bang")]))
        b.send(Approve(approval_id=(await b.until(ApprovalRequested)).approval_id, scope="always"))
        b.send(AnswerHostTool((await b.until(HostToolRequested)).request_id, [Text("bang")]))
        await b.server.idle()
        model.scripts[""] = [calling("host__fire"), Reply("ok")]
        b.send(Prompt("again"))
        assert isinstance(await b.until((ApprovalRequested, HostToolRequested)), HostToolRequested)


@pytest.mark.parametrize("policy", [Policy(can_ask=False), Policy(always_covers="category")])
async def test_an_actuator_where_nobody_can_be_asked_or_only_categories_can_be_freed(policy, tmp_path):
    model = Model(calling("host__fire"), Reply("ok"))
    async with bench(model, tmp_path, policy=policy, host=[FIRE], mode="yolo") as b:
        b.send(Prompt("go"))
        event = await b.until((ApprovalRequested, CallCancelled))
        if policy.can_ask:
            assert not event.offers_always
        else:
            assert event.cause == "refused"


async def test_a_denied_call_is_not_put_to_the_host(tmp_path):
    model = Model(calling("host__arm_move", {"position": "bin"}), Reply("ok"))
    async with bench(model, tmp_path, policy=JAN, host=[MOVE]) as b:
        b.send(Prompt("go"))
        b.send(Deny(approval_id=(await b.until(ApprovalRequested)).approval_id))
        await b.server.idle()
        assert not of(HostToolRequested, b.turn())
        assert b.turn()[-1].outcome == "completed"


@pytest.mark.parametrize("policy", [JAN, Policy()])
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "/: missing required property 'position'"),
        ({"position": 7}, "/position: expected string, got integer"),
        ("[1]", "/: expected object, got text that is none"),
        ('{"position": ', "/: expected object, got text that is none"),
    ],
)
async def test_arguments_that_break_the_schema_reach_nobody(arguments, problem, policy, tmp_path):
    model = Model(calling("host__arm_move", arguments), Reply("sorry"))
    async with bench(model, tmp_path, policy=policy, host=[MOVE]) as b:
        events = await b.finish()
        [finished] = of(CallFinished, events)
        assert finished.status == "error"
        assert finished.output == f"arguments for host tool 'arm_move' do not match its schema: {problem}"
        assert not of((ApprovalRequested, HostToolRequested, CallRunning), events)


async def test_a_stop_withdraws_the_request_before_its_call_is_closed(tmp_path):
    async with bench(Model(calling("host__look"), Reply("no")), tmp_path, policy=JAN, host=[LOOK]) as b:
        b.send(Prompt("go"))
        request = await b.until(HostToolRequested)
        b.send(Stop())
        answer = AnswerHostTool(request.request_id, [Text("too late")])
        assert b.send(answer).code == "not_pending"
        assert not b.runner.pending(request.request_id)
        await b.server.idle()
        assert kinds(b.turn(), *CALLS)[-3:] == ["HostToolCancelled", "CallCancelled", "TurnFinished"]
        [cancelled] = of(HostToolCancelled, b.turn())
        assert (cancelled.request_id, cancelled.reason) == (request.request_id, "stopped")
        assert b.send(answer).code == "not_pending"


async def test_with_the_host_gone_requests_are_withdrawn_at_once_and_the_turn_runs_on(tmp_path):
    model = Model(calling("host__look"), calling("host__look"), Reply("blind"))
    async with bench(model, tmp_path, policy=JAN, host=[LOOK]) as b:
        b.send(Prompt("go"))
        await b.until(HostToolRequested)
        b.runner.host_gone()
        await b.server.idle()
        assert [event.reason for event in of(HostToolCancelled, b.turn())] == ["client_gone"] * 2
        told = "host tool 'look' was not answered: the client is gone"
        assert [event.output for event in of(CallFinished, b.turn())] == [told, told]
        assert b.turn()[-1].outcome == "completed"
        b.runner.host_there()
        model.scripts[""] = [calling("host__look"), Reply("I see")]
        b.send(Prompt("again"))
        b.send(AnswerHostTool((await b.until(HostToolRequested, call_id="call-4")).request_id, [Text("a cat")]))
        await b.server.idle()
        assert of(CallFinished, b.turn())[0].output == "a cat"


async def test_what_is_withdrawn_while_the_turn_goes_on_is_said_to_the_model(tmp_path):
    model = Model(calling("host__look"), Reply("blind"))
    async with bench(model, tmp_path, policy=JAN, host=[LOOK]) as b:
        b.send(Prompt("go"))
        await b.until(HostToolRequested)
        b.runner.toolbox.host.withdraw_all("stopped")
        await b.server.idle()
        assert of(CallFinished, b.turn())[0].output == "host tool 'look' was cancelled before it answered"
        result = model.requests[1].messages[-1]
        assert isinstance(result, ToolMessage)
        assert result.is_error


async def test_reads_run_together_and_results_come_in_the_models_order(tmp_path):
    calls = [Call("host__look", id="a"), Call("host__arm_move", {"position": "x"}, "b"), Call("host__look", id="c")]
    model = Model(Reply(calls=calls), Reply("ok"))
    async with bench(model, tmp_path, policy=JAN, host=[LOOK, MOVE], mode="yolo") as b:
        b.send(Prompt("go"))
        first = await b.until(HostToolRequested)
        assert first.name == "arm_move"
        assert b.runner.toolbox.host.open == [first.request_id]
        b.send(AnswerHostTool(first.request_id, [Text("1")]))
        reads = [await b.until(HostToolRequested), await b.until(HostToolRequested)]
        for request in reversed(reads):
            b.send(AnswerHostTool(request.request_id, [Text("2")]))
        await b.server.idle()
        assert [event.call_id.split(".")[0] for event in of(CallFinished, b.turn())] == ["a", "b", "c"]


async def test_ids_are_never_used_twice_whichever_session_asks(tmp_path):
    seen = []
    for _ in range(2):
        async with bench(Model(calling("host__arm_move", {"position": "x"})), tmp_path, policy=JAN, host=[MOVE]) as b:
            b.send(Prompt("go"))
            question = await b.until(ApprovalRequested)
            b.send(Approve(approval_id=question.approval_id))
            seen += [question.approval_id, (await b.until(HostToolRequested)).request_id]
    assert len(set(seen)) == 4
    assert [text.split("-")[0] for text in seen] == ["perm", "host", "perm", "host"]


async def test_the_set_is_replaced_between_turns_and_never_hides_the_agents_own(tmp_path):
    own = Probe("host__look")
    model = Model(Reply("hi"), calling("host__look"), Reply("ok"))
    async with bench(model, tmp_path, policy=JAN, host=[MOVE], tools=[own], mode="yolo") as b:
        await b.finish()
        assert b.send(SetHostTools("s", [LOOK, FIRE])).value.tools == ["host__look", "host__fire"]
        await b.finish()
        assert own.calls == [{}]
        assert [tool.name for tool in model.requests[1].tools] == ["host__look", "host__fire"]
        assert b.send(SetHostTools("s", [])).value.tools == ["host__look"]


async def test_a_subagent_calls_under_its_own_name(tmp_path):
    spawn = calling("dispatch_subagent", {"name": "mover", "task": "move it"})
    scripts = {"move it": [calling("host__arm_move", {"position": "bin"}), Reply("moved")]}
    model = Model(spawn, Reply("waiting"), Reply("all done"), scripts=scripts)
    async with bench(model, tmp_path, policy=JAN, host=[MOVE], subagents=True) as b:
        b.send(Prompt("go"))
        run_id = (await b.until(SubagentStarted)).run_id
        record = await b.record(ApprovalRequested)
        assert record.origin == run_id
        b.send(Approve(approval_id=record.event.approval_id))
        record = await b.record(HostToolRequested)
        assert (record.origin, record.event.run_id) == (run_id, run_id)
        b.send(AnswerHostTool(record.event.request_id, [Text("there")]))
        await b.server.idle()
        assert b.turn()[-1].text == "all done"


@pytest.mark.parametrize("moment", [ApprovalRequested, HostToolRequested])
async def test_a_stop_settles_what_a_subagent_asked_before_it_ends(moment, tmp_path):
    spawn = calling("dispatch_subagent", {"name": "mover", "task": "move it"})
    scripts = {"move it": [calling("host__arm_move", {"position": "bin"})]}
    model = Model(spawn, Reply("waiting"), scripts=scripts)
    mode = "yolo" if moment is HostToolRequested else "default"
    async with bench(model, tmp_path, policy=JAN, host=[MOVE], mode=mode, subagents=True) as b:
        b.send(Prompt("go"))
        await b.until(moment)
        b.send(Stop())
        await b.server.idle()
        ends = kinds(b.turn(), ApprovalResolved, HostToolCancelled, CallCancelled, SubagentFinished, TurnFinished)
        settled = "HostToolCancelled" if moment is HostToolRequested else "ApprovalResolved"
        assert ends == [settled, "CallCancelled", "SubagentFinished", "TurnFinished"]
        assert not b.session.approvals.open
        assert b.session.history.unfinished.subagents == {}


def test_a_session_without_host_tools_has_nothing_pending():
    host = HostTools()
    assert host.answer("host-1", [Text("x")], False, UNSET) == "unknown"
    assert not host.pending("host-1")
    host.withdraw_all("stopped")
    assert host.open == []


# --- whatever comes first -------------------------------------------------------------------------------------

MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            ["answer", "answer", "old answer", "approve", "deny", "stop", "prompt", "gone", "there", "yolo"]
        ),
        st.sampled_from([0.0, 0.0, 0.01, 1.0]),
    ),
    max_size=14,
)


def check_requests(b: Bench) -> None:
    """Every request is answered or withdrawn, once, before its call is closed and within its turn."""
    waiting: dict[str, str] = {}
    cancelled: set[str] = set()
    open_calls: set[str] = set()
    for record in b.records():
        event = record.event
        if isinstance(event, CallReady):
            open_calls.add(event.call_id)
        elif isinstance(event, HostToolRequested):
            assert event.call_id in open_calls
            waiting[event.call_id] = event.request_id
        elif isinstance(event, HostToolCancelled):
            assert waiting[event.call_id] == event.request_id
            assert event.request_id not in cancelled
            assert event.call_id in open_calls
            cancelled.add(event.request_id)
        elif isinstance(event, CallFinished | CallCancelled):
            open_calls.discard(event.call_id)
            request = waiting.pop(event.call_id, "")
            if isinstance(event, CallCancelled) and request:
                assert request in cancelled, "closed while the host still works on it"
        elif isinstance(event, TurnFinished):
            assert not waiting
            assert not open_calls
    assert not b.runner.toolbox.host.open


async def play(policy: Policy, moves: list[tuple[str, float]], workspace) -> Bench:
    def reply(request):
        if len(request.messages) % 5 == 0:
            return Reply("done")
        return Reply(calls=[Call("host__look"), Call("host__fire"), Call("host__arm_move", {"position": "x"})])

    async with trio.open_nursery() as nursery:
        b = Bench(nursery, Model(scripts={"": reply}), workspace, policy=policy, host=[MOVE, LOOK, FIRE], max_steps=4)
        b.send(Prompt("go"))
        answered: list[str] = []
        for move, pause in moves:
            await trio.sleep(pause)
            await trio.testing.wait_all_tasks_blocked()
            waiting, questions = b.runner.toolbox.host.open, b.session.approvals.open
            if move == "answer" and waiting:
                answered.append(waiting[-1])
                assert b.send(AnswerHostTool(waiting[-1], [Text("ok")])) == Done()
            elif move == "old answer" and answered:
                assert b.send(AnswerHostTool(answered[-1], [Text("again")])).code == "not_pending"
            elif move in ("approve", "deny") and questions:
                answer = Approve if move == "approve" else Deny
                b.send(answer(approval_id=questions[0].approval_id))
            elif move == "stop":
                b.send(Stop())
            elif move == "prompt":
                b.send(Prompt("more"))
            elif move == "gone":
                b.runner.host_gone()
            elif move == "there":
                b.runner.host_there()
            elif move == "yolo":
                b.send(SetMode("yolo"))
        b.runner.host_gone()
        await b.server.idle()
        check_requests(b)
        nursery.cancel_scope.cancel()
    return b


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(policy=st.sampled_from([JAN, Policy(), Policy(calls="sequential")]), moves=MOVES)
def test_the_laws_hold_whoever_is_quicker(policy, moves, tmp_path_factory):
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(play, policy, moves, tmp_path_factory.getbasetemp(), clock=clock)
