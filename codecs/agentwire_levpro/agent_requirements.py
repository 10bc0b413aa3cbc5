"""What this wire asks of cores, with the plays that prove it: each is a scripted host."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.checking import Severity
from agentwire.codec.kit import (
    ANY,
    COUNT,
    HELLO,
    RUN,
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
)


def _call(asked: Any, method: str, **params: Any) -> Say:
    return Say({"id": asked, "method": method, "params": params})


def _result(asked: Any, result: Any = ANY, *never: Any) -> Await:
    return Await({"id": asked, "type": "result", "result": result}, f"result of {asked}", never)


def _refused(asked: Any, code: str) -> dict[str, Any]:
    return {"id": asked, "type": "error", "code": code, "message": Bind(kind="string")}


def _refusal(asked: Any, code: str, *never: Any) -> Await:
    return Await(_refused(asked, code), f"error {code} under the id {asked}", never)


def _event(kind: str, asked: Any = "c", **fields: Any) -> dict[str, Any]:
    return {"id": asked, "type": "event", "event": kind, **fields}


_ANSWER: Final = {
    "response": Bind("response", "string"),
    "session_id": Bind(kind="string"),
    "trace_id": Bind(kind="string"),
    "warnings": Bind(kind="array"),
}


def _chat(text: str, asked: Any = "c", **more: Any) -> Say:
    return _call(asked, "chat", input=text, session_id=f"agentwire-check-{asked}", **more)


def _began(asked: Any = "c") -> Await:
    return Await(_event("llm_start", asked), "llm_start")


def _turn(text: str, asked: Any = "c") -> tuple[Step, ...]:
    return (_chat(text, asked), _result(asked, _ANSWER))


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    return {"id": token, "method": "ping"}, ({"id": token, "type": "result", "result": {"status": "ok"}},)


BASICS: Final = AgentBasics(
    greet=(),
    question=_question,
    flood=_question,
    prompt=_turn,
    framing="1",
    ending="9",
    bad=(
        Line("json", "a line that is not JSON is invalid_json, id null", "6", b"{nope", _refused(None, "invalid_json")),
        Line(
            "value", "a line that is not an object is an invalid request", "2", [1], _refused(None, "invalid_request")
        ),
        Line(
            "bytes",
            "a line that is not UTF-8 is an error",
            "1",
            b'{"id":"u","method":"ping\xff"}',
            {"id": None, "type": "error"},
            "should",
        ),
        Line("no-id", "a request without an id is refused", "2", {"method": "ping"}, _refused(None, "invalid_request")),
        Line(
            "id",
            "an id is a string or a number",
            "2",
            {"id": True, "method": "ping"},
            _refused(None, "invalid_request"),
        ),
        Line(
            "method",
            "an unknown method is named so",
            "4",
            {"id": "x", "method": "agentwire_unknown"},
            _refused("x", "unknown_method"),
        ),
        Line(
            "params",
            "params are an object",
            "2",
            {"id": "p", "method": "ping", "params": []},
            _refused("p", "invalid_request"),
        ),
        Line(
            "more",
            "unknown keys are ignored",
            "2",
            {"id": 7, "method": "ping", "later": {"a": 1}},
            {"id": 7, "type": "result", "result": {"status": "ok"}},
        ),
        Line(
            "huge",
            "a line beyond 1 MiB is an invalid request, and no more",
            "1",
            b'{"id":"h","method":"ping","params":{"a":"' + b"x" * 1_100_000 + b'"}}',
            _refused(None, "invalid_request"),
            "should",
        ),
        Line("blank", "a blank line is nothing", "1", b""),
    ),
)


def _agent(
    name: str, section: str, text: str, *steps: Step, check: Check | None = None, level: Severity = "must"
) -> Requirement:
    return Requirement(name, "agent", section, text, Play(name, steps), check, level)


_GREETED: Final = _call("i", "initialize", protocol_versions=[1])


def _declares(capability: str) -> Await:
    return Await(
        {"id": "i", "type": "result", "result": {"capabilities": {capability: True}}},
        "result of initialize",
        unless={"id": "i"},
        absent=f"{capability} is not declared",
    )


REQUIREMENTS: Final = (
    _agent(
        "initialize",
        "4",
        "initialize gives the version and what the core can",
        _GREETED,
        _result("i", {"protocol_version": 1, "capabilities": Bind(kind="object"), "server": Bind(kind="object")}),
        level="should",
    ),
    _agent(
        "versions",
        "4",
        "no common version is refused",
        _call("i", "initialize", protocol_versions=[99]),
        _refusal("i", "invalid_request"),
        level="should",
    ),
    _agent(
        "ping",
        "4",
        "ping is answered at once, also while a chat runs",
        _chat(COUNT),
        _began(),
        _call(1, "ping"),
        _result(1, {"status": "ok"}, {"id": "c", "type": OneOf(("result", "error"))}),
    ),
    _agent(
        "chat",
        "5",
        "a chat is run_start, a model's step, final, and a result with the same answer",
        _chat(HELLO),
        Await(
            _event("run_start", user_input=HELLO, trace_id=Bind("trace", "string")), "run_start", ({"type": "event"},)
        ),
        Await(_event("llm_start", step=0), "llm_start"),
        Await(_event("llm_done", step=0), "llm_done"),
        Await(_event("final", response=Bind("response", "string")), "final"),
        _result("c", {**_ANSWER, "response": Given("response"), "trace_id": Given("trace")}),
        _call("p", "ping"),
        _result("p", ANY, {"id": "c"}),
    ),
    _agent(
        "second-chat",
        "4",
        "one session takes one chat after the other",
        *_turn(HELLO),
        _chat(HELLO, "d"),
        _result("d", _ANSWER),
    ),
    _agent(
        "session-id",
        "4",
        "a chat without a session is given one",
        _call("c", "chat", input=HELLO),
        _result("c", {**_ANSWER, "session_id": Bind("made", "string")}),
        check=lambda run: "" if run.given["made"] else "the session's id is empty",
    ),
    _agent(
        "id-in-use",
        "2",
        "an id that waits for its answer is not taken again",
        _chat(COUNT),
        _began(),
        _call("c", "ping"),
        _refusal("c", "invalid_request"),
        level="should",
    ),
    _agent(
        "cancel",
        "4",
        "a cancelled chat ends with the error cancelled",
        _chat(COUNT),
        _began(),
        _call("k", "cancel", request_id="c"),
        Await(_refused("c", "cancelled"), "error cancelled", ({"id": "c", "type": "result"},)),
        *_turn(HELLO, "d"),
    ),
    _agent(
        "cancel-one",
        "4",
        "cancel may name none where one chat runs",
        _chat(COUNT),
        _began(),
        _call("k", "cancel"),
        Await(_refused("c", "cancelled"), "error cancelled"),
    ),
    _agent(
        "cancel-two",
        "4",
        "cancel must name one where two chats run",
        _chat(COUNT),
        _began(),
        _chat(COUNT, "d"),
        _began("d"),
        _call("k", "cancel"),
        _refusal("k", "invalid_request", _refused("c", "cancelled")),
    ),
    _agent(
        "parallel",
        "7",
        "parallel_chats: chats of two sessions run side by side",
        _GREETED,
        _declares("parallel_chats"),
        _chat(COUNT),
        _began(),
        *_turn(HELLO, "d"),
    ),
    _agent(
        "targeted",
        "4",
        "targeted_cancel: the chat that is named is cancelled, and no other",
        _GREETED,
        _declares("targeted_cancel"),
        _chat(COUNT),
        _began(),
        _chat(COUNT, "d"),
        _began("d"),
        _call("k", "cancel", request_id="d"),
        Await(_refused("d", "cancelled"), "error cancelled", (_refused("c", "cancelled"),)),
        _call("p", "ping"),
        _result("p", ANY, {"id": "c", "type": "error"}),
    ),
    _agent(
        "tool",
        "5",
        "with approve_execution a tool runs: tool_start, then tool_done",
        _chat(RUN, approve_execution=True),
        Await(
            _event("tool_start", step=0, tool=Bind("tool", "string"), args=Bind(kind="object")),
            "tool_start",
            unless={"type": "result"},
            absent="the model called no tool",
        ),
        Await(
            _event(
                "tool_done",
                step=0,
                tool=Given("tool"),
                status="ok",
                preview=Bind(kind="string"),
                retryable=Bind(kind="boolean"),
                ms=Bind(kind="number"),
            ),
            "tool_done",
            ({"type": "result"},),
        ),
        _result("c", _ANSWER),
    ),
    _agent(
        "no-approval",
        "4",
        "without approve_execution a tool that needs it does not run, and the chat goes on",
        _chat(RUN),
        Await(
            _event("tool_done", status=Bind("status")),
            "tool_done",
            unless={"type": "result"},
            absent="the model called no tool that needs an approval",
        ),
        _result("c", _ANSWER),
        check=lambda run: "it ran" if run.given["status"] == "ok" else "",
        level="should",
    ),
    _agent("doctor", "4", "doctor has a result", _call("d", "doctor"), _result("d", Bind(kind="object"))),
    _agent(
        "bad-chat",
        "4",
        "a chat whose params have the wrong type is refused",
        _call("b", "chat", input=5),
        _refusal("b", "invalid_request"),
        level="should",
    ),
    _agent(
        "shutdown",
        "9",
        "shutdown cancels what runs, is answered last, and ends the process",
        _chat(COUNT),
        _began(),
        _call("s", "shutdown"),
        Await(_refused("c", "cancelled"), "error cancelled", ({"id": "s"},)),
        _result("s"),
        AwaitEnd(0),
    ),
    _agent(
        "end-in-chat",
        "9",
        "the end of input cancels what runs and ends the process",
        _chat(COUNT),
        _began(),
        EndInput(),
        Await(_refused("c", "cancelled"), "error cancelled"),
        AwaitEnd(0),
    ),
)
