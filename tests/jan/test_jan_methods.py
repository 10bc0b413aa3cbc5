"""Each method: what it becomes, and what it is refused for, in the order of the checks (section 1.6)."""

from __future__ import annotations

from typing import Any

import pytest
from janlines import Line, Scene, error
from msgspec import UNSET, Raw

from agentwire import commands as bus
from agentwire.commands import Done, Refusal, SessionState
from agentwire.events import HostTool, Image, Text

BAD = -32602
ACTIVE = error(
    -32001,
    "this session has an active turn; retry after turn/completed",
    {"retryable": True, "kind": "turn_active"},
)
SESSION_BUSY = error(-32001, "session busy", {"retryable": True})
ANOTHER = error(-32001, "another turn is active; retry after turn/completed", {"retryable": True})
UNKNOWN = error(BAD, "unknown sessionId")

TOOL = HostTool("host__t", "d", {"type": "object", "properties": {"x": {}}}, "t", "read")
STATE = SessionState("S", "m", 3, ["read", "host__t"], [TOOL])
VIEW = {
    "tools": ["read", "host__t"],
    "toolSpecs": [
        {
            "type": "function",
            "function": {
                "name": "host__t", "description": "d", "parameters": {"type": "object", "properties": {"x": {}}},
            },
        }
    ],
}  # fmt: skip


@pytest.fixture
def idle() -> Line:
    return Line(Scene({"S", "T"}))


@pytest.fixture
def busy() -> Line:
    """A turn runs in S, with a question and a host tool request."""
    return Line(Scene({"S", "T"}, running="S", waiting={"perm-1": "S", "host-1": "S"}))


# --- sessions ------------------------------------------------------------------------------------------------


def test_session_start_asks_for_a_session(idle: Line) -> None:
    command = idle.command("session/start", {"cwd": "/tmp/p"})
    assert command == bus.OpenSession(id=command.id, workspace="/tmp/p")
    assert command.id[14] == "4"  # a random UUID
    assert len(command.id) == 36
    full = {
        "cwd": "/tmp/p", "model": "jan/m", "ephemeral": True, "builtins": False, "subagents": True,
        "systemPrompt": " be brief ", "permissions": "host",
        "tools": [{"name": " t ", "description": " d ", "parameters": {"b": 1, "a": 2}, "capability": "actuator"}],
    }  # fmt: skip
    command = idle.command("session/start", full)
    assert command == bus.OpenSession(
        command.id, "/tmp/p", "jan/m", True, " be brief ", False, True,
        [HostTool("host__t", "d", {"b": 1, "a": 2}, "t", "actuator")], True,
    )  # fmt: skip
    assert list(command.tools[0].parameters) == ["b", "a"]
    nulls = idle.command("session/start", {"cwd": "/tmp/p", "model": None, "subagents": None, "systemPrompt": None})
    assert (nulls.model, nulls.subagents, nulls.system_prompt) == ("", UNSET, "")
    assert idle.call("session/start", {"cwd": "/tmp/p"}, STATE) == {"result": {**VIEW, "sessionId": "S", "model": "m"}}


OPTIONS = "session/start requires cwd and supported options"


