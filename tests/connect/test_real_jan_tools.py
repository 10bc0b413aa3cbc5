"""The tools and answers of a host of a real Jan, against a program that is as strict as that."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
from stand_ins import ARM, EYE, HELLO, PNG, StandIn, call, end, of, offering, sent, turn

from agentwire.commands import Approve
from agentwire.events import (
    ApprovalRequested,
    CallCancelled,
    CallFinished,
    HostToolCancelled,
    HostToolDetails,
    HostToolRequested,
    Image,
    Text,
    TurnFinished,
)
from agentwire.host.connect import HostToolAnswer
from agentwire.host.refused import Refused

# --- the host's tools (3, 6.4) -------------------------------------------------------------------------------


async def test_tools_run_side_by_side(jan: StandIn) -> None:
    """Reads are asked for together: each waits here for the other."""
    calls = [call("host__eye", "c1"), call("host__eye", "c2")]
    jan.play([{"say": "a", "calls": calls}, {"say": "b"}])
    begun: list[int] = []
    both = trio.Event()

    async def eye(given: dict[str, Any]) -> str:
        begun.append(1)
        if len(begun) == 2:
            both.set()
        await both.wait()
        return "seen"

    async with jan.connect() as peer:
        events = await turn(await offering(peer, (EYE, eye)))
    assert [(done.call_id, done.output) for done in of(CallFinished, events)] == [("c1", "seen"), ("c2", "seen")]


async def test_tools_run_though_nobody_follows_the_turn(jan: StandIn) -> None:
    """And what they do may go back to the agent: here one that steers the turn it runs in."""
    jan.play([{"say": "a", "calls": [call()]}, {"say": "and "}])
    async with jan.connect() as peer:

        async def arm(given: dict[str, Any]) -> str:
            await session.steer(f"to the {given['to']}")
            return "moved"

        session = await offering(peer, (ARM, arm))
        news = session.log.cursor()
        follow = session.prompt("go")
        await anext(follow)
        ended = trio.Event()
        while not any(isinstance(record.event, TurnFinished) for record in news.take()):
            ended = trio.Event()
            if news.park(ended.set):
                await ended.wait()
        rest = [event async for event in follow]
        assert end(rest).text == "and to the bin"


async def test_a_plain_function_does_not_hold_everything_up(jan: StandIn) -> None:
    jan.play([{"say": "a", "calls": [call()]}, {"say": "b"}])
    go_on = threading.Event()
    async with jan.connect() as peer:
        session = await offering(peer, (ARM, lambda given: str(go_on.wait(20))))
        async for event in session.prompt("go"):
            if isinstance(event, HostToolRequested):
                await peer.ping()
                go_on.set()
            elif isinstance(event, CallFinished):
                assert event.output == "True"


@pytest.mark.parametrize(
    ("found", "content", "is_error", "details"),
    [
        ("text", "text", None, None),
        (None, "", None, None),
        (HostToolAnswer([Text("a"), Image("image/png", PNG)]), ["text", "image_url"], None, None),
        (HostToolAnswer([Text("no")], is_error=True), "no", True, None),
        (HostToolAnswer([Text("a")], details={"frame": 7}), "a", None, {"frame": 7}),
        (HostToolAnswer([Text("a")], details=7), "a", None, {"value": 7}),  # it takes objects alone
    ],
)
async def test_what_a_tool_may_give_back(jan: StandIn, found: Any, content: Any, is_error: Any, details: Any) -> None:
    jan.play([{"say": "a", "calls": [call()]}, {"say": "b"}])
    async with jan.connect() as peer:
        events = await turn(await offering(peer, (ARM, lambda given: found)))
    (answer,) = sent(jan, "tool/respond")
    told = answer["content"]
    assert (told if isinstance(told, str) else [part["type"] for part in told]) == content
    assert (answer.get("isError"), answer.get("details")) == (is_error, details)
    assert end(events).text == "b"
    assert len(of(HostToolDetails, events)) == (details is not None)


async def test_details_that_json_has_no_words_for_are_the_tool_s_fault_alone(jan: StandIn) -> None:
    jan.play([{"say": "a", "calls": [call()]}, {"say": "b"}])
    async with jan.connect() as peer:
        session = await offering(peer, (ARM, lambda given: HostToolAnswer([Text("moved")], details=object())))
        assert end(await turn(session)).outcome == "completed"
    (answer,) = sent(jan, "tool/respond")
    assert answer["isError"]
    assert answer["content"].startswith("The tool's answer cannot be used: ")


async def test_a_tool_that_fails_and_one_that_is_not_there(jan: StandIn) -> None:
    calls = [call(), call(call_id="c2", asks_for="leg")]
    jan.play([{"say": "a", "calls": calls}, {"say": "b"}])

    def arm(given: dict[str, Any]) -> str:
        raise RuntimeError("jammed")

    async with jan.connect() as peer:
        events = await turn(await offering(peer, (ARM, arm)))
    first, second = sent(jan, "tool/respond")
    assert (first["content"], first["isError"]) == ("RuntimeError: jammed", True)
    assert second["content"] == "no host tool named 'leg' is declared on this session"
    assert second["isError"]
    assert end(events).outcome == "completed"


async def test_an_answer_that_is_not_taken_leaves_the_request_open(jan: StandIn) -> None:
    """Then the model is told so, or the turn would wait for ever."""
    jan.play([{"say": "a", "calls": [call()]}, {"say": "b"}])
    async with jan.connect() as peer:
        picture = HostToolAnswer([Image("image/bmp", "AA==")])
        events = await turn(await offering(peer, (ARM, lambda given: picture)))
    first, second = sent(jan, "tool/respond")
    assert "isError" not in first
    assert second["isError"]
    assert "unsupported image type" in second["content"]
    assert end(events).text == "b"


async def test_a_request_that_is_withdrawn_gets_no_answer(jan: StandIn) -> None:
    jan.play([{"say": "a", "calls": [call()]}, {"say": "b"}], HELLO)
    cancelled = trio.Event()

    async def arm(given: dict[str, Any]) -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.set()
            raise
        return "moved"

    events = []
    async with jan.connect() as peer:
        session = await offering(peer, (ARM, arm))
        async for event in session.prompt("go"):
            events.append(event)
            if isinstance(event, HostToolRequested):
                await session.stop()
        await cancelled.wait()
        assert await session.ask("again") == "Hello."
    assert sent(jan, "tool/respond") == []
    assert [event.reason for event in of(HostToolCancelled, events)] == ["stopped"]
    assert of(CallCancelled, events)[0].cause == "stopped"
    assert end(events).outcome == "cancelled"


INTERRUPT = b'{"jsonrpc":"2.0","id":90,"method":"turn/interrupt","params":{"sessionId":"%s"}}\n'


async def test_a_late_answer_is_nobody_s_trouble(jan: StandIn) -> None:
    """The request was withdrawn while the answer was on its way."""
    jan.play([{"say": "a", "calls": [call()]}, {"say": "b"}], HELLO)
    async with jan.connect() as peer:

        async def arm(given: dict[str, Any]) -> str:
            with trio.CancelScope(shield=True):  # it has its answer already when it is told
                await peer.process.write(INTERRUPT % session.id.encode())
            return "moved"

        session = await offering(peer, (ARM, arm))
        assert end(await turn(session)).outcome == "cancelled"
        assert await session.ask("again") == "Hello."
        await peer.ping()
    assert {frame["error"]["data"]["kind"] for frame in jan.said if "error" in frame} == {"not_pending"}


async def test_other_tools_from_now_on(jan: StandIn) -> None:
    jan.play([{"say": "a", "calls": [call("host__eye")]}, {"say": "b"}])
    async with jan.connect() as peer:
        session = await offering(peer, (ARM, lambda given: "moved"))
        await session.set_tools([(EYE, lambda given: "seen")])
        events = await turn(session)
    assert [done.output for done in of(CallFinished, events)] == ["seen"]


# --- questions -----------------------------------------------------------------------------------------------


async def test_an_actuator_is_asked_about_and_run_once_it_is_allowed(jan: StandIn) -> None:
    jan.play([{"say": "a", "calls": [call(), call(call_id="c2"), call("shell", "c3")]}, {"say": "b"}])
    asked = []
    async with jan.connect() as peer:
        session = await peer.open(tools=[(ARM, lambda given: "moved")])
        async for event in session.prompt("go"):
            if isinstance(event, ApprovalRequested):
                asked.append((event.name, event.call_id))
                if event.name == "shell":
                    await session.deny(event.call_id, "no")
                else:
                    await session.approve(event.call_id, "always")
                    await peer.ping()
                    with pytest.raises(Refused) as refused:  # it does not wait any more
                        await peer.call(Approve(event.call_id, session=session.id))
                    assert refused.value.refusal.code == "not_pending"
    assert asked == [("host__arm", "c1"), ("shell", "c3")]  # "always" is remembered there
    assert [params["decision"] for params in sent(jan, "permission/respond")] == [
        "allow_always",
        "allow_once",
        "deny",
    ]
