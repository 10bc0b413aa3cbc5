"""What v4 asks of agents about runs. Each play is a scripted host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentwire.codec.kit import (
    COUNT,
    HELLO,
    RUN,
    RUN_LONG,
    RUN_TWO,
    Await,
    AwaitEnd,
    EndInput,
    Play,
    Requirement,
    Say,
    Transcript,
)
from agentwire.codec.patterns import Bind, Given
from agentwire_pagent.requirement_parts import (
    FENCE,
    GREET_V4,
    TEXT,
    USAGE,
    Make,
    fenced,
    hears,
    maker,
    told,
    turn,
    user,
)

_IMAGE: Final = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg"
    "YGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)


def _agents(make: Make) -> Sequence[Requirement]:
    asked = (
        user(RUN),
        Await(
            told("ToolCallBegin", tool_call_id=Bind("id", "string"), name=Bind("name", "string"), arguments=TEXT),
            "ToolCallBegin",
            unless=told("RunEnd"),
            absent="the model called no tool",
        ),
        Await(
            told("PermitRequest", tool_call_id=Given("id"), name=Given("name"), summary=TEXT),
            "PermitRequest",
            unless=told("RunEnd"),
            absent="the model called no tool that needs a permit",
        ),
    )
    permit = Say({"cmd": "permit", "tool_call_id": Given("id")})
    deny = Say({"cmd": "deny", "tool_call_id": Given("id"), "reason": "not today"})
    ended = (
        hears("TurnEnd", "RunEnd", stopped=True, stop_reason="cancelled"),
        hears("RunEnd", stop_reason="cancelled"),
    )
    return (
        Requirement(
            "commands",
            "agent",
            "8",
            "the first line is SlashCommands",
            Play("commands", (hears("SlashCommands", commands=Bind(kind="array")),)),
            _first,
        ),
        make(
            "run",
            "8",
            "a run is RunBegin, TurnBegin, TextDelta, TurnResult, TurnEnd, RunEnd, and nothing after it",
            user(HELLO),
            hears("RunBegin", user_input=HELLO),
            hears("TurnBegin", turn=0),
            hears("TextDelta", "TurnResult", text=TEXT),
            hears("TurnResult", content=TEXT, tool_calls=[], reasoning_content=TEXT, usage=USAGE),
            hears("TurnEnd", turn=0, stopped=True, stop_reason="no_tool_calls"),
            hears("RunEnd", turn=0, stop_reason="no_tool_calls"),
            FENCE,
            fenced("TextDelta", "RunEnd", "TurnEnd"),
        ),
        make(
            "second-run",
            "8",
            "the turns of each run are counted from 0",
            *turn(HELLO),
            user(HELLO),
            hears("RunBegin", user_input=HELLO),
            hears("TurnBegin", turn=0),
            hears("RunEnd", turn=0),
        ),
        make(
            "ask-in-run",
            "8",
            "capabilities is answered also while a run is under way",
            user(COUNT),
            hears("TextDelta"),
            FENCE,
            hears("Capabilities", "RunEnd"),
        ),
        make(
            "busy",
            "8",
            "a second input while a run is under way is ignored",
            user(COUNT),
            hears("RunBegin"),
            user("second"),
            FENCE,
            fenced("RunBegin", "RunEnd"),
        ),
        make(
            "permit",
            "8",
            "a permitted call runs, and has its ToolResult",
            *asked,
            permit,
            hears(
                "ToolResult",
                "RunEnd",
                tool_call_id=Given("id"),
                name=Given("name"),
                content=TEXT,
                ok=Bind(kind="boolean"),
            ),
            hears("TurnEnd", turn=0, stopped=False, stop_reason="continuing"),
            hears("RunEnd"),
        ),
        make(
            "waits",
            "8",
            "a call that waits for its permit does not run",
            *asked,
            FENCE,
            fenced("ToolResult", "TurnEnd", "RunEnd"),
        ),
        make(
            "deny",
            "8",
            "a denied call has the reason as its result, and the run goes on",
            *asked,
            deny,
            hears("ToolResult", "RunEnd", tool_call_id=Given("id"), content="not today", ok=False),
            hears("TurnBegin", turn=1),
            hears("RunEnd"),
        ),
        make(
            "cancel",
            "8",
            "a run that is cancelled ends with stop_reason cancelled, and the next one begins",
            user(COUNT),
            hears("TextDelta"),
            Say({"cmd": "cancel"}),
            *ended,
            *turn(HELLO),
        ),
        make(
            "cancel-asking",
            "8",
            "a cancel ends the run also while it waits for a permit",
            *asked,
            Say({"cmd": "cancel"}),
            hears("RunEnd", stop_reason="cancelled"),
            level="should",
        ),
        make(
            "end-in-run",
            "8",
            "the end of input cancels the run and ends the process",
            user(COUNT),
            hears("TextDelta"),
            EndInput(),
            AwaitEnd(0),
        ),
        make(
            "end-asking",
            "8",
            "the end of input ends the process also while a permit is waited for",
            *asked,
            EndInput(),
            AwaitEnd(0),
        ),
        make(
            "tool",
            "8",
            "a call of TurnResult is begun with the same id, name and arguments",
            user(RUN),
            Await(
                told(
                    "TurnResult",
                    tool_calls=[
                        {
                            "type": "function",
                            "id": Bind("id", "string"),
                            "name": Bind("name", "string"),
                            "arguments": Bind("arguments", "string"),
                        }
                    ],
                ),
                "TurnResult with a call",
                unless=told("RunEnd"),
                absent="the model called no tool",
            ),
            hears(
                "ToolCallBegin",
                "ToolResult",
                tool_call_id=Given("id"),
                name=Given("name"),
                arguments=Given("arguments"),
            ),
        ),
        make(
            "two-permits",
            "8",
            "calls are asked about one after the other, each permitted or denied by itself",
            user(RUN_TWO),
            Await(
                told("PermitRequest", tool_call_id=Bind("one", "string")),
                "PermitRequest",
                unless=told("RunEnd"),
                absent="the model called no tool that needs a permit",
            ),
            Say({"cmd": "deny", "tool_call_id": Given("one"), "reason": "not today"}),
            hears("ToolResult", "PermitRequest", tool_call_id=Given("one"), content="not today", ok=False),
            Await(
                told("PermitRequest", tool_call_id=Bind("two", "string")),
                "second PermitRequest",
                unless=told("TurnEnd"),
                absent="the model called one tool only",
            ),
            Say({"cmd": "permit", "tool_call_id": Given("two")}),
            hears("ToolResult", "TurnEnd", tool_call_id=Given("two"), ok=True),
            hears("RunEnd"),
        ),
        make(
            "settled",
            "8",
            "a permit that comes after the denial changes nothing",
            *asked,
            deny,
            hears("ToolResult", "RunEnd", tool_call_id=Given("id"), ok=False),
            permit,
            hears("RunEnd", "ToolResult"),
        ),
        make(
            "unknown-permit",
            "8",
            "a permit of a call that nobody asked about is ignored",
            Say({"cmd": "permit", "tool_call_id": "agentwire-none"}),
            FENCE,
            fenced("ToolResult", "RunBegin"),
            *turn(HELLO),
        ),
        make(
            "cancel-idle",
            "8",
            "a cancel where no run is under way changes nothing",
            Say({"cmd": "cancel"}),
            FENCE,
            fenced("RunEnd", "TurnEnd"),
            *turn(HELLO),
        ),
        make(
            "cancel-running",
            "8",
            "a cancel ends the run also while a tool runs",
            user(RUN_LONG),
            Await(
                told("PermitRequest", tool_call_id=Bind("id", "string")),
                "PermitRequest",
                unless=told("RunEnd"),
                absent="the model called no tool that needs a permit",
            ),
            permit,
            FENCE,
            fenced("RunEnd"),
            Say({"cmd": "cancel"}),
            hears("RunEnd", stop_reason="cancelled"),
            level="should",
        ),
        make(
            "images",
            "8",
            "an input with an image begins a run like any",
            Say({"cmd": "user", "text": HELLO, "images": [_IMAGE]}),
            hears("RunBegin", user_input=HELLO),
            hears("RunEnd"),
        ),
    )


def _first(transcript: Transcript) -> str:
    first = transcript.of("agent")[0]
    return "" if first.get("method") == "SlashCommands" else f"the first line is {first.get('method')!r}"


RUNS: Final = _agents(maker(GREET_V4))
