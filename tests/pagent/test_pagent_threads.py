"""Served over real pipes: history, threads, the turn at the limit, and what is said on standard error."""

from __future__ import annotations

import json

import pytest
from pagentlines import recorded, rows, split
from pagentserved import PagentLauncher, PagentProcess, names
from support.model_service import ModelService, wait_for
from support.patterns import find
from support.replies import Gate, JsonObject, Refused, Reply, Text, Tokens, ToolCall

both = pytest.mark.parametrize("codec", ["pagent", "pagent-v4"])


async def say(agent: PagentProcess, text: str) -> list[JsonObject]:
    """An input and everything up to the end of its run."""
    await agent.user(text)
    return await agent.run()


def recorded_methods(name: str) -> list[str]:
    return [json.loads(line)["method"] for line in split(recorded(name))]


# --- messages and threads ------------------------------------------------------------------------------------


async def test_the_history_of_a_run_with_a_call(serve: PagentLauncher, model: ModelService) -> None:
    serve.write("a.txt", "one\n")
    path = serve.path("a.txt")
    model.script(
        Reply("I read.", ToolCall("c1", "Read", {"file_path": path})), Reply("It says one.", tokens=Tokens(20, 7, 4))
    )
    agent = await serve()
    await say(agent, "read it")
    await agent.send({"cmd": "history"})
    replay = await agent.expect("HistoryReplay", title="", project_path=str(serve.workspace))
    assert replay["thread_id"] == find(agent.events, "CurrentThread")[0]["thread_id"]
    said = [(item["kind"], item.get("role", ""), item.get("text", "")) for item in replay["messages"]]
    assert said == [
        ("text", "user", "read it"), ("text", "assistant", "I read."), ("tool_call", "", ""),
        ("tool_result", "", ""), ("text", "assistant", "It says one."),
    ]  # fmt: skip
    call, result = replay["messages"][2:4]
    assert call == {
        "kind": "tool_call", "tool_call_id": "c1", "name": "Read", "arguments": json.dumps({"file_path": path}),
    }  # fmt: skip
    assert "one" in result["content"]
    usage = replay["usage"]
    assert [usage[key] for key in ("prompt_tokens", "completion_tokens", "cached_tokens")] == [20, 7, 4]


async def test_from_one_thread_to_another_and_back(serve: PagentLauncher, model: ModelService) -> None:
    """A stored thread is told and gone on with; then the first one, which this process still has."""
    model.script("old answer", "first answer", "second answer", "back again")
    agent = await serve("--session-id", "old")
    await say(agent, "old question")
    await serve.close(agent)

    agent = await serve("--session-id", "new")
    await say(agent, "first question")
    await agent.send({"cmd": "resume", "thread_id": "old"})
    replay = await agent.expect("HistoryReplay", thread_id="old")
    assert [item["text"] for item in replay["messages"]] == ["old question", "old answer"]
    await agent.expect("CurrentThread", thread_id="old")
    await say(agent, "second question")
    assert model.requests[-1].texts("user") == ["old question", "second question"]

    await agent.send({"cmd": "resume", "thread_id": "new"})
    await agent.expect("CurrentThread", thread_id="new")
    replay = await agent.expect("HistoryReplay", thread_id="new")
    assert [item["text"] for item in replay["messages"]] == ["first question", "first answer"]
    await say(agent, "third question")
    assert model.requests[-1].texts("user") == ["first question", "third question"]
    await agent.send({"cmd": "resume", "thread_id": "new"})
    replay = await agent.expect("HistoryReplay", thread_id="new")
    assert len(replay["messages"]) == 4
    await agent.fence()


async def test_a_process_that_begins_with_a_stored_thread(serve: PagentLauncher, model: ModelService) -> None:
    model.script("answer")
    agent = await serve("--session-id", "old")
    await say(agent, "question")
    await serve.close(agent)
    agent = await serve("--resume", "old")
    replay = await agent.expect("HistoryReplay", thread_id="old")
    assert [item["text"] for item in replay["messages"]] == ["question", "answer"]
    await agent.fence()


async def test_a_thread_that_is_not_there_or_cannot_be_taken_up_now(serve: PagentLauncher, model: ModelService) -> None:
    gate = Gate()
    model.script(Reply("a", gate, "b"))
    agent = await serve()
    await agent.send({"cmd": "resume", "thread_id": "nobody"})
    error = await agent.expect("Error", where="resume")
    assert "nobody" in error["message"]
    await agent.user()
    await agent.until("TextDelta")
    await agent.send({"cmd": "resume", "thread_id": "nobody"})
    error = await agent.expect("Error", where="resume")
    assert "under way" in error["message"]
    gate.open()
    await agent.run()
    assert any(word.startswith("resume failed: ") for word in agent.words)


