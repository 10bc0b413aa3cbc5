"""What stream-json asks of agents, with the plays that prove it: each is a scripted host."""

from __future__ import annotations

import json
from typing import Any, Final

from agentwire.codec.kit import (
    COUNT,
    HELLO,
    STEER,
    Again,
    AgentBasics,
    Await,
    AwaitEnd,
    EndInput,
    Kit,
    Line,
    Play,
    Requirement,
    Say,
    Transcript,
)
from agentwire.codec.patterns import (
    ANY,
    Bind,
    Given,
    Has,
    Joined,
    OneOf,
)
from agentwire_jan import stream_host_requirements as host
from agentwire_jan.stream_requirement_parts import ASKED, GREET, RESULT, agent, decide, hears, turn, user
from agentwire_jan.stream_tool_requirements import DECLARED, HOST_TOOLS

_INIT: Final = {
    "type": "init",
    "protocol_version": 1,
    "session_id": Bind(kind="string"),
    "model": Bind(kind="string"),
    "cwd": ANY,
    "tools": Bind(kind="array"),
    "input_kinds": ["user", "abort", "permission", "tool_result"],
}


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    """What is refused is echoed."""
    return {"type": token}, ({"type": "input_error", "message": ANY, "line": Has(token)},)


def _wrong(**fields: Any) -> dict[str, Any]:
    return {"type": "input_error", "message": Bind(kind="string"), **fields}


_AGENT: Final = AgentBasics(
    greet=GREET,
    question=_question,
    flood=_question,
    prompt=turn,
    last=(user(HELLO),),
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
            "a user line with text and content is an input_error",
            "4.2",
            {"type": "user", "text": "x", "content": []},
            _wrong(message=Has("not both")),
        ),
        Line(
            "permission",
            "an answer to a question that was never asked is an input_error",
            "4.2",
            {"type": "permission", "request_id": "none", "decision": "deny"},
            _wrong(message=Has("none")),
        ),
        Line(
            "part",
            "a content part of an unknown type is an input_error",
            "4.2",
            {"type": "user", "content": [{"type": "audio"}]},
            _wrong(message=Has("audio")),
        ),
        Line(
            "huge",
            "a line beyond 16 MiB is an input_error, and the run goes on",
            "4.2",
            {"type": "abort"},
            _wrong(message=Has("cap"), line_truncated=True),
            pad=16_800_000,
        ),
        Line("blank", "a blank line is ignored", "4.2", b""),
    ),
)


def _first_is_init(transcript: Transcript) -> str:
    first = transcript.of("agent")[0]
    return "" if first.get("type") == "init" else f"the first line is {first.get('type')!r}"


def _last_is_result(transcript: Transcript) -> str:
    last = transcript.of("agent")[-1]
    return "" if last.get("type") == "result" else f"the last line is {last.get('type')!r}"


def _short(transcript: Transcript) -> str:
    given = transcript.given
    told = [value.get("session_id", "") for value in transcript.of("agent") if value.get("type") == "result"][-1]
    if told is None or told == given["session"][:8]:
        return ""
    return f"session_id is {told!r} of {given['session']!r}"


