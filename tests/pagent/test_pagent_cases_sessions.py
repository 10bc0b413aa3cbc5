"""Failure cases S-d: crashes, torn files, two owners, forks, and runs without text."""

from __future__ import annotations

import pytest
from pagentcases import both, say
from pagentserved import PagentLauncher, names, text
from support.cases import case, replies
from support.journals import damage, journal
from support.model_service import ModelService
from support.patterns import find
from support.replies import JsonObject

pytestmark = pytest.mark.slow


@case("S-d01")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_resume_after_a_crash_in_a_call(
    provider: str, case: JsonObject, serve: PagentLauncher, model: ModelService
) -> None:
    """The replay shows each call with its result, and so does the next request; nothing is run again."""
    given = case["input"]
    model.script(*replies(given["provider_script"]), *replies(given["provider_script_after_restart"]))
    agent = await serve(*given["argv"], provider=provider, expected=(-9,))
    await agent.user()
    await agent.until("ToolCallBegin", tool_call_id="t1")
    agent.kill()
    await agent.wait_exit()
    agent = await serve(*given["steps"][3]["restart"], provider=provider)
    replay = await agent.expect("HistoryReplay", thread_id="s-orphan")
    kinds = [(item["kind"], item.get("tool_call_id", "")) for item in replay["messages"]]
    calls = [(kind, call) for kind in ("tool_call", "tool_result") for call in ("t1", "t2")]
    assert kinds == [("text", ""), ("text", ""), *calls]
    events = await say(agent, "continue")
    assert names(events) == ["RunBegin", "TurnBegin", "TextDelta", "TurnResult", "TurnEnd", "RunEnd"]
    assert set(model.requests[1].results) == {"t1", "t2"}
    assert [said.strip() for said in model.requests[1].texts("user")] == ["go", "continue"]


@case("S-d02")
@pytest.mark.parametrize("op", ["cut_tail_bytes", "cut_tail_inside_utf8_char", "append_bytes"])
async def test_a_torn_last_record(op: str, case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """What the replay tells after the second resume is what the model reads."""
    given = case["input"]
    (mutation,) = (mutation for mutation in given["mutations"] if mutation["op"] == op)
    answers = [turn["assistant"] for turn in given["turns"]]
    answers[-1] = mutation.get("last_assistant", answers[-1])
    model.script(*answers, "3", "4")
    agent = await serve("--session-id", "torn")
    for turn in given["turns"]:
        await say(agent, turn["user"])
    await serve.close(agent)
    damage(journal(serve.data, "torn"), mutation)
    for words in ("three", "four"):
        agent = await serve("--resume", "torn")
        replay = await agent.expect("HistoryReplay")
        await say(agent, words)
        await serve.close(agent)
    said = [item["text"] for item in replay["messages"] if item["role"] == "user"]
    assert said == ["one", "two", "three"]
    assert model.requests[-1].texts("user") == [*said, "four"]
    told = [item["text"] for item in replay["messages"] if item["role"] == "assistant"]
    assert (told[0], told[-1]) == ("1", "3")
    assert model.requests[-1].texts("assistant") == told


@both
@case("S-d03")
async def test_two_processes_and_one_session(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    """At the start that is an end; a running v4 agent says it and stays with its own thread."""
    assert "--resume s1 while A lives" in case["input"]["text"]
    model.script("1", "2")
    first = await serve("--session-id", "s1", codec=codec)
    await say(first, "one")
    before = journal(serve.data, "s1").read_bytes()
    arguments = [codec if argument == "aionrs" else argument for argument in serve.serve()]
    second = await serve.spawn(*arguments, "--resume", "s1", expected=(1,))
    assert await second.wait_exit(within=2) == 1
    assert "in use" in second.errors
    assert [event["where"] for event in second.events] == ([] if codec == "pagent" else ["open"])
    if codec == "pagent-v4":
        third = await serve("--session-id", "s3")
        await third.send({"cmd": "resume", "thread_id": "s1"})
        error = await third.expect("Error", where="resume")
        assert "in use" in error["message"]
        await say(third, "mine")
        assert model.requests[-1].texts("user") == ["mine"]
    assert journal(serve.data, "s1").read_bytes() == before


@case("S-d04")
async def test_a_fork_is_a_session_of_its_own(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    assert "SHA-256" in case["input"]["text"]
    model.script("1", "2", "3", "4")
    agent = await serve("--session-id", "p1")
    await say(agent, "one")
    await say(agent, "two")
    await serve.close(agent)
    before = journal(serve.data, "p1").read_bytes()
    agent = await serve("--resume", "p1", "--fork-session")
    replay = await agent.expect("HistoryReplay")
    fork = replay["thread_id"]
    assert fork == find(agent.events, "CurrentThread")[0]["thread_id"] != "p1"
    assert [item["text"] for item in replay["messages"]] == ["one", "1", "two", "2"]
    await say(agent, "three")
    assert journal(serve.data, "p1").read_bytes() == before
    await agent.send({"cmd": "resume", "thread_id": "p1"})
    replay = await agent.expect("HistoryReplay", thread_id="p1")
    assert [item["text"] for item in replay["messages"]] == ["one", "1", "two", "2"]
    await agent.expect("CurrentThread", thread_id="p1")
    await say(agent, "to the parent")
    assert model.requests[-1].texts("user") == ["one", "two", "to the parent"]


@case("S-d05")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_runs_without_text(provider: str, case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """The strict service refuses empty messages. On this wire an empty answer is an answer."""
    given = case["input"]
    serve.write("a.txt", "x\n")
    model.script(*replies(given["provider_script"]))
    agent = await serve(provider=provider)
    await agent.user("a")
    await model.request(1)
    await agent.send({"cmd": "cancel"})
    assert (await agent.run())[-1]["stop_reason"] == "cancelled"
    events = await say(agent, "b")
    assert [event["ok"] for event in find(events, "ToolResult")] == [True]
    assert events[-1]["stop_reason"] == "empty_response"
    assert text(await say(agent, "c")) == "ok"
    said = " ".join(model.requests[-1].texts("user")).split()
    assert [word for word in said if word in ("a", "b", "c")] == ["a", "b", "c"]
