"""What the RPC asks of agents, with the plays that prove it: each is a scripted host."""

from __future__ import annotations

import tempfile
from typing import Any, Final

from agentwire.codec.checking import Severity
from agentwire.codec.kit import (
    ANY,
    COUNT,
    HELLO,
    RUN,
    Absent,
    AgentBasics,
    Await,
    AwaitEnd,
    Bind,
    Check,
    EndInput,
    Given,
    Has,
    Line,
    OneOf,
    Play,
    Requirement,
    Say,
    Step,
)

_S: Final = {"sessionId": Given("session")}


def _call(asked: Any, method: str, params: Any) -> Say:
    return Say({"jsonrpc": "2.0", "id": asked, "method": method, "params": params})


def _result(asked: Any, result: Any = ANY, *never: Any) -> Await:
    return Await({"jsonrpc": "2.0", "id": asked, "result": result, "error": Absent()}, f"result of {asked}", never)


def _refused(asked: Any, code: int, data: Any = ANY, message: Any = ANY) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": asked,
        "error": {"code": code, "message": message, "data": data},
        "result": Absent(),
    }


def _refusal(asked: Any, code: int, data: Any = ANY, *never: Any) -> Await:
    return Await(_refused(asked, code, data), f"error {code} under the id {asked}", never)


def _item(tag: str, **fields: Any) -> dict[str, Any]:
    event = {"type": tag, **fields}
    return {"method": f"item/{tag}", "params": {**_S, "turnId": Given("turn"), "event": event}}


def _completed(reason: str, error: Any = None) -> dict[str, Any]:
    params = {**_S, "turnId": Given("turn"), "stopReason": reason, "error": error}
    return {"method": "turn/completed", "params": params}


_INITIALIZE: Final = {"protocolVersion": 1, "clientInfo": {"name": "agentwire-check", "version": "1"}}
_INITIALIZED: Final = Say({"jsonrpc": "2.0", "method": "initialized", "params": {}})
_SHAKEN: Final[tuple[Step, ...]] = (_call(1, "initialize", _INITIALIZE), _result(1), _INITIALIZED)


def _opened(**more: Any) -> tuple[Step, ...]:
    params = {"cwd": tempfile.gettempdir(), "ephemeral": True, **more}
    return (
        _call("open", "session/start", params),
        _result(
            "open",
            {
                "sessionId": Bind("session", "string"),
                "model": Bind(kind="string"),
                "tools": Bind(kind="array"),
                "toolSpecs": Bind(kind="array"),
            },
        ),
    )


_GREET: Final[tuple[Step, ...]] = (*_SHAKEN, *_opened())


def _started(text: str, asked: Any = "turn") -> tuple[Step, ...]:
    notes = ({"method": Bind(kind="string")},)
    return (
        _call(asked, "turn/start", {**_S, "input": text}),
        _result(asked, {"turnId": Bind("turn", "string")}, *notes),
    )


def _over(reason: str, error: Any = None, *never: Any) -> Await:
    return Await(_completed(reason, error), f"turn/completed, {reason}", ({"method": "turn/completed"}, *never))


def _turn(text: str, asked: Any = "turn") -> tuple[Step, ...]:
    return (*_started(text, asked), _over("completed"))


_ASKED: Final[tuple[Step, ...]] = (
    *_started(RUN),
    Await(
        _item(
            "permission_request",
            request_id=Bind("request", "string"),
            tool_name=Bind("tool", "string"),
            capability=OneOf(("read", "write", "exec", "run")),
            path=ANY,
            prompt_kind=Bind(kind="string"),
            offers_always=Bind(kind="boolean"),
        ),
        "permission_request",
        unless={"method": "turn/completed"},
        absent="the model called no tool that needs a permission",
    ),
)


def _decide(decision: str, asked: Any = "decide") -> Say:
    return _call(asked, "permission/respond", {"requestId": Given("request"), "decision": decision})


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    line = {"jsonrpc": "2.0", "id": token, "method": "session/list", "params": {}}
    return line, ({"jsonrpc": "2.0", "id": token, "result": {"sessions": Bind(kind="array")}},)


