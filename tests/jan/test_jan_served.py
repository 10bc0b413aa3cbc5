"""``serve --codec jan`` over real pipes, against a scripted model service: the protocol's scenarios (section 7)."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Any

import pytest
import trio
from janlines import INITIALIZED
from janserved import Jan, serve
from support.launcher import Launcher
from support.model_service import ModelService
from support.replies import Gate, JsonObject, Refused, Reply, ToolCall
from support.serving import launch, model

from agentwire import commands, events
from agentwire_jan import codec

__all__ = ["launch", "model"]

ARM = {
    "name": "robot_arm_move",
    "description": "Move the arm.",
    "parameters": {"type": "object", "properties": {"position": {"type": "string"}}, "required": ["position"]},
}
MOVE = ToolCall("call-1", "host__robot_arm_move", {"position": "bin"})
HOSTED: dict[str, Any] = {"builtins": False, "permissions": "host", "tools": [ARM]}
PNG = "data:image/png;base64,iVBORw0KGgo="


@pytest.fixture
async def jan(nursery: trio.Nursery, launch: Launcher) -> Jan:
    return await serve(nursery, launch)


def retryable(kind: str = "") -> JsonObject:
    return {"retryable": True, **({"kind": kind} if kind else {})}


async def test_a_plain_turn(jan: Jan, model: ModelService) -> None:
    """Scenario 7.4: events in their order, ids of the right form."""
    model.script(Reply("stub ", "answer"))
    started = await jan.ask("session/start", cwd=".", builtins=False)
    assert started == {"tools": [], "toolSpecs": [], "sessionId": started["sessionId"], "model": "test-model"}
    turn = await jan.turn(started["sessionId"], "say hi")
    assert uuid.UUID(started["sessionId"]).version == uuid.UUID(turn).version == 4
    assert jan.notes == []  # the answer comes before anything of the turn
    end = await jan.end()
    assert end == {"sessionId": started["sessionId"], "turnId": turn, "stopReason": "completed", "error": None}
    assert jan.tags() == [
        "step", "request_provenance", "token", "turn_usage", "messages_updated", "done", "turn/completed",
    ]  # fmt: skip
    assert jan.told("step") == [{"type": "step", "index": 1, "max": 0}]
    assert jan.told("request_provenance")[0]["session_id"] == started["sessionId"]
    assert jan.told("messages_updated")[0]["messages"] == [{"role": "user", "content": "say hi"}]
    usage = jan.told("turn_usage")[0]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (10, 5, 15)
    assert jan.told("done") == [{"type": "done", "stop_reason": "stop", "usage": usage}]
    listed = {"id": started["sessionId"], "model": "test-model", "turns": 1, "hostTools": 0}
    assert await jan.ask("session/list") == {"sessions": [listed]}


async def test_the_handshake_can_be_lost_and_made_again(jan: Jan) -> None:
    """Scenario 7.2: sessions survive."""
    session = await jan.start()
    refused = await jan.refused("initialize", protocolVersion=999, clientInfo={"name": "t", "version": "1"})
    assert refused["code"] == -32602
    await jan.send(INITIALIZED)
    assert (await jan.next_event())["error"]["code"] == -32002
    assert (await jan.refused("session/list"))["code"] == -32002
    await jan.handshake()
    assert [entry["id"] for entry in (await jan.ask("session/list"))["sessions"]] == [session]


async def test_what_a_session_offers(jan: Jan, model: ModelService) -> None:
    """Section 1.6: built-in tools under Jan's names, the delegates, the host's in declared order; what the next turn
    advertises is what is told."""
    builtins = ["read", "write", "edit", "shell", "glob", "grep"]
    delegates = ["dispatch_subagent", "message_subagent", "stop_subagent", "list_subagents"]
    whole = await jan.ask("session/start", cwd=".", tools=[ARM, {"name": "yam.move"}])
    assert set(whole["tools"][:-2]) == {*builtins, *delegates}
    assert [spec["function"]["name"] for spec in whole["toolSpecs"]] == whole["tools"][-2:]
    assert whole["toolSpecs"][0]["function"]["parameters"] == ARM["parameters"]
    assert whole["toolSpecs"][1]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert set((await jan.ask("session/start", cwd=".", subagents=False))["tools"]) == set(builtins)
    hosted = await jan.ask("session/start", cwd=".", builtins=False, tools=[ARM])
    assert hosted["tools"] == ["host__robot_arm_move"]
    delegating = await jan.ask("session/start", cwd=".", builtins=False, subagents=True, tools=[ARM])
    assert delegating["tools"] == [*delegates, "host__robot_arm_move"]
    model.script("ok")
    await jan.turn(whole["sessionId"])
    await jan.end()
    assert (await model.request(1)).tools == whole["tools"]


async def test_refused_sessions_do_not_exist(jan: Jan) -> None:
    """Scenario 7.5."""
    for params, kind, words in (
        ({"hostTools": []}, None, "requires cwd and supported options"),
        ({"cwd": "/no/such"}, None, "cwd is not a directory"),
        ({"systemPrompt": "  "}, None, "must not be blank"),
        ({"tools": [{"name": "shell"}]}, {"kind": "invalid_tools"}, "reserved"),
        ({"tools": [{"name": "x", "capability": "write"}]}, {"kind": "invalid_tools"}, "tools[0]"),
    ):
        error = await jan.refused("session/start", **{"cwd": ".", **params})
        assert (error["code"], error["data"]) == (-32602, kind)
        assert words in error["message"]
    assert await jan.ask("session/list") == {"sessions": []}


async def test_a_host_tool_with_parts_and_details(jan: Jan, model: ModelService) -> None:
    """Scenarios 7.6 and 7.18: bad parts keep the request open; details are not for the model."""
    model.script(Reply(MOVE), "done")
    session = await jan.start(**HOSTED)
    await jan.turn(session)
    request = await jan.item("tool_request")
    assert request == {
        "type": "tool_request", "request_id": request["request_id"], "tool_name": "robot_arm_move",
        "args": {"position": "bin"},
    }  # fmt: skip
    assert request["request_id"].startswith("host-")
    answer = {"requestId": request["request_id"]}
    bad = await jan.refused("tool/respond", **answer, content=[{"type": "audio"}])
    assert (bad["message"], bad["data"]) == ("unsupported content part 'audio' (text, image_url)", None)
    assert (await jan.refused("tool/respond", **answer, content=7))["data"] is None
    parts = [{"type": "text", "text": "frame captured"}, {"type": "image_url", "image_url": {"url": PNG}}]
    number = await jan.write("tool/respond", {**answer, "content": parts, "details": {"frame": 7}})
    seen = len(jan.notes)
    assert (await jan.answered(number))["result"] == {}
    assert len(jan.notes) == seen  # the answer comes before what follows from it
    result = await jan.item("tool_result")
    assert result == {"type": "tool_result", "id": "call-1", "content": "frame captured", "is_error": False}
    assert await jan.item("tool_details") == {"type": "tool_details", "id": "call-1", "details": {"frame": 7}}
    assert (await jan.item("step"))["index"] == 2
    assert (await jan.end())["stopReason"] == "completed"
    second = await model.request(2)
    assert second.results == {"call-1": "frame captured"}
    assert b'frame":7' not in second.raw.replace(b" ", b"")
    assert PNG.encode() in second.raw


async def test_arguments_are_judged_before_the_host_is_asked(jan: Jan, model: ModelService) -> None:
    """Scenario 7.17."""
    model.script(Reply(ToolCall("call-1", "host__robot_arm_move", {})), "sorry")
    await jan.turn(await jan.start(**HOSTED))
    result = await jan.item("tool_result")
    assert result["is_error"] is True
    assert result["content"] == (
        "ERROR: arguments for host tool 'robot_arm_move' do not match its schema: "
        "/: missing required property 'position'"
    )
    assert jan.told("tool_request") == []
    assert (await jan.end())["stopReason"] == "completed"


async def test_an_interrupt_with_a_held_request_and_a_late_answer(jan: Jan, model: ModelService) -> None:
    """Scenario 7.7 and case S-c01."""
    model.script(Reply(MOVE), "next")
    session = await jan.start(**HOSTED)
    turn = await jan.turn(session)
    request = (await jan.item("tool_request"))["request_id"]
    before = len(jan.notes)
    assert await jan.ask("turn/interrupt", sessionId=session) == {}
    cancelled, completed = jan.notes[before:]
    assert cancelled["params"]["event"] == {
        "type": "tool_request_cancelled", "request_id": request, "reason": "interrupted",
    }  # fmt: skip
    assert completed["params"] == {"sessionId": session, "turnId": turn, "stopReason": "interrupted", "error": None}
    late = await jan.refused("tool/respond", requestId=request, content="too late")
    assert (late["code"], late["data"]) == (-32602, {"kind": "not_pending"})
    assert late["message"].startswith(f"no host tool request '{request}' is pending")
    assert (await jan.refused("turn/interrupt", sessionId=session))["message"] == "no active turn for sessionId"
    await jan.turn(session)
    assert (await jan.end())["stopReason"] == "completed"
    assert list((await model.request(2)).results) == ["call-1"]  # the history is whole


async def test_what_is_refused_during_a_turn(jan: Jan, model: ModelService) -> None:
    """Scenario 7.8 and case S-c04: the running turn is untouched."""
    model.script(Reply(MOVE), "done")
    one, two = await jan.start(**HOSTED), await jan.start(builtins=False)
    await jan.turn(one)
    request = (await jan.item("tool_request"))["request_id"]
    active = "this session has an active turn; retry after turn/completed"
    for method, params in (("session/tools/set", {"tools": []}), ("session/model/set", {"model": "x"}),
                           ("session/reset", {})):  # fmt: skip
        error = await jan.refused(method, sessionId=one, **params)
        assert error == {"code": -32001, "message": active, "data": retryable("turn_active")}
    for method in ("session/fork", "session/archive"):
        error = await jan.refused(method, sessionId=one)
        assert error == {"code": -32001, "message": "session busy", "data": retryable()}
    for session in (one, two):
        error = await jan.refused("turn/start", sessionId=session, input="x")
        assert (error["code"], error["data"]) == (-32001, retryable())
    assert (await jan.ask("session/tools/get", sessionId=one))["tools"] == ["host__robot_arm_move"]
    assert (await jan.ask("session/resume", sessionId=one))["turns"] == 1
    assert (await jan.refused("session/tools/get", sessionId="no"))["message"] == "unknown sessionId"
    assert (await jan.ask("session/reset", sessionId=two))["tools"] == []  # another session is free
    await jan.ask("tool/respond", requestId=request, content="moved")
    assert (await jan.end())["stopReason"] == "completed"
    view = await jan.ask("session/tools/set", sessionId=one, tools=[{"name": "observe"}])
    assert view["tools"] == ["host__observe"]
    assert await jan.ask("session/tools/get", sessionId=one) == view
    assert await jan.ask("session/model/set", sessionId=one, model="other-model") == {"model": "other-model"}
    assert await jan.ask("session/reset", sessionId=one) == view
    model.script("fresh")
    await jan.turn(one, "again")
    assert (await jan.end())["stopReason"] == "completed"
    third = await model.request(3)
    assert third.body["model"] == "other-model"
    assert third.texts("user") == ["again"]


async def test_questions_are_answered_by_id(jan: Jan, model: ModelService) -> None:
    """Scenarios 7.9 and 7.10 and case S-c02: a grant is the session's; ids never repeat."""
    model.script(Reply(MOVE), Reply(ToolCall("call-2", MOVE.name, MOVE.arguments)), "done", Reply(MOVE), "no")
    options = {"builtins": False, "tools": [ARM]}
    one, two = await jan.start(**options), await jan.start(**options)
    await jan.turn(one)
    asked = await jan.item("permission_request")
    question = asked["request_id"]
    assert asked == {
        "type": "permission_request", "request_id": question, "tool_name": "host__robot_arm_move", "capability": "run",
        "path": None, "prompt_kind": "mcp", "offers_always": True,
    }  # fmt: skip
    maybe = await jan.refused("permission/respond", requestId=question, decision="maybe")
    assert maybe["message"] == "invalid permission decision"
    assert await jan.ask("permission/respond", requestId=question, decision="allow_always") == {}
    held = (await jan.item("tool_request"))["request_id"]
    again = await jan.refused("permission/respond", requestId=question, decision="allow_once")
    assert again["data"] == {"kind": "not_pending"}
    assert (await jan.refused("turn/interrupt", sessionId=two))["message"] == "no active turn for sessionId"
    assert (await jan.refused("turn/steer", sessionId=two, input="x"))["code"] == -32602
    await jan.ask("tool/respond", requestId=held, content="one")
    second = (await jan.item("tool_request"))["request_id"]  # not asked again
    await jan.ask("tool/respond", requestId=second, content="two")
    await jan.end()
    assert {note["params"]["sessionId"] for note in jan.notes} == {one}

    await jan.turn(two)
    other = (await jan.item("permission_request"))["request_id"]
    assert len({question, other, held, second}) == 4
    gone = await jan.refused("permission/respond", requestId=question, decision="deny")
    assert gone["data"] == {"kind": "not_pending"}
    assert await jan.ask("permission/respond", requestId=other, decision="deny") == {}
    result = await jan.item("tool_result")
    assert (result["content"], result["is_error"]) == ("ERROR: tool 'host__robot_arm_move' denied by user", True)
    assert (await jan.end())["stopReason"] == "completed"
    assert len(jan.told("tool_request")) == 2


