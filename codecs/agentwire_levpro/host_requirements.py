"""What this wire asks of hosts, with the plays that prove it: each is a scripted core."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from agentwire.codec.kit import (
    Await,
    AwaitEnd,
    HostBasics,
    Let,
    Line,
    Reply,
    Say,
    Step,
    Transcript,
    requirement,
)
from agentwire.codec.patterns import Bind, Given, OneOf


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


def _done(asked: Any = _C, response: str = "Hello.", warnings: Sequence[str] = ()) -> Say:
    told = [*warnings]
    result = {"response": response, "session_id": Given("session"), "trace_id": "check", "warnings": told}
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
    quiet="a host is asked nothing: it never says enough to fill a pipe",
    failing=(Say({"id": _C, "type": "error", "code": "internal_error", "message": "check"}),),
    errors="6",
    framing="1",
    replies=_REPLIES,
    odd=(
        Line("event", "events of an unknown name are ignored", "3", _event("agentwire_unknown", _C, a=[1])),
        Line("type", "messages of an unknown type are ignored", "3", {"id": _C, "type": "agentwire_unknown"}),
        Line("key", "unknown keys of an event are ignored", "5", _event("llm_chunk", _C, step=0, delta="x", later={})),
        Line("fewer", "an event with fewer fields is accepted", "5", _event("tool_start", _C)),
        Line(
            "answer",
            "an answer to a request that was never made is ignored",
            "3",
            {"id": "agentwire-none", "type": "result", "result": {}},
        ),
        Line(
            "null",
            "an error without an id does not end the chat",
            "6",
            {"id": None, "type": "error", "code": "invalid_json", "message": "check"},
        ),
    ),
)


_host = partial(requirement, "host", replies=_REPLIES)


_REFUSING: Final = (
    _REPLIES[-1],
    Reply(
        {"id": Bind("asked"), "method": "chat"},
        ({"id": Given("asked"), "type": "error", "code": "invalid_request", "message": "check: no common version"},),
    ),
)
"""Nothing is taken but a shutdown."""


def _initialized(transcript: Transcript) -> str:
    first = transcript.of("host")[0].get("method")
    return "" if first == "initialize" else f"the first request is {first}"


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
        "a result that says more than the chunks did is accepted",
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
    _host(
        "handshake",
        "4",
        "initialize comes before any other request",
        *_PROMPTED,
        *_END,
        AwaitEnd(0),
        check=_initialized,
        level="should",
    ),
    _host(
        "versions-refused",
        "4",
        "when initialize is refused, and the chat with it, the host leaves",
        Await(
            {"id": Bind("asked"), "method": "initialize"},
            "initialize",
            unless={"method": "chat"},
            absent="the host does not initialize",
        ),
        Say({"id": Given("asked"), "type": "error", "code": "invalid_request", "message": "check: no common version"}),
        AwaitEnd(),
        replies=_REFUSING,
    ),
    _host(
        "set-up",
        "6",
        "a chat that fails for the set-up is over",
        _PROMPTED[1],
        Say({"id": _C, "type": "error", "code": "model_missing", "message": "check: no model"}),
        AwaitEnd(),
    ),
    _host(
        "cancelled",
        "4",
        "a chat that was cancelled is over",
        *_PROMPTED,
        Say({"id": _C, "type": "error", "code": "cancelled", "message": "check"}),
        AwaitEnd(),
    ),
    _host(
        "unknown-code",
        "6",
        "an error of an unknown code ends the chat",
        *_PROMPTED,
        Say({"id": _C, "type": "error", "code": "agentwire_code", "message": "check"}),
        AwaitEnd(),
    ),
    _host(
        "other-chat",
        "3",
        "the end of another request is not the end of its chat",
        *_PROMPTED,
        _done("agentwire-other"),
        Say({"id": "agentwire-other", "type": "error", "code": "cancelled", "message": "check"}),
        Say(_event("llm_chunk", _C, step=0, delta="Hello.")),
        *_END,
        AwaitEnd(0),
    ),
    _host(
        "tools",
        "5",
        "tools that fail, are denied or have an unknown status are accepted",
        *_PROMPTED,
        *(
            Say(line)
            for status in ("error", "denied", "agentwire_status")
            for line in (
                _event("tool_start", _C, step=0, tool="check", args={}),
                _event("tool_done", _C, step=0, tool="check", status=status, preview="", retryable=False, ms=1),
            )
        ),
        *_END,
        AwaitEnd(0),
    ),
    _host(
        "warnings",
        "4",
        "a result with warnings ends a chat",
        *_PROMPTED,
        _done(warnings=["check: the history was corrupt"]),
        AwaitEnd(0),
    ),
    _host(
        "out-of-step",
        "8",
        "events that come without those before them are accepted",
        *_PROMPTED[:2],
        Say(_event("llm_chunk", _C, step=3, delta="x")),
        Say(_event("tool_done", _C, step=3, tool="check", status="ok", preview="", retryable=False, ms=1)),
        Say(_event("final", _C, step=5, response="Hello.")),
        _done(),
        AwaitEnd(0),
    ),
)
