"""``agentwire-jan cli agent run`` over real pipes: what it tells of a run, and how a host takes part in one."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from jancommand import PUBLISHED, RUN, STREAM, Runs, configure, run
from support.launcher import Launcher
from support.model_service import ModelService, wait_for
from support.patterns import find
from support.replies import Gate, Refused, Reply, Tokens, ToolCall
from support.serving import launch, model

pytestmark = pytest.mark.slow

__all__ = ["launch", "model"]

OBSERVE = [{"name": "observe", "description": "Look.", "parameters": {"type": "object"}, "capability": "read"}]
MOVE = [{"name": "move", "capability": "actuator"}]


@pytest.fixture
async def runs(nursery: trio.Nursery, launch: Launcher) -> AsyncIterator[Runs]:
    """Starts runs on the scripted service."""
    configure(launch)
    found = Runs(nursery, launch)
    try:
        yield found
        for each in found.all:
            assert not each.running
            assert "Traceback" not in each.errors, each.errors
    finally:
        for each in found.all:
            if each.running:
                each.kill()


def tools_file(launch: Launcher, tools: list[dict[str, Any]]) -> tuple[str, ...]:
    return "--host-tools", launch.write("tools.json", json.dumps(tools))


# --- one-way -------------------------------------------------------------------------------------------------


async def test_text_is_the_answer_alone(launch: Launcher, model: ModelService) -> None:
    configure(launch)
    model.script(Reply("Let me see.", ToolCall("c1", "shell", {"cmd": "echo hi"})), "It says hi.")
    ended = await run(launch, *RUN, "what does it say?")
    assert (ended.status, ended.out, ended.errors) == (0, "It says hi.\n", "")
    assert model.requests[0].headers["authorization"] == "Bearer test-key"
    assert model.requests[0].body["model"] == "stub-model"
    assert "hi" in model.requests[1].results["c1"]


async def test_json_is_one_object(launch: Launcher, model: ModelService) -> None:
    configure(launch)
    model.script(Reply("Hello", tokens=Tokens(10, 5, cached=4)))
    ended = await run(launch, *RUN, "--output-format", "json", "hi")
    [result] = ended.lines
    PUBLISHED.validate(result)
    assert {**result, "session_id": "?", "duration_ms": 0} == {
        "type": "result", "protocol_version": 1, "is_error": False, "result": "Hello", "stop_reason": "stop",
        "session_id": "?", "model": "stub-model", "num_turns": 1, "duration_ms": 0,
        "usage": {
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cached_tokens": 4,
            "cache_write_tokens": None,
        },
    }  # fmt: skip
    assert len(result["session_id"]) == 8


async def test_stream_json_tells_the_run_and_its_result(launch: Launcher, model: ModelService) -> None:
    """Without an input format nothing is read, which the first line says."""
    configure(launch)
    model.script("Hello")
    ended = await run(launch, *RUN, *STREAM, "hi", stdin=b'{"type":"abort"}\n')
    for line in ended.lines:
        PUBLISHED.validate(line)
    init, *events, result = ended.lines
    assert (init["type"], init["model"], init["cwd"]) == ("init", "stub-model", str(launch.workspace))
    assert (init["input_kinds"], init["input_content_parts"]) == ([], None)
    assert "tool_specs" not in init
    assert [event["type"] for event in events if event["type"] != "request_provenance"] == [
        "step", "token", "turn_usage", "messages_updated", "done",
    ]  # fmt: skip
    assert (result["stop_reason"], result["session_id"]) == ("stop", init["session_id"][:8])
    assert ended.status == 0


async def test_a_run_that_fails(launch: Launcher, model: ModelService) -> None:
    configure(launch)
    model.script(Refused(401, "no such key"), Refused(401, "no such key"))
    ended = await run(launch, *RUN, *STREAM, "hi")
    assert ended.status == 1
    assert ended.lines[-2]["type"] == "error"
    result = ended.result
    assert (result["is_error"], result["stop_reason"], result["session_id"]) == (True, "error", None)
    assert result["error"]["code"] == "upstream_error"
    assert "no such key" in result["error"]["message"]
    told = await run(launch, *RUN, "hi")
    assert (told.status, told.out) == (1, "")
    assert "no such key" in told.errors


async def test_the_limit_of_model_calls(launch: Launcher, model: ModelService) -> None:
    configure(launch)
    model.choose = lambda body: Reply("Again.", ToolCall("c", "shell", {"cmd": "true"}))
    ended = await run(launch, *RUN, *STREAM, "--max-turns", "2", "go")
    assert ended.status == 53
    message = "reached the 2-turn limit while the model was still calling tools"
    assert ended.result["error"]["message"] == message
    assert (ended.result["num_turns"], ended.result["result"]) == (2, "Again.")
    ended = await run(launch, *RUN, "--max-turns", "1", "go")
    assert (ended.status, ended.out) == (53, "")
    assert "reached the 1-turn limit" in ended.errors


async def test_step_is_one_turn(launch: Launcher, model: ModelService) -> None:
    configure(launch)
    model.script("Done.")
    ended = await run(launch, "cli", "agent", "step", "--output-format", "json", "go")
    assert (ended.status, ended.result["num_turns"]) == (0, 1)


async def test_safe_without_a_host_refuses_what_would_be_asked(launch: Launcher, model: ModelService) -> None:
    """Reading is free; nobody is there to be asked about the rest, and the run goes on."""
    configure(launch)
    launch.write("note.txt", "42")
    model.script(
        Reply(
            ToolCall("c1", "read", {"file_path": launch.path("note.txt")}),
            ToolCall("c2", "shell", {"cmd": "touch made"}),
        ),
        "Done.",
    )
    ended = await run(launch, *RUN, "--safe", "go")
    assert (ended.status, ended.out) == (0, "Done.\n")
    assert "42" in model.requests[1].results["c1"]
    assert "denied" in model.requests[1].results["c2"]
    assert not Path(launch.path("made")).exists()


async def test_the_work_is_done_in_the_project(launch: Launcher, model: ModelService, tmp_path: Path) -> None:
    configure(launch)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    model.script(Reply(ToolCall("c1", "shell", {"cmd": "pwd"})), "ok")
    await run(launch, *RUN, "--project", str(elsewhere), "go")
    assert str(elsewhere.resolve()) in model.requests[1].results["c1"]


# --- sessions ------------------------------------------------------------------------------------------------


async def test_a_session_goes_on(launch: Launcher, model: ModelService) -> None:
    """By the short id that the result tells, by no id, and in a copy that leaves the other as it was."""
    configure(launch)

    async def ask(*flags: str) -> tuple[str, list[str]]:
        model.script("ok")
        ended = await run(launch, *RUN, "--output-format", "json", *flags)
        assert ended.status == 0, ended.errors
        return ended.result["session_id"], model.requests[-1].texts("user")

    first, _ = await ask("one")
    assert await ask(f"--resume={first}", "two") == (first, ["one", "two"])
    assert await ask("--resume", "three") == (first, ["one", "two", "three"])
    copy, told = await ask(f"--resume={first}", "--fork-session", "four")
    assert (copy != first, told) == (True, ["one", "two", "three", "four"])
    assert await ask(f"--resume={first}", "five") == (first, ["one", "two", "three", "five"])
    other, told = await ask("alone")
    assert told == ["alone"]
    assert await ask("--continue", "again") == (other, ["alone", "again"])


async def test_a_resumed_session_has_the_tools_that_are_declared_now(
    runs: Runs, launch: Launcher, model: ModelService
) -> None:
    model.script("ok", Reply(ToolCall("c1", "host__observe", {})), "Clear.")
    jan = await runs("one")
    session = (await jan.ended())["session_id"]
    jan = await runs(*tools_file(launch, OBSERVE), f"--resume={session}", "two")
    assert jan.events[0]["tools"][-1] == "host__observe"
    asked = (await jan.until("tool_request"))[-1]["request_id"]
    await jan.send({"type": "tool_result", "request_id": asked, "content": "clear"})
    result = await jan.ended()
    assert (result["result"], result["session_id"]) == ("Clear.", session)


async def test_a_resumed_session_gives_parts_back_as_they_came(runs: Runs, model: ModelService) -> None:
    model.script("ok", "still ok")
    parts = [
        {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "high"}, "x": 1.5},
    ]
    jan = await runs()
    await jan.send({"type": "user", "content": parts})
    session = (await jan.ended())["session_id"]
    jan = await runs(f"--resume={session}", "and now?")
    await jan.ended()
    (updated,) = [event for event in jan.events if event["type"] == "messages_updated"]
    assert updated["messages"][0] == {"role": "user", "content": parts}
    (sent,) = [event for event in jan.events if event["type"] == "request_provenance"]
    assert [image["bytes"] for image in sent["images"]] == [3]
    assert model.requests[-1].body["messages"][1]["content"][1] == {
        "type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "high"},
    }  # fmt: skip


async def test_a_resumed_session_is_named_even_if_the_run_fails(launch: Launcher, model: ModelService) -> None:
    configure(launch)
    model.script("ok", Refused(401, "no"))
    first = await run(launch, *RUN, "--output-format", "json", "one")
    ended = await run(launch, *RUN, "--output-format", "json", "--resume", "two")
    assert (ended.status, ended.result["session_id"]) == (1, first.result["session_id"])


# --- two-way -------------------------------------------------------------------------------------------------


async def test_7_19_a_host_tool_and_a_late_answer(runs: Runs, launch: Launcher, model: ModelService) -> None:
    gate = Gate()
    model.script(Reply(ToolCall("call-1", "host__observe", {})), Reply("It is ", gate, "clear."))
    jan = await runs(*tools_file(launch, OBSERVE), "--host-gate", "go")
    init = jan.events[0]
    assert init["tools"][-1] == "host__observe"
    assert init["tool_specs"] == [
        {
            "type": "function",
            "function": {"name": "host__observe", "description": "Look.", "parameters": {"type": "object"}},
        }
    ]
    assert init["input_kinds"] == ["user", "abort", "permission", "tool_result"]
    request = (await jan.until("tool_request"))[-1]
    assert (request["tool_name"], request["args"]) == ("observe", {})
    asked = request["request_id"]
    answer = {"type": "tool_result", "request_id": asked, "content": "clear", "details": {"f": 1}}
    await jan.send(answer)
    assert (await jan.until("tool_result"))[-1] == {
        "type": "tool_result", "id": "call-1", "content": "clear", "is_error": False,
    }  # fmt: skip
    await jan.expect("tool_details", id="call-1", details={"f": 1})
    late = {"type": "tool_result", "request_id": asked, "content": "again"}
    await wait_for(gate.reached, "the second request")
    await jan.send(late)
    refused = (await jan.until("input_error"))[-1]
    assert refused["message"] == f"no host tool request '{asked}' is pending"
    assert json.loads(refused["line"]) == late
    assert not refused["line_truncated"]
    gate.open()
    result = await jan.ended()
    assert (result["is_error"], result["result"], result["stop_reason"]) == (False, "It is clear.", "stop")
    assert result["session_id"] == init["session_id"][:8]
    assert model.requests[1].results["call-1"] == "clear"


async def test_7_20_abort_with_a_held_request(runs: Runs, launch: Launcher, model: ModelService) -> None:
    model.script(Reply("Looking.", ToolCall("call-1", "host__observe", {})))
    jan = await runs(*tools_file(launch, OBSERVE), "--host-gate", "go")
    asked = (await jan.until("tool_request"))[-1]["request_id"]
    await jan.abort()
    await jan.expect("tool_request_cancelled", request_id=asked, reason="aborted")
    await jan.expect_line({"type": "done", "stop_reason": "aborted", "usage": None})
    result = await jan.ended()
    assert (result["is_error"], result["stop_reason"], result["session_id"]) == (False, "aborted", None)
    assert result["result"] == "Looking."


async def test_7_20_a_setup_that_fails(launch: Launcher) -> None:
    """Only the result, and no first line."""
    ended = await run(launch, *RUN, *STREAM, *tools_file(launch, OBSERVE), "go")
    assert ended.status == 1
    [result] = ended.lines
    PUBLISHED.validate(result)
    assert result["error"]["code"] == "setup_error"
    assert result["error"]["message"].startswith("--host-tools requires --input-format stream-json (")
    assert (result["session_id"], result["model"], result["result"]) == (None, "", "")


async def test_questions_and_their_answers(runs: Runs, launch: Launcher, model: ModelService) -> None:
    """``--safe`` asks; every answer is told; "always" covers the tool; a denial does not end the run."""
    calls = [ToolCall(f"c{n}", "shell", {"cmd": f"echo {n}"}) for n in (1, 2, 3)]
    model.script(Reply(calls[0]), Reply(calls[1]), Reply(calls[2]), "Done.")
    jan = await runs("--safe", "go")
    for decision in ("deny", "allow_always"):
        question = (await jan.until("permission_request"))[-1]
        assert (question["tool_name"], question["capability"]) == ("shell", "exec")
        await jan.decide(question["request_id"], decision)
        await jan.expect_line(
            {"type": "permission_decision", "request_id": question["request_id"], "decision": decision}
        )
    result = await jan.ended()
    assert result["result"] == "Done."
    assert len(find(jan.events, "permission_request")) == 2
    assert [event["is_error"] for event in find(jan.events, "tool_result")] == [True, False, False]
    assert "denied" in model.requests[1].results["c1"]


async def test_an_actuator_is_asked_about_even_so(runs: Runs, launch: Launcher, model: ModelService) -> None:
    model.script(Reply(ToolCall("c1", "host__move", {})), "Moved.")
    jan = await runs(*tools_file(launch, MOVE), "go")
    question = (await jan.until("permission_request"))[-1]
    assert (question["tool_name"], question["prompt_kind"]) == ("host__move", "mcp")
    await jan.decide(question["request_id"], "allow_once")
    asked = (await jan.until("tool_request"))[-1]
    await jan.send({"type": "tool_result", "request_id": asked["request_id"], "content": "ok"})
    assert (await jan.ended())["result"] == "Moved."


async def test_the_end_of_input_is_no_abort(runs: Runs, launch: Launcher, model: ModelService) -> None:
    """What is asked is denied, what is held is withdrawn, and the run goes on to its end."""
    model.script(Reply(ToolCall("c1", "shell", {"cmd": "true"})), Reply(ToolCall("c2", "host__observe", {})), "Done.")
    jan = await runs(*tools_file(launch, OBSERVE), "--safe", "go")
    question = (await jan.until("permission_request"))[-1]
    await jan.close_stdin()
    await jan.expect_line({"type": "permission_decision", "request_id": question["request_id"], "decision": "deny"})
    withdrawn = (await jan.until("tool_request_cancelled"))[-1]
    assert withdrawn["reason"] == "client_gone"
    result = await jan.ended()
    assert (result["result"], result["stop_reason"]) == ("Done.", "stop")
    assert "denied" in model.requests[1].results["c1"]
    assert "host tool 'observe' was not answered: the client is gone" in model.requests[2].results["c2"]


async def test_a_follow_up_joins(runs: Runs, launch: Launcher, model: ModelService) -> None:
    gate = Gate()
    model.script(Reply("One", gate, "."), "Two.")
    jan = await runs("go")
    await wait_for(gate.reached, "the first request")
    await jan.send({"type": "user", "text": "and then?"})
    await jan.send({"type": "user", "text": " "})
    await jan.until("input_error", message="'user' text is empty")
    gate.open()
    assert (await jan.ended())["result"] == "Two."
    assert model.requests[1].texts("user")[-1] == "and then?"


async def test_the_first_line_can_be_the_task(runs: Runs, model: ModelService) -> None:
    model.script("Hello")
    jan = await runs()
    assert [event["type"] for event in jan.events] == ["init"]
    await jan.send({"type": "user", "content": [{"type": "text", "text": "hi"}]})
    assert (await jan.ended())["result"] == "Hello"
    assert model.requests[0].texts("user") == ["hi"]


async def test_an_abort_instead_of_a_task(runs: Runs) -> None:
    jan = await runs()
    await jan.abort()
    await jan.expect_line({"type": "done", "stop_reason": "aborted", "usage": None})
    assert (await jan.ended())["stop_reason"] == "aborted"


async def test_a_signal_aborts(runs: Runs, model: ModelService) -> None:
    gate = Gate()
    model.script(Reply("Half", gate))
    jan = await runs("go")
    await jan.until("token")
    jan.send_signal(signal.SIGTERM)
    result = await jan.ended()
    assert (result["stop_reason"], result["result"]) == ("aborted", "Half")
    gate.open()


async def test_a_line_that_is_too_long(runs: Runs, model: ModelService) -> None:
    gate = Gate()
    model.script(Reply("One", gate))
    jan = await runs("go")
    await wait_for(gate.reached, "the request")
    await jan.send_bytes(b'{"type":"user","text":"' + b"x" * (16 * 1024 * 1024) + b'"}\n')
    error = (await jan.until("input_error"))[-1]
    assert error["message"] == "line is over the 16777216 byte cap"
    gate.open()
    await jan.ended()