async def test_built_in_tools_are_asked_about_when_reached(jan: Jan, launch: Launcher, model: ModelService) -> None:
    """Section 2.2, step 5b: all calls are shown, reads need no question, the results come after the batch."""
    launch.write("a.txt", "content of a")
    calls = (
        ToolCall("w", "write", {"file_path": launch.path("b.txt"), "content": "b"}),
        ToolCall("r", "read", {"file_path": launch.path("a.txt")}),
        ToolCall("s", "shell", {"cmd": "echo from the shell"}),
    )
    model.script(Reply(*calls), "done")
    await jan.turn(await jan.start())
    first = await jan.item("permission_request")
    assert (first["tool_name"], first["capability"], first["prompt_kind"]) == ("write", "write", "write")
    assert first["path"] == launch.path("b.txt")
    assert "b" in first["diff"]
    assert [call["id"] for call in jan.told("tool_call")] == ["w", "r", "s"]
    assert jan.told("tool_result") == []
    await jan.ask("permission/respond", requestId=first["request_id"], decision="allow_once")
    second = await jan.item("permission_request")
    assert (second["tool_name"], second["command"]) == ("shell", "echo from the shell")
    await jan.ask("permission/respond", requestId=second["request_id"], decision="allow_once")
    assert (await jan.end())["stopReason"] == "completed"
    results = jan.told("tool_result")
    assert [result["id"] for result in results] == ["w", "r", "s"]
    assert "content of a" in results[1]["content"]
    assert "from the shell" in results[2]["content"]
    assert (launch.workspace / "b.txt").read_text() == "b"


