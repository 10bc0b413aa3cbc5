"""What stream-json asks of an agent, with the plays that prove it.

Of hosts there are none: a host gives its task to the command line, where no stand-in can look for it.
"""

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
    Kit,
    Line,
    OneOf,
    Play,
    Requirement,
    Say,
    Step,
    Transcript,
)

_INIT: Final = {
    "type": "init",
    "protocol_version": 1,
    "session_id": Bind(kind="string"),
    "model": Bind(kind="string"),
    "cwd": ANY,
    "tools": Bind(kind="array"),
    "input_kinds": ["user", "abort", "permission", "tool_result"],
}

_GREET: Final[tuple[Step, ...]] = (Await({"type": "init"}, "init"),)


def _user(text: str) -> Say:
    return Say({"type": "user", "text": text})


def _hears(kind: str, *never: str, **fields: Any) -> Await:
    return Await({"type": kind, **fields}, kind, tuple({"type": name} for name in never))


_RESULT: Final = {
    "protocol_version": 1,
    "is_error": False,
    "result": Bind(kind="string"),
    "stop_reason": Bind(kind="string"),
    "num_turns": Bind(kind="number"),
    "duration_ms": Bind(kind="number"),
    "usage": Bind(kind="object"),
}


def _turn(text: str) -> tuple[Step, ...]:
    return (_user(text), _hears("result"))


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    """What is refused is echoed."""
    return {"type": token}, ({"type": "input_error", "message": ANY, "line": Has(token)},)


def _wrong(**fields: Any) -> dict[str, Any]:
    return {"type": "input_error", "message": Bind(kind="string"), **fields}


_AGENT: Final = AgentBasics(
    greet=_GREET,
    question=_question,
    flood=_question,
    prompt=_turn,
    last=(_user(HELLO),),
    framing="4.2",
    ending="4.3",
    bad=(
        Line("json", "a line that is not JSON is an input_error", "4.2", b"{nope", _wrong(message=Has("not JSON"))),
        Line("value", "a line that is not an object is an input_error", "4.2", [1], _wrong()),
        Line(
            "type",
            "an unknown type is an input_error that names it",
            "4.2",
            {"type": "agentwire_unknown"},
            _wrong(message=Has("agentwire_unknown")),
        ),
        Line(
            "both",
            "an input has text or content, not both",
            "4.2",
            {"type": "user", "text": "x", "content": []},
            _wrong(message=Has("not both")),
        ),
        Line(
            "permission",
            "an answer to nothing is an input_error",
            "4.2",
            {"type": "permission", "request_id": "none", "decision": "deny"},
            _wrong(message=Has("none")),
        ),
        Line("blank", "a blank line is nothing", "4.2", b""),
    ),
)


def _agent(
    name: str, section: str, text: str, *steps: Step, check: Check | None = None, level: Severity = "must"
) -> Requirement:
    return Requirement(name, "agent", section, text, Play(name, (*_GREET, *steps)), check, level)


def _first_is_init(transcript: Transcript) -> str:
    first = transcript.of("agent")[0]
    return "" if first.get("type") == "init" else f"the first line is {first.get('type')!r}"


def _last_is_result(transcript: Transcript) -> str:
    last = transcript.of("agent")[-1]
    return "" if last.get("type") == "result" else f"the last line is {last.get('type')!r}"


_ASKED: Final[tuple[Step, ...]] = (
    _user(RUN),
    Await(
        {"type": "permission_request", "request_id": Bind("request", "string"), "tool_name": ANY},
        "permission_request",
        unless={"type": "result"},
        absent="the model called no tool that needs a permission",
    ),
)


def _decide(decision: str) -> tuple[Step, ...]:
    return (
        Say({"type": "permission", "request_id": Given("request"), "decision": decision}),
        _hears("permission_decision", "result", request_id=Given("request"), decision=decision),
    )


_AGENTS: Final = (
    Requirement(
        "init",
        "agent",
        "4.1",
        "the first line is init, with the session and what may be written",
        Play("init", (Await(_INIT, "init with its keys"),)),
        _first_is_init,
    ),
    _agent(
        "run",
        "4.1",
        "a run is steps, tokens, done, and a result",
        _user(HELLO),
        _hears("step", "token", index=1),
        _hears("token", "done", text=Bind(kind="string")),
        _hears("done", "result", stop_reason=Bind(kind="string")),
        _hears("result", **_RESULT),
        AwaitEnd(0),
    ),
    _agent("last", "4.1", "nothing follows the result", *_turn(HELLO), AwaitEnd(0), check=_last_is_result),
    _agent(
        "permission",
        "4.2",
        "an allowed call runs; the decision is echoed",
        *_ASKED,
        *_decide("allow_once"),
        _hears("tool_result", "result", content=Bind(kind="string"), is_error=Bind(kind="boolean")),
        _hears("result"),
    ),
    _agent(
        "denial",
        "4.2",
        "a denied call is an error to the model, and the run goes on",
        *_ASKED,
        *_decide("deny"),
        _hears("tool_result", "result", is_error=True),
        _hears("result", is_error=False),
    ),
    _agent(
        "abort",
        "4.3",
        "an aborted run says so in done and result, status 0",
        _user(COUNT),
        _hears("token"),
        Say({"type": "abort"}),
        _hears("done", "result", stop_reason="aborted"),
        _hears("result", is_error=False, stop_reason="aborted"),
        AwaitEnd(0),
    ),
    _agent(
        "end-in-run",
        "4.3",
        "the end of input does not end the run",
        _user(HELLO),
        EndInput(),
        _hears("result", is_error=False, stop_reason=OneOf(("stop", "end_turn"))),
        AwaitEnd(0),
    ),
    _agent(
        "end-asking",
        "4.3",
        "the end of input denies what waits, and the run goes on",
        *_ASKED,
        EndInput(),
        _hears("permission_decision", "result", decision="deny"),
        _hears("result", is_error=False),
        AwaitEnd(0),
    ),
)


def requirements() -> Kit:
    """Everything that this wire asks."""
    return Kit(_AGENT, None, _AGENTS)
