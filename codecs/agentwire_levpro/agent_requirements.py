"""What this wire asks of cores: how hosts converse, the handshake, the end. Each play is a scripted host."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    COUNT,
    AgentBasics,
    Await,
    AwaitEnd,
    EndInput,
    Line,
    Terminate,
)
from agentwire.codec.patterns import Bind, OneOf
from agentwire_levpro.requirement_parts import GREETED, agent, began, call, chat, refusal, refused, result, turn


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    return {"id": token, "method": "ping"}, ({"id": token, "type": "result", "result": {"status": "ok"}},)


BASICS: Final = AgentBasics(
    greet=(),
    question=_question,
    flood=_question,
    prompt=turn,
    framing="1",
    ending="9",
    bad=(
        Line(
            "json",
            "a line that is not JSON is the error invalid_json, id null",
            "6",
            b"{nope",
            refused(None, "invalid_json"),
        ),
        Line("value", "a line that is not an object is an invalid request", "2", [1], refused(None, "invalid_request")),
        Line(
            "bytes",
            "a line that is not UTF-8 is an error",
            "1",
            b'{"id":"u","method":"ping\xff"}',
            {"id": None, "type": "error"},
            "should",
        ),
        Line("no-id", "a request without an id is refused", "2", {"method": "ping"}, refused(None, "invalid_request")),
        Line(
            "no-method",
            "a request without a method is refused under its id",
            "2",
            {"id": "n"},
            refused("n", "invalid_request"),
        ),
        Line(
            "null-params",
            "params of null are taken as none",
            "2",
            {"id": "n", "method": "ping", "params": None},
            {"id": "n", "type": "result"},
            "should",
        ),
        Line(
            "id",
            "an id that is neither a string nor a number is refused",
            "2",
            {"id": True, "method": "ping"},
            refused(None, "invalid_request"),
        ),
        Line(
            "method",
            "an unknown method is the error unknown_method",
            "4",
            {"id": "x", "method": "agentwire_unknown"},
            refused("x", "unknown_method"),
        ),
        Line(
            "params",
            "params that are no object are refused",
            "2",
            {"id": "p", "method": "ping", "params": []},
            refused("p", "invalid_request"),
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
            "a line beyond 1 MiB is an invalid request, and the core goes on",
            "1",
            b'{"id":"h","method":"ping","params":{"a":"' + b"x" * 1_100_000 + b'"}}',
            refused(None, "invalid_request"),
            "should",
        ),
        Line("blank", "a blank line is ignored", "1", b""),
    ),
)

_SET_UP: Final = ("config_missing", "binary_missing", "model_missing", "model_plan_error")

REQUIREMENTS: Final = (
    agent(
        "initialize",
        "4",
        "initialize is answered with the version, the capabilities and the server",
        GREETED,
        result("i", {"protocol_version": 1, "capabilities": Bind(kind="object"), "server": Bind(kind="object")}),
        level="should",
    ),
    agent(
        "versions",
        "4",
        "initialize without a common version is refused",
        call("i", "initialize", protocol_versions=[99]),
        refusal("i", "invalid_request"),
        level="should",
    ),
    agent(
        "ping",
        "4",
        "ping is answered at once, also while a chat runs",
        chat(COUNT),
        began(),
        call(1, "ping"),
        result(1, {"status": "ok"}, {"id": "c", "type": OneOf(("result", "error"))}),
    ),
    agent(
        "id-in-use",
        "2",
        "a request with the id of one that is not answered yet is refused",
        chat(COUNT),
        began(),
        call("c", "ping"),
        refusal("c", "invalid_request"),
        level="should",
        orderly=False,
    ),
    agent("doctor", "4", "doctor is answered with a result", call("d", "doctor"), result("d", Bind(kind="object"))),
    agent(
        "shutdown",
        "9",
        "shutdown cancels what runs, is answered last, and ends the process",
        chat(COUNT),
        began(),
        call("s", "shutdown"),
        Await(refused("c", "cancelled"), "error cancelled", ({"id": "s"},)),
        result("s"),
        AwaitEnd(0),
    ),
    agent(
        "end-in-chat",
        "9",
        "the end of input cancels what runs and ends the process",
        chat(COUNT),
        began(),
        EndInput(),
        Await(refused("c", "cancelled"), "error cancelled"),
        AwaitEnd(0),
    ),
    agent(
        "versions-many",
        "4",
        "the highest common version is taken; none that is named means version 1",
        call("i", "initialize", protocol_versions=[3, 1, 2]),
        result("i", {"protocol_version": 1}),
        call("j", "initialize"),
        result("j", {"protocol_version": 1}),
        call("k", "initialize", protocol_versions=[]),
        refusal("k", "invalid_request"),
        level="should",
    ),
    agent(
        "plan",
        "4",
        "plan is answered with a result, or with the error that says what is missing",
        call("p", "plan"),
        Await(
            OneOf(
                (
                    {"id": "p", "type": "result", "result": Bind(kind="object")},
                    *(refused("p", code) for code in _SET_UP),
                )
            ),
            "result of plan, or one of its errors",
            ({"id": "p"},),
        ),
    ),
    agent(
        "shutdown-idle",
        "9",
        "shutdown is answered, and ends the process",
        call("s", "shutdown"),
        result("s", Bind(kind="object")),
        AwaitEnd(0),
    ),
    agent(
        "terminate",
        "9",
        "SIGTERM cancels what runs and ends the process, status 0",
        chat(COUNT),
        began(),
        Terminate(),
        Await(refused("c", "cancelled"), "error cancelled"),
        AwaitEnd(0),
        level="should",
    ),
)
