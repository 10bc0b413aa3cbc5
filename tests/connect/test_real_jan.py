"""A host of a real Jan: what its own client sends, waits for and puts up with, against a program that insists on it."""

from __future__ import annotations

import os
import signal
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import trio
from stand_ins import ARM, EYE, HELLO, PNG, StandIn, call, end, killed_at, of, offering, sent, turn

from agentwire import connect
from agentwire.commands import ArchiveSession, ListSessions, OpenSession, Ping, ResumeSession
from agentwire.events import (
    CallFinished,
    ErrorRaised,
    HostTool,
    Image,
    StepStarted,
    Text,
    TextDelta,
    Unknown,
)
from agentwire.host.connect import AgentDied
from agentwire.host.refused import Refused

ENDLESS = [{"say": "Once"}, {"say": "upon a time", "seconds": 600}]

# --- starting (6.1) ------------------------------------------------------------------------------------------


async def test_it_is_started_with_our_environment_and_told_not_to_look_for_updates(jan: StandIn) -> None:
    async with jan.connect() as peer:
        assert await peer.ask("hi") == "Hello."
    assert jan.diary("argv") == [["cli", "agent", "rpc"]]
    assert jan.diary("cwd") == [str(jan.workspace)]
    (environment,) = jan.diary("env")
    assert environment["JAN_CLI_NO_UPDATE_CHECK"] == "1"
    assert environment["PATH"] == os.environ["PATH"]
    assert sent(jan, "session/start") == [{"cwd": str(jan.workspace)}]
    async with jan.connect(env={**os.environ, "JAN_CLI_NO_UPDATE_CHECK": "0"}):  # whoever says so gets it
        assert jan.diary("env")[1]["JAN_CLI_NO_UPDATE_CHECK"] == "0"


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with connect([str(tmp_path / "jan"), "cli", "agent", "rpc"], codec="jan"):
            raise AssertionError("it did not start")


async def test_its_log_is_read_whatever_else_goes_on(jan: StandIn) -> None:
    jan.play(HELLO, chatter=500_000)
    async with jan.connect() as peer:
        assert await peer.ask("hi") == "Hello."
    assert peer.stderr.endswith("xxx")


# --- what is sent (6.2) --------------------------------------------------------------------------------------


async def test_the_handshake_is_answered_before_anything_else_is_said(jan: StandIn) -> None:
    jan.play(HELLO, initialize_after=0.1)
    async with jan.connect() as peer:
        assert jan.kinds()[:2] in (["initialize"], ["initialize", "initialized"])
        assert [frame["id"] for frame in jan.said] == [1]
        await peer.ask("hi")
        await peer.ask("hi again")
        await peer.ping()
    first, second, *rest = jan.written
    assert first == {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": 1, "clientInfo": {"name": "agentwire", "version": "0.1.0"}, "capabilities": {},
        },
    }  # fmt: skip
    assert second == {"jsonrpc": "2.0", "method": "initialized", "params": {}}
    assert [line["method"] for line in rest] == ["session/start", "turn/start", "turn/start", "session/list"]
    assert [line["id"] for line in rest] == [2, 3, 4, 5]
    assert all(isinstance(line["params"], dict) for line in jan.written)
    assert not any("error" in frame for frame in jan.said)


async def test_a_session_is_opened_with_what_was_asked_for_and_nothing_else(jan: StandIn) -> None:
    async with jan.connect() as peer:
        await peer.open()
        await peer.open(
            workspace=str(jan.workspace), model="m", ephemeral=True, builtins=False, subagents=True,
            system_prompt="Be brief.", host_permissions=True, tools=[(EYE, lambda given: "seen")],
        )  # fmt: skip
    plain, full = sent(jan, "session/start")
    assert plain == {"cwd": str(jan.workspace)}
    declared = {"name": "eye", "description": "Looks.", "parameters": {"type": "object"}, "capability": "read"}
    assert full == {
        "cwd": str(jan.workspace), "model": "m", "ephemeral": True, "builtins": False, "subagents": True,
        "systemPrompt": "Be brief.", "permissions": "host", "tools": [declared],
    }  # fmt: skip


async def test_content_goes_as_a_bare_list_of_parts(jan: StandIn) -> None:
    """Jan's own client wraps it in an object, which Jan refuses."""
    async with jan.connect() as peer:
        events = [event async for event in peer.prompt("", parts=[Text("see"), Image("image/png", PNG)])]
    assert end(events).outcome == "completed"
    (given,) = sent(jan, "turn/start")
    assert [part["type"] for part in given["input"]] == ["text", "image_url"]


