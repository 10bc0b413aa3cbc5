"""Failure cases S-d: crashes, torn files, two owners, forks, and turns without text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.agent_process import AgentProcess
from support.cases import case, play, replies
from support.journals import damage, journal
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import find, said
from support.replies import JsonObject


async def turn(agent: AgentProcess, msg_id: str, content: str) -> list[JsonObject]:
    """A message and everything up to its end."""
    await agent.message(msg_id, content)
    return await agent.turn(msg_id)


def store(launch: Launcher, session: str) -> dict[Path, bytes]:
    """The files of one session."""
    files = (path for path in (launch.data / "sessions").rglob(f"*{session}*") if path.is_file())
    return {path: path.read_bytes() for path in files}


@case("S-d01")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_resume_after_a_crash_in_a_call(
    provider: str, case: JsonObject, launch: Launcher, model: ModelService
) -> None:
    """The model service is strict: a call without its result would be a 400 and fail the test."""
    given = case["input"]
    model.script(*replies(given["provider_script"]), *replies(given["provider_script_after_restart"]))
    agent = await launch(*given["argv"], provider=provider, expected=(-9,))
    await play(agent, given["steps"][:2])
    agent.kill()
    await agent.wait_exit()
    agent = await launch(*given["steps"][3]["restart"], provider=provider)
    assert agent.events[0]["session_id"] == "s-orphan"
    await play(agent, given["steps"][4:])
    events = await agent.turn("m2")
    assert not [event for event in events if event["type"].startswith("tool_")]
    assert said(events) == "ok"
    request = model.requests[1]
    assert set(request.results) == {"t1", "t2"}
    assert request.texts("assistant") == ["Running."]
    assert [text.strip() for text in request.texts("user")] == ["go", "continue"]
    if provider == "anthropic":
        assert all(block["is_error"] for block in request.result_blocks if block["tool_use_id"] == "t1")


@case("S-d02")
@pytest.mark.parametrize("op", ["cut_tail_bytes", "cut_tail_inside_utf8_char", "append_bytes"])
async def test_a_torn_last_record(op: str, case: JsonObject, launch: Launcher, model: ModelService) -> None:
    given = case["input"]
    (mutation,) = (mutation for mutation in given["mutations"] if mutation["op"] == op)
    answers = [turn["assistant"] for turn in given["turns"]]
    answers[-1] = mutation.get("last_assistant", answers[-1])
    model.script(*answers, "3", "4")
    agent = await launch("--session-id", "torn")
    for number, asked in enumerate(given["turns"]):
        await turn(agent, f"m{number}", asked["user"])
    await launch.close(agent)
    damage(journal(launch.data, "torn"), mutation)

    agent = await launch("--resume", "torn")
    await turn(agent, "m3", "three")
    await launch.close(agent)
    assert find(agent.events, "info") or "torn" in agent.errors or "incomplete" in agent.errors
    for line in journal(launch.data, "torn").read_bytes().splitlines():
        json.loads(line)

    agent = await launch("--resume", "torn")
    await turn(agent, "m4", "four")
    request = model.requests[-1]
    assert request.texts("user") == ["one", "two", "three", "four"]
    assert request.texts("assistant")[0] == "1"
    assert request.texts("assistant")[-1] == "3"
    if op != "cut_tail_inside_utf8_char":
        assert request.texts("assistant") == ["1", "2", "3"]


@case("S-d03")
async def test_two_processes_and_one_session(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    assert "--fork-session" in case["input"]["text"]
    model.script("1", "2", "fork", "3")
    first = await launch("--session-id", "s1", expected=(-9,))
    await turn(first, "m1", "one")
    before = store(launch, "s1")
    second = await launch.spawn(*launch.serve(), "--resume", "s1", expected=(1,))
    assert await second.wait_exit(within=2) == 1
    assert find(second.events, "error", msg_id=None, error__code="config_error")
    assert "in use" in second.events[0]["error"]["message"]
    assert store(launch, "s1") == before

    first.kill()
    await first.wait_exit()
    owner = await launch("--resume", "s1")
    await turn(owner, "m2", "two")
    fork = await launch("--resume", "s1", "--fork-session")
    assert fork.events[0]["session_id"] != "s1"
    await turn(fork, "m3", "forked")
    assert model.requests[2].texts("user") == ["one", "two", "forked"]
    await turn(owner, "m4", "three")
    assert model.requests[3].texts("user") == ["one", "two", "three"]


@case("S-d04")
async def test_a_fork_is_a_session_of_its_own(case: JsonObject, launch: Launcher, model: ModelService) -> None:
    assert "SHA-256" in case["input"]["text"]
    model.script("1", "2", "3", "4", "5", "6")
    agent = await launch("--session-id", "p1")
    await turn(agent, "m1", "one")
    await turn(agent, "m2", "two")
    await launch.close(agent)
    before = store(launch, "p1")
    assert before
    agent = await launch("--resume", "p1", "--fork-session")
    fork = agent.events[0]["session_id"]
    assert fork != "p1"
    await turn(agent, "m3", "three")
    await launch.close(agent)
    assert {path: path.read_bytes() for path in before} == before
    header = json.loads(journal(launch.data, fork).read_bytes().splitlines()[0])
    assert fork in json.dumps(header)

    agent = await launch("--resume", "latest")
    assert agent.events[0]["session_id"] == fork
    await turn(agent, "m4", "to the fork")
    assert model.requests[3].texts("user") == ["one", "two", "three", "to the fork"]
    await launch.close(agent)
    agent = await launch("--resume", "p1")
    await turn(agent, "m5", "to the parent")
    assert model.requests[4].texts("user") == ["one", "two", "to the parent"]


@case("S-d05")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_turns_without_text(provider: str, case: JsonObject, launch: Launcher, model: ModelService) -> None:
    """The strict service refuses empty messages. The empty answer is asked for again, hence one more of them."""
    given = case["input"]
    launch.write("a.txt", "x\n")
    script = replies(given["provider_script"])
    model.script(*script[:3], *replies(given["provider_script"])[2:3], "", *script[3:])
    agent = await launch(provider=provider)
    await play(agent, given["steps"][:2])
    await model.request(1)
    await play(agent, given["steps"][2:])
    assert said(agent.events) == "ok"
    texts = " ".join(model.requests[-1].texts("user")).split()
    assert [text for text in texts if text in ("a", "b", "c")] == ["a", "b", "c"]
