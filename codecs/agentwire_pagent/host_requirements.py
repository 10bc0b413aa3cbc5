"""What the two dialects ask of hosts, with the plays that prove it: each is a scripted agent."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    Await,
    AwaitEnd,
    Check,
    HostBasics,
    Let,
    Line,
    Play,
    Reply,
    Requirement,
    Say,
    Step,
    Transcript,
)
from agentwire.codec.patterns import Bind, Given, OneOf


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


_CALL: Final = {"name": "run_command", "arguments": '{"cmd": "true"}'}


def _flat(token: str) -> dict[str, Any]:
    return {"type": "function", "id": f"call-{token}", **_CALL}


def _permit(token: str, *, ok: bool = True) -> tuple[Step, ...]:
    """A call is asked about, and then has its result."""
    name = f"call-{token}"
    return (
        _note("ToolCallBegin", tool_call_id=name, **_CALL),
        _note("PermitRequest", tool_call_id=name, name="run_command", summary="true"),
        Await({"cmd": OneOf(("permit", "deny")), "tool_call_id": name}, "permit or deny", ({"cmd": "user"},)),
        _note("ToolResult", tool_call_id=name, name="run_command", content="", ok=ok),
    )


def _ask(token: str) -> tuple[Step, ...]:
    return (
        _note("TurnResult", **{**_REPLY, "tool_calls": [_flat(token)]}),
        *_permit(token),
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
        "blanks between the words of a line are accepted",
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
    quiet="a host is asked nothing: it never says enough to fill a pipe",
    framing="1",
    odd=_ODD,
    replies=_REPLIES,
)

BASICS_V4: Final = HostBasics(
    greet=(*_HELLO, *_PROMPTED),
    text=_piece,
    end=_END_V4,
    ask=_ask,
    quiet="a run asks for one permit at a time: its host never says enough to fill a pipe",
    asking="8",
    failing=(_note("Error", message="check: no service", where="turn"),),
    errors="8",
    framing="1",
    replies=_REPLIES,
    odd=(
        *_ODD,
        Line(
            "state",
            "notifications that are not about the run are accepted",
            "8",
            {"jsonrpc": "2.0", "method": "ProviderState", "params": {"provider": "check"}},
        ),
        Line(
            "title",
            "a ThreadTitle inside of a run is accepted",
            "8",
            {"jsonrpc": "2.0", "method": "ThreadTitle", "params": {"thread_id": "check", "title": "Check"}},
        ),
    ),
)


def _host(
    basics: HostBasics, name: str, section: str, text: str, *steps: Step, check: Check | None = None
) -> Requirement:
    return Requirement(name, "host", section, text, Play(name, (*basics.greet, *steps), _REPLIES), check)


def _nested(call: str) -> dict[str, Any]:
    return {"id": call, "type": "function", "function": {"name": "t", "arguments": "{}"}}


def _called(*calls: str) -> tuple[Step, ...]:
    """A step whose calls have run."""
    return (
        _note("StepEnd", **{**_REPLY, "tool_calls": [_nested(call) for call in calls]}),
        *(
            step
            for call in calls
            for step in (
                _note("ToolCallBegin", tool_call_id=call, name="t", arguments="{}"),
                _note("ToolResult", tool_call_id=call, name="t", content="", ok=True),
            )
        ),
    )


def _answered_once(transcript: Transcript) -> str:
    answered = [value.get("tool_call_id") for value in transcript.of("host") if value.get("cmd") in ("permit", "deny")]
    twice = sorted({str(call) for call in answered if answered.count(call) > 1})
    return f"answered more than once: {', '.join(twice)}" if twice else ""


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
        "a ToolResult without ok is accepted as a good one",
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
        "arguments that are not JSON are accepted",
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
        "usage with null and unknown keys is accepted",
        _note("StepEnd", **{**_REPLY, "usage": _USAGES}),
        _note("TurnEnd", turn=0, stopped=True),
        _note("RunEnd", **{**_REPLY, "usage": _USAGES}),
        AwaitEnd(0),
    ),
    _host(
        BASICS,
        "limit",
        "3",
        "a run ends with its RunEnd, also where its last turn did not stop",
        *_called("c"),
        _note("TurnEnd", turn=0, stopped=False),
        _note("RunEnd", **{**_REPLY, "tool_calls": [_nested("c")]}),
        AwaitEnd(),
    ),
    _host(
        BASICS,
        "two-calls",
        "3",
        "two calls of a step are accepted",
        *_called("c", "d"),
        _note("TurnEnd", turn=0, stopped=False),
        _note("TurnBegin", turn=1),
        Let("turn", 1),
        *_END,
        AwaitEnd(0),
    ),
    _host(
        BASICS,
        "empty",
        "3",
        "a run whose answer is empty is over, and the host leaves",
        _note("StepEnd", **{**_REPLY, "content": ""}),
        _note("TurnEnd", turn=0, stopped=True),
        _note("RunEnd", **{**_REPLY, "content": ""}),
        AwaitEnd(),
    ),
    _host(
        BASICS,
        "reasoning",
        "2",
        "reasoning between the pieces of the answer is accepted",
        _note("ReasoningDelta", text="Let me see."),
        _note("TextDelta", text="Hello."),
        _note("ReasoningDelta", text="Well."),
        *_END,
        AwaitEnd(0),
    ),
)

REQUIREMENTS_V4: Final = (
    _host(
        BASICS_V4,
        "usage",
        "2",
        "usage with null and unknown keys is accepted",
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
        "a turn without TurnEnd, followed by another, as at the limit of turns, is accepted",
        _note("TurnResult", **_REPLY),
        _note("TurnBegin", turn=1),
        Let("turn", 1),
        *_END_V4,
        AwaitEnd(0),
    ),
    _host(BASICS_V4, "one-run", "8", "no input is sent while a run is under way", *_ask("a"), *_END_V4, AwaitEnd(0)),
    _host(
        BASICS_V4,
        "two-permits",
        "8",
        "each permit that is asked for is answered once, by its id",
        _note("TurnResult", **{**_REPLY, "tool_calls": [_flat("a"), _flat("b")]}),
        *_permit("a"),
        *_permit("b"),
        _note("TurnEnd", turn=0, stopped=False, stop_reason="continuing"),
        _note("TurnBegin", turn=1),
        Let("turn", 1),
        *_END_V4,
        AwaitEnd(0),
        check=_answered_once,
    ),
    _host(
        BASICS_V4,
        "withdrawn",
        "8",
        "a permit that is not waited for does not hold the run up",
        _note("TurnResult", **{**_REPLY, "tool_calls": [_flat("w"), _flat("x")]}),
        *(step for step in _permit("w", ok=False) if not isinstance(step, Await)),
        *_permit("x"),
        _note("TurnEnd", turn=0, stopped=False, stop_reason="continuing"),
        _note("TurnBegin", turn=1),
        Let("turn", 1),
        *_END_V4,
        AwaitEnd(0),
    ),
    _host(
        BASICS_V4,
        "stop-reason",
        "8",
        "a run ends whatever its stop_reason is",
        *_END_V4[:1],
        _note("TurnEnd", turn=0, stopped=True, stop_reason="agentwire_reason"),
        _note("RunEnd", turn=0, stop_reason="agentwire_reason"),
        AwaitEnd(),
    ),
    _host(
        BASICS_V4,
        "other-error",
        "8",
        "an Error that is not of the turn does not end the run",
        _note("Error", message="check: no such thread", where="resume"),
        *_ask("e"),
        *_END_V4,
        AwaitEnd(0),
    ),
    Requirement(
        "replayed",
        "host",
        "8",
        "a history that is replayed before the first run is no run",
        Play(
            "replayed",
            (
                *_HELLO,
                _note(
                    "HistoryReplay",
                    thread_id="check",
                    title="",
                    project_path="/",
                    messages=[{"kind": "text", "role": "user", "text": "x"}],
                ),
                *_PROMPTED,
                *_ask("h"),
                *_END_V4,
                AwaitEnd(0),
            ),
            _REPLIES,
        ),
    ),
)
