"""What this wire asks of hosts, with the plays that prove it: each is a scripted agent."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.checking import Severity
from agentwire.codec.kit import (
    Await,
    AwaitEnd,
    Check,
    HangUp,
    HostBasics,
    Line,
    Play,
    Questions,
    Reply,
    Requirement,
    Rest,
    Say,
    Step,
    Transcript,
)
from agentwire.codec.patterns import Bind, Given, OneOf

_MODES: Final = ("default", "auto_edit", "yolo")


_CAPABLE: Final = {
    "tool_approval": True,
    "image_input": "unknown",
    "thinking": True,
    "effort": True,
    "effort_levels": ["low", "medium", "high"],
    "modes": list(_MODES),
    "current_mode": "default",
    "mcp": False,
}

_REPLIES: Final = (
    Reply({"type": "ping"}, ({"type": "pong"},)),
    Reply(
        {"type": "set_mode", "mode": Bind("mode")},
        (
            {"type": "info", "msg_id": "", "message": "mode updated"},
            {"type": "config_changed", "capabilities": {**_CAPABLE, "current_mode": Given("mode")}},
        ),
    ),
    Reply(
        {"type": "set_config"},
        (
            {"type": "info", "msg_id": "", "message": "set_config: no changes"},
            {"type": "config_changed", "capabilities": _CAPABLE},
        ),
    ),
    Reply(
        {"type": "add_mcp_server", "name": Bind("name")}, ({"type": "mcp_ready", "name": Given("name"), "tools": []},)
    ),
)

_M: Final = Given("m")

_PROMPTED: Final[tuple[Step, ...]] = (
    Say({"type": "ready", "version": "0.2.0", "session_id": "check", "capabilities": _CAPABLE}),
    Await({"type": "message", "msg_id": Bind("m", "string"), "content": Bind(kind="string")}, "message"),
    Say({"type": "stream_start", "msg_id": _M}),
)

_END: Final[tuple[Step, ...]] = (
    Say({"type": "stream_end", "msg_id": _M, "usage": {"input_tokens": 1, "output_tokens": 1}}),
)


def _request(token: str) -> Say:
    tool = {"name": "ExecCommand", "category": "exec", "args": {"command": "true"}, "description": "Execute: true"}
    return Say({"type": "tool_request", "msg_id": _M, "call_id": f"call-{token}", "tool": tool})


def _cancelled(token: str) -> Say:
    return Say({"type": "tool_cancelled", "msg_id": _M, "call_id": f"call-{token}", "reason": ""})


_ANSWER: Final = OneOf(("tool_approve", "tool_deny"))


def _ask(token: str) -> tuple[Step, ...]:
    answer = {"type": _ANSWER, "call_id": f"call-{token}"}
    return (
        _request(token),
        Await(answer, "tool_approve or tool_deny", ({"type": "message"},)),
        _cancelled(token),
    )


def _ask_many(number: int) -> Questions:
    tokens = [f"{n:060}" for n in range(number)]
    answer = {"type": _ANSWER, "call_id": Bind(kind="string")}
    return Questions(tuple(map(_request, tokens)), answer, tuple(map(_cancelled, tokens)))


def _text(text: str) -> Any:
    return {"type": "text_delta", "text": text, "msg_id": _M}


BASICS: Final = HostBasics(
    greet=_PROMPTED,
    text=_text,
    end=_END,
    ask=_ask,
    ask_many=_ask_many,
    asking="3.3",
    failing=(
        Say(
            {
                "type": "error",
                "msg_id": _M,
                "error": {"code": "provider_error", "message": "check: no service", "retryable": True},
            }
        ),
        *_END,
    ),
    errors="4.2",
    framing="1",
    replies=_REPLIES,
    odd=(
        Line(
            "type", "events of an unknown type are ignored", "6", {"type": "agentwire_unknown", "msg_id": _M, "a": [1]}
        ),
        Line("key", "unknown keys of an event are ignored", "6", {**_text("more"), "later": {"a": None}}),
        Line(
            "code",
            "an error of an unknown code does not end the turn",
            "1.10",
            {"type": "error", "error": {"code": "agentwire_code", "message": "check", "retryable": False}},
        ),
        Line(
            "info",
            "an info without a message's id does not begin a turn",
            "1.11",
            {"type": "info", "msg_id": "", "message": "check"},
        ),
        Line(
            "config",
            "config_changed may come at any time",
            "1.12",
            {"type": "config_changed", "capabilities": _CAPABLE},
        ),
    ),
)


def _one_id_each(transcript: Transcript) -> str:
    ids = [value["msg_id"] for value in transcript.of("host") if value.get("type") == "message"]
    return f"a message id was used twice or is empty: {ids}" if len(set(ids)) < len(ids) or "" in ids else ""


def _set_up_first(transcript: Transcript) -> str:
    kinds = [value.get("type") for value in transcript.of("host")]
    late = {"init_history", "add_mcp_server"} & set(kinds[kinds.index("message") :])
    return f"{', '.join(sorted(late))} after the first message" if late else ""


def _agent_first(transcript: Transcript) -> str:
    first = transcript.lines[0]
    return "" if first.who == "agent" else f"before ready it wrote {first.line[:60].decode(errors='replace')}"


def _answered_once(transcript: Transcript) -> str:
    answered = [value.get("call_id") for value in transcript.of("host") if value.get("type") in _ANSWER.choices]
    twice = sorted({str(call) for call in answered if answered.count(call) > 1})
    return f"answered more than once: {', '.join(twice)}" if twice else ""


def _play(name: str, *steps: Step) -> Play:
    return Play(name, (*_PROMPTED, *steps), _REPLIES)


def _host(
    name: str, section: str, text: str, *steps: Step, check: Check | None = None, level: Severity = "must"
) -> Requirement:
    return Requirement(name, "host", section, text, _play(name, *steps), check, level)


def _result(token: str, **fields: Any) -> tuple[Step, ...]:
    call = {"msg_id": _M, "call_id": f"call-{token}", "tool_name": "Edit"}
    return (
        Say({"type": "tool_running", **call}),
        Say({"type": "tool_result", **call, "status": "success", **fields}),
    )


_TWO_QUESTIONS: Final = _play(
    "one-turn", Say(_text("one")), *_ask("1"), Say(_text("two")), *_ask("2"), *_END, AwaitEnd(0)
)

REQUIREMENTS: Final = (
    _host(
        "message-ids",
        "2.1",
        "every message has a msg_id of its own, which is not empty",
        *_END,
        AwaitEnd(0),
        check=_one_id_each,
    ),
    _host(
        "set-up-first",
        "2.5",
        "what belongs before the first message is sent before it",
        *_END,
        AwaitEnd(0),
        check=_set_up_first,
    ),
    Requirement(
        "waits-for-ready",
        "host",
        "1.1",
        "nothing is sent before ready",
        Play("waits-for-ready", (Rest(0.5), *_PROMPTED, *_END, AwaitEnd(0)), _REPLIES),
        _agent_first,
    ),
    Requirement("one-turn", "host", "3.2", "no message is sent while a turn runs", _TWO_QUESTIONS),
    Requirement("answers-once", "host", "2.3", "each question is answered once", _TWO_QUESTIONS, _answered_once),
    _host(
        "two-requests",
        "3.4",
        "two questions at once are both answered",
        _request("a"),
        _request("b"),
        Await({"type": _ANSWER, "call_id": Bind("first")}, "answer to one of two questions"),
        Await({"type": _ANSWER, "call_id": Bind("second")}, "answer to the other question"),
        _cancelled("a"),
        _cancelled("b"),
        *_END,
        AwaitEnd(0),
        check=_answered_once,
    ),
    _host(
        "withdrawn",
        "1.8",
        "a question that is withdrawn at once does not hold the turn up",
        _request("w"),
        _cancelled("w"),
        *_ask("x"),
        *_END,
        AwaitEnd(0),
    ),
    _host(
        "unasked",
        "1.5",
        "a call that runs without a question is accepted",
        *_result("u", output="done", output_type="text"),
        *_ask("v"),
        *_END,
        AwaitEnd(0),
    ),
    _host(
        "image",
        "1.7",
        "a result that is an image is accepted",
        *_result("i", output="iVBORw0KGgo=", output_type="image"),
        *_ask("j"),
        *_END,
        AwaitEnd(0),
    ),
    _host(
        "thinking",
        "1.4",
        "thinking is accepted",
        Say({"type": "thinking", "text": "Let me see.", "msg_id": _M}),
        *_ask("t"),
        *_END,
        AwaitEnd(0),
    ),
    _host(
        "other-message",
        "1.9",
        "the end of another message is not the end of its own",
        Say({"type": "stream_end", "msg_id": "agentwire-other"}),
        *_ask("o"),
        *_END,
        AwaitEnd(0),
        level="should",
    ),
    Requirement(
        "version",
        "host",
        "6",
        "a later minor version, with one more capability and no session_id, is accepted",
        Play(
            "version",
            (
                Say({"type": "ready", "version": "0.9.4", "capabilities": {**_CAPABLE, "later": True}}),
                *_PROMPTED[1:],
                *_END,
                AwaitEnd(0),
            ),
            _REPLIES,
        ),
    ),
    Requirement(
        "fatal",
        "host",
        "4.3",
        "an agent that says why it cannot start, and ends, makes the host leave with a status that is not 0",
        Play(
            "fatal",
            (
                Say(
                    {
                        "type": "error",
                        "msg_id": None,
                        "error": {"code": "config_error", "message": "check: no key", "retryable": False},
                    }
                ),
                HangUp(),
                AwaitEnd(fails=True),
            ),
        ),
    ),
    _host(
        "no-usage",
        "1.9",
        "a stream_end without usage ends the turn",
        Say({"type": "stream_end", "msg_id": _M}),
        AwaitEnd(0),
    ),
    _host(
        "diff",
        "1.7",
        "a result that is a diff with metadata is accepted",
        *_ask("d")[:2],
        *_result("d", output="--- a\n+++ b\n", output_type="diff", metadata={"file_path": "a"}),
        *_ask("e"),
        *_END,
        AwaitEnd(0),
    ),
)
