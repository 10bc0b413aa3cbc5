"""What this wire asks of hosts, with the plays that prove it: each is a scripted agent."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
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


def _ask(token: str) -> tuple[Step, ...]:
    call = f"call-{token}"
    tool = {"name": "ExecCommand", "category": "exec", "args": {"command": "true"}, "description": "Execute: true"}
    answer = {"type": OneOf(("tool_approve", "tool_deny")), "call_id": call}
    return (
        Say({"type": "tool_request", "msg_id": _M, "call_id": call, "tool": tool}),
        Await(answer, "tool_approve or tool_deny", ({"type": "message"},)),
        Say({"type": "tool_cancelled", "msg_id": _M, "call_id": call, "reason": ""}),
    )


def _text(text: str) -> Any:
    return {"type": "text_delta", "text": text, "msg_id": _M}


BASICS: Final = HostBasics(
    greet=_PROMPTED,
    text=_text,
    end=_END,
    ask=_ask,
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
            "an info that belongs to no message is no turn",
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


def _host(name: str, section: str, text: str, *steps: Step, check: Check | None = None) -> Requirement:
    return Requirement(name, "host", section, text, Play(name, (*_PROMPTED, *steps), _REPLIES), check)


REQUIREMENTS: Final = (
    _host("message-ids", "2.1", "every message has an id of its own", *_END, AwaitEnd(0), check=_one_id_each),
    _host(
        "set-up-first",
        "2.5",
        "what belongs before the first message is sent before it",
        *_END,
        AwaitEnd(0),
        check=_set_up_first,
    ),
    _host(
        "one-turn",
        "3.2",
        "no message is sent while a turn runs",
        Say(_text("one")),
        *_ask("1"),
        Say(_text("two")),
        *_ask("2"),
        *_END,
        AwaitEnd(0),
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
        "a result that is a diff with metadata is borne",
        *_ask("d")[:2],
        Say({"type": "tool_running", "msg_id": _M, "call_id": "call-d", "tool_name": "Edit"}),
        Say(
            {
                "type": "tool_result",
                "msg_id": _M,
                "call_id": "call-d",
                "tool_name": "Edit",
                "status": "success",
                "output": "--- a\n+++ b\n",
                "output_type": "diff",
                "metadata": {"file_path": "a"},
            }
        ),
        *_ask("e"),
        *_END,
        AwaitEnd(0),
    ),
)
