"""What the two dialects ask of agents, with the plays that prove it: each is a scripted host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from agentwire.codec.checking import Severity
from agentwire.codec.kit import (
    COUNT,
    HELLO,
    RUN,
    Absent,
    AgentBasics,
    Await,
    AwaitEnd,
    Bind,
    Check,
    EndInput,
    Given,
    Line,
    OneOf,
    Play,
    Requirement,
    Say,
    Step,
    Transcript,
)


def _told(method: str, **params: Any) -> dict[str, Any]:
    """A pattern of a notification: nothing but the three keys, and no id."""
    return {"jsonrpc": "2.0", "id": Absent(), "method": method, "params": params}


def _user(text: str) -> Say:
    return Say({"cmd": "user", "text": text})


def _hears(method: str, *never: str, **params: Any) -> Await:
    return Await(_told(method, **params), method, tuple({"method": name} for name in never))


def _turn(text: str) -> tuple[Step, ...]:
    return (_user(text), _hears("RunBegin", user_input=text), _hears("RunEnd", "RunBegin"))


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    """A run begins with the text that it is for."""
    return {"cmd": "user", "text": token}, (_told("RunBegin", user_input=token), _told("RunEnd"))


def _flood(token: str) -> tuple[Any, tuple[Any, ...]]:
    return {"cmd": "capabilities"}, (_told("Capabilities"),)


_FENCE: Final = Say({"cmd": "capabilities"})


def _fenced(*never: str) -> Await:
    return _hears("Capabilities", *never)


_BAD: Final = (
    Line("json", "a line that is not JSON is ignored", "8", b"{nope"),
    Line("value", "a line that is not an object is ignored", "8", [1]),
    Line("cmd", "an unknown command is ignored", "8", {"cmd": "agentwire_unknown"}),
    Line("more", "unknown keys of a command are ignored", "8", {"cmd": "cancel", "later": {"a": 1}}),
    Line("blank", "a blank line is nothing", "8", b""),
)

_GREET_V4: Final[tuple[Step, ...]] = (_hears("SlashCommands", "RunBegin"),)

BASICS: Final = AgentBasics(
    greet=(),
    question=_question,
    prompt=_turn,
    bad=_BAD,
    framing="1",
    ending="8",
)

BASICS_V4: Final = AgentBasics(
    greet=_GREET_V4,
    question=_question,
    flood=_flood,
    prompt=_turn,
    bad=_BAD,
    framing="1",
    ending="8",
)

_Make = Callable[..., Requirement]


def _maker(greet: tuple[Step, ...]) -> _Make:
    def make(
        name: str, section: str, text: str, *steps: Step, check: Check | None = None, level: Severity = "must"
    ) -> Requirement:
        return Requirement(name, "agent", section, text, Play(name, (*greet, *steps)), check, level)

    return make


_TEXT: Final = Bind(kind="string")
_USAGE: Final = OneOf((None, Bind(kind="object")))


def _classic_agents(make: _Make) -> Sequence[Requirement]:
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
            "a run is its text, a turn with its pieces and step, and its end",
            _user(HELLO),
            _hears("RunBegin", user_input=HELLO),
            _hears("TurnBegin", turn=0),
            _hears("TextDelta", "StepEnd", text=_TEXT),
            _hears("StepEnd", **reply),
            _hears("TurnEnd", turn=0, stopped=True),
            _hears("RunEnd", **again),
        ),
        make(
            "usage",
            "2",
            "usage is told, be it null",
            _user(HELLO),
            _hears("StepEnd", usage=_USAGE),
            _hears("RunEnd", usage=_USAGE),
        ),
        make(
            "second-run",
            "3",
            "the turns of each run are counted from 0",
            *_turn(HELLO),
            _user(HELLO),
            _hears("RunBegin", user_input=HELLO),
            _hears("TurnBegin", turn=0),
            _hears("RunEnd"),
        ),
        make(
            "tool",
            "3",
            "a call of the step is begun with the same words, and its result follows at once",
            _user(RUN),
            Await(
                _told(
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
                unless=_told("RunEnd"),
                absent="the model called no tool",
            ),
            _hears(
                "ToolCallBegin",
                "ToolResult",
                "TurnEnd",
                tool_call_id=Given("id"),
                name=Given("name"),
                arguments=Given("arguments"),
            ),
            _hears(
                "ToolResult",
                "TextDelta",
                "TurnEnd",
                tool_call_id=Given("id"),
                name=Given("name"),
                content=_TEXT,
                ok=Bind(kind="boolean"),
            ),
            _hears("TurnEnd", turn=0, stopped=False),
            _hears("TurnBegin", turn=1),
            _hears("RunEnd"),
        ),
        make(
            "busy",
            "5",
            "no second run begins inside of one",
            _user(HELLO),
            _user("second"),
            _hears("RunEnd"),
            *_turn(HELLO),
            check=_one_at_a_time,
        ),
        make(
            "cancel",
            "5",
            "a run that is cancelled just stops, and the next one begins",
            _user(COUNT),
            _hears("TextDelta"),
            Say({"cmd": "cancel"}),
            _user(HELLO),
            Await(_told("RunBegin", user_input=HELLO), "RunBegin", ({"method": "RunEnd"},)),
            _hears("RunEnd"),
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


def _v4_agents(make: _Make) -> Sequence[Requirement]:
    asked = (
        _user(RUN),
        Await(
            _told("ToolCallBegin", tool_call_id=Bind("id", "string"), name=Bind("name", "string"), arguments=_TEXT),
            "ToolCallBegin",
            unless=_told("RunEnd"),
            absent="the model called no tool",
        ),
        Await(
            _told("PermitRequest", tool_call_id=Given("id"), name=Given("name"), summary=_TEXT),
            "PermitRequest",
            unless=_told("RunEnd"),
            absent="the model called no tool that needs a permit",
        ),
    )
    permit = Say({"cmd": "permit", "tool_call_id": Given("id")})
    deny = Say({"cmd": "deny", "tool_call_id": Given("id"), "reason": "not today"})
    ended = (
        _hears("TurnEnd", "RunEnd", stopped=True, stop_reason="cancelled"),
        _hears("RunEnd", stop_reason="cancelled"),
    )
    return (
        Requirement(
            "commands",
            "agent",
            "8",
            "the first line tells the slash commands",
            Play("commands", (_hears("SlashCommands", commands=Bind(kind="array")),)),
            _first,
        ),
        make(
            "run",
            "8",
            "a run is its text, a turn with its pieces and result, and its end",
            _user(HELLO),
            _hears("RunBegin", user_input=HELLO),
            _hears("TurnBegin", turn=0),
            _hears("TextDelta", "TurnResult", text=_TEXT),
            _hears("TurnResult", content=_TEXT, tool_calls=[], reasoning_content=_TEXT, usage=_USAGE),
            _hears("TurnEnd", turn=0, stopped=True, stop_reason="no_tool_calls"),
            _hears("RunEnd", turn=0, stop_reason="no_tool_calls"),
            _FENCE,
            _fenced("TextDelta", "RunEnd", "TurnEnd"),
        ),
        make(
            "second-run",
            "8",
            "the turns of each run are counted from 0",
            *_turn(HELLO),
            _user(HELLO),
            _hears("RunBegin", user_input=HELLO),
            _hears("TurnBegin", turn=0),
            _hears("RunEnd", turn=0),
        ),
        make(
            "ask-in-run",
            "8",
            "capabilities are told also while a run is under way",
            _user(COUNT),
            _hears("TextDelta"),
            _FENCE,
            _hears("Capabilities", "RunEnd"),
        ),
        make(
            "busy",
            "8",
            "a second input while a run is under way is ignored",
            _user(COUNT),
            _hears("RunBegin"),
            _user("second"),
            _FENCE,
            _fenced("RunBegin", "RunEnd"),
        ),
        make(
            "permit",
            "8",
            "a permitted call runs",
            *asked,
            permit,
            _hears(
                "ToolResult",
                "RunEnd",
                tool_call_id=Given("id"),
                name=Given("name"),
                content=_TEXT,
                ok=Bind(kind="boolean"),
            ),
            _hears("TurnEnd", turn=0, stopped=False, stop_reason="continuing"),
            _hears("RunEnd"),
        ),
        make(
            "waits",
            "8",
            "nothing runs that waits for a permit",
            *asked,
            _FENCE,
            _fenced("ToolResult", "TurnEnd", "RunEnd"),
        ),
        make(
            "deny",
            "8",
            "a denied call has the reason as its result, and the run goes on",
            *asked,
            deny,
            _hears("ToolResult", "RunEnd", tool_call_id=Given("id"), content="not today", ok=False),
            _hears("TurnBegin", turn=1),
            _hears("RunEnd"),
        ),
        make(
            "cancel",
            "8",
            "a run that is cancelled ends as such, and the next one begins",
            _user(COUNT),
            _hears("TextDelta"),
            Say({"cmd": "cancel"}),
            *ended,
            *_turn(HELLO),
        ),
        make(
            "cancel-asking",
            "8",
            "a cancel ends the run also while it waits for a permit",
            *asked,
            Say({"cmd": "cancel"}),
            _hears("RunEnd", stop_reason="cancelled"),
            level="should",
        ),
        make(
            "end-in-run",
            "8",
            "the end of input cancels the run and ends the process",
            _user(COUNT),
            _hears("TextDelta"),
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
            "history",
            "8",
            "history is replayed in one notification",
            *_turn(HELLO),
            Say({"cmd": "history"}),
            _hears("HistoryReplay", "RunBegin"),
        ),
        make("threads", "8", "threads are listed", Say({"cmd": "list_threads"}), _hears("ThreadList")),
    )


def _first(transcript: Transcript) -> str:
    first = transcript.of("agent")[0]
    return "" if first.get("method") == "SlashCommands" else f"the first line is {first.get('method')!r}"


REQUIREMENTS: Final = _classic_agents(_maker(()))

REQUIREMENTS_V4: Final = _v4_agents(_maker(_GREET_V4))