async def test_threads_are_listed_and_deleted_and_an_input_begins_a_new_one(
    serve: PagentLauncher, model: ModelService
) -> None:
    model.script("one", "two")
    agent = await serve("--session-id", "first")
    await say(agent, "hi")
    await serve.close(agent)
    agent = await serve("--session-id", "second")
    await say(agent, "hi")
    thread = {"title": "", "project_path": str(serve.workspace), "backend": "local"}
    await agent.send({"cmd": "list_threads"})
    listed = await agent.expect("ThreadList")
    assert listed["threads"] == [{"id": name, **thread} for name in ("second", "first")]
    await agent.send({"cmd": "thread_meta", "thread_id": "first"})
    meta = await agent.expect("ThreadMeta", thread_id="first")
    assert meta["meta"]["created_at"] <= meta["meta"]["updated_at"]
    await agent.send({"cmd": "delete_thread", "thread_id": "second"})
    await agent.expect("HistoryReplay", thread_id="", messages=[])
    listed = await agent.expect("ThreadList")
    assert listed["threads"] == [{"id": "first", **thread}]
    model.script("in a new one")
    await agent.send({"cmd": "user", "text": "who is there"}, {"cmd": "delete_thread", "thread_id": "first"})
    new = (await agent.until("CurrentThread"))[-1]["thread_id"]
    assert new not in ("first", "second")
    await agent.run()
    assert model.requests[-1].texts("user") == ["who is there"]
    listed = find(agent.events, "ThreadList")[-1]
    assert listed["threads"] == [{"id": new, **thread}]
    await agent.send({"cmd": "delete_thread", "thread_id": "first"})
    await agent.expect("Error", where="delete_thread")
    assert [path.name for path in (serve.data / "sessions").iterdir()] == [f"{new}.jsonl"]


async def test_a_new_thread_and_the_tools(serve: PagentLauncher, model: ModelService) -> None:
    """What was said before a reset stays in the thread in which it was said."""
    model.script("one", "two")
    agent = await serve("--session-id", "before")
    await say(agent, "hi")
    await agent.send({"cmd": "reset"}, {"cmd": "user", "text": "again"})
    replay = await agent.expect("HistoryReplay", messages=[])
    assert replay["thread_id"] != "before"
    await agent.expect("CurrentThread", thread_id=replay["thread_id"])
    await agent.run()
    assert model.requests[-1].texts("user") == ["again"]
    await agent.send({"cmd": "resume", "thread_id": "before"})
    await agent.expect("CurrentThread", thread_id="before")
    replay = await agent.expect("HistoryReplay", thread_id="before")
    assert [item["text"] for item in replay["messages"]] == ["hi", "one"]
    await agent.send({"cmd": "capabilities"})
    told = await agent.expect("Capabilities", skills=[])
    assert [tool["name"] for tool in told["tools"]] == model.requests[-1].tools
    await agent.send({"cmd": "get_config"})
    snapshot = await agent.expect("ConfigSnapshot")
    assert (snapshot["provider"]["name"], snapshot["provider"]["model"]) == ("openai", "test-model")
    assert "sk-test" not in json.dumps(snapshot)


# --- the limit (scenarios 6 and 21) --------------------------------------------------------------------------


def reading(serve: PagentLauncher, call_id: str) -> Reply:
    return Reply(ToolCall(call_id, "Read", {"file_path": serve.path("a.txt")}))


async def test_21_v4_sums_up_when_its_turns_are_used_up(serve: PagentLauncher, model: ModelService) -> None:
    serve.write("a.txt", "x\n")
    model.script(reading(serve, "call_a"), "Stopping: 3")
    agent = await serve("--max-turns", "1")
    events = await say(agent, "keep adding")
    assert [event["type"] for event in events] == recorded_methods("v4_max_turns_synthesis")
    assert find(events, "TurnEnd") == [{"type": "TurnEnd", "turn": 1, "stopped": True, "stop_reason": "no_tool_calls"}]
    assert events[-1] == {"type": "RunEnd", "turn": 1, "stop_reason": "no_tool_calls"}
    assert model.requests[1].tools == []


async def test_21_v4_a_model_that_still_calls_is_not_obeyed(serve: PagentLauncher, model: ModelService) -> None:
    serve.write("a.txt", "x\n")
    model.script(reading(serve, "call_a"), reading(serve, "call_b"), "fine")
    agent = await serve("--max-turns", "1")
    events = await say(agent, "keep adding")
    assert [event["type"] for event in events] == recorded_methods("v4_max_turns_still_calling")
    assert [call["id"] for call in events[-3]["tool_calls"]] == ["call_b"]
    assert [event["stop_reason"] for event in events[-2:]] == ["max_turns", "max_turns"]
    await say(agent, "and now")  # the strict service reads a result for the call that was not run
    assert set(model.requests[-1].results) == {"call_a", "call_b"}