async def test_a_line_that_it_would_not_read_is_not_sent(jan: StandIn) -> None:
    """It answers such a line under no id: whoever asked would wait for ever."""
    jan.play(HELLO, max_line_bytes=2000)
    async with jan.connect() as peer:
        with pytest.raises(Refused, match="2000 at most"):
            await peer.ask("x" * 3000)
        assert await peer.ask("x" * 1000) == "Hello."
    assert max(len(line) for line in jan.diary("read")) < 2000


# --- what is read (6.3, 8) -----------------------------------------------------------------------------------


async def test_what_opening_says_of_a_session(jan: StandIn) -> None:
    async with jan.connect() as peer:
        session = await peer.open(tools=[(ARM, lambda given: "moved")])
        assert (session.state.model, session.state.tools) == ("default-model", ["shell", "host__arm"])
        assert [tool.name for tool in session.state.host_tools] == ["host__arm"]
        await session.set_model("other")
        copy = await session.fork()  # of which it says the id alone
        assert copy.id != session.id
        assert (copy.state.model, copy.state.tools) == ("other", ["shell", "host__arm"])
        again = await peer.resume(session.id)  # of whose tools it says nothing
        assert again.state.tools == ["shell", "host__arm"]


async def test_an_older_build_says_less(jan: StandIn) -> None:
    jan.play(HELLO, old=True)
    async with jan.connect() as peer:
        session = await peer.open()
        assert session.id
        assert session.state.model == ""
        assert end(await turn(session)).outcome == "completed"  # it does not say how a turn has ended


async def test_errors_are_told_by_code_and_kind(jan: StandIn) -> None:
    jan.play(ENDLESS)
    async with jan.connect() as peer:
        with pytest.raises(Refused) as refused:
            await peer.open(tools=[(HostTool("shell", "", {"type": "object"}), lambda given: "")])
        assert (refused.value.refusal.code, refused.value.refusal.data) == ("bad_params", {"kind": "invalid_tools"})
        with pytest.raises(Refused, match="unknown sessionId") as refused:
            await peer.resume("nobody")
        assert not refused.value.refusal.retryable
        one, two = await peer.open(), await peer.open()
        async with aclosing(one.prompt("go")) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    with pytest.raises(Refused, match="another turn is active") as refused:
                        await two.ask("me too")
                    assert (refused.value.refusal.code, refused.value.refusal.retryable) == ("busy", True)
                    with pytest.raises(Refused, match="retry after") as refused:
                        await one.reset()
                    assert refused.value.refusal.data["kind"] == "turn_active"
                    break


async def test_events_that_nobody_knows_pass_through(jan: StandIn) -> None:
    jan.play([{"say": "a", "unknown": ["todo_update", "later"]}])
    async with jan.connect() as peer:
        events = await turn(peer)
    assert [event.name for event in of(Unknown, events)] == ["todo_update", "later"]
    assert end(events).text == "a"


async def test_what_is_said_of_one_session_is_not_heard_in_another(jan: StandIn) -> None:
    jan.play(HELLO, [{"say": "Mine."}])
    async with jan.connect() as peer:
        one, two = await peer.open(), await peer.open()
        assert await one.ask("a") == "Hello."
        assert [event.text for event in of(TextDelta, await turn(two))] == ["Hello."]
        assert await one.ask("b") == "Mine."
        assert {state.id: state.turns for state in await peer.list()} == {one.id: 2, two.id: 1}
        texts = [record.event.text for record in one.log.cursor(after=0).take() if isinstance(record.event, TextDelta)]
        assert texts == ["Hello.", "Mine."]


# --- time limits and failures (6.4) --------------------------------------------------------------------------


