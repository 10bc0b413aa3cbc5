"""How a turn ends that does not end by itself: step limits, badly written calls, calls that fail again and again."""

from __future__ import annotations

import pytest
import trio
from scripted import Call, Model, Probe, Reply, bench, calling, kinds, of

from agentwire.agent.guard import ROUNDS_WARNING, SAME_CALL_WARNING, FailureGuard
from agentwire.agent.loop import NO_PROGRESS, STEP_LIMIT
from agentwire.commands import Prompt, Steer, Stop
from agentwire.events import (
    ApprovalRequested,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRunning,
    CallStarted,
    ErrorRaised,
    Image,
    Notice,
    RequestSent,
    StepFinished,
    StepStarted,
    Text,
    UserJoined,
)
from agentwire.messages import ToolMessage, UserMessage
from agentwire.policy import Policy

# --- steps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step_limit", "errors", "steps"),
    [("error", [STEP_LIMIT], 2), ("end", [], 2), ("abort", [], 2)],
)
async def test_at_the_limit_the_turn_ends(step_limit, errors, steps, tmp_path):
    model = Model(calling("probe", text="first"), calling("probe", text="second"), Reply("never"))
    options = {"policy": Policy(step_limit=step_limit), "tools": [Probe("probe")], "mode": "yolo", "max_steps": 2}
    async with bench(model, tmp_path, **options) as b:
        events = await b.finish()
        end = events[-1]
        assert (end.outcome, end.limit, end.text, end.steps) == ("limit", "steps", "second", steps)
        assert [event.error.message for event in of(ErrorRaised, events)] == errors
        assert [(event.index, event.max) for event in of(StepStarted, events)] == [(0, 2), (1, 2)]


async def test_an_answer_within_the_limit_is_no_limit(tmp_path):
    options = {"tools": [Probe("probe")], "mode": "yolo", "max_steps": 2}
    async with bench(Model(calling("probe"), Reply("end")), tmp_path, **options) as b:
        end = (await b.finish())[-1]
        assert (end.outcome, end.limit) == ("completed", "")


async def test_one_more_step_without_tools_to_sum_up(tmp_path):
    model = Model(calling("probe"), Reply("all in all"))
    policy = Policy(step_limit="one_more")
    async with bench(model, tmp_path, policy=policy, tools=[Probe("probe")], mode="yolo", max_steps=1) as b:
        events = await b.finish()
        assert [(event.index, event.max) for event in of(StepStarted, events)] == [(0, 1), (1, 1)]
        assert [len(request.tools) for request in model.requests] == [1, 0]
        end = events[-1]
        assert (end.outcome, end.limit, end.text) == ("completed", "", "all in all")


async def test_calls_of_the_one_more_step_are_not_run(tmp_path):
    probe = Probe("probe")
    model = Model(calling("probe"), calling("probe", text="just one more"), Reply("never"))
    policy = Policy(step_limit="one_more")
    async with bench(model, tmp_path, policy=policy, tools=[probe], mode="yolo", max_steps=1) as b:
        events = await b.finish()
        assert len(probe.calls) == 1
        end = events[-1]
        assert (end.outcome, end.limit, end.text) == ("limit", "steps", "just one more")
        assert kinds(events)[-4:] == ["CallStarted", "StepFinished", "CallCancelled", "TurnFinished"]
        assert not of(CallReady, events)[1:]
        last = b.session.history.messages()[-1]
        assert isinstance(last, ToolMessage)
        assert "no tools were offered" in last.text


async def test_no_step_begins_after_a_stop(tmp_path):
    async with bench(Model(calling("probe"), Reply("never")), tmp_path, tools=[Probe("probe")]) as b:
        b.send(Prompt("go"))
        await b.until(ApprovalRequested)
        b.runner.host_gone()  # the question is settled, so the turn could go on
        b.send(Stop())
        await b.server.idle()
        assert len(of(StepStarted, b.turn())) == 1
        assert b.turn()[-1].outcome == "cancelled"


# --- badly written calls --------------------------------------------------------------------------------------

BAD = '{"position": '


async def test_a_badly_written_call_is_put_back_and_nobody_sees_it(tmp_path):
    probe = Probe("probe")
    model = Model(calling("probe", BAD), calling("", "{}"), calling("probe"), Reply("end"))
    async with bench(model, tmp_path, tools=[probe], mode="yolo", max_bad_calls=2) as b:
        events = await b.finish()
        assert probe.calls == [{}]
        assert [event.barred for event in of(CallReady, events)] == [True, True, False]
        assert len(of(CallRunning, events)) == 1
        warnings = [event.text for event in of(Notice, events) if event.level == "warning"]
        assert [text.partition("(")[2].partition(")")[0] for text in warnings] == ["'probe'", "''"]
        told = model.requests[1].messages[-1]
        assert isinstance(told, ToolMessage)
        assert told.is_error
        assert told.text.startswith("Malformed tool call: the arguments of 'probe' are not a JSON object.")
        assert (events[-1].outcome, events[-1].text) == ("completed", "end")