@pytest.mark.parametrize(
    ("params", "answer"),
    [
        (None, error(BAD, OPTIONS)),
        ([], error(BAD, OPTIONS)),
        ({}, error(BAD, OPTIONS)),
        ({"cwd": 1}, error(BAD, OPTIONS)),
        ({"cwd": "/tmp/p", "hostTools": []}, error(BAD, OPTIONS)),
        ({"cwd": "/tmp/p", "permissions": "nobody"}, error(BAD, OPTIONS)),
        ({"cwd": "/tmp/p", "permissions": None}, error(BAD, OPTIONS)),
        ({"cwd": "/tmp/p", "ephemeral": None}, error(BAD, OPTIONS)),
        ({"cwd": "/tmp/p", "builtins": 1}, error(BAD, OPTIONS)),
        ({"cwd": "/tmp/p", "subagents": "yes"}, error(BAD, OPTIONS)),
        ({"cwd": "/tmp/p", "tools": None}, error(BAD, OPTIONS)),
        ({"cwd": "/tmp/p", "tools": {}}, error(BAD, OPTIONS)),
        ({"cwd": "/no/such", "systemPrompt": " "}, error(BAD, "cwd is not a directory")),
        (
            {"cwd": "/tmp/p", "systemPrompt": " \n", "tools": [{}]},
            error(BAD, "systemPrompt must not be blank; omit it to use Jan's"),
        ),
        (
            {"cwd": "/tmp/p", "tools": [{"name": "shell"}]},
            error(BAD, "host tool name 'shell' is reserved by a built-in tool", {"kind": "invalid_tools"}),
        ),
    ],
)
def test_what_session_start_is_refused_for(idle: Line, params: Any, answer: Any) -> None:
    assert idle.call("session/start", params) == answer


@pytest.mark.parametrize("kind", ["config_missing", "model_missing", ""])
def test_a_set_up_that_is_not_in_order_is_the_answer(idle: Line, kind: str) -> None:
    request = idle.read({"jsonrpc": "2.0", "id": 1, "method": "session/start", "params": {"cwd": "/tmp/p"}})
    assert request is not None
    answer = idle.answer(request, Refusal("config", "No model is set", data=kind))
    assert answer == {"jsonrpc": "2.0", "id": 1, **error(BAD, "No model is set")}


@pytest.mark.parametrize(
    ("method", "command", "value", "result"),
    [
        ("session/tools/get", bus.GetHostTools("S"), STATE, VIEW),
        ("session/reset", bus.ResetSession("S"), STATE, VIEW),
        ("session/resume", bus.ResumeSession("S"), STATE, {"sessionId": "S", "model": "m", "turns": 3}),
        ("session/archive", bus.ArchiveSession("S"), None, {}),
    ],
)
def test_what_takes_a_session(idle: Line, method: str, command: bus.Command, value: Any, result: Any) -> None:
    assert idle.command(method, {"sessionId": "S"}) == command
    assert idle.call(method, {"sessionId": "S"}, value) == {"result": result}


def test_a_fork_has_an_id_of_its_own(idle: Line) -> None:
    one, two = (idle.command("session/fork", {"sessionId": "S"}) for _ in range(2))
    assert isinstance(one, bus.ForkSession)
    assert (one.session, len(one.id)) == ("S", 36)
    assert one.id != two.id
    assert idle.call("session/fork", {"sessionId": "S"}, SessionState("F")) == {"result": {"sessionId": "F"}}


def test_tools_and_model_can_be_replaced(idle: Line) -> None:
    tools = {"sessionId": "S", "tools": [{"name": "t"}]}
    declared = HostTool("host__t", "", {"type": "object", "properties": {}}, "t")
    assert idle.command("session/tools/set", tools) == bus.SetHostTools("S", [declared])
    assert idle.command("session/tools/set", {"sessionId": "S", "tools": []}) == bus.SetHostTools("S", [])
    assert idle.call("session/tools/set", tools, STATE) == {"result": VIEW}
    model = {"sessionId": "S", "model": "m2"}
    assert idle.command("session/model/set", model) == bus.SetModel("S", "m2")
    assert idle.call("session/model/set", model, SessionState("S", "m2")) == {"result": {"model": "m2"}}


def test_a_model_that_nobody_serves_is_named(idle: Line) -> None:
    params = {"sessionId": "S", "model": "no-such-model"}
    request = idle.read({"jsonrpc": "2.0", "id": 1, "method": "session/model/set", "params": params})
    assert request is not None
    answer = idle.answer(request, Refusal("config", "no provider serves 'no-such-model'", data="model"))
    assert answer is not None
    assert (answer["error"]["code"], answer["error"]["data"]) == (BAD, None)
    assert "no-such-model" in answer["error"]["message"]


