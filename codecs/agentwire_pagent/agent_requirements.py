"""What the two dialects ask of agents: how hosts converse, and the runs of the classic one.

Each play is a scripted host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from agentwire.codec.kit import (
    COUNT,
    HELLO,
    RUN,
    RUN_TWO,
    AgentBasics,
    Await,
    AwaitEnd,
    EndInput,
    Line,
    Requirement,
    Say,
    Transcript,
)
from agentwire.codec.patterns import Bind, Given
from agentwire_pagent.requirement_parts import GREET_V4, TEXT, USAGE, Make, hears, maker, told, turn, user


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    """A run begins with the text that it is for."""
    return {"cmd": "user", "text": token}, (told("RunBegin", user_input=token), told("RunEnd"))


def _flood(token: str) -> tuple[Any, tuple[Any, ...]]:
    return {"cmd": "capabilities"}, (told("Capabilities"),)


_BAD: Final = (
    Line("json", "a line that is not JSON is ignored", "8", b"{nope"),
    Line("value", "a line that is not an object is ignored", "8", [1]),
    Line("cmd", "an unknown command is ignored", "8", {"cmd": "agentwire_unknown"}),
    Line("more", "unknown keys of a command are ignored", "8", {"cmd": "cancel", "later": {"a": 1}}),
    Line(
        "huge",
        "a line of 9 MB is read or ignored, and the agent goes on",
        "8",
        {"cmd": "cancel"},
        None,
        "should",
        9_000_000,
    ),
    Line("blank", "a blank line is ignored", "8", b""),
)

BASICS: Final = AgentBasics(
    greet=(),
    question=_question,
    prompt=turn,
    bad=_BAD,
    framing="1",
    ending="8",
)

BASICS_V4: Final = AgentBasics(
    greet=GREET_V4,
    question=_question,
    flood=_flood,
    prompt=turn,
    bad=_BAD,
    framing="1",
    ending="8",
)


def _classic_agents(make: Make) -> Sequence[Requirement]:
    reply = {
        "content": Bind("content", "string"),
        "tool_calls": [],
        "reasoning_content": Bind("reasoning", "string"),
        "usage": Bind("usage"),
    }
    again = {
        "content": Given("content"),
        "tool_calls": [],
        "reasoning_content": Given("reasoning"),
        "usage": Given("usage"),
    }
    return (
        make(
            "run",
            "3",
            "a run is RunBegin, TurnBegin, TextDelta, StepEnd, TurnEnd, RunEnd, and RunEnd repeats StepEnd",
            user(HELLO),
            hears("RunBegin", user_input=HELLO),
            hears("TurnBegin", turn=0),
            hears("TextDelta", "StepEnd", text=TEXT),
            hears("StepEnd", **reply),
            hears("TurnEnd", turn=0, stopped=True),
            hears("RunEnd", **again),
        ),
        make(
            "usage",
            "2",
            "StepEnd and RunEnd have usage, an object or null",
            user(HELLO),
            hears("StepEnd", usage=USAGE),
            hears("RunEnd", usage=USAGE),
        ),
        make(
            "second-run",
            "3",
            "the turns of each run are counted from 0",
            *turn(HELLO),
            user(HELLO),
            hears("RunBegin", user_input=HELLO),
            hears("TurnBegin", turn=0),
            hears("RunEnd"),
        ),
        make(
            "tool",
            "3",
            "a call of StepEnd is begun with the same id, name and arguments, and its ToolResult follows at once",
            user(RUN),
            Await(
                told(
                    "StepEnd",
                    tool_calls=[
                        {
                            "id": Bind("id", "string"),
                            "type": "function",
                            "function": {"name": Bind("name"), "arguments": Bind("arguments", "string")},
                        }
                    ],
                ),
                "StepEnd with a call",
                unless=told("RunEnd"),
                absent="the model called no tool",
            ),
            hears(
                "ToolCallBegin",
                "ToolResult",
                "TurnEnd",
                tool_call_id=Given("id"),
                name=Given("name"),
                arguments=Given("arguments"),
            ),
            hears(
                "ToolResult",
                "TextDelta",
                "TurnEnd",
                tool_call_id=Given("id"),
                name=Given("name"),
                content=TEXT,
                ok=Bind(kind="boolean"),
            ),
            hears("TurnEnd", turn=0, stopped=False),
            hears("TurnBegin", turn=1),
            hears("RunEnd"),
        ),
        make(
            "two-calls",
            "3",
            "the calls of a step run one after the other, each with its result at once",
            user(RUN_TWO),
            Await(
                told(
                    "StepEnd",
                    tool_calls=[{"id": Bind("one", "string")}, {"id": Bind("two", "string")}],
                ),
                "StepEnd with two calls",
                unless=told("RunEnd"),
                absent="the model did not make two calls in one step",
            ),
            hears("ToolCallBegin", "ToolResult", tool_call_id=Given("one")),
            hears("ToolResult", "ToolCallBegin", tool_call_id=Given("one")),
            hears("ToolCallBegin", "TurnEnd", tool_call_id=Given("two")),
            hears("ToolResult", "TurnEnd", tool_call_id=Given("two")),
            hears("RunEnd"),
        ),
        make(
            "cancel-idle",
            "5",
            "a cancel where no run is under way changes nothing",
            Say({"cmd": "cancel"}),
            *turn(HELLO),
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
            "busy",
            "5",
            "an input while a run is under way begins no run before the first one's end",
            user(HELLO),
            user("second"),
            hears("RunEnd"),
            *turn(HELLO),
            check=_one_at_a_time,
        ),
        make(
            "cancel",
            "5",
            "a run that is cancelled stops without a RunEnd, and the next one begins",
            user(COUNT),
            hears("TextDelta"),
            Say({"cmd": "cancel"}),
            user(HELLO),
            Await(told("RunBegin", user_input=HELLO), "RunBegin", ({"method": "RunEnd"},)),
            hears("RunEnd"),
        ),
    )


def _one_at_a_time(transcript: Transcript) -> str:
    """Between the beginning and the end of a run no other begins."""
    running = False
    for said in transcript.of("agent"):
        if said.get("method") == "RunBegin" and running:
            return "a run began inside of another"
        running = said["method"] == "RunBegin" or (running and said["method"] != "RunEnd")
    return ""


REQUIREMENTS: Final = _classic_agents(maker(()))