@pytest.mark.parametrize("most", [1, 2])
async def test_after_so_many_the_turn_is_given_up(most, tmp_path):
    model = Model(*[calling("probe", BAD, text=f"try {n}") for n in range(9)])
    async with bench(model, tmp_path, tools=[Probe("probe")], max_bad_calls=most) as b:
        events = await b.finish()
        assert len(model.requests) == most + 1
        assert len(of(Notice, events)) == most
        end = events[-1]
        assert (end.outcome, end.limit, end.text) == ("limit", "bad_calls", f"try {most}")
        assert not of(ErrorRaised, events)


async def test_bad_calls_count_over_the_whole_turn_and_good_ones_beside_them_run(tmp_path):
    probe = Probe("probe")
    mixed = Reply(calls=[Call("probe", BAD), Call("probe")])
    model = Model(mixed, calling("probe"), mixed, Reply("never"))
    async with bench(model, tmp_path, tools=[probe], mode="yolo", max_bad_calls=1) as b:
        events = await b.finish()
        assert events[-1].limit == "bad_calls"
        assert len(probe.calls) == 3


async def test_without_a_bound_arguments_that_are_none_are_an_empty_object(tmp_path):
    probe = Probe("probe")
    async with bench(Model(calling("probe", BAD), Reply("end")), tmp_path, tools=[probe], mode="yolo") as b:
        assert (await b.finish())[-1].outcome == "completed"
        assert probe.calls == [{}]


async def test_without_a_bound_three_calls_without_a_name_are_an_error(tmp_path):
    async with bench(Model(*[calling("") for _ in range(4)]), tmp_path) as b:
        end = (await b.finish())[-1]
        assert end.outcome == "failed"
        assert end.error.message.startswith("provider repeatedly returned tool-call malformed outputs (3/3)")


# --- calls that fail again and again --------------------------------------------------------------------------

GUARD = Policy("guard", failing_calls="guard")


async def test_the_same_failing_call_is_warned_of_and_then_there_are_no_more_tools(tmp_path):
    probe = Probe("probe", fails="no")
    model = Model(calling("probe"), calling("probe"), calling("probe"), Reply("I give up"))
    async with bench(model, tmp_path, policy=GUARD, tools=[probe], mode="yolo") as b:
        events = await b.finish()
        outputs = [event.output for event in of(CallFinished, events)]
        assert outputs == ["no", f"no\n\n{SAME_CALL_WARNING}", f"no\n\n{SAME_CALL_WARNING}"]
        assert of(CallFinished, events)[1].display == Text("no")
        assert [len(request.tools) for request in model.requests] == [1, 1, 1, 0]
        assert (events[-1].outcome, events[-1].text) == ("completed", "I give up")


@pytest.mark.parametrize("last", [Reply(""), calling("probe")])
async def test_if_it_has_nothing_to_say_then_the_turn_has_failed(last, tmp_path):
    probe = Probe("probe", fails="no")
    model = Model(calling("probe"), calling("probe"), calling("probe"), last)
    async with bench(model, tmp_path, policy=GUARD, tools=[probe], mode="yolo") as b:
        end = (await b.finish())[-1]
        assert (end.outcome, end.error.message) == ("failed", NO_PROGRESS)
        assert len(probe.calls) == 3


async def test_a_refusal_counts_as_a_failure(tmp_path):
    model = Model(calling("probe"), calling("probe"), calling("probe"), Reply("fine"))
    policy = Policy("guard", failing_calls="guard", can_ask=False)
    async with bench(model, tmp_path, policy=policy, tools=[Probe("probe")]) as b:
        events = await b.finish()
        assert [event.cause for event in of(CallCancelled, events)] == ["refused"] * 3
        told = model.requests[2].messages[-1]
        assert told.text.endswith(SAME_CALL_WARNING)
        assert len(model.requests[3].tools) == 0


async def test_other_engines_go_on(tmp_path):
    probe = Probe("probe", fails="no")
    model = Model(*[calling("probe") for _ in range(9)], Reply("at last"))
    async with bench(model, tmp_path, tools=[probe], mode="yolo") as b:
        assert (await b.finish())[-1].text == "at last"
        assert len(probe.calls) == 9


