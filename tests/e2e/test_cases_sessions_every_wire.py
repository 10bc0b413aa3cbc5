"""Failure cases S-d on the wires that have no module of their own for them: crashes, torn files, two owners, forks.

A Jan run resumes a stored session by its command line, which is that of ``agentwire-jan``; LevPRO's chats name theirs.
"""

from __future__ import annotations

import json

import pytest
from case_table import on_wires
from every_wire import DROP_IN, RUN, Peer, Starter, Talk, last_turn, said, start
from support.cases import CASES, replies
from support.journals import damage
from support.model_service import ModelService, wait_for
from support.patterns import matches
from support.replies import Gate, Reply, ToolCall

from agentwire.commands import Done, ForkSession, SessionState
from agentwire.events import CallReady, CallRunning, TextDelta, TurnFinished

pytestmark = pytest.mark.slow

__all__ = ["start"]

STORED = ("jan-stream", "levpro")
FORKING = ("jan", "jan-stream")


async def take_up(start: Starter, wire: str, session: str, *more: str, expected: tuple[int, ...] = (0,)) -> Peer:
    """A process that goes on with a stored session, or on LevPRO's wire begins it."""
    if wire == "jan-stream":
        return await start.drop_in(*more, f"--resume={session}", expected=expected)
    peer = await start.start(wire, *more, expected=expected)
    peer.session = session
    return peer


async def run(start: Starter, model: ModelService, answer: str, text: str, *more: str) -> str:
    """One whole Jan run; the id of its session."""
    model.script(answer)
    peer = await start.drop_in(*more)
    assert said(await peer.turn(text)) == answer
    assert await peer.wait_exit() == 0
    return peer.session


@on_wires("S-d01", *STORED)
async def test_resume_after_a_crash_in_a_call(wire: str, start: Starter, model: ModelService) -> None:
    """The model service is strict: a call without its result would be a 400 and fail the test."""
    given = CASES["S-d01"]["input"]
    names = {"ExecCommand": "shell", "Read": "read"} if wire == "jan-stream" else {}
    asked = given["provider_script"][0]
    calls = [
        ToolCall(call["id"], names.get(call["name"], call["name"]), call["arguments"]) for call in asked["tool_calls"]
    ]
    model.script(Reply(asked["text"], *calls), *replies(given["provider_script_after_restart"]))
    if wire == "jan-stream":
        peer = await start.drop_in(expected=(-9,))
    else:
        peer = await start.start(wire, "--auto-approve", provider="anthropic", expected=(-9,))
        peer.session = given["argv"][-1]
    await peer.prompt()
    await peer.hear(CallReady)
    peer.kill()
    await peer.wait_exit()
    more = () if wire == "jan-stream" else ("--provider", "anthropic")
    again = await take_up(start, wire, peer.session, *more)
    events = await again.turn("continue")
    assert said(events) == "ok"
    assert not [event for event in events if isinstance(event, CallReady | CallRunning)]
    request = model.requests[1]
    assert set(request.results) == {"t1", "t2"}
    assert "interrupted" in request.results["t1"]
    assert request.texts("assistant") == ["Running."]
    assert [text.strip() for text in request.texts("user")] == ["go", "continue"]
    assert start.journal(peer.session).read_text().count('"turn_finished"') == 2, (
        "the turn that was cut short has an end"
    )


@on_wires("S-d02", "levpro")
async def test_torn_last_records(wire: str, start: Starter, model: ModelService) -> None:
    """What is whole is kept, that something was lost is said, and what comes after is read again. A session for each
    kind of damage."""
    given = CASES["S-d02"]["input"]
    torn = {mutation["op"]: mutation for mutation in given["mutations"]}
    peer = await start.start(wire)
    for op, mutation in torn.items():
        peer.session = op
        answers = [turn["assistant"] for turn in given["turns"]]
        answers[-1] = mutation.get("last_assistant", answers[-1])
        for turn, answer in zip(given["turns"], answers, strict=True):
            model.script(answer)
            await peer.turn(turn["user"])
    await start.close(peer)
    for op, mutation in torn.items():
        damage(start.journal(op), mutation)
    for text, answer in (("three", "3"), ("four", "4")):
        peer = await start.start(wire)
        for op in torn:
            peer.session = op
            model.script(answer)
            assert said(await peer.turn(text)) == answer
            if text == "four":
                check_history(model, op)
        await start.close(peer)
        assert peer.errors.count("incomplete") == (len(torn) if text == "three" else 0)
    for op in torn:
        for line in start.journal(op).read_bytes().splitlines():
            json.loads(line)


def check_history(model: ModelService, op: str) -> None:
    """What the model reads after the second resume."""
    request = model.requests[-1]
    assert request.texts("user") == ["one", "two", "three", "four"]
    assert request.texts("assistant")[0] == "1"
    assert request.texts("assistant")[-1] == "3"
    if op != "cut_tail_inside_utf8_char":
        assert request.texts("assistant") == ["1", "2", "3"]


@on_wires("S-d02", "jan-stream")
async def test_a_torn_last_record_of_a_run(wire: str, start: Starter, model: ModelService) -> None:
    """With the kind of damage that a crash leaves; the journal is the same whatever the wire."""
    given = CASES["S-d02"]["input"]
    mutation = given["mutations"][0]
    first, second = given["turns"]
    session = await run(start, model, first["assistant"], first["user"])
    await run(start, model, second["assistant"], second["user"], f"--resume={session}")
    damage(start.journal(session), mutation)
    assert await run(start, model, "3", "three", f"--resume={session}") == session
    assert "incomplete" in start.agents[-1].errors
    await run(start, model, "4", "four", f"--resume={session}")
    assert "incomplete" not in start.agents[-1].errors
    check_history(model, mutation["op"])