async def test_a_handshake_may_take_twenty_seconds(jan: StandIn, mock_clock: trio.testing.MockClock) -> None:
    jan.play(HELLO, initialize_after=600)
    limit = trio.Event()

    async def jump() -> None:
        await jan.noted("read")
        mock_clock.jump(19.9)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not limit.is_set()
        mock_clock.jump(0.2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(jump)
        with pytest.raises(trio.TooSlowError):
            async with jan.connect(within=1000):
                raise AssertionError("it was not ready")
        limit.set()
    assert jan.diary("exit") == []  # it was ended


async def test_everything_else_may_take_for_ever(jan: StandIn, mock_clock: trio.testing.MockClock) -> None:
    jan.play([{"say": "a", "seconds": 0.3}])
    async with jan.connect(within=100_000) as peer:
        async for event in peer.prompt("hi"):
            if isinstance(event, StepStarted):
                mock_clock.jump(10_000)
            last = event
        assert last.text == "a"


@pytest.mark.parametrize(("play", "why"), [({"refuses": True}, "Unsupported protocol"), ({"version": 2}, "version 2")])
async def test_a_handshake_that_fails(jan: StandIn, play: dict[str, Any], why: str) -> None:
    jan.play(HELLO, **play)
    with pytest.raises(AgentDied, match=f"cannot be driven: .*{why}"):
        async with jan.connect():
            raise AssertionError("it cannot be driven")
    assert jan.kinds() == ["initialize"]
    assert jan.diary("exit") == [0]


async def test_a_line_that_is_not_of_the_wire_spoils_nothing(jan: StandIn) -> None:
    """Jan's own client gives up at one; ours keeps it, and goes on."""
    jan.play([{"say": "a", "raw": "Downloading the model...\n\n"}])
    stray = StandIn("real_jan.py", "jan", jan.workspace)
    async with connect(stray.argv(), codec="jan", cwd=jan.workspace) as peer:
        assert await peer.ask("hi") == "a"
        assert await peer.ask("hi") == "a"


async def test_its_death_ends_every_turn_and_every_request(jan: StandIn) -> None:
    jan.play(ENDLESS)
    failed: list[int | None] = []
    async with jan.connect() as peer:

        async def ask() -> None:
            try:
                await peer.call(ListSessions())
            except AgentDied as died:
                failed.append(died.status)

        async with trio.open_nursery() as nursery:
            events = await killed_at(peer, TextDelta, before=lambda: nursery.start_soon(ask))
        with pytest.raises(AgentDied):
            await peer.ask("again")
    assert end(events).outcome == "failed"
    assert failed == [-signal.SIGKILL]


async def test_closing_ends_it_well_in_the_middle_of_a_turn(jan: StandIn) -> None:
    jan.play(ENDLESS)
    async with jan.connect() as peer:
        events = peer.prompt("go")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        before = jan.kinds()
    assert jan.diary("exit") == [0]
    assert jan.kinds() == before  # the end of its input is all it has to be told
    assert [frame["params"]["stopReason"] for frame in jan.said if frame.get("method") == "turn/completed"] == [
        "interrupted"
    ]


async def test_one_that_does_not_end_is_ended(jan: StandIn, mock_clock: trio.testing.MockClock) -> None:
    jan.play(HELLO, deaf=True)

    async def jump() -> None:
        await jan.noted("eof")
        mock_clock.jump(5.1)

    async with trio.open_nursery() as nursery, jan.connect(within=1000) as peer:
        assert await peer.ask("hi") == "Hello."
        nursery.start_soon(jump)
    assert peer.process.process.returncode == -signal.SIGTERM


# --- traps (6.5) ---------------------------------------------------------------------------------------------


async def test_turns_that_end_at_once_are_all_heard_to_end(jan: StandIn) -> None:
    """Jan's own client loses some of those whose end it reads together with the answer to their prompt."""
    jan.play([{"say": "now"}])
    async with jan.connect() as peer:
        for _ in range(100):
            assert await peer.ask("hi") == "now"


async def test_a_session_that_is_taken_up_or_copied_keeps_its_tools(jan: StandIn) -> None:
    """Jan's own client forgets them, though Jan does not."""
    jan.play([{"say": "a", "calls": [call()]}, {"say": "b"}])
    async with jan.connect() as peer:
        session = await offering(peer, (ARM, lambda given: "moved"))
        for other in (await peer.resume(session.id), await session.fork()):
            assert [done.output for done in of(CallFinished, await turn(other))] == ["moved"]
        elsewhere = await peer.call(OpenSession(workspace=str(jan.workspace)))
        await peer.call(ArchiveSession(elsewhere.id))
        with pytest.raises(Refused):
            await peer.call(ResumeSession(elsewhere.id))


async def test_text_of_any_kind_whatever_the_locale(jan: StandIn) -> None:
    jan.play([{"say": "你好 é 🙂 \u2028"}])
    async with jan.connect(env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}) as peer:
        assert await peer.ask("你好 🙂") == "你好 é 🙂 \u2028"
    assert "你好 🙂" in jan.diary("read")[-1]


async def test_a_turn_that_fails_leaves_the_session_usable(jan: StandIn) -> None:
    jan.play([{"fail": "Upstream returned HTTP 401: no"}], HELLO)
    async with jan.connect() as peer:
        events = await turn(peer)
        assert of(StepStarted, events)
        assert [event.error.message for event in of(ErrorRaised, events)] == ["Upstream returned HTTP 401: no"]
        assert end(events).outcome == "failed"
        assert await peer.ask("again") == "Hello."
        await peer.call(Ping())