def rounds(guard: FailureGuard, script: str) -> list[str]:
    """Play rounds of one call each, upper case ones fail; what is warned of."""
    return [guard.note(name.lower(), "{}", failed=name.isupper(), last=True) for name in script]


def test_a_success_of_the_same_call_starts_it_anew():
    guard = FailureGuard()
    assert rounds(guard, "AaAaAa") == [""] * 6
    assert not guard.hopeless


def test_rounds_of_nothing_but_errors():
    guard = FailureGuard()
    said = rounds(guard, "ABCDEFG")
    assert said == ["", "", *[ROUNDS_WARNING.format(n=n) for n in (3, 4, 5, 6, 7)]]
    assert not guard.hopeless
    rounds(guard, "H")
    assert guard.hopeless


def test_rounds_with_a_success_do_not_count():
    guard = FailureGuard()
    assert rounds(guard, "ABxCDyEFzG") == [""] * 10
    guard.note("k", "", failed=True, last=False)
    assert guard.note("l", "", failed=False, last=True) == ""
    assert not guard.hopeless


@pytest.mark.parametrize("cycle", ["ab", "abc", "aab", "abcd"])
def test_failing_rounds_in_a_cycle(cycle):
    guard = FailureGuard()
    said = []
    for name in cycle * 3:
        if guard.hopeless:
            break
        guard._failures.clear()  # the same call alone would be noticed before
        said.append(guard.note(name, "{}", failed=True, last=True))
    # By rounds that only fail one is warned and stopped as well, so it is the shortest cycles that show.
    assert guard.hopeless
    assert len(said) == min(3 * len(cycle), 8)
    if len(cycle) == 2:
        assert said[5] == ROUNDS_WARNING.format(n=6)


def test_a_cycle_is_found_before_its_rounds_are_too_many():
    guard = FailureGuard()
    for name in "ababa":
        guard._failures.clear()
        guard.note(name, "{}", failed=True, last=True)
    assert not guard.hopeless
    guard._failures.clear()
    guard.note("b", "{}", failed=True, last=True)
    assert guard.hopeless


# --- what the user adds ---------------------------------------------------------------------------------------


async def test_parts_join_at_the_moment_the_model_would_have_finished(tmp_path):
    image = Image("image/png", "aGk=")
    gate = trio.Event()
    model = Model(Reply("an answer", gate=gate), Reply("I see"))
    async with bench(model, tmp_path) as b:
        b.send(Prompt("go"))
        await b.until(RequestSent)
        b.send(Steer("", parts=[Text("and this?"), image]))
        gate.set()
        await b.server.idle()
        [joined] = of(UserJoined, b.turn())
        assert joined.parts == [Text("and this?"), image]
        assert model.requests[1].messages[-1] == UserMessage([Text("and this?"), image])
        order = kinds(b.turn(), StepFinished, UserJoined, StepStarted)
        assert order == ["StepStarted", "StepFinished", "UserJoined", "StepStarted", "StepFinished"]
        assert b.turn()[-1].text == "I see"


async def test_what_joins_while_calls_run_is_read_after_them(tmp_path):
    gate = trio.Event()
    model = Model(calling("probe"), Reply("end"))
    async with bench(model, tmp_path, tools=[Probe("probe", gate=gate)], mode="yolo") as b:
        b.send(Prompt("go"))
        await b.until(CallRunning)
        b.send(Steer("one"))
        b.send(Steer("two"))
        gate.set()
        await b.server.idle()
        assert kinds(b.turn(), CallFinished, UserJoined) == ["CallFinished", "UserJoined", "UserJoined"]
        assert [type(message).__name__ for message in model.requests[1].messages] == [
            "UserMessage", "AssistantMessage", "ToolMessage", "UserMessage", "UserMessage",
        ]  # fmt: skip


# --- agents ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agents", "name", "system"),
    [
        ({}, "", "Session's own."),
        ({"first": "One.", "second": "Two."}, "", "One."),
        ({"first": "One.", "second": "Two."}, "second", "Two."),
    ],
)
async def test_a_prompt_may_name_an_agent(agents, name, system, tmp_path):
    model = Model(Reply("ok"))
    async with bench(model, tmp_path, agents=agents, system_prompt="Session's own.") as b:
        b.send(Prompt("go", agent=name))
        await b.server.idle()
        assert model.requests[0].system == system


async def test_calls_that_only_began_are_closed(tmp_path):
    model = Model(calling("probe"), calling("probe"))
    policy = Policy(step_limit="one_more")
    async with bench(model, tmp_path, policy=policy, mode="yolo", max_steps=1) as b:
        events = await b.finish()
        started = [event.call_id for event in of(CallStarted, events)]
        closed = [event.call_id for event in of((CallFinished, CallCancelled), events)]
        assert closed == started