_AGENTS: Final = (
    Requirement(
        "init",
        "agent",
        "4.1",
        "the first line is init, with the session and what may be written",
        Play("init", (Await(_INIT, "init with its keys"),)),
        _first_is_init,
    ),
    agent(
        "run",
        "4.1",
        "a run is steps, tokens, done, and a result",
        user(HELLO),
        hears("step", "token", index=1),
        hears("token", "done", text=Bind(kind="string")),
        hears("done", "result", stop_reason=Bind(kind="string")),
        hears("result", **RESULT),
        AwaitEnd(0),
    ),
    agent("last", "4.1", "nothing follows the result", *turn(HELLO), AwaitEnd(0), check=_last_is_result),
    agent(
        "permission",
        "4.2",
        "an allowed call runs; the decision is echoed",
        *ASKED,
        *decide("allow_once"),
        hears("tool_result", "result", content=Bind(kind="string"), is_error=Bind(kind="boolean")),
        hears("result"),
    ),
    agent(
        "denial",
        "4.2",
        "a denied call is an error to the model, and the run goes on",
        *ASKED,
        *decide("deny"),
        hears("tool_result", "result", is_error=True),
        hears("result", is_error=False),
    ),
    agent(
        "abort",
        "4.3",
        "an aborted run says so in done and result, status 0",
        user(COUNT),
        hears("token"),
        Say({"type": "abort"}),
        hears("done", "result", stop_reason="aborted"),
        hears("result", is_error=False, stop_reason="aborted"),
        AwaitEnd(0),
    ),
    agent(
        "end-in-run",
        "4.3",
        "the end of input does not end the run",
        user(HELLO),
        EndInput(),
        hears("result", is_error=False, stop_reason=OneOf(("stop", "end_turn"))),
        AwaitEnd(0),
    ),
    agent(
        "end-asking",
        "4.3",
        "the end of input denies what waits, and the run goes on",
        *ASKED,
        EndInput(),
        hears("permission_decision", "result", decision="deny"),
        hears("result", is_error=False),
        AwaitEnd(0),
    ),
    agent(
        "session",
        "4.1",
        "the result names the session by the first eight characters of its id, or not at all",
        *turn(HELLO),
        greet=(Await({"type": "init", "session_id": Bind("session", "string")}, "init"),),
        check=_short,
    ),
    agent(
        "parts",
        "4.2",
        "a user line with content parts is accepted",
        Say({"type": "user", "content": [{"type": "text", "text": HELLO}]}),
        hears("result", **RESULT),
    ),
    agent(
        "decisions",
        "4.2",
        "a decision that does not exist is an input_error, and the question stays open",
        *ASKED,
        Say({"type": "permission", "request_id": Given("request"), "decision": "maybe"}),
        hears("input_error", "permission_decision", "result"),
        *decide("deny"),
    ),
    agent(
        "answered",
        "4.2",
        "a second answer is an input_error",
        *ASKED,
        Say({"type": "permission", "request_id": Given("request"), "decision": "deny"}, times=2),
        hears("input_error", "result", message=Has("pending"), line=Has("deny")),
    ),
    agent(
        "always",
        "4.2",
        "allow_always is echoed as such, and the call runs",
        *ASKED,
        *decide("allow_always"),
        hears("tool_result", "result"),
        hears("result", is_error=False),
    ),
    agent(
        "joins",
        "4.2",
        "an input while the run is on joins it",
        *ASKED,
        Say({"type": "user", "text": STEER}),
        *decide("deny"),
        hears("result", "input_error", is_error=False),
    ),
    agent(
        "unread",
        "4.2",
        "an input that the run did not come to is given back as an input_error before the result",
        user(COUNT),
        hears("token"),
        Say({"type": "user", "text": STEER}),
        Say({"type": "abort"}),
        hears("input_error", "result", message=Has("run ended"), line=Has(STEER)),
        hears("result"),
    ),
    agent(
        "abort-asking",
        "4.3",
        "an aborted run is over also while a permission waits",
        *ASKED,
        Say({"type": "abort"}),
        hears("done", "tool_result", "result", stop_reason="aborted"),
        hears("result", is_error=False, stop_reason="aborted"),
        AwaitEnd(0),
    ),
    # --- the command line ---
    agent(
        "resume",
        "5",
        "--resume goes on with a session under the same id",
        *turn(HELLO),
        Again((Joined(("--resume=", Given("session"))),)),
        hears("init", "result", session_id=Given("session")),
        *turn(HELLO),
        greet=(Await({"type": "init", "session_id": Bind("session", "string")}, "init"),),
    ),
    agent(
        "resume-unknown",
        "4.1",
        "a run that cannot begin is a result without init, and status 1",
        Await(
            {
                "type": "result",
                "is_error": True,
                "stop_reason": "error",
                "error": {"code": "setup_error", "message": Bind(kind="string")},
                "session_id": None,
            },
            "result that failed",
            ({"type": "init"},),
        ),
        AwaitEnd(1),
        greet=(),
        arguments=("--resume=agentwire-none",),
    ),
    agent(
        "limit",
        "4.4",
        "--max-turns ends a run that still calls tools with an error, and status 53",
        *ASKED,
        *decide("deny"),
        hears("result", is_error=True, stop_reason="error"),
        AwaitEnd(53),
        arguments=("--max-turns=1",),
    ),
)


def requirements() -> Kit:
    """Everything that this wire asks."""
    return Kit(
        _AGENT,
        host.BASICS,
        (*_AGENTS, *HOST_TOOLS, *host.REQUIREMENTS),
        serve=("--codec-option", f"host_tools={json.dumps(DECLARED)}"),
        our_words={"--resume=": ("--codec-option", "resume=")},
        files={"host_tools": DECLARED},
    )