async def test_input_that_ends_in_a_turn(jan: Jan, model: ModelService) -> None:
    """Scenario 7.11 and case S-c05: the request is withdrawn, the turn is over, the status is 0."""
    model.script(Reply(MOVE))
    await jan.turn(await jan.start(**HOSTED))
    request = (await jan.item("tool_request"))["request_id"]
    await jan.close_stdin()
    end = await jan.end()
    assert (end["stopReason"], end["error"]) == ("interrupted", None)
    assert jan.told()[-1] == {
        "type": "tool_request_cancelled", "request_id": request, "reason": "client_gone",
    }  # fmt: skip
    assert await jan.wait_exit() == 0
    assert jan.rest() == []


async def test_a_host_that_stops_reading_loses_nothing(jan: Jan, model: ModelService) -> None:
    """Scenario 7.12, but every event arrives and the turn completes: there is no overload here."""
    pieces = [f"{n} " for n in range(6_000)]  # many times what a pipe, or Jan's own queue, holds
    model.script(Reply(*pieces))
    session = await jan.start(builtins=False)
    await jan.turn(session)
    jan.hold_reading()
    await (await model.request(1)).answered.wait()
    jan.resume_reading()
    assert (await jan.end())["stopReason"] == "completed"
    assert "".join(token["text"] for token in jan.told("token")) == "".join(pieces)
    assert (await jan.ask("session/list"))["sessions"][0]["turns"] == 1


