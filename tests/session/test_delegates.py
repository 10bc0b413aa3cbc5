"""Subagents that work beside the turn: started, told, stopped, listed; their reports are read when they come."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted import Bench, Call, Model, Probe, Reply, bench, calling, kinds, of, text_of

from agentwire.agent.subagents import MOST_AT_ONCE, MOST_WAITING
from agentwire.commands import Approve, Prompt, Steer, Stop
from agentwire.events import (
    ApprovalRequested,
    CallFinished,
    Notice,
    Parked,
    StepStarted,
    SubagentFinished,
    SubagentQueued,
    SubagentStarted,
    Text,
    TurnFinished,
    Usage,
    UserJoined,
)
from agentwire.log.history import History
from agentwire.messages import UserMessage
from agentwire.policy import Policy
from agentwire.provider.contract import ProviderError
from agentwire.tools import delegate_tools

JAN = Policy("jan", calls="reads_together", always_covers="tool", delegates=True, shows_subagents=True)


def dispatch(task: str, name: str = "mover", **more) -> Reply:
    return calling("dispatch_subagent", {"name": name, "task": task}, **more)


async def test_a_delegate_works_beside_the_turn_and_its_report_comes_as_a_message(tmp_path):
    probe, gate = Probe("probe"), trio.Event()
    model = Model(
        dispatch("move it"), Reply("in the meantime"), Reply("all done"),
        scripts={"move it": [calling("probe", gate=gate), Reply("moved")]},
    )  # fmt: skip
    async with bench(model, tmp_path, policy=JAN, tools=[probe], mode="yolo", subagents=True) as b:
        b.send(Prompt("go"))
        started = await b.until(SubagentStarted)
        assert (started.name, started.task) == ("mover", "move it")
        assert started.run_id.startswith("sub-mover-")
        result = await b.until(CallFinished)
        assert (result.status, started.run_id in result.output) == ("ok", True)
        await b.until(Parked)
        gate.set()
        await b.server.idle()
        events = b.turn()
        wanted = (SubagentStarted, Parked, SubagentFinished, Notice, UserJoined, TurnFinished)
        assert kinds(events, *wanted) == [kind.__name__ for kind in wanted]
        assert of(Notice, events)[0].text == "Subagent 'mover' is done"
        [joined] = of(UserJoined, events)
        assert joined.text == f"Report of subagent 'mover' ({started.run_id}):\nmoved"
        assert model.requests[-1].messages[-1] == UserMessage([Text(joined.text)])
        assert probe.calls == [{}]
        assert not of(ApprovalRequested, events)
        end = events[-1]
        assert (end.outcome, end.text, end.usage) == ("completed", "all done", Usage(25, 10))
        offered = [[tool.name for tool in request.tools] for request in model.requests]
        names = [tool.name for tool in delegate_tools()]
        assert names == ["dispatch_subagent", "message_subagent", "stop_subagent", "list_subagents"]
        assert offered[0] == ["probe", *names]
        assert offered[1] == ["probe"]


async def test_a_report_that_comes_in_the_middle_of_a_step_is_read_after_it(tmp_path):
    gate = trio.Event()
    scripts = {"quick": [Reply("quick result")]}
    model = Model(dispatch("quick"), Reply("an answer", gate=gate), Reply("a better one"), scripts=scripts)
    async with bench(model, tmp_path, policy=JAN, subagents=True) as b:
        b.send(Prompt("go"))
        await b.until(SubagentFinished)
        gate.set()
        await b.server.idle()
        assert not of(Parked, b.turn())
        assert b.turn()[-1].text == "a better one"


async def test_its_approvals_are_asked_under_its_own_name_and_it_inherits_mode_and_allow_list(tmp_path):
    probe, free = Probe("probe"), Probe("free")
    scripts = {"work": [Reply(calls=[Call("free"), Call("probe")]), Reply("worked")]}
    model = Model(dispatch("work"), Reply("wait"), Reply("end"), scripts=scripts)
    tools, allow = [probe, free], frozenset({"free"})
    async with bench(model, tmp_path, policy=JAN, tools=tools, allow=allow, subagents=True) as b:
        b.send(Prompt("go"))
        run_id = (await b.until(SubagentStarted)).run_id
        record = await b.record(ApprovalRequested)
        assert (record.origin, record.event.name) == (run_id, "probe")
        b.send(Approve(approval_id=record.event.approval_id, scope="always"))
        await b.server.idle()
        assert (probe.calls, free.calls) == ([{}], [{}])
        model.scripts[""] = [calling("probe"), Reply("end")]
        await b.finish()
        assert len(probe.calls) == 2  # what was freed for it is freed for all


async def test_it_can_be_told_something_and_reads_it_before_it_ends(tmp_path):
    first, second = trio.Event(), trio.Event()
    told: list[str] = []

    def main(request):
        n = len([message for message in request.messages if message.__struct_config__.tag == "assistant"])
        if n == 0:
            return dispatch("listen")
        if n == 1:
            run_id = request.messages[2].text.split(" as ")[1].split(".")[0]
            return calling("message_subagent", {"run_id": run_id, "message": "to the left"}, gate=first)
        second.set()
        return Reply("fine")

    def child(request):
        told[:] = [text_of(m) for m in request.messages if isinstance(m, UserMessage)]
        first.set()
        return Reply("heard", gate=None if len(told) > 1 else second)

    model = Model(scripts={"go": main, "listen": child})
    async with bench(model, tmp_path, policy=JAN, subagents=True) as b:
        await b.finish()
        assert told == ["listen", "to the left"]


async def test_the_user_can_steer_while_the_turn_is_parked(tmp_path):
    gate = trio.Event()
    scripts = {"slow": [Reply("x", gate=gate)]}
    model = Model(dispatch("slow"), Reply("waiting"), Reply("still waiting"), Reply("end"), scripts=scripts)
    async with bench(model, tmp_path, policy=JAN, subagents=True) as b:
        b.send(Prompt("go"))
        await b.until(Parked)
        b.send(Steer("are you there?"))
        await b.until(UserJoined, text="are you there?")
        await b.until(Parked)
        gate.set()
        await b.server.idle()
        assert b.turn()[-1].text == "end"


async def test_one_that_fails_is_reported_and_the_turn_goes_on(tmp_path):
    scripts = {"bad": [Reply(fails=ProviderError("no such luck", kind="status"))]}
    model = Model(dispatch("bad"), Reply("waiting"), Reply("never mind"), scripts=scripts)
    async with bench(model, tmp_path, policy=JAN, subagents=True) as b:
        events = await b.finish()
        assert of(SubagentFinished, events)[0].error == "no such luck"
        assert of(Notice, events)[0].text == "Subagent 'mover' failed: no such luck"
        assert "no such luck" in of(UserJoined, events)[0].text
        assert "no such luck" in text_of(model.requests[-1].messages[-1])
        assert events[-1].outcome == "completed"


async def test_one_that_breaks_is_reported_like_one_that_fails(tmp_path):
    def broken(request):
        raise ZeroDivisionError("a bug")

    model = Model(dispatch("bad"), Reply("waiting"), Reply("never mind"), scripts={"bad": broken})
    async with bench(model, tmp_path, policy=JAN, subagents=True) as b:
        events = await b.finish()
        assert "ZeroDivisionError: a bug" in of(SubagentFinished, events)[0].error
        assert events[-1].outcome == "completed"


async def test_one_that_is_stopped_gives_no_report(tmp_path):
    def main(request):
        results = [message for message in request.messages if message.__struct_config__.tag == "tool"]
        if not results:
            return dispatch("endless")
        run_id = results[0].text.split(" as ")[1].split(".")[0]
        script = [
            calling("stop_subagent", {"run_id": run_id}),
            calling("stop_subagent", {"run_id": run_id}),
            calling("message_subagent", {"run_id": run_id, "message": "hey"}),
            calling("stop_subagent", {"run_id": "sub-nobody"}),
            calling("list_subagents"),
        ]
        return script[len(results) - 1] if len(results) <= len(script) else Reply("end")

    model = Model(scripts={"go": main, "endless": [Reply("x", gate=trio.Event())]})
    async with bench(model, tmp_path, policy=JAN, subagents=True) as b:
        events = await b.finish()
        run_id = of(SubagentStarted, events)[0].run_id
        results = [(event.status, event.output) for event in of(CallFinished, events)][1:]
        assert results == [
            ("ok", "Subagent 'mover' was stopped."),
            ("error", f"Subagent '{run_id}' has ended already (stopped)"),
            ("error", f"Subagent '{run_id}' has ended already (stopped)"),
            ("error", "There is no subagent 'sub-nobody'"),
            ("ok", f"{run_id} (mover): stopped"),
        ]
        assert of(SubagentFinished, events)[0].error == "stopped"
        assert not of((Parked, UserJoined), events)
        assert events[-1].outcome == "completed"


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("dispatch_subagent", {}, "Missing required parameter: task"),
        ("dispatch_subagent", {"task": "  "}, "The task is empty"),
        ("message_subagent", {"run_id": "x"}, "Missing required parameter: message"),
        ("stop_subagent", {}, "Missing required parameter: run_id"),
    ],
)
async def test_bad_arguments_are_told(name, arguments, error, tmp_path):
    async with bench(Model(calling(name, arguments), Reply("ok")), tmp_path, policy=JAN, subagents=True) as b:
        assert of(CallFinished, await b.finish())[0].output == error


async def test_more_than_the_places_there_are_wait_their_turn(tmp_path):
    gates = {f"task {n}": trio.Event() for n in range(MOST_AT_ONCE + 2)}
    calls = [Call("dispatch_subagent", {"name": f"n{n}", "task": task}) for n, task in enumerate(gates)]
    scripts = {task: [Reply(f"done {task}", gate=gate)] for task, gate in gates.items()}
    model = Model(Reply(calls=[*calls, Call("list_subagents")]), *[Reply("ok")] * 20, scripts=scripts)
    async with bench(model, tmp_path, policy=JAN, subagents=True) as b:
        b.send(Prompt("go"))
        await b.until(Parked)
        assert [(q.name, q.waiting) for q in of(SubagentQueued, b.turn())] == [("n5", 1), ("n6", 2)]
        assert [s.name for s in of(SubagentStarted, b.turn())] == ["n0", "n1", "n2", "n3", "n4"]
        listed = of(CallFinished, b.turn())[-1].output.splitlines()
        assert [line.rpartition(": ")[2] for line in listed] == ["working"] * 5 + ["waiting"] * 2
        gates["task 3"].set()
        assert (await b.until(SubagentStarted)).name == "n5"
        gates["task 1"].set()
        assert (await b.until(SubagentStarted)).name == "n6"
        for gate in gates.values():
            gate.set()
        await b.server.idle()
        assert len(of(UserJoined, b.turn())) == len(gates)
        assert b.turn()[-1].outcome == "completed"


async def test_there_is_an_end_to_how_many_may_wait(tmp_path):
    most = MOST_AT_ONCE + MOST_WAITING
    calls = [Call("dispatch_subagent", {"task": "x"}) for _ in range(most + 1)]
    model = Model(Reply(calls=calls), Reply("ok"), scripts={"x": lambda request: Reply("x", gate=trio.Event())})
    async with bench(model, tmp_path, policy=JAN, subagents=True) as b:
        b.send(Prompt("go"))
        await b.until(Parked)
        assert [event.status for event in of(CallFinished, b.turn())] == ["ok"] * most + ["error"]
        b.send(Stop())
        await b.server.idle()
        finished = [event.run_id for event in of(SubagentFinished, b.turn())]
        begun = {event.run_id for event in of((SubagentStarted, SubagentQueued), b.turn())}
        assert sorted(finished) == sorted(begun)


@pytest.mark.parametrize("step_limit", ["error", "end", "abort", "one_more"])
async def test_delegates_die_with_the_turn(step_limit, tmp_path):
    policy = Policy("jan", delegates=True, shows_subagents=True, step_limit=step_limit)
    gate = trio.Event()
    model = Model(dispatch("slow"), Reply("the last word"), scripts={"slow": [Reply("x", gate=gate)]})
    async with bench(model, tmp_path, policy=policy, max_steps=1, subagents=True) as b:
        events = await b.finish()
        assert kinds(events)[-1] == "TurnFinished"
        assert of(SubagentFinished, events)[0].error == "stopped"
        assert events[-1].limit == ("" if step_limit == "one_more" else "steps")


async def test_without_the_policy_there_are_none(tmp_path):
    model = Model(dispatch("x"), Reply("ok"))
    async with bench(model, tmp_path, policy=Policy(), tools=delegate_tools(), subagents=True) as b:
        assert of(CallFinished, await b.finish())[0].output == "Subagents are not available in this session"


async def test_an_unnamed_one_and_a_strange_name(tmp_path):
    calls = [Call("dispatch_subagent", {"task": "x"}), Call("dispatch_subagent", {"name": "a/b\nç d", "task": "x"})]
    model = Model(Reply(calls=calls), *[Reply("ok")] * 4, scripts={"x": lambda request: Reply("x")})
    async with bench(model, tmp_path, policy=JAN, subagents=True) as b:
        started = of(SubagentStarted, await b.finish())
        assert [event.name for event in started] == ["worker", "a/b\nç d"]
        assert started[0].run_id.startswith("sub-worker-")
        assert started[1].run_id.startswith("sub-a-b-d-")


# --- whatever comes first -------------------------------------------------------------------------------------


def check_subagents(b: Bench) -> None:
    """Each begins once, ends once, and says nothing before or after; all end before the turn does."""
    begun: dict[str, str] = {}
    history = History()
    for record in b.records():
        event = record.event
        history.feed(record)
        if isinstance(event, SubagentQueued):
            assert event.run_id not in begun
            begun[event.run_id] = "waiting"
        elif isinstance(event, SubagentStarted):
            assert begun.get(event.run_id, "waiting") == "waiting"
            begun[event.run_id] = "working"
            assert list(begun.values()).count("working") <= MOST_AT_ONCE
        elif isinstance(event, SubagentFinished):
            assert begun[event.run_id] != "over"
            begun[event.run_id] = "over"
        elif isinstance(event, TurnFinished):
            assert set(begun.values()) <= {"over"}
        elif record.origin:
            assert begun[record.origin] == "working", event
    assert history.unfinished.turn == 0
    assert not history.unfinished.calls
    assert not history.unfinished.subagents
    assert not history.unfinished.approvals


async def play(scripts: list[list[str]], moves: list[tuple[str, float]], workspace) -> Bench:
    async with trio.open_nursery() as nursery:
        served = iter(range(10_000))

        def reply(request):
            script = scripts[next(served) % len(scripts)] if len(request.messages) < 12 else []
            offered = {tool.name for tool in request.tools}
            calls = []
            for name in script:
                arguments = {"task": "sub", "run_id": "sub-x"} if name != "probe" else {}
                if name in offered:
                    calls.append(Call(name, arguments))
            return Reply("said", calls)

        probe = Probe("probe")
        b = Bench(
            nursery, Model(scripts={"": reply}), workspace, policy=JAN, tools=[probe], subagents=True, max_steps=9
        )
        b.send(Prompt("go"))
        for move, pause in moves:
            await trio.sleep(pause)
            questions = b.session.approvals.open
            if move == "approve" and questions:
                b.send(Approve(approval_id=questions[-1].approval_id))
            elif move == "stop":
                b.send(Stop())
            elif move == "steer":
                b.send(Steer("more"))
            elif move == "prompt":
                b.send(Prompt("next"))
        b.runner.host_gone()
        await trio.sleep(100)
        b.send(Stop())
        await b.server.idle()
        check_subagents(b)
        nursery.cancel_scope.cancel()
    return b


STEPS = st.lists(
    st.lists(st.sampled_from(["dispatch_subagent", "probe", "list_subagents", "stop_subagent"]), max_size=4),
    min_size=1,
    max_size=5,
)
MOVES = st.lists(
    st.tuples(st.sampled_from(["approve", "approve", "stop", "steer", "prompt"]), st.sampled_from([0.0, 0.001, 1.0])),
    max_size=10,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts=STEPS, moves=MOVES)
def test_the_laws_hold_whatever_subagents_do(scripts, moves, tmp_path_factory):
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(play, scripts, moves, tmp_path_factory.getbasetemp(), clock=clock)


def test_steps_of_a_delegate_have_no_bound(tmp_path):
    async def main():
        scripts = {"x": [calling("probe"), Reply("x")]}
        model = Model(dispatch("x"), Reply("wait"), Reply("end"), scripts=scripts)
        async with bench(
            model, tmp_path, policy=JAN, tools=[Probe("probe")], mode="yolo", max_steps=9, subagents=True
        ) as b:
            await b.finish()
            return [(r.event.index, r.event.max) for r in b.records() if isinstance(r.event, StepStarted) and r.origin]

    assert trio.run(main) == [(0, 0), (1, 0)]