def test_session_list(idle: Line) -> None:
    assert idle.command("session/list", None) == bus.ListSessions()
    listed = {"id": "S", "model": "m", "turns": 3, "hostTools": 1}
    assert idle.call("session/list", {"whatever": 1}, [STATE]) == {"result": {"sessions": [listed]}}
    for params in (7, [], "x", False):
        assert idle.call("session/list", params) == error(BAD, "session/list takes no params")


MALFORMED = {
    "session/tools/get": "session/tools/get requires sessionId",
    "session/tools/set": "session/tools/set requires sessionId and tools",
    "session/model/set": "session/model/set requires sessionId and model",
    "session/reset": "session/reset requires sessionId",
    "session/resume": "session/resume requires sessionId",
    "session/fork": "unknown sessionId",
    "session/archive": "unknown sessionId",
    "turn/start": "turn/start requires sessionId and input",
    "turn/steer": "turn/steer requires an active session and nonempty input",
    "turn/interrupt": "no active turn for sessionId",
    "permission/respond": "permission/respond requires an active turn and requestId",
    "tool/respond": "tool/respond requires requestId and content (a string or content parts)",
}
WHOLE: dict[str, dict[str, Any]] = {
    "session/tools/set": {"tools": []},
    "session/model/set": {"model": "m"},
    "turn/start": {"input": "hi"},
    "turn/steer": {"input": "hi"},
    "permission/respond": {"requestId": "perm-1", "decision": "deny"},
    "tool/respond": {"requestId": "host-1", "content": ""},
}


@pytest.mark.parametrize("method", MALFORMED)
def test_parameters_that_are_not_as_they_should_be(idle: Line, method: str) -> None:
    whole = WHOLE.get(method, {})
    whole = whole if "requestId" in whole else {"sessionId": "S", **whole}
    cut = [{key: value for key, value in whole.items() if key != gone} for gone in whole]
    for params in (None, [], {}, 7, {**whole, "x": 1}, {**whole, next(iter(whole)): 7}, *cut):
        assert idle.call(method, params) == error(BAD, MALFORMED[method]), params


@pytest.mark.parametrize("method", [method for method in MALFORMED if method.startswith("session/")])
def test_a_session_that_is_not_there(idle: Line, method: str) -> None:
    text = "unknown sessionId"
    if method == "session/resume":
        text += " (RPC sessions belong to their process)"
    assert idle.call(method, {"sessionId": "no", **WHOLE.get(method, {})}) == error(BAD, text)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("session/tools/set", ACTIVE),
        ("session/model/set", ACTIVE),
        ("session/reset", ACTIVE),
        ("session/fork", SESSION_BUSY),
        ("session/archive", SESSION_BUSY),
    ],
)
def test_what_waits_for_the_session_s_turn(busy: Line, idle: Line, method: str, answer: Any) -> None:
    """Another session's turn is not in the way. The engine may say the same, a little later."""
    params = WHOLE.get(method, {})
    # ... before the tools or the model are looked at
    spoilt = {"tools": [{}]} if "tools" in params else {"model": " "} if "model" in params else {}
    assert busy.call(method, {"sessionId": "S", **params, **spoilt}) == answer
    assert "error" not in busy.call(method, {"sessionId": "T", **params}, STATE)
    frame = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"sessionId": "S", **params}}
    request = idle.read(frame)
    assert request is not None
    assert idle.answer(request, Refusal("busy", "a turn runs", retryable=True)) == {"jsonrpc": "2.0", "id": 7, **answer}


@pytest.mark.parametrize("method", ["session/tools/get", "session/list", "session/resume"])
def test_what_is_answered_during_a_turn(busy: Line, method: str) -> None:
    params = None if method == "session/list" else {"sessionId": "S"}
    assert "result" in busy.call(method, params, [] if params is None else STATE)


def test_a_blank_model(idle: Line) -> None:
    assert idle.call("session/model/set", {"sessionId": "S", "model": " "}) == error(BAD, "model must not be empty")


# --- turns ---------------------------------------------------------------------------------------------------