async def test_6_classic_just_ends_at_the_limit(serve: PagentLauncher, model: ModelService) -> None:
    serve.write("a.txt", "x\n")
    model.script(reading(serve, "call_a"), reading(serve, "call_b"))
    agent = await serve("--max-turns", "2", codec="pagent")
    events = await say(agent, "keep adding")
    assert names(events) == [
        "RunBegin", *["TurnBegin", "StepEnd", "ToolCallBegin", "ToolResult", "TurnEnd"] * 2, "RunEnd",
    ]  # fmt: skip
    assert events[-2] == {"type": "TurnEnd", "turn": 1, "stopped": False}
    (_, last) = find(events, "StepEnd")
    assert {**events[-1], "type": ""} == {**last, "type": ""}
    assert [call["id"] for call in events[-1]["tool_calls"]] == ["call_b"]


# --- questions and stops (scenarios 22 and 23) ---------------------------------------------------------------


async def test_22_v4_a_denied_call(serve: PagentLauncher, model: ModelService) -> None:
    arguments = {"cmd": "rm x"}
    model.script(Reply(ToolCall("call_2", "ExecCommand", arguments)), "OK, not doing that.")
    agent = await serve()
    await agent.user("rm it")
    await agent.until("PermitRequest", tool_call_id="call_2", name="ExecCommand", summary="rm x")
    await agent.send({"cmd": "deny", "tool_call_id": "call_2", "reason": "no way"})
    await agent.expect("ToolResult", tool_call_id="call_2", name="ExecCommand", content="no way", ok=False)
    rest = await agent.run()
    assert rest[0] == {"type": "TurnEnd", "turn": 0, "stopped": False, "stop_reason": "continuing"}
    told = [row["line"] for row in rows("v4_stdio_session.jsonl") if row["stream"] == "stdout"]
    at = next(n for n, line in enumerate(told) if '"rm it"' in line)
    run = [event["type"] for event in agent.events[agent.events.index({"type": "RunBegin", "user_input": "rm it"}) :]]
    assert run == [json.loads(line)["method"] for line in told[at : at + len(run)]]
    assert "no way" in model.requests[1].results["call_2"]


async def test_23_v4_a_stop_while_the_model_speaks(serve: PagentLauncher, model: ModelService) -> None:
    gate = Gate()
    model.script(Reply(Text("slow "), gate, "text"))
    agent = await serve()
    await agent.user("go slow")
    await agent.until("TextDelta", text="slow ")
    await agent.send({"cmd": "cancel"})
    assert await agent.run() == [
        {"type": "TurnResult", "content": "slow ", "tool_calls": [], "reasoning_content": "", "usage": None},
        {"type": "TurnEnd", "turn": 0, "stopped": True, "stop_reason": "cancelled"},
        {"type": "RunEnd", "turn": 0, "stop_reason": "cancelled"},
    ]
    await wait_for(model.requests[0].disconnected, "the model is no longer listened to")


async def test_13_classic_says_nothing_more_of_a_run_that_was_stopped(
    serve: PagentLauncher, model: ModelService
) -> None:
    model.script(Reply(Text("slow "), Gate()), "next")
    agent = await serve(codec="pagent")
    await agent.user("go slow")
    await agent.until("TextDelta")
    await agent.send({"cmd": "cancel"}, {"cmd": "user", "text": "go on"})
    assert names(await agent.run()) == ["RunBegin", "TurnBegin", "TextDelta", "StepEnd", "TurnEnd", "RunEnd"]


# --- standard error ------------------------------------------------------------------------------------------


@both
async def test_readiness_and_bad_lines_are_told_to_people(
    codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    model.script("hello")
    agent = await serve(codec=codec)
    await agent.send_bytes(b'not json\n[1]\n{"cmd": "nope"}\n{"cmd": "user"}\n')
    await say(agent, "hi")
    assert [word.partition(":")[0] for word in agent.words] == [
        "ready", "skip non-json line", "skip non-object command", "unknown command", "user command missing text",
    ]  # fmt: skip
    assert "unknown command: 'nope'" in agent.words


@both
async def test_a_failed_run_has_one_line_on_standard_error(
    codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    model.script(Refused(400, "bad luck"), "fine")
    agent = await serve(codec=codec)
    await agent.user()
    await agent.says("turn failed: ")
    if codec == "pagent-v4":
        assert names(await agent.until("Error")) == ["RunBegin", "TurnBegin", "Error"]
        await agent.fence()
    else:
        assert names([await agent.next_event(), await agent.next_event()]) == ["RunBegin", "TurnBegin"]
    assert names(await say(agent, "again")) == ["RunBegin", "TurnBegin", "TextDelta", *ENDS[codec]]
    (line,) = [line for line in agent.errors.splitlines() if "turn failed: " in line]
    assert "bad luck" in line


ENDS = {"pagent": ["StepEnd", "TurnEnd", "RunEnd"], "pagent-v4": ["TurnResult", "TurnEnd", "RunEnd"]}
