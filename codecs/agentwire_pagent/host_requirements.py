"""What the two dialects ask of hosts, with the plays that prove it: each is a scripted agent."""

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
)


def _note(method: str, **params: Any) -> Say:
    return Say({"jsonrpc": "2.0", "method": method, "params": params})


_REPLIES: Final = (
    Reply(
        {"cmd": "capabilities"}, ({"jsonrpc": "2.0", "method": "Capabilities", "params": {"skills": [], "tools": []}},)
    ),
    Reply({"cmd": "commands"}, ({"jsonrpc": "2.0", "method": "SlashCommands", "params": {"commands": []}},)),
    Reply({"cmd": "list_threads"}, ({"jsonrpc": "2.0", "method": "ThreadList", "params": {"threads": []}},)),
)

_PROMPTED: Final[tuple[Step, ...]] = (
    Await({"cmd": "user", "text": Bind("text", "string")}, "user"),
    _note("RunBegin", user_input=Given("text")),
    _note("TurnBegin", turn=0),
    Let("turn", 0),
)

_HELLO: Final[tuple[Step, ...]] = (
    _note("SlashCommands", commands=[]),
    _note("CurrentThread", thread_id="check", title="", project_path="/"),
)

_REPLY: Final[dict[str, Any]] = {"content": "Hello.", "tool_calls": [], "reasoning_content": "", "usage": None}

_END: Final[tuple[Step, ...]] = (
    _note("StepEnd", **_REPLY),
    _note("TurnEnd", turn=Given("turn"), stopped=True),
    _note("RunEnd", **_REPLY),
)

_END_V4: Final[tuple[Step, ...]] = (
    _note("TurnResult", **_REPLY),
    _note("TurnEnd", turn=Given("turn"), stopped=True, stop_reason="no_tool_calls"),
    _note("RunEnd", turn=Given("turn"), stop_reason="no_tool_calls"),
)


def _ask(token: str) -> tuple[Step, ...]:
    call = {"name": "run_command", "arguments": '{"cmd": "true"}'}
    name = f"call-{token}"
    return (
        _note("TurnResult", **{**_REPLY, "tool_calls": [{"type": "function", "id": name, **call}]}),
        _note("ToolCallBegin", tool_call_id=name, **call),
        _note("PermitRequest", tool_call_id=name, name="run_command", summary="true"),
        Await({"cmd": OneOf(("permit", "deny")), "tool_call_id": name}, "permit or deny", ({"cmd": "user"},)),
        _note("ToolResult", tool_call_id=name, name="run_command", content="", ok=True),
        _note("TurnEnd", turn=0, stopped=False, stop_reason="continuing"),
        Let("turn", 1),
        _note("TurnBegin", turn=1),
    )


def _piece(text: str) -> Any:
    return {"jsonrpc": "2.0", "method": "TextDelta", "params": {"text": text}}


_ODD: Final = (
    Line(
        "key",
        "unknown keys are ignored",
        "6",
        {"jsonrpc": "2.0", "method": "TextDelta", "params": {"text": "x", "later": 1}, "more": 1},
    ),
    Line(
        "spaces",
        "blanks between the words of a line are borne",
        "6",
        b' {"jsonrpc" : "2.0" , "method" : "TextDelta" , "params" : {"text" : "x"}} ',
    ),
    Line(
        "method",
        "an unknown method does not end the run",
        "6",
        {"jsonrpc": "2.0", "method": "AgentwireUnknown", "params": {}},
        level="should",
    ),
)

BASICS: Final = HostBasics(
    greet=_PROMPTED,
    text=_piece,
    end=_END,
    framing="1",
    odd=_ODD,
    replies=_REPLIES,
)

BASICS_V4: Final = HostBasics(
    greet=(*_HELLO, *_PROMPTED),
    text=_piece,
    end=_END_V4,
    ask=_ask,
    asking="8",
    failing=(_note("Error", message="check: no service", where="turn"),),
    errors="8",
    framing="1",
    replies=_REPLIES,
    odd=(
        *_ODD,
        Line(
            "state",
            "what a peer tells beside a run is borne",
            "8",
            {"jsonrpc": "2.0", "method": "ProviderState", "params": {"provider": "check"}},
        ),
        Line(
            "title",
            "a thread may be given its title at any time",
            "8",
            {"jsonrpc": "2.0", "method": "ThreadTitle", "params": {"thread_id": "check", "title": "Check"}},
        ),
    ),
)


def _host(
    basics: HostBasics, name: str, section: str, text: str, *steps: Step, check: Check | None = None
) -> Requirement:
    return Requirement(name, "host", section, text, Play(name, (*basics.greet, *steps), _REPLIES), check)


_USAGES: Final = {
    "completion_tokens": 1,
    "prompt_tokens": 1,
    "total_tokens": 2,
    "completion_tokens_details": None,
    "prompt_tokens_details": {"cached_tokens": 0},
    "later": 1,
}

REQUIREMENTS: Final = (
    _host(
        BASICS,
        "ok",
        "4",
        "a result without ok is a good one",
        _note(
            "StepEnd",
            **{**_REPLY, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
        ),
        _note("ToolCallBegin", tool_call_id="c", name="t", arguments="{}"),
        _note("ToolResult", tool_call_id="c", name="t", content=""),
        _note("TurnEnd", turn=0, stopped=False),
        _note("TurnBegin", turn=1),
        Let("turn", 1),
        *_END,
        AwaitEnd(0),
    ),
    _host(
        BASICS,
        "arguments",
        "2",
        "arguments that are not JSON are borne",
        _note(
            "StepEnd",
            **{
                **_REPLY,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{no"}}],
            },
        ),
        _note("ToolCallBegin", tool_call_id="c", name="t", arguments="{no"),
        _note("ToolResult", tool_call_id="c", name="t", content="", ok=False),
        _note("TurnEnd", turn=0, stopped=False),
        _note("TurnBegin", turn=1),
        Let("turn", 1),
        *_END,
        AwaitEnd(0),
    ),
    _host(
        BASICS,
        "usage",
        "2",
        "usage is an open object",
        _note("StepEnd", **{**_REPLY, "usage": _USAGES}),
        _note("TurnEnd", turn=0, stopped=True),
        _note("RunEnd", **{**_REPLY, "usage": _USAGES}),
        AwaitEnd(0),
    ),
)

REQUIREMENTS_V4: Final = (
    _host(
        BASICS_V4,
        "usage",
        "2",
        "usage is an open object",
        _note("TurnResult", **{**_REPLY, "usage": _USAGES}),
        *_END_V4[1:],
        AwaitEnd(0),
    ),
    _host(
        BASICS_V4,
        "cancelled",
        "8",
        "a run that ends as cancelled is over",
        _note("TurnResult", **_REPLY),
        _note("TurnEnd", turn=0, stopped=True, stop_reason="cancelled"),
        _note("RunEnd", turn=0, stop_reason="cancelled"),
        AwaitEnd(),
    ),
    _host(
        BASICS_V4,
        "summing-up",
        "8",
        "a turn without its end is followed by another where the limit is reached",
        _note("TurnResult", **_REPLY),
        _note("TurnBegin", turn=1),
        Let("turn", 1),
        *_END_V4,
        AwaitEnd(0),
    ),
    _host(BASICS_V4, "one-run", "8", "no input is sent while a run is under way", *_ask("a"), *_END_V4, AwaitEnd(0)),
)