def test_turn_start(idle: Line) -> None:
    assert idle.command("turn/start", {"sessionId": "S", "input": " hi "}) == bus.Prompt(" hi ", session="S")
    url = "data:Image/PNG;base64,iVBORw0KGgo="
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url, "detail": "low"}}]
    assert idle.command("turn/start", {"sessionId": "S", "input": parts}) == bus.Prompt(
        parts=[Text("look"), Image("image/png", "iVBORw0KGgo=", extra={"image_url": {"detail": "low"}})], session="S"
    )
    assert idle.call("turn/start", {"sessionId": "S", "input": "hi"}, "T-1") == {"result": {"turnId": "T-1"}}


SHAPE = "input must be text or content parts"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("   ", "'user' text is empty"),
        ("", "'user' text is empty"),
        ([], "'user' content is empty"),
        ({"type": "user", "content": [{"type": "text", "text": "hi"}]}, SHAPE),
        (None, SHAPE),
        (7, SHAPE),
        (True, SHAPE),
        (
            [{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AA=="}}],
            "unsupported image type 'image/bmp' (image/png, image/jpeg, image/gif, image/webp)",
        ),
    ],
)
def test_inputs_that_are_refused(idle: Line, busy: Line, given: Any, message: str) -> None:
    """After everything else: an unknown session and a turn that runs are told first."""
    assert idle.call("turn/start", {"sessionId": "S", "input": given}) == error(BAD, message)
    assert idle.call("turn/start", {"sessionId": "no", "input": given}) == UNKNOWN
    assert busy.call("turn/start", {"sessionId": "T", "input": given}) == ANOTHER
    assert busy.call("turn/start", {}) == ANOTHER


def test_a_turn_that_began_meanwhile(idle: Line) -> None:
    params = {"sessionId": "S", "input": "hi"}
    request = idle.read({"jsonrpc": "2.0", "id": 7, "method": "turn/start", "params": params})
    assert request is not None
    assert idle.answer(request, Refusal("busy", "x", retryable=True)) == {"jsonrpc": "2.0", "id": 7, **ANOTHER}


def test_turn_steer(busy: Line, idle: Line) -> None:
    refused = error(BAD, MALFORMED["turn/steer"])
    params = {"sessionId": "S", "input": "left"}
    assert busy.command("turn/steer", params) == bus.Steer("left", "S")
    assert busy.call("turn/steer", params) == {"result": {}}
    assert idle.call("turn/steer", params) == refused
    for spoilt in ({"sessionId": "T"}, {"sessionId": ""}, {"input": " "}, {"input": [{"type": "text", "text": "x"}]}):
        assert busy.call("turn/steer", {**params, **spoilt}) == refused
    request = busy.read({"jsonrpc": "2.0", "id": 7, "method": "turn/steer", "params": params})
    assert request is not None
    assert busy.answer(request, Refusal("not_found", "x")) == {"jsonrpc": "2.0", "id": 7, **refused}


def test_turn_interrupt(busy: Line, idle: Line) -> None:
    refused = error(BAD, "no active turn for sessionId")
    assert busy.command("turn/interrupt", {"sessionId": "S"}) == bus.Stop("S", wait=True)
    assert busy.call("turn/interrupt", {"sessionId": "S"}, value=True) == {"result": {}}
    assert busy.call("turn/interrupt", {"sessionId": "S"}, value=False) == refused
    assert busy.call("turn/interrupt", {"sessionId": "T"}) == refused
    assert busy.call("turn/interrupt", {"sessionId": ""}) == refused
    assert idle.call("turn/interrupt", {"sessionId": "S"}) == refused


# --- questions and host tools --------------------------------------------------------------------------------


def not_pending(what: str, request: str) -> dict[str, Any]:
    text = f"no {what} request '{request}' is pending (answered, cancelled, or never issued)"
    return error(BAD, text, {"kind": "not_pending"})