async def test_a_provider_that_fails(jan: Jan, model: ModelService) -> None:
    """Scenario 7.14: the turn counts, the session stays usable."""
    model.script(Refused(401, "bad key"), "fine")
    session = await jan.start(builtins=False)
    await jan.turn(session)
    end = await jan.end()
    assert end["stopReason"] == "error"
    assert "401" in end["error"]
    assert jan.told()[-1] == {"type": "error", "code": "error", "message": end["error"]}
    assert (await jan.ask("session/list"))["sessions"][0]["turns"] == 1
    await jan.turn(session)
    assert (await jan.end())["stopReason"] == "completed"


async def test_a_blank_model_is_refused(jan: Jan) -> None:
    """Scenario 7.15."""
    session = await jan.start()
    error = await jan.refused("session/model/set", sessionId=session, model=" ")
    assert error["message"] == "model must not be empty"
    assert (await jan.ask("session/resume", sessionId=session))["model"] == "test-model"


async def test_input_that_is_refused(jan: Jan, model: ModelService) -> None:
    """Scenario 7.13; content parts reach the model."""
    session = await jan.start(builtins=False)
    for given, message in (
        ("   ", "'user' text is empty"),
        ([], "'user' content is empty"),
        ({"type": "user", "content": []}, "input must be text or content parts"),
    ):
        assert (await jan.refused("turn/start", sessionId=session, input=given))["message"] == message
    model.script("an image")
    await jan.turn(session, [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PNG}}])
    assert (await jan.end())["stopReason"] == "completed"
    assert PNG.encode() in (await model.request(1)).raw