BASICS: Final = AgentBasics(
    greet=_GREET,
    question=_question,
    flood=_question,
    prompt=_turn,
    framing="1.1",
    ending="1.4",
    bad=(
        Line(
            "json", "a line that is not JSON is a parse error, id null", "1.2", b"{nope", _refused(None, -32700, None)
        ),
        Line("value", "a line that is not an object is an invalid request", "1.1", [1], _refused(None, -32600, None)),
        Line("blank", "a blank line is a parse error", "1.1", b"", _refused(None, -32700, None)),
        Line(
            "version",
            "jsonrpc must be 2.0",
            "1.2",
            {"jsonrpc": "1.0", "id": "v", "method": "session/list"},
            _refused("v", -32600),
        ),
        Line(
            "method",
            "an unknown method is method not found",
            "1.2",
            {"jsonrpc": "2.0", "id": 7, "method": "agentwire/unknown"},
            _refused(7, -32601, None),
        ),
        Line(
            "note",
            "an unknown method without an id is ignored",
            "1.2",
            {"jsonrpc": "2.0", "method": "agentwire/unknown"},
        ),
        Line(
            "params",
            "params that do not fit are refused",
            "1.6",
            {"jsonrpc": "2.0", "id": "p", "method": "turn/start", "params": {"input": "x"}},
            _refused("p", -32602),
        ),
        Line(
            "session",
            "an unknown session is refused",
            "1.6",
            {"jsonrpc": "2.0", "id": "s", "method": "turn/start", "params": {"sessionId": "none", "input": "x"}},
            _refused("s", -32602, message=Has("unknown sessionId")),
        ),
        Line(
            "null",
            "an id of null is answered as such",
            "1.2",
            {"jsonrpc": "2.0", "id": None, "method": "session/list"},
            {"id": None, "result": ANY},
        ),
    ),
)


def _agent(
    name: str,
    section: str,
    text: str,
    *steps: Step,
    greet: tuple[Step, ...] = _GREET,
    level: Severity = "must",
    check: Check | None = None,
) -> Requirement:
    return Requirement(name, "agent", section, text, Play(name, (*greet, *steps)), check, level)


_IMAGE: Final = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg"
    "YGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)
_TOOL: Final = {"name": "agentwire_probe", "description": "Does nothing.", "capability": "read"}