@pytest.mark.parametrize(
    ("decision", "command"),
    [
        ("allow_once", bus.Approve(approval_id="perm-1", session="S")),
        ("allow_always", bus.Approve(approval_id="perm-1", scope="always", session="S")),
        ("deny", bus.Deny(approval_id="perm-1", session="S")),
    ],
)
def test_permission_respond(busy: Line, decision: str, command: bus.Command) -> None:
    params = {"requestId": "perm-1", "decision": decision}
    assert busy.command("permission/respond", params) == command
    assert busy.call("permission/respond", params) == {"result": {}}


def test_what_permission_respond_is_refused_for(busy: Line, idle: Line) -> None:
    needs = error(BAD, MALFORMED["permission/respond"])
    assert idle.call("permission/respond", {"requestId": "perm-1", "decision": "maybe"}) == needs
    assert busy.call("permission/respond", {"requestId": "perm-1"}) == needs
    invalid = error(BAD, "invalid permission decision")
    assert busy.call("permission/respond", {"requestId": "perm-9", "decision": "maybe"}) == invalid
    gone = {"requestId": "perm-9", "decision": "deny"}
    assert busy.call("permission/respond", gone) == not_pending("permission", "perm-9")
    busy.scene.waiting["perm-9"] = "T"  # another session's
    assert busy.call("permission/respond", gone) == not_pending("permission", "perm-9")
    # The engine knows that a host tool request is no question.
    params = {"requestId": "host-1", "decision": "deny"}
    request = busy.read({"jsonrpc": "2.0", "id": 7, "method": "permission/respond", "params": params})
    assert request is not None
    answer = busy.answer(request, Refusal("not_pending", "x"))
    assert answer == {"jsonrpc": "2.0", "id": 7, **not_pending("permission", "host-1")}


def test_tool_respond(busy: Line) -> None:
    def answer(**params: Any) -> bus.Command:
        return busy.command("tool/respond", {"requestId": "host-1", **params})

    assert answer(content="") == bus.AnswerHostTool("host-1", [Text("")], session="S")
    parts = [
        {"type": "text", "text": "frame"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    assert answer(content=parts, isError=True, details={"b": 1, "a": [2]}) == bus.AnswerHostTool(
        "host-1", [Text("frame"), Image("image/png", "iVBORw0KGgo=")], True, Raw(b'{"a":[2],"b":1}'), "S"
    )
    assert answer(content="x", details=None) == bus.AnswerHostTool("host-1", [Text("x")], session="S")
    assert busy.call("tool/respond", {"requestId": "host-1", "content": "x"}) == {"result": {}}


def test_what_tool_respond_is_refused_for(busy: Line, idle: Line) -> None:
    malformed = error(BAD, MALFORMED["tool/respond"])
    for params in ({"content": 7}, {"content": None}, {"content": "x", "details": [1]}, {"content": {}}):
        assert busy.call("tool/respond", {"requestId": "host-1", **params}) == malformed
    audio = {"requestId": "host-9", "content": [{"type": "audio"}]}
    assert busy.call("tool/respond", audio) == error(BAD, "unsupported content part 'audio' (text, image_url)")
    assert busy.call("tool/respond", {"requestId": "host-1", "content": []}) == error(
        BAD, "'tool_result' content is empty"
    )
    late = {"requestId": "host-9", "content": "too late"}
    assert busy.call("tool/respond", late) == not_pending("host tool", "host-9")
    assert idle.call("tool/respond", late) == not_pending("host tool", "host-9")


def test_an_answer_of_the_engine_s_own_has_its_words(idle: Line) -> None:
    """Whatever else the engine refuses is told as it says it."""
    request = idle.read({"jsonrpc": "2.0", "id": 7, "method": "turn/start", "params": {"sessionId": "S", "input": "x"}})
    assert request is not None
    answer = idle.answer(request, Refusal("read_only", "the journal cannot be written"))
    assert answer == {"jsonrpc": "2.0", "id": 7, **error(BAD, "the journal cannot be written")}
    assert idle.answer(request, Done("T-1")) == {"jsonrpc": "2.0", "id": 7, "result": {"turnId": "T-1"}}
