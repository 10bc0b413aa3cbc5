"""What this wire asks of agents, with the plays that prove it: each is a scripted host."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.checking import Severity
from agentwire.codec.kit import (
    ANY,
    COUNT,
    HELLO,
    RUN,
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
    Transcript,
)

_MODES: Final = ("default", "auto_edit", "yolo")

_CAPABILITIES: Final = {
    "tool_approval": True,
    "image_input": OneOf(("supported", "unsupported", "unknown")),
    "thinking": Bind(kind="boolean"),
    "effort": Bind(kind="boolean"),
    "effort_levels": Bind(kind="array"),
    "modes": Bind(kind="array"),
    "current_mode": OneOf(_MODES),
    "mcp": Bind(kind="boolean"),
}

_READY: Final = {"type": "ready", "version": Bind(kind="string"), "capabilities": _CAPABILITIES}

_GREET: Final[tuple[Step, ...]] = (Await({"type": "ready"}, "ready"),)


def _error(msg_id: Any = None, message: Any = ANY, **more: Any) -> dict[str, Any]:
    return {"type": "error", "msg_id": msg_id, "error": {"code": "protocol_error", "message": message, **more}}


def _message(text: str, msg_id: str = "m") -> Say:
    return Say({"type": "message", "msg_id": msg_id, "content": text})


def _began(msg_id: str = "m") -> Await:
    return Await({"type": "stream_start", "msg_id": msg_id}, "stream_start")


def _ended(msg_id: str = "m", *never: Any) -> Await:
    return Await({"type": "stream_end", "msg_id": msg_id}, "stream_end", never)


def _turn(text: str, msg_id: str = "m") -> tuple[Step, ...]:
    return (_message(text, msg_id), _began(msg_id), _ended(msg_id, {"type": "stream_start"}))


_PING: Final = Say({"type": "ping"})
_STOP: Final = Say({"type": "stop"})


def _pong(*never: Any) -> Await:
    return Await({"type": "pong"}, "pong", never)


_ASKED: Final[tuple[Step, ...]] = (
    _message(RUN),
    Await(
        {
            "type": "tool_request",
            "msg_id": "m",
            "call_id": Bind("call", "string"),
            "tool": {
                "name": Bind("tool", "string"),
                "category": OneOf(("info", "edit", "exec", "mcp")),
                "args": Bind(kind="object"),
                "description": Bind(kind="string"),
            },
        },
        "tool_request",
        unless={"type": "stream_end"},
        absent="the model called no tool that needs an approval",
    ),
)

_CALL: Final = {"call_id": Given("call")}


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    """An id comes back with whatever is said of its message."""
    line = {"type": "message", "msg_id": token, "content": HELLO}
    return line, ({"type": "stream_start", "msg_id": token}, {"type": "stream_end", "msg_id": token})


def _flood(token: str) -> tuple[Any, tuple[Any, ...]]:
    return {"type": "ping"}, ({"type": "pong"},)


BASICS: Final = AgentBasics(
    greet=_GREET,
    question=_question,
    flood=_flood,
    prompt=_turn,
    framing="1",
    ending="3.5",
    bad=(
        Line("json", "a line that is not JSON is an error, and no more", "4.1", b"{nope", _error()),
        Line("value", "a line that is not an object is an error, and no more", "4.1", [1], _error()),
        Line(
            "bytes", "a line that is not UTF-8 is an error, and no more", "4.1", b'{"type":"ping","a":"\xff"}', _error()
        ),
        Line(
            "type",
            "an unknown command is an error that names it",
            "4.1",
            {"type": "agentwire_unknown"},
            _error(message=Has("agentwire_unknown"), retryable=False),
        ),
        Line(
            "key", "a command without what it needs is an error", "4.1", {"type": "message", "content": "x"}, _error()
        ),
        Line(
            "mode", "a mode that does not exist is an error", "2.6", {"type": "set_mode", "mode": "autoEdit"}, _error()
        ),
        Line(
            "more", "unknown keys of a command are ignored", "6", {"type": "ping", "later": {"a": 1}}, {"type": "pong"}
        ),
        Line("blank", "a blank line is nothing", "2", b"", level="should"),
    ),
)


def _first_is_ready(transcript: Transcript) -> str:
    first = transcript.of("agent")[0]
    return "" if first.get("type") == "ready" else f"the first line is {first.get('type')!r}"


def _agent(
    name: str, section: str, text: str, *steps: Step, check: Check | None = None, level: Severity = "must"
) -> Requirement:
    return Requirement(name, "agent", section, text, Play(name, (*_GREET, *steps)), check, level)


def _of(msg_id: str = "m") -> dict[str, Any]:
    return {"msg_id": msg_id}


REQUIREMENTS: Final = (
    Requirement(
        "ready",
        "agent",
        "1.1",
        "ready tells the version and all eight capabilities",
        Play("ready", (Await(_READY, "ready with all of its keys"),)),
        _first_is_ready,
    ),
    _agent(
        "turn",
        "3.2",
        "a message is one stream_start and one stream_end with the usage, and nothing after it",
        _message(HELLO),
        _began(),
        Await(
            {
                "type": "stream_end",
                "msg_id": "m",
                "usage": {"input_tokens": Bind(kind="number"), "output_tokens": Bind(kind="number")},
            },
            "stream_end with usage",
            ({"type": "stream_start"}, {"type": "stream_end"}),
        ),
        _PING,
        _pong(_of()),
    ),
    _agent(
        "text",
        "1.3",
        "the answer comes as text_delta with the id of its message",
        _message(HELLO),
        _began(),
        Await(
            {"type": "text_delta", "text": Bind(kind="string"), "msg_id": "m"}, "text_delta", ({"type": "stream_end"},)
        ),
    ),
    _agent("second-turn", "3.2", "messages are answered one after the other", *_turn(HELLO, "m1"), *_turn(HELLO, "m2")),
    _agent(
        "ping",
        "2.9",
        "ping is answered at once, also while a turn runs",
        _message(COUNT),
        _began(),
        _PING,
        _pong({"type": "stream_end"}),
    ),
    _agent(
        "stop",
        "2.2",
        "stop ends the turn with its stream_end, and the process lives on",
        _message(COUNT),
        _began(),
        _STOP,
        _ended(),
        _PING,
        _pong(_of()),
        *_turn(HELLO, "m2"),
    ),
    _agent(
        "idle-stop",
        "2.2",
        "stop without a turn says nothing, and the process lives on",
        _STOP,
        _PING,
        _pong({"type": ANY}),
        *_turn(HELLO),
    ),
    _agent(
        "busy",
        "2.1",
        "a message while a turn runs is refused under its id and starts nothing",
        _message(COUNT),
        _began(),
        _message(HELLO, "m2"),
        Await(_error("m2"), "error", ({"type": "stream_start"}, {"type": "stream_end"})),
        _PING,
        _pong(_of("m2")),
        level="should",
    ),
    _agent(
        "approval",
        "3.3",
        "an approved call is told to run and to have a result",
        *_ASKED,
        Say({"type": "tool_approve", **_CALL}),
        Await({"type": "tool_running", "msg_id": "m", "tool_name": Given("tool"), **_CALL}, "tool_running"),
        Await(
            {
                "type": "tool_result",
                "msg_id": "m",
                "tool_name": Given("tool"),
                **_CALL,
                "status": OneOf(("success", "error")),
                "output": Bind(kind="string"),
                "output_type": OneOf(("text", "diff", "image")),
            },
            "tool_result",
        ),
        _ended(),
    ),
    _agent(
        "waits",
        "3.3",
        "nothing runs that waits for an approval",
        *_ASKED,
        _PING,
        _pong({"type": "tool_running"}, {"type": "tool_result"}, {"type": "stream_end"}),
    ),
    _agent(
        "denial",
        "2.4",
        "a denied call is cancelled with the reason and does not run; the turn goes on",
        *_ASKED,
        Say({"type": "tool_deny", **_CALL, "reason": "not today"}),
        Await(
            {"type": "tool_cancelled", "msg_id": "m", **_CALL, "reason": "not today"},
            "tool_cancelled",
            ({"type": "tool_running", **_CALL}, {"type": "tool_result", **_CALL}, {"type": "stream_end"}),
        ),
        _ended(),
    ),
    _agent(
        "stop-asking",
        "2.2",
        "stop cancels a call that waits, before the turn's end",
        *_ASKED,
        _STOP,
        Await({"type": "tool_cancelled", **_CALL}, "tool_cancelled", ({"type": "stream_end"},)),
        _ended(),
    ),
    _agent(
        "end-asking",
        "3.5",
        "the end of input ends the process also while a call waits",
        *_ASKED,
        EndInput(),
        AwaitEnd(0),
    ),
    _agent(
        "modes",
        "2.6",
        "every declared mode can be set, and config_changed tells it",
        *(
            step
            for mode in _MODES
            for step in (
                Say({"type": "set_mode", "mode": mode}),
                Await({"type": "info"}, "info"),
                Await(
                    {"type": "config_changed", "capabilities": {**_CAPABILITIES, "current_mode": mode}},
                    "config_changed",
                ),
            )
        ),
    ),
    _agent(
        "yolo",
        "2.6",
        "in mode yolo nothing is asked",
        Say({"type": "set_mode", "mode": "yolo"}),
        Await({"type": "config_changed"}, "config_changed"),
        _message(RUN),
        Await(
            {"type": "tool_result", "msg_id": "m"},
            "tool_result",
            ({"type": "tool_request"},),
            unless={"type": "stream_end"},
            absent="the model called no tool",
        ),
    ),
    Requirement(
        "effort",
        "agent",
        "2.7",
        "an effort level that is declared can be set",
        Play(
            "effort",
            (
                Await(
                    {"type": "ready", "capabilities": {"effort": True}},
                    "ready",
                    unless={"type": "ready"},
                    absent="no effort is declared",
                ),
                Say({"type": "set_config", "effort": "low"}),
                Await(
                    {"type": "info", "message": Has("low")},
                    "info that tells the level",
                    ({"type": "info", "message": Has("not supported")}, {"type": "config_changed"}),
                ),
            ),
        ),
    ),
    _agent(
        "config",
        "2.7",
        "set_config is acknowledged and followed by config_changed",
        Say({"type": "set_config", "model": "other"}),
        Await({"type": "info"}, "info", ({"type": "config_changed"},)),
        Await({"type": "config_changed", "capabilities": _CAPABILITIES}, "config_changed"),
    ),
    _agent(
        "late-history",
        "2.5",
        "init_history after the first message is an error",
        *_turn(HELLO),
        Say({"type": "init_history", "text": "x"}),
        Await(_error(), "error"),
    ),
    _agent(
        "late-mcp",
        "2.8",
        "add_mcp_server after the first message is rejected",
        *_turn(HELLO),
        Say({"type": "add_mcp_server", "name": "n", "transport": "stdio", "command": "true"}),
        Await(
            {"type": "error", "error": {"message": Has("only allowed before first Message")}},
            "error",
            ({"type": "mcp_ready"},),
        ),
    ),
)
