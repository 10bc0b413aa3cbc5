"""What the RPC asks of agents about sessions: opening, listing, changing, copying. Each play is a scripted host."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    COUNT,
    DIRECTORY,
    HELLO,
    TOOL,
    Await,
    Step,
    Transcript,
)
from agentwire.codec.patterns import (
    ANY,
    Bind,
    Given,
    Has,
    Holds,
)
from agentwire_jan.requirement_parts import (
    PROBE,
    SESSION,
    SHAKEN,
    agent,
    call,
    opened,
    refusal,
    refusals,
    refused,
    result,
    started,
    turn,
)

_VIEW: Final = {"tools": Bind("tools", "array"), "toolSpecs": Bind("specs", "array")}
_SAME: Final = {"tools": Given("tools"), "toolSpecs": Given("specs")}
_COPY: Final = {"sessionId": Given("copy")}


def _fork(**params: Any) -> tuple[Step, ...]:
    return (call("fork", "session/fork", params or SESSION), result("fork", {"sessionId": Bind("copy", "string")}))


def _another(transcript: Transcript) -> str:
    given = transcript.given
    return "" if given["session"] != given["copy"] else "the copy has the sessionId of the original"


def _busy(method: str, data: dict[str, Any], **more: Any) -> tuple[Step, ...]:
    return (
        call(method, method, {**SESSION, **more}),
        refusal(method, -32001, {"retryable": True, **data}, {"method": "turn/completed"}),
    )


SESSIONS: Final = (
    agent(
        "list",
        "1.6",
        "session/list gives an open session with the number of its turns",
        *turn(HELLO),
        call("list", "session/list", {}),
        result("list", {"sessions": [{"id": Given("session"), "model": ANY, "turns": 1, "hostTools": 0}]}),
    ),
    agent(
        "archive",
        "1.6",
        "an archived session is gone",
        call("bye", "session/archive", SESSION),
        result("bye", {}),
        call("turn", "turn/start", {**SESSION, "input": HELLO}),
        refusal("turn", -32602),
    ),
    agent(
        "cwd",
        "1.6",
        "session/start in a directory that does not exist is refused",
        call("cwd", "session/start", {"cwd": "/agentwire/none"}),
        refusal("cwd", -32602),
    ),
    agent(
        "start-params",
        "1.6",
        "session/start refuses unknown keys, a blank systemPrompt, and unknown permissions",
        *SHAKEN,
        *refusals(
            "session/start",
            -32602,
            {"cwd": DIRECTORY, "hostTools": []},
            {"cwd": DIRECTORY, "systemPrompt": "  "},
            {"cwd": DIRECTORY, "permissions": "nobody"},
            {"ephemeral": True},
        ),
        call("list", "session/list", {}),
        result("list", {"sessions": []}),
        greet=(),
    ),
    agent(
        "unknown-session",
        "1.6",
        "every session method refuses a session that does not exist",
        *(
            step
            for method, more in (
                ("session/tools/get", {}),
                ("session/tools/set", {"tools": []}),
                ("session/model/set", {"model": "x"}),
                ("session/reset", {}),
                ("session/resume", {}),
                ("session/fork", {}),
                ("session/archive", {}),
            )
            for step in (
                call(method, method, {"sessionId": "agentwire-none", **more}),
                refusal(method, -32602),
            )
        ),
    ),
    agent(
        "tools-get",
        "1.6",
        "session/tools/get gives the same tools as session/start",
        *SHAKEN,
        call("open", "session/start", {"cwd": DIRECTORY, "ephemeral": True, "tools": [PROBE]}),
        result("open", {"sessionId": Bind("session", "string"), **_VIEW}),
        call("get", "session/tools/get", SESSION),
        result("get", _SAME),
        greet=(),
    ),
    agent(
        "tools-set",
        "1.6",
        "session/tools/set replaces the host tools",
        call("set", "session/tools/set", {**SESSION, "tools": [PROBE]}),
        result("set", {"tools": Holds((f"host__{TOOL}",)), "toolSpecs": [{"function": {"name": f"host__{TOOL}"}}]}),
        call("none", "session/tools/set", {**SESSION, "tools": []}),
        result("none", {"toolSpecs": []}),
    ),
    agent(
        "model",
        "1.6",
        "the model can be set, and a blank one is refused",
        call("model", "session/model/set", {**SESSION, "model": Given("model")}),
        result("model", {"model": Bind(kind="string")}),
        *refusals("session/model/set", -32602, {**SESSION, "model": " "}),
        greet=(*SHAKEN, *opened()),
    ),
    agent(
        "model-unknown",
        "1.6",
        "a model that no service has is refused, with its name",
        call("model", "session/model/set", {**SESSION, "model": "agentwire-none"}),
        Await(
            refused("model", -32602, message=Has("agentwire-none")),
            "error -32602 that names the model",
            ({"id": "model", "error": Bind()},),
            unless={"id": "model", "result": Bind()},
            absent="the service takes any model",
        ),
    ),
    agent(
        "reset",
        "1.6",
        "session/reset tells the tools, and the session goes on",
        *turn(HELLO),
        call("reset", "session/reset", SESSION),
        result("reset", {"tools": Bind(kind="array"), "toolSpecs": Bind(kind="array")}),
        *turn(HELLO, "again"),
    ),
    agent(
        "resume",
        "1.6",
        "session/resume tells the session, its model and its turns",
        *turn(HELLO),
        call("resume", "session/resume", SESSION),
        result("resume", {"sessionId": Given("session"), "model": Bind(kind="string"), "turns": 1}),
        *turn(HELLO, "again"),
    ),
    agent(
        "fork",
        "1.6",
        "session/fork makes a session of its own, with the same tools and no turns",
        *SHAKEN,
        *opened(tools=[PROBE]),
        *turn(HELLO),
        *_fork(),
        call("get", "session/tools/get", _COPY),
        result("get", _SAME),
        call("list", "session/list", {}),
        result("list", {"sessions": Holds(({"id": Given("session"), "turns": 1}, {"id": Given("copy"), "turns": 0}))}),
        call("turn", "turn/start", {**_COPY, "input": HELLO}),
        result("turn", {"turnId": Bind("later", "string")}),
        Await(
            {"method": "turn/completed", "params": {**_COPY, "turnId": Given("later"), "stopReason": "completed"}},
            "turn/completed of the copy",
        ),
        greet=(),
        check=_another,
    ),
    agent(
        "in-turn",
        "1.6",
        "while its turn runs a session is not changed (-32001), and tools/get and resume are answered",
        *started(COUNT),
        *_busy("session/tools/set", {"kind": "turn_active"}, tools=[]),
        *_busy("session/model/set", {"kind": "turn_active"}, model="x"),
        *_busy("session/reset", {"kind": "turn_active"}),
        *_busy("session/fork", {}),
        *_busy("session/archive", {}),
        call("get", "session/tools/get", SESSION),
        result("get"),
        call("resume", "session/resume", SESSION),
        result("resume"),
    ),
    agent(
        "two-sessions",
        "1.1",
        "one turn runs in the whole process, and another session has no part in it",
        *opened(bind="second", asked="second"),
        *started(COUNT),
        call("start", "turn/start", {"sessionId": Given("second"), "input": HELLO}),
        refusal("start", -32001, {"retryable": True}),
        call("stop", "turn/interrupt", {"sessionId": Given("second")}),
        refusal("stop", -32602, ANY, {"method": "turn/completed"}),
        call("steer", "turn/steer", {"sessionId": Given("second"), "input": "x"}),
        refusal("steer", -32602),
        call("reset", "session/reset", {"sessionId": Given("second")}),
        result("reset", ANY, {"params": {"sessionId": Given("second")}}),
    ),
)