async def test_what_parts_say_beside_reaches_the_service_and_is_given_back(jan: Jan, model: ModelService) -> None:
    """Extra keys pass through (section 3.6); the images of a request are told (section 2.1)."""
    model.script(Reply(MOVE), "done")
    session = await jan.start(**HOSTED)
    looked_at = {"type": "image_url", "image_url": {"url": PNG, "detail": "low", "x": [1]}, "y": {"z": None}}
    asked = [{"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}}, looked_at]
    await jan.turn(session, asked)
    request = (await jan.item("tool_request"))["request_id"]
    await jan.ask("tool/respond", requestId=request, content=[{"type": "text", "text": "seen"}, looked_at])
    assert (await jan.end())["stopReason"] == "completed"
    for number, seen in ((1, 1), (2, 2)):
        sent = (await model.request(number)).body["messages"]
        images = [part for said in sent if said["role"] == "user" for part in said["content"] if "image_url" in part]
        assert images == [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}] * seen
    data = base64.b64decode(PNG.partition(",")[2])
    image = {"sha256": hashlib.sha256(data).hexdigest(), "mime_type": "image/png", "bytes": len(data)}
    first, second = jan.told("request_provenance")
    assert first["images"] == [image]
    assert second["images"] == [image, {**image, "tool_call_id": "call-1"}]
    told = jan.told("messages_updated")[-1]["messages"]
    assert told[0] == {"role": "user", "content": asked}
    assert told[-1]["content"] == [{"type": "text", "text": "seen"}, looked_at]


async def test_a_steer_is_in_the_next_request(jan: Jan, model: ModelService) -> None:
    model.script(Reply(MOVE), "turning left")
    session = await jan.start(**HOSTED)
    await jan.turn(session)
    request = (await jan.item("tool_request"))["request_id"]
    assert await jan.ask("turn/steer", sessionId=session, input="now left") == {}
    await jan.ask("tool/respond", requestId=request, content="moved")
    await jan.end()
    assert (await model.request(2)).texts("user") == ["go", "now left"]
    assert jan.told("messages_updated")[-1]["messages"][-1] == {"role": "user", "content": "now left"}


async def test_forks_and_archives(jan: Jan, model: ModelService) -> None:
    """A fork goes on with the history and the tools, and counts its own turns."""
    model.script("one", "two")
    session = await jan.start(**HOSTED)
    await jan.turn(session, "first")
    await jan.end()
    fork = (await jan.ask("session/fork", sessionId=session))["sessionId"]
    assert fork != session
    assert await jan.ask("session/tools/get", sessionId=fork) == await jan.ask("session/tools/get", sessionId=session)
    turns = {entry["id"]: entry["turns"] for entry in (await jan.ask("session/list"))["sessions"]}
    assert turns == {session: 1, fork: 0}
    await jan.turn(fork, "second")
    assert (await jan.end())["sessionId"] == fork
    assert (await model.request(2)).texts("user") == ["first", "second"]
    assert jan.told("messages_updated")[-1]["messages"][0] == {"role": "user", "content": "first"}
    assert await jan.ask("session/archive", sessionId=session) == {}
    assert (await jan.refused("session/resume", sessionId=session))["message"].startswith("unknown sessionId")


async def test_a_host_only_session_that_delegates(jan: Jan, model: ModelService) -> None:
    """Scenario 7.16: the child's host call is asked at the top level."""

    def choose(body: JsonObject) -> Reply:
        told = [message for message in body["messages"] if message["role"] == "user"]
        results = [message for message in body["messages"] if message["role"] == "tool"]
        child = "dispatch_subagent" not in [tool["function"]["name"] for tool in body["tools"]]
        if child:
            return Reply("moved") if results else Reply(MOVE)
        if not results:
            name = "dispatch_subagent"
            parameters = next(tool for tool in body["tools"] if tool["function"]["name"] == name)
            assert parameters["function"]["parameters"]["type"] == "object"
            return Reply(ToolCall("call-d", name, {"subagent_name": "mover", "task": "move the arm to bin",
                                                   "name": "mover", "prompt": "move the arm to bin"}))  # fmt: skip
        return Reply("waiting") if len(told) == 1 else Reply("all done")

    model.choose = choose
    session = await jan.start(builtins=False, subagents=True, permissions="host", tools=[ARM])
    await jan.turn(session)
    started = await jan.item("subagent_start")
    run = started["run_id"]
    assert run.startswith("sub-")
    request = await jan.item("tool_request")
    assert request["run_id"] == run
    await jan.ask("tool/respond", requestId=request["request_id"], content="at the bin")
    ended = await jan.item("subagent_end")
    assert (ended["run_id"], ended["name"]) == (run, started["name"])
    assert "error" not in ended
    assert (await jan.end())["stopReason"] == "completed"
    nested = [event["event"]["type"] for event in jan.told("subagent") if event["run_id"] == run]
    assert {"step", "request_provenance", "tool_call", "tool_result"} <= set(nested)
    assert {"done", "error"}.isdisjoint(nested)


async def test_the_end_of_a_turn_keeps_its_distance_from_the_answer(jan: Jan, model: ModelService) -> None:
    """Section 6.5: never within 20 ms of the answer to `turn/start`, however fast the model is."""
    model.choose = lambda body: Reply("x")
    session = await jan.start(builtins=False)
    for _ in range(5):
        before = trio.current_time()  # ... the answer
        await jan.turn(session)
        await jan.end()
        assert trio.current_time() - before >= 0.02


async def test_a_stopped_model_request_keeps_what_was_said(jan: Jan, model: ModelService) -> None:
    gate = Gate()
    model.script(Reply("Half an ans", gate, "wer"), "next")
    session = await jan.start(builtins=False)
    await jan.turn(session)
    await jan.item("token")
    await gate.reached.wait()
    assert await jan.ask("turn/interrupt", sessionId=session) == {}
    assert jan.notes[-1]["params"]["stopReason"] == "interrupted"
    await (await model.request(1)).disconnected.wait()
    await jan.turn(session)
    await jan.end()
    assert jan.told("messages_updated")[-1]["messages"][1] == {"role": "assistant", "content": "Half an ans"}


async def test_lines_of_nobody_s_do_not_end_it(jan: Jan) -> None:
    """Case S-b02, and requests without an id: they are carried out and not answered."""
    session = await jan.start()
    await jan.send_bytes(b'garbage\n\n{"jsonrpc":"2.0","method":"session/archive","params":{"sessionId":"%s"}}\n'
                         % session.encode())  # fmt: skip
    assert [(await jan.next_event())["error"]["code"] for _ in range(2)] == [-32700, -32700]
    assert await jan.ask("session/list") == {"sessions": []}


async def test_our_own_host_drives_it(jan: Jan, launch: Launcher, model: ModelService) -> None:
    """The host side over the same pipes: a session, a turn with a question, its end."""
    model.script(Reply(ToolCall("w", "write", {"file_path": launch.path("b.txt"), "content": "b"})), "done")
    host: Any = codec.host()
    heard: list[events.Event] = []

    async def send(command: commands.Command) -> None:
        out = bytearray()
        assert isinstance(host.send(command, out), int)
        await jan.send_bytes(bytes(out))

    async def until(kind: type[events.Event]) -> Any:
        while True:
            line = await jan.next_event()
            for said in host.receive(json.dumps(line).encode()):
                event = getattr(said, "event", None)
                if event is not None:
                    heard.append(event)
            if heard and isinstance(heard[-1], kind):
                return heard[-1]

    await send(commands.OpenSession(workspace=str(launch.workspace)))
    await until(events.SessionOpened)
    await send(commands.Prompt("write"))
    question = await until(events.ApprovalRequested)
    assert question.call_id == "w"
    await send(commands.Approve(call_id="w"))
    end = await until(events.TurnFinished)
    assert (end.outcome, end.text, end.steps) == ("completed", "done", 2)
    assert [type(event) for event in heard].count(events.StepFinished) == 2
    assert (launch.workspace / "b.txt").read_text() == "b"
