"""``connect``: one API over real agent processes of every codec."""

from __future__ import annotations

import json
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
import trio

from agentwire import connect, load_codec
from agentwire.commands import Refusal
from agentwire.events import ApprovalRequested, CallCancelled, CallFinished, HostTool, TextDelta, TurnFinished
from agentwire.host.connect import AgentDied, HostToolAnswer
from agentwire.host.refused import Refused
from agentwire.recording import open_recording

EVERY = ["aionrs", "pagent", "pagent-v4", "jan", "levpro"]
ASKING = ["aionrs", "pagent-v4", "jan"]

PLAY = """\
{"text": "Let me look. ", "tool_calls": [{"name": "%s", "arguments": {"%s": "echo made"}}]}
{"text": "It is done."}
{"text": "And again."}
"""

SLOW = json.dumps({"steps": [step for n in range(300) for step in ({"text": f"{n} "}, {"delay_ms": 50})]}) + "\n"
"""An answer of a quarter of a minute."""


def agent(workspace: Path, codec: str, play: str = '{"text": "Hello there."}\n', *options: str) -> list[str]:
    (workspace / "play.jsonl").write_text(play)
    return [
        sys.executable, "-m", "agentwire", "serve", "--codec", codec, "--provider", "script", "--ephemeral",
        "--provider-option", f"script={workspace / 'play.jsonl'}", "--provider-option", "repeat=true",
        "--workspace", str(workspace), *options,
    ]  # fmt: skip


def shell(codec: str) -> str:
    name = load_codec(codec).policy.tool_names.get("ExecCommand", "ExecCommand")
    return PLAY % (name, "cmd")


@pytest.mark.parametrize("codec", EVERY)
async def test_a_prompt_is_answered_on_every_wire(codec, tmp_path):
    with trio.fail_after(30):
        async with connect(agent(tmp_path, codec), codec=codec, record=tmp_path / "r.jsonl") as peer:
            assert await peer.ask("hi") == "Hello there."
            assert await peer.ask("hi again") == "Hello there."
        assert peer.process.process.returncode == 0
    found = open_recording(tmp_path / "r.jsonl")
    assert (found.header.codec, found.header.role) == (codec, "connect")
    assert {"host", "agent"} <= {entry.who for entry in found}


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("codec", ASKING)
async def test_questions_are_answered_by_callback(codec, allowed, tmp_path):
    asked = []

    def answer(question: ApprovalRequested) -> bool:
        asked.append(question.name)
        return allowed

    with trio.fail_after(30):
        async with connect(agent(tmp_path, codec, shell(codec)), codec=codec, on_approval=answer) as peer:
            events = [event async for event in peer.prompt("go")]
    assert len(asked) == 1
    assert isinstance(events[-1], TurnFinished)
    assert any(isinstance(event, CallFinished) and "made" in event.output for event in events) is allowed
    if not allowed and codec == "aionrs":
        assert any(isinstance(event, CallCancelled) for event in events)


@pytest.mark.parametrize("codec", [name for name in EVERY if name != "pagent"])  # it never says that a run stopped
async def test_leaving_a_turn_stops_it_and_the_next_prompt_is_answered(codec, tmp_path):
    play = SLOW
    with trio.fail_after(40):
        async with connect(agent(tmp_path, codec, play), codec=codec) as peer:
            async with aclosing(peer.prompt("hi")) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        break
            async with aclosing(peer.prompt("hi")) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        break


@pytest.mark.parametrize("codec", ["aionrs", "jan", "levpro"])
async def test_a_time_limit_stops_the_turn(codec, tmp_path):
    play = SLOW
    with trio.fail_after(40):
        async with connect(agent(tmp_path, codec, play), codec=codec) as peer:
            with pytest.raises(trio.TooSlowError, match="did not end"):
                await peer.ask("hi", timeout=1)


@pytest.mark.parametrize("codec", EVERY)
async def test_the_death_of_the_agent_is_told_with_its_last_words(codec, tmp_path):
    heard = "" if load_codec(codec).greets else "sys.stdin.readline(); "
    dying = f"import sys; {heard}print('no fuel left', file=sys.stderr); sys.exit(3)"
    with trio.fail_after(30), pytest.raises(AgentDied, match="status 3: no fuel left"):
        async with connect([sys.executable, "-c", dying], codec=codec) as peer:
            await peer.ask("hi")


async def test_several_sessions_of_one_agent(tmp_path):
    with trio.fail_after(30):
        async with connect(agent(tmp_path, "jan"), codec="jan") as peer:
            one = await peer.open(model="script/one")
            two = await peer.open()
            assert one.id != two.id
            assert one.state.model == "one"
            assert await one.ask("hi") == "Hello there."
            assert await two.ask("hi") == "Hello there."
            assert {state.id: state.turns for state in await peer.list()} == {one.id: 1, two.id: 1}
            copy = await one.fork()
            assert await copy.ask("hi") == "Hello there."
            await one.reset()
            await two.close()
            assert {state.id for state in await peer.list()} == {one.id, copy.id}
            with pytest.raises(Refused, match="unknown sessionId"):
                await peer.resume("nobody")


async def test_tools_that_the_host_runs(tmp_path):
    play = '{"tool_calls": [{"name": "host__arm", "arguments": {"to": "bin"}}]}\n{"text": "Moved."}\n'
    moved = []

    async def arm(given) -> HostToolAnswer | str:
        moved.append(given)
        if len(moved) > 1:
            raise RuntimeError("jammed")
        return "in the bin"

    tool = HostTool("arm", "Moves.", {"type": "object", "properties": {"to": {"type": "string"}}})
    with trio.fail_after(30):
        async with connect(agent(tmp_path, "jan", play), codec="jan") as peer:
            session = await peer.open(tools=[(tool, arm)], host_permissions=True)
            assert "host__arm" in session.state.tools
            events = [event async for event in session.prompt("go")]
            failed = [event async for event in session.prompt("go")]
    assert moved == [{"to": "bin"}, {"to": "bin"}]
    assert [event.output for event in events if isinstance(event, CallFinished)] == ["in the bin"]
    assert [event.status for event in failed if isinstance(event, CallFinished)] == ["error"]


async def test_what_a_wire_has_no_word_for_is_refused(tmp_path):
    with trio.fail_after(30):
        async with connect(agent(tmp_path, "aionrs"), codec="aionrs") as peer:
            with pytest.raises(Refused) as refused:
                await peer.open()
            assert isinstance(refused.value.refusal, Refusal)
            with pytest.raises(Refused):
                await peer.doctor()
            assert await peer.ask("hi") == "Hello there."


async def test_doctor_plan_and_shutdown(tmp_path):
    with trio.fail_after(30):
        async with connect(agent(tmp_path, "levpro"), codec="levpro") as peer:
            checks = await peer.doctor()
            assert all(check.status in ("ok", "warn") for check in checks)
            await peer.ping()
            await peer.shut_down()
        assert peer.process.process.returncode == 0
