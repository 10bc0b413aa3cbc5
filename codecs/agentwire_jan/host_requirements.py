"""What the RPC asks of hosts, with the plays that prove it: each is a scripted agent."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    ANY,
    Await,
    AwaitEnd,
    Bind,
    Check,
    Given,
    HostBasics,
    Line,
    OneOf,
    Play,
    Reply,
    Requirement,
    Say,
    Step,
    Transcript,
)

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


def _event(tag: str, **fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"item/{tag}", "params": {**_TURN, "event": {"type": tag, **fields}}}


def _ends(reason: str, error: Any = None) -> Say:
    return Say(
        {"jsonrpc": "2.0", "method": "turn/completed", "params": {**_TURN, "stopReason": reason, "error": error}}
    )


_PROMPTED: Final[tuple[Step, ...]] = (
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
    Say(_event("step", index=1, max=0)),
)

_END: Final[tuple[Step, ...]] = (Say(_event("done", stop_reason="stop", usage=None)), _ends("completed"))


def _ask(token: str) -> tuple[Step, ...]:
    request, call = f"perm-{token}", f"call-{token}"
    return (
        Say(_event("tool_call", id=call, name="shell", args={"command": "true"})),
        Say(
            _event(
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
        Say(_event("tool_result", id=call, content="", is_error=False)),
    )


BASICS: Final = HostBasics(
    greet=_PROMPTED,
    text=lambda text: _event("token", text=text),
    end=_END,
    ask=_ask,
    asking="3.3",
    failing=(Say(_event("error", code="error", message="check: no service")), _ends("error", "check: no service")),
    errors="2.2",
    framing="1.1",
    replies=_REPLIES,
    odd=(
        Line("type", "events of an unknown tag are ignored", "2.1", _event("agentwire_unknown", a=[1])),
        Line("key", "unknown keys of an event are ignored", "2.1", _event("token", text="more", later={"a": None})),
        Line(
            "method",
            "notifications of an unknown method are ignored",
            "1.7",
            {"jsonrpc": "2.0", "method": "agentwire/unknown", "params": {}},
        ),
        Line(
            "session",
            "an event of a session that the host does not know is not its turn's",
            "1.7",
            {
                "jsonrpc": "2.0",
                "method": "turn/completed",
                "params": {"sessionId": "other", "turnId": "other", "stopReason": "completed", "error": None},
            },
        ),
        Line(
            "answer", "an answer to nothing is ignored", "1.2", {"jsonrpc": "2.0", "id": "agentwire-none", "result": {}}
        ),
        Line(
            "retry",
            "a request that is sent again is borne",
            "2.1",
            _event("retry", attempt=1, max_attempts=3, delay_ms=10, reason="check"),
        ),
    ),
)


def _host(name: str, section: str, text: str, *steps: Step, check: Check | None = None) -> Requirement:
    return Requirement(name, "host", section, text, Play(name, steps, _REPLIES), check)


def _handshake_first(transcript: Transcript) -> str:
    methods = [value.get("method") for value in transcript.of("host")][:2]
    return "" if methods == ["initialize", "initialized"] else f"the first two are {methods}"


def _ids_of_their_own(transcript: Transcript) -> str:
    ids = [value["id"] for value in transcript.of("host") if "id" in value]
    twice = [asked for asked in ids if ids.count(asked) > 1]
    return f"the id {twice[0]!r} was used twice" if twice else ""


REQUIREMENTS: Final = (
    _host(
        "handshake",
        "1.3",
        "initialize and initialized come before anything else",
        *_PROMPTED,
        *_END,
        AwaitEnd(0),
        check=_handshake_first,
    ),
    _host(
        "ids",
        "1.2",
        "every request has an id of its own",
        *_PROMPTED,
        *_ask("a"),
        *_END,
        AwaitEnd(0),
        check=_ids_of_their_own,
    ),
    _host(
        "one-turn", "1.6", "no turn is started while one runs", *_PROMPTED, *_ask("a"), *_ask("b"), *_END, AwaitEnd(0)
    ),
    _host("interrupted", "1.7", "a turn that was interrupted is over", *_PROMPTED, _ends("interrupted"), AwaitEnd()),
)