REQUIREMENTS: Final = (
    _agent(
        "handshake",
        "1.3",
        "initialize tells the version, the server and what it can",
        _call(1, "initialize", _INITIALIZE),
        _result(
            1,
            {
                "protocolVersion": 1,
                "serverInfo": {"name": Bind(kind="string"), "version": Bind(kind="string")},
                "capabilities": {"session": True, "turn": True},
            },
        ),
        greet=(),
    ),
    _agent(
        "gate",
        "1.2",
        "nothing but the handshake is served before it",
        _call(1, "session/list", {}),
        _refusal(1, -32002, None),
        *_GREET,
        greet=(),
    ),
    _agent(
        "versions",
        "1.3",
        "another protocol version is refused",
        _call(1, "initialize", {**_INITIALIZE, "protocolVersion": 2}),
        _refusal(1, -32602, None),
        greet=(),
    ),
    _agent(
        "turn",
        "2.2",
        "turn/start is answered first; a turn is steps, tokens, done, and one turn/completed",
        *_started(HELLO),
        Await(_item("step", index=1, max=ANY), "step 1", ({"method": "item/token"},)),
        Await(_item("token", text=Bind(kind="string")), "token"),
        Await(_item("done", stop_reason=ANY), "done"),
        _over("completed"),
        _call("after", "session/list", {}),
        _result("after", ANY, {"method": ANY}),
    ),
    _agent("second-turn", "2.2", "a session takes one turn after the other", *_turn(HELLO), *_turn(HELLO, "again")),
    _agent(
        "busy",
        "1.6",
        "a second turn is refused as retryable while one runs",
        *_started(COUNT),
        _call("more", "turn/start", {**_S, "input": HELLO}),
        _refusal("more", -32001, {"retryable": True}, {"method": "turn/completed"}),
    ),
    _agent(
        "interrupt",
        "1.6",
        "an interrupted turn is completed as such before the answer",
        *_started(COUNT),
        _call("stop", "turn/interrupt", _S),
        _over("interrupted", None, {"id": "stop"}),
        _result("stop", {}),
        *_turn(HELLO, "next"),
    ),
    _agent(
        "interrupt-idle",
        "1.6",
        "an interrupt without a turn is refused",
        _call("stop", "turn/interrupt", _S),
        _refusal("stop", -32602),
    ),
    _agent(
        "permission",
        "3.3",
        "an allowed call runs and has its result",
        *_ASKED,
        _decide("allow_once"),
        _result("decide", {}),
        Await(
            _item("tool_result", id=Bind(kind="string"), content=Bind(kind="string"), is_error=Bind(kind="boolean")),
            "tool_result",
        ),
        _over("completed"),
    ),
    _agent(
        "waits",
        "3.3",
        "nothing runs that waits for a permission",
        *_ASKED,
        _call("after", "session/list", {}),
        _result("after", ANY, {"method": "item/tool_result"}, {"method": "turn/completed"}),
    ),
    _agent(
        "denial",
        "3.3",
        "a denied call is an error to the model, and the turn goes on",
        *_ASKED,
        _decide("deny"),
        _result("decide", {}),
        Await(_item("tool_result", is_error=True), "tool_result that is an error"),
        _over("completed"),
    ),
    _agent(
        "answered",
        "1.6",
        "a permission is answered once",
        *_ASKED,
        _decide("deny"),
        _result("decide", {}),
        _decide("deny", "again"),
        _refusal("again", -32602),
    ),
    _agent(
        "end-in-turn",
        "1.4",
        "the end of input interrupts the turn and ends the process",
        *_started(COUNT),
        EndInput(),
        _over("interrupted"),
        AwaitEnd(0),
    ),
    _agent(
        "images",
        "1.3",
        "an image of a declared type is taken",
        _call(1, "initialize", _INITIALIZE),
        Await(
            {"id": 1, "result": {"input_content_parts": {"mime_types": Bind()}}},
            "result",
            unless={"id": 1},
            absent="no content parts are declared",
        ),
        _INITIALIZED,
        *_opened(),
        _call(
            "turn",
            "turn/start",
            {**_S, "input": [{"type": "text", "text": HELLO}, {"type": "image_url", "image_url": {"url": _IMAGE}}]},
        ),
        _result("turn", {"turnId": ANY}),
        greet=(),
    ),
    _agent(
        "host-tools",
        "3.1",
        "a declared host tool is among the session's tools",
        *_SHAKEN,
        _call(
            "open",
            "session/start",
            {"cwd": tempfile.gettempdir(), "ephemeral": True, "builtins": False, "tools": [_TOOL]},
        ),
        _result("open", {"tools": ["host__agentwire_probe"], "toolSpecs": [{"type": "function"}]}),
        greet=(),
    ),
    _agent(
        "tool-names",
        "3.2",
        "tools of one name twice are refused, and no session is opened",
        *_SHAKEN,
        _call("open", "session/start", {"cwd": tempfile.gettempdir(), "tools": [_TOOL, _TOOL]}),
        _refusal("open", -32602, {"kind": "invalid_tools"}),
        _call("list", "session/list", {}),
        _result("list", {"sessions": []}),
        greet=(),
    ),
    _agent(
        "list",
        "1.6",
        "an open session is listed with its turns",
        *_turn(HELLO),
        _call("list", "session/list", {}),
        _result("list", {"sessions": [{"id": Given("session"), "model": ANY, "turns": 1, "hostTools": 0}]}),
    ),
    _agent(
        "archive",
        "1.6",
        "an archived session is gone",
        _call("bye", "session/archive", _S),
        _result("bye", {}),
        _call("turn", "turn/start", {**_S, "input": HELLO}),
        _refusal("turn", -32602),
    ),
    _agent(
        "cwd",
        "1.6",
        "a session needs a directory that exists",
        _call("cwd", "session/start", {"cwd": "/agentwire/none"}),
        _refusal("cwd", -32602),
    ),
)
