"""What the RPC asks of hosts, with the plays that prove it: each is a scripted agent."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from agentwire.codec.kit import (
    Await,
    AwaitEnd,
    HostBasics,
    Line,
    Play,
    Reply,
    Requirement,
    Say,
    Step,
    Transcript,
    requirement,
)
from agentwire.codec.patterns import ANY, Bind, Given, OneOf

_NAME: Final = "check-session"
_TURN: Final = {"sessionId": Given("session"), "turnId": "check-turn"}


def _answer(method: str, result: Any, **params: Any) -> Reply:
    on = {"id": Bind("asked"), "method": method, **({"params": params} if params else {})}
    return Reply(on, ({"jsonrpc": "2.0", "id": Given("asked"), "result": result},))


_VIEW: Final[dict[str, Any]] = {"tools": [], "toolSpecs": []}

_REPLIES: Final = (
    _answer(
        "initialize",
        {
            "protocolVersion": 1,
            "serverInfo": {"name": "check", "version": "0.0.0"},
            "capabilities": {"session": True, "turn": True},
        },
    ),
    _answer("session/start", {**_VIEW, "sessionId": _NAME, "model": "check"}),
    _answer("session/resume", {"sessionId": Given("which"), "model": "check", "turns": 0}, sessionId=Bind("which")),
    _answer("session/list", {"sessions": [{"id": _NAME, "model": "check", "turns": 0, "hostTools": 0}]}),
    _answer("session/tools/get", _VIEW),
    _answer("session/tools/set", _VIEW),
    _answer("session/reset", _VIEW),
    _answer("session/archive", {}),
    _answer("session/model/set", {"model": Given("which")}, model=Bind("which")),
    _answer("permission/respond", {}),
    _answer("tool/respond", {}),
    _answer("turn/steer", {}),
)


def event(tag: str, **fields: Any) -> dict[str, Any]:
    """An event of the turn."""
    return {"jsonrpc": "2.0", "method": f"item/{tag}", "params": {**_TURN, "event": {"type": tag, **fields}}}


def _ends(reason: str, error: Any = None) -> Say:
    return Say(
        {"jsonrpc": "2.0", "method": "turn/completed", "params": {**_TURN, "stopReason": reason, "error": error}}
    )


PROMPTED: Final[tuple[Step, ...]] = (
    Await(
        {
            "jsonrpc": "2.0",
            "id": Bind("turn"),
            "method": "turn/start",
            "params": {"sessionId": Bind("session", "string"), "input": ANY},
        },
        "turn/start",
    ),
    Say({"jsonrpc": "2.0", "id": Given("turn"), "result": {"turnId": "check-turn"}}),
    Say(event("step", index=1, max=0)),
)

END: Final[tuple[Step, ...]] = (Say(event("done", stop_reason="stop", usage=None)), _ends("completed"))


def _ask(token: str) -> tuple[Step, ...]:
    request, call = f"perm-{token}", f"call-{token}"
    return (
        Say(event("tool_call", id=call, name="shell", args={"command": "true"})),
        Say(
            event(
                "permission_request",
                request_id=request,
                tool_name="shell",
                capability="exec",
                path=None,
                command="true",
                prompt_kind="exec",
                offers_always=True,
            )
        ),
        Await(
            {
                "method": "permission/respond",
                "params": {"requestId": request, "decision": OneOf(("allow_once", "allow_always", "deny"))},
            },
            "permission/respond",
            ({"method": "turn/start"},),
        ),
        Say(event("tool_result", id=call, content="", is_error=False)),
    )


BASICS: Final = HostBasics(
    greet=PROMPTED,
    text=lambda text: event("token", text=text),
    end=END,
    ask=_ask,
    quiet="a run asks one question at a time: its host never says enough to fill a pipe",
    asking="3.3",
    failing=(Say(event("error", code="error", message="check: no service")), _ends("error", "check: no service")),
    errors="2.2",
    framing="1.1",
    replies=_REPLIES,
    odd=(
        Line("type", "events of an unknown tag are ignored", "2.1", event("agentwire_unknown", a=[1])),
        Line("key", "unknown keys of an event are ignored", "2.1", event("token", text="more", later={"a": None})),
        Line(
            "method",
            "notifications of an unknown method are ignored",
            "1.7",
            {"jsonrpc": "2.0", "method": "agentwire/unknown", "params": {}},
        ),
        Line(
            "session",
            "turn/completed of an unknown session does not end its turn",
            "1.7",
            {
                "jsonrpc": "2.0",
                "method": "turn/completed",
                "params": {"sessionId": "other", "turnId": "other", "stopReason": "completed", "error": None},
            },
        ),
        Line(
            "answer",
            "an answer to a request that was never made is ignored",
            "1.2",
            {"jsonrpc": "2.0", "id": "agentwire-none", "result": {}},
        ),
        Line(
            "retry",
            "the news that a model request is sent again is accepted",
            "2.1",
            event("retry", attempt=1, max_attempts=3, delay_ms=10, reason="check"),
        ),
    ),
)


host = partial(requirement, "host", replies=_REPLIES)
"""A requirement with a play of its own."""


def _handshake_first(transcript: Transcript) -> str:
    methods = [value.get("method") for value in transcript.of("host")][:2]
    return "" if methods == ["initialize", "initialized"] else f"the first two are {methods}"


def _ids_of_their_own(transcript: Transcript) -> str:
    ids = [value["id"] for value in transcript.of("host") if "id" in value]
    twice = [asked for asked in ids if ids.count(asked) > 1]
    return f"the id {twice[0]!r} was used twice" if twice else ""


CHILD: Final = {"run_id": "sub-check", "name": "check"}


def _nested(token: str) -> Say:
    """A subagent's question."""
    question = {
        "type": "permission_request",
        "request_id": f"perm-{token}",
        "tool_name": "shell",
        "capability": "exec",
        "path": None,
        "command": "true",
        "prompt_kind": "exec",
        "offers_always": True,
    }
    return Say(event("subagent", **CHILD, event=question))