@on_wires("S-d03", "levpro")
async def test_two_processes_and_one_session(wire: str, start: Starter, model: ModelService) -> None:
    """Whoever comes second is refused while the first one lives, and not a moment longer."""
    assert "SIGKILL A and start B again" in CASES["S-d03"]["input"]["text"]
    model.script("1", "2")
    first = await start.start(wire, expected=(-9,))
    await first.turn("one")
    before = start.journal("s").read_bytes()
    second = await start.start(wire)
    (refused,) = await second.answers({"id": "c", "method": "chat", "params": {"session_id": "s", "input": "mine"}})
    assert refused["type"] == "error"
    assert "in use" in refused["message"]
    assert start.journal("s").read_bytes() == before
    first.kill()
    await first.wait_exit()
    assert said(await second.turn("two")) == "2"
    assert model.requests[1].texts("user") == ["one", "two"]


@on_wires("S-d03", "jan-stream")
async def test_two_runs_of_one_session(wire: str, start: Starter, model: ModelService) -> None:
    """As above; a copy can be made at any time."""
    gate = Gate()
    model.script(Reply("half", gate))
    first = await start.drop_in(expected=(-9,))
    session = first.session
    await first.prompt("one")
    await first.hear(TextDelta)
    await wait_for(gate.reached, "the model answers")
    before = start.journal(session).read_bytes()
    second = await start.launch(wire, *RUN, f"--resume={session}", "mine", module=DROP_IN, expected=(1,))
    assert await second.wait_exit() == 1
    (result,) = second.events
    assert matches(result, {"type": "result", "is_error": True, "error.code": "setup_error"})
    assert "in use" in result["error"]["message"]
    assert start.journal(session).read_bytes() == before
    copy = await run(start, model, "copied", "mine", f"--resume={session}", "--fork-session")
    assert copy != session
    assert model.requests[1].texts("user") == ["one", "mine"]
    first.kill()
    await first.wait_exit()
    assert await run(start, model, "2", "two", f"--resume={session}") == session
    assert [text.strip() for text in model.requests[2].texts("user")] == ["one", "two"]


@on_wires("S-d04", "jan")
async def test_a_fork_is_a_session_of_its_own(wire: str, start: Starter, model: ModelService) -> None:
    assert "SHA-256" in CASES["S-d04"]["input"]["text"]
    model.script("1", "2", "3", "4", "5")
    peer = await start.start(wire)
    parent = peer.session
    await peer.turn("one")
    await peer.turn("two")
    before = start.journal(parent).read_bytes()
    forked = await peer.ask(ForkSession(parent))
    assert isinstance(forked, Done)
    assert isinstance(forked.value, SessionState)
    peer.session = fork = forked.value.id
    assert fork != parent
    await peer.turn("three")
    await peer.turn("to the fork")
    assert start.journal(parent).read_bytes() == before
    assert fork in start.journal(fork).read_text().splitlines()[0]
    assert model.requests[3].texts("user") == ["one", "two", "three", "to the fork"]
    peer.session = parent
    await peer.turn("to the parent")
    assert model.requests[4].texts("user") == ["one", "two", "to the parent"]


@on_wires("S-d04", "jan-stream")
async def test_a_forked_run_is_a_session_of_its_own(wire: str, start: Starter, model: ModelService) -> None:
    parent = await run(start, model, "1", "one")
    before = start.journal(parent).read_bytes()
    fork = await run(start, model, "2", "two", f"--resume={parent}", "--fork-session")
    assert fork != parent
    assert start.journal(parent).read_bytes() == before
    assert fork in start.journal(fork).read_text().splitlines()[0]
    assert await run(start, model, "3", "to the fork", "--resume") == fork
    assert model.requests[2].texts("user") == ["one", "two", "to the fork"]
    assert await run(start, model, "4", "to the parent", f"--resume={parent}") == parent
    assert model.requests[3].texts("user") == ["one", "to the parent"]


@on_wires("S-d05", "jan", "jan-stream", "levpro")
async def test_turns_without_text(wire: str, start: Starter, model: ModelService) -> None:
    """The strict service refuses empty messages. On these wires an empty answer is an answer."""
    given = CASES["S-d05"]["input"]
    start.write("a.txt", "x\n")
    hang, _, empty, ok = replies(given["provider_script"])
    call = given["provider_script"][1]["tool_calls"][0]
    read = ToolCall(call["id"], "Read" if wire == "levpro" else "read", call["arguments"])
    model.script(hang, Reply(read), empty, ok)
    talk = Talk(start, wire, provider="openai" if wire == "levpro" else "anthropic")
    peer = await talk.peer()
    await peer.prompt("a")
    await model.request(1)
    await peer.stop()
    await peer.hear(TurnFinished, outcome="cancelled")
    await talk.over()
    events = await talk.turn("b")
    assert said(events) == ""
    assert set(model.requests[2].results) == {"t1"}
    assert said(last_turn(await talk.turn("c"))) == "ok"
    words = " ".join(model.requests[-1].texts("user")).split()
    assert [word for word in words if word in ("a", "b", "c")] == ["a", "b", "c"]
