"""What stream-json asks of hosts, with the plays that prove it: each is a scripted run.

A host gives its task to the agent's command line, or writes it as the first line: the scripted run begins with either.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, Final

from agentwire.codec.kit import (
    Await,
    AwaitEnd,
    HangUp,
    HostBasics,
    Line,
    Say,
    Step,
    Transcript,
    Unseen,
    requirement,
)
from agentwire.codec.patterns import ANY, OneOf

_INIT: Final[dict[str, Any]] = {
    "type": "init",
    "protocol_version": 1,
    "session_id": "3f7a91c2-0000-4000-8000-000000000000",
    "model": "check",
    "cwd": None,
    "tools": ["shell"],
    "input_kinds": ["user", "abort", "permission", "tool_result"],
    "input_content_parts": None,
}

_USAGE: Final = {
    "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "cached_tokens": None, "cache_write_tokens": None,
}  # fmt: skip


def _begun(**init: Any) -> tuple[Step, ...]:
    user = OneOf(({"type": "user", "text": ANY}, {"type": "user", "content": ANY}))
    return (
        Say(init or _INIT),
        Await(user, "task: neither on the command line nor as a user line", spare="task"),
        Say({"type": "step", "index": 1, "max": 0}),
    )


def _result(**more: Any) -> Say:
    return Say({
        "type": "result", "protocol_version": 1, "is_error": False, "result": "Hello.", "stop_reason": "stop",
        "session_id": "3f7a91c2", "model": "check", "num_turns": 1, "duration_ms": 1, "usage": _USAGE, **more,
    })  # fmt: skip


def _failed(code: str, message: str, **more: Any) -> Say:
    return _result(is_error=True, result="", stop_reason="error", error={"code": code, "message": message}, **more)


_DONE: Final = Say({"type": "done", "stop_reason": "stop", "usage": None})
_END: Final[tuple[Step, ...]] = (_DONE, _result())
_GONE: Final[tuple[Step, ...]] = (HangUp(),)


def _request(token: str) -> tuple[Step, ...]:
    return (
        Say({"type": "tool_call", "id": f"call-{token}", "name": "shell", "args": {"command": "true"}}),
        Say({
            "type": "permission_request", "request_id": f"perm-{token}", "tool_name": "shell", "capability": "exec",
            "path": None, "command": "true", "prompt_kind": "exec", "offers_always": True,
        }),
    )  # fmt: skip


def _decided(token: str, decision: str = "allow_once") -> tuple[Step, ...]:
    denied = decision == "deny"
    return (
        Say({"type": "permission_decision", "request_id": f"perm-{token}", "decision": decision}),
        Say({"type": "tool_result", "id": f"call-{token}", "content": "", "is_error": denied}),
    )


def _ask(token: str) -> tuple[Step, ...]:
    decision = OneOf(("allow_once", "allow_always", "deny"))
    answer = {"type": "permission", "request_id": f"perm-{token}", "decision": decision}
    return (*_request(token), Await(answer, "permission"), *_decided(token))


_ERROR: Final = Say({"type": "error", "code": "error", "message": "check: no service"})

BASICS: Final = HostBasics(
    greet=_begun(),
    text=lambda text: {"type": "token", "text": text},
    end=_END,
    leaves=_GONE,
    ask=_ask,
    quiet="a run asks one question at a time: its host never says enough to fill a pipe",
    asking="4.2",
    failing=(_ERROR, _failed("error", "check: no service")),
    errors="4.1",
    framing="4.1",
    odd=(
        Line("type", "events of an unknown type are ignored", "2.1", {"type": "agentwire_unknown", "a": [1]}),
        Line(
            "key", "unknown keys of an event are ignored", "2.1", {"type": "token", "text": "x", "later": {"a": None}}
        ),
        Line(
            "input-error",
            "a line that the agent could not read does not end the run",
            "4.2",
            {"type": "input_error", "message": "not JSON: check", "line": "{nope", "line_truncated": False},
        ),
        Line(
            "retry",
            "the news that a model request is sent again is accepted",
            "2.1",
            {"type": "retry", "attempt": 1, "max_attempts": 3, "delay_ms": 10, "reason": "check"},
        ),
    ),
)


_host = partial(requirement, "host")


def _command_line(transcript: Transcript) -> str | Unseen:
    """Whether the words that the host added ask for this wire."""
    words = transcript.arguments
    if not words:
        return Unseen("the host adds no words to its agent's command")
    formats = {
        flag: next((word.removeprefix(f"{flag}=") for word in words if word.startswith(f"{flag}=")), None)
        or next((value for word, value in pairwise(words) if word == flag), "text")
        for flag in ("--output-format", "--input-format")
    }
    if words[:3] != ["cli", "agent", "run"]:
        return f"the words are {' '.join(words[:3])} ..., not cli agent run"
    wrong = [flag for flag, value in formats.items() if value != "stream-json"]
    if wrong == ["--input-format"] and not transcript.of("host"):
        return ""
    return f"{' and '.join(wrong)} is not stream-json" if wrong else ""


REQUIREMENTS: Final = (
    _host(
        "command-line",
        "5",
        "the agent's command asks for stream-json, and to read it if anything is written to it",
        *_begun(),
        *_ask("a"),
        *_END,
        *_GONE,
        AwaitEnd(0),
        check=_command_line,
    ),
    _host(
        "small-init",
        "4.1",
        "an init with nothing but version, session and model is accepted",
        *_begun(type="init", protocol_version=1, session_id="3f7a91c2", model="check"),
        *_ask("a"),
        *_END,
        *_GONE,
        AwaitEnd(0),
    ),
    _host(
        "large-result",
        "4.1",
        "a result with costs and without a saved session ends the run",
        *_begun(),
        _DONE,
        _result(session_id=None, usage={**_USAGE, "estimated_cost_usd": 0.1, "execution_ids": ["x"]}, later=1),
        *_GONE,
        AwaitEnd(0),
    ),
    _host(
        "setup-error",
        "4.1",
        "a run whose only line is a failed result makes the host leave with a status that is not 0",
        _failed("setup_error", "check: no model", session_id=None, model=""),
        *_GONE,
        AwaitEnd(fails=True),
    ),
    _host(
        "aborted",
        "4.3",
        "a run that was aborted is over",
        *_begun(),
        Say({"type": "done", "stop_reason": "aborted", "usage": None}),
        _result(stop_reason="aborted", session_id=None),
        *_GONE,
        AwaitEnd(),
    ),
    _host(
        "limit",
        "4.4",
        "a run that reached its limit of model calls is over",
        *_begun(),
        Say(
            {
                "type": "error",
                "code": "error",
                "message": "reached the 1-turn limit while the model was still calling tools",
            }
        ),
        _failed("error", "reached the 1-turn limit while the model was still calling tools"),
        *_GONE,
        AwaitEnd(),
    ),
    _host(
        "decided",
        "4.2",
        "a question that was decided without the host does not hold the run up",
        *_begun(),
        *_request("d"),
        *_decided("d", "deny"),
        *_ask("e"),
        *_END,
        *_GONE,
        AwaitEnd(0),
    ),
    _host(
        "two-questions",
        "4.2",
        "each question is answered under its own id",
        *_begun(),
        *_ask("a"),
        *_ask("b"),
        *_END,
        *_GONE,
        AwaitEnd(0),
    ),
    _host(
        "child-question",
        "2.3",
        "the question of a subagent is answered by its id",
        *_begun(),
        Say({"type": "subagent_start", "run_id": "sub-check", "name": "check"}),
        *(
            Say({"type": "subagent", "run_id": "sub-check", "name": "check", "event": step.line})
            for step in _request("s")
            if isinstance(step, Say)
        ),
        Await({"type": "permission", "request_id": "perm-s", "decision": ANY}, "permission"),
        Say({"type": "permission_decision", "request_id": "perm-s", "decision": "deny"}),
        Say({"type": "subagent_end", "run_id": "sub-check", "name": "check"}),
        *_END,
        *_GONE,
        AwaitEnd(0),
    ),
)