_DECISION: Final = OneOf(("allow_once", "allow_always", "deny"))


def _responds(request: Any) -> Await:
    params = {"requestId": request, "decision": _DECISION}
    return Await({"method": "permission/respond", "params": params}, "permission/respond", ({"method": "turn/start"},))


def _answered_once(transcript: Transcript) -> str:
    asked = [
        value["params"].get("requestId")
        for value in transcript.of("host")
        if value.get("method") in ("permission/respond", "tool/respond")
    ]
    twice = sorted({str(request) for request in asked if asked.count(request) > 1})
    return f"answered more than once: {', '.join(twice)}" if twice else ""


_STARTS: Final = Await({"id": Bind("turn"), "method": "turn/start"}, "turn/start")


def _fails(asked: Any, code: int, message: str) -> Say:
    return Say({"jsonrpc": "2.0", "id": asked, "error": {"code": code, "message": message, "data": None}})


_TWO: Final = Play("one-turn", (*PROMPTED, *_ask("a"), *_ask("b"), *END, AwaitEnd(0)), _REPLIES)

REQUIREMENTS: Final = (
    host(
        "handshake",
        "1.3",
        "initialize and initialized come before anything else",
        *PROMPTED,
        *END,
        AwaitEnd(0),
        check=_handshake_first,
    ),
    host(
        "ids",
        "1.2",
        "every request has an id of its own",
        *PROMPTED,
        *_ask("a"),
        *END,
        AwaitEnd(0),
        check=_ids_of_their_own,
    ),
    Requirement("one-turn", "host", "1.6", "no turn is started while one runs", _TWO),
    host("interrupted", "1.7", "a turn that was interrupted is over", *PROMPTED, _ends("interrupted"), AwaitEnd()),
    # --- turns ---
    host(
        "no-events",
        "1.7",
        "a turn without events is over with its turn/completed",
        *PROMPTED[:2],
        _ends("completed"),
        AwaitEnd(0),
    ),
    host(
        "refused",
        "1.6",
        "when turn/start is refused the host leaves",
        _STARTS,
        _fails(Given("turn"), -32602, "check: no such model"),
        AwaitEnd(),
    ),
    host(
        "unsaved",
        "1.7",
        "a turn that fails after its done is over",
        *PROMPTED,
        END[0],
        _ends("error", "could not save session: check"),
        AwaitEnd(),
    ),
    host(
        "side-events",
        "2.1",
        "events that are not about the answer are accepted",
        *PROMPTED,
        Say(event("request_provenance", model="check", request_sha256="00", body_bytes=1)),
        Say(event("compaction", phase="started", reason="preflight")),
        Say(event("compaction", phase="finished", reason="preflight", messages=2)),
        Say(event("messages_updated", messages=[{"role": "user", "content": "x"}])),
        Say(event("notice", text="check")),
        Say(event("monitors", monitors=[])),
        Say(event("todo_update", list={"phases": []})),
        Say(event("parked")),
        *_ask("a"),
        *END,
        AwaitEnd(0),
    ),
    # --- questions ---
    Requirement("answers-once", "host", "1.6", "each question is answered once", _TWO, _answered_once),
    host(
        "child-questions",
        "2.3",
        "two questions of subagents at once are both answered, each by its id",
        *PROMPTED,
        Say(event("subagent_start", **CHILD)),
        _nested("x"),
        _nested("y"),
        _responds(Bind("first")),
        _responds(Bind("second")),
        Say(event("subagent_end", **CHILD)),
        *END,
        AwaitEnd(0),
        check=_answered_once,
    ),
    host(
        "refused-answer",
        "1.6",
        "an answer that is refused as not pending does not end the turn",
        *PROMPTED,
        *_ask("late")[:2],
        Await({"id": Bind("answer"), "method": "permission/respond"}, "permission/respond"),
        Say(
            {
                "jsonrpc": "2.0",
                "id": Given("answer"),
                "error": {"code": -32602, "message": "check: not pending", "data": {"kind": "not_pending"}},
            }
        ),
        *END,
        AwaitEnd(0),
        replies=tuple(reply for reply in _REPLIES if reply.on.get("method") != "permission/respond"),
    ),
    # --- other agents ---
    host(
        "handshake-refused",
        "1.3",
        "when initialize is refused the host leaves",
        Await({"id": Bind("handshake"), "method": "initialize"}, "initialize"),
        _fails(Given("handshake"), -32602, "Unsupported protocol version or malformed clientInfo"),
        AwaitEnd(),
        replies=(),
    ),
    host(
        "older-agent",
        "8",
        "an older agent, which says less of itself and of its session, is accepted",
        *PROMPTED,
        *END,
        AwaitEnd(0),
        replies=(
            _answer(
                "initialize",
                {
                    "protocolVersion": 1,
                    "serverInfo": {"name": "check", "version": "0"},
                    "capabilities": {"session": True, "turn": True},
                },
            ),
            _answer("session/start", {"sessionId": _NAME}),
        ),
        level="should",
    ),
)
