"""What this wire asks of hosts, with the plays that prove it: each is a scripted core."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    Await,
    AwaitEnd,
    Bind,
    Check,
    Given,
    HostBasics,
    Let,
    Line,
    OneOf,
    Play,
    Reply,
    Requirement,
    Say,
    Step,
    Transcript,
)


def _event(kind: str, asked: Any = "c", **fields: Any) -> dict[str, Any]:
    return {"id": asked, "type": "event", "event": kind, **fields}


_C: Final = Given("chat")


def _answer(method: str, result: Any, **params: Any) -> Reply:
    on = {"id": Bind("asked"), "method": method, **({"params": params} if params else {})}
    return Reply(on, ({"id": Given("asked"), "type": "result", "result": result},))


_REPLIES: Final = (
    _answer(
        "initialize",
        {
            "protocol_version": 1,
            "capabilities": {"parallel_chats": True, "targeted_cancel": True},
            "server": {"name": "check", "version": "0"},
        },
    ),
    _answer("ping", {"status": "ok"}),
    _answer("doctor", {"status": "ok", "checks": []}),
    _answer("plan", {"model": "check", "binary": "", "args": [], "warnings": []}),
    _answer("cancel", {"cancelled": False, "request_id": None}),
    Reply(
        {"id": Bind("asked"), "method": "shutdown"},
        ({"id": Given("asked"), "type": "result", "result": {"status": "ok"}},),
        ends=True,
    ),
)

_PROMPTED: Final[tuple[Step, ...]] = (
    Let("session", "check"),
    Await(
        {
            "id": Bind("chat"),
            "method": "chat",
            "params": OneOf(
                (
                    {"input": Bind("input", "string"), "session_id": Bind("session", "string")},
                    {"input": Bind("input", "string")},
                )
            ),
        },
        "chat",
    ),
    Say(_event("run_start", _C, user_input=Given("input"), trace_id="check")),
    Say(_event("llm_start", _C, step=0)),
)


def _done(asked: Any = _C, response: str = "Hello.") -> Say:
    result = {"response": response, "session_id": Given("session"), "trace_id": "check", "warnings": []}
    return Say({"id": asked, "type": "result", "result": result})


_END: Final[tuple[Step, ...]] = (
    Say(_event("llm_done", _C, step=0)),
    Say(_event("final", _C, step=0, response="Hello.")),
    _done(),
)

BASICS: Final = HostBasics(
    greet=_PROMPTED,
    text=lambda text: _event("llm_chunk", _C, step=0, delta=text),
    end=_END,
    failing=(Say({"id": _C, "type": "error", "code": "internal_error", "message": "check"}),),
    errors="6",
    framing="1",
    replies=_REPLIES,
    odd=(
        Line("event", "events of an unknown name are ignored", "3", _event("agentwire_unknown", _C, a=[1])),
        Line("type", "messages of an unknown type are ignored", "3", {"id": _C, "type": "agentwire_unknown"}),
        Line("key", "unknown keys of an event are ignored", "5", _event("llm_chunk", _C, step=0, delta="x", later={})),
        Line("fewer", "an event may have fewer fields", "5", _event("tool_start", _C)),
        Line(
            "answer", "an answer to nothing is ignored", "3", {"id": "agentwire-none", "type": "result", "result": {}}
        ),
        Line(
            "null",
            "an error without an id is no chat's",
            "6",
            {"id": None, "type": "error", "code": "invalid_json", "message": "check"},
        ),
    ),
)


def _host(name: str, section: str, text: str, *steps: Step, check: Check | None = None) -> Requirement:
    return Requirement(name, "host", section, text, Play(name, steps, _REPLIES), check)


def _ids(transcript: Transcript) -> str:
    ids = [value.get("id") for value in transcript.of("host")]
    if any(isinstance(asked, bool) or not isinstance(asked, str | int | float) for asked in ids):
        return "a request has no id that is a string or a number"
    return "an id was used twice" if len(set(ids)) < len(ids) else ""


REQUIREMENTS: Final = (
    _host("ids", "2", "every request has an id of its own", *_PROMPTED, *_END, AwaitEnd(0), check=_ids),
    _host(
        "dropped-events",
        "8",
        "a result ends a chat, whatever was dropped",
        *_PROMPTED[:2],
        _done(),
        AwaitEnd(0),
    ),
    _host(
        "answer-of-result",
        "8",
        "a result that says more than the chunks did is borne",
        *_PROMPTED,
        _done(response="Hello, and more."),
        AwaitEnd(0),
    ),
    _host(
        "loop-abort",
        "5",
        "a run that gives up ends with its result",
        *_PROMPTED,
        Say(_event("loop_abort", _C, step=0, reason="max_parse_errors")),
        _done(response=""),
        AwaitEnd(),
    ),
)
