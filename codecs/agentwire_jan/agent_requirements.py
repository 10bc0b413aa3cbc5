"""What the RPC asks of agents: how hosts converse, the handshake, turns. Each play is a scripted host."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    COUNT,
    HELLO,
    STEER,
    AgentBasics,
    Await,
    AwaitEnd,
    EndInput,
    Line,
    Say,
)
from agentwire.codec.patterns import ANY, Bind, Has, Holds
from agentwire_jan.requirement_parts import (
    ALIVE,
    ASKED,
    GREET,
    INITIALIZE,
    INITIALIZED,
    SESSION,
    SHAKEN,
    agent,
    alive,
    call,
    decide,
    item,
    opened,
    over,
    refusal,
    refused,
    result,
    started,
    turn,
)


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    line = {"jsonrpc": "2.0", "id": token, "method": "session/list", "params": {}}
    return line, ({"jsonrpc": "2.0", "id": token, "result": {"sessions": Bind(kind="array")}},)


BASICS: Final = AgentBasics(
    greet=GREET,
    question=_question,
    flood=_question,
    prompt=turn,
    framing="1.1",
    ending="1.4",
    bad=(
        Line("json", "a line that is not JSON is a parse error, id null", "1.2", b"{nope", refused(None, -32700, None)),
        Line("value", "a line that is not an object is an invalid request", "1.1", [1], refused(None, -32600, None)),
        Line(
            "huge",
            "a line beyond 16 MiB is an invalid request, id null, and the agent goes on",
            "1.1",
            {"jsonrpc": "2.0", "id": "h", "method": "session/list"},
            refused(None, -32600, None),
            pad=16_800_000,
        ),
        Line(
            "list",
            "session/list with params that are no object is refused",
            "1.6",
            {"jsonrpc": "2.0", "id": 8, "method": "session/list", "params": 7},
            refused(8, -32602),
        ),
        Line(
            "initialized",
            "initialized with an id is an unknown method",
            "1.3",
            {"jsonrpc": "2.0", "id": 9, "method": "initialized", "params": {}},
            refused(9, -32601, None),
        ),
        Line("blank", "a blank line is a parse error", "1.1", b"", refused(None, -32700, None)),
        Line(
            "version",
            "a request whose jsonrpc is not 2.0 is an invalid request",
            "1.2",
            {"jsonrpc": "1.0", "id": "v", "method": "session/list"},
            refused("v", -32600),
        ),
        Line(
            "method",
            "an unknown method is method not found",
            "1.2",
            {"jsonrpc": "2.0", "id": 7, "method": "agentwire/unknown"},
            refused(7, -32601, None),
        ),
        Line(
            "note",
            "an unknown method without an id is ignored",
            "1.2",
            {"jsonrpc": "2.0", "method": "agentwire/unknown"},
        ),
        Line(
            "params",
            "turn/start without a sessionId is refused",
            "1.6",
            {"jsonrpc": "2.0", "id": "p", "method": "turn/start", "params": {"input": "x"}},
            refused("p", -32602),
        ),
        Line(
            "session",
            "an unknown session is refused",
            "1.6",
            {"jsonrpc": "2.0", "id": "s", "method": "turn/start", "params": {"sessionId": "none", "input": "x"}},
            refused("s", -32602, message=Has("unknown sessionId")),
        ),
        Line(
            "null",
            "a request with the id null is answered under the id null",
            "1.2",
            {"jsonrpc": "2.0", "id": None, "method": "session/list"},
            {"id": None, "result": ANY},
        ),
    ),
)


_IMAGE: Final = {
    "type": "image_url",
    "image_url": {
        "url": "data:image/png;base64,"
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg"
        "YGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
    },
}

REQUIREMENTS: Final = (
    agent(
        "handshake",
        "1.3",
        "initialize is answered with the version, the server and the capabilities",
        call(1, "initialize", INITIALIZE),
        result(
            1,
            {
                "protocolVersion": 1,
                "serverInfo": {"name": Bind(kind="string"), "version": Bind(kind="string")},
                "capabilities": {"session": True, "turn": True},
            },
        ),
        greet=(),
    ),
    agent(
        "gate",
        "1.2",
        "a request before the handshake is refused as not initialized",
        call(1, "session/list", {}),
        refusal(1, -32002, None),
        *GREET,
        greet=(),
    ),
    agent(
        "versions",
        "1.3",
        "another protocol version is refused",
        call(1, "initialize", {**INITIALIZE, "protocolVersion": 2}),
        refusal(1, -32602, None),
        greet=(),
    ),
    agent(
        "turn",
        "2.2",
        "turn/start is answered first; a turn is steps, tokens, done, and one turn/completed",
        *started(HELLO),
        Await(item("step", index=1, max=ANY), "step 1", ({"method": "item/token"},)),
        Await(item("token", text=Bind(kind="string")), "token"),
        Await(item("done", stop_reason=ANY), "done"),
        over("completed"),
        call("after", "session/list", {}),
        result("after", ANY, {"method": ANY}),
    ),
    agent("second-turn", "2.2", "a second turn of a session runs after the first", *turn(HELLO), *turn(HELLO, "again")),
    agent(
        "busy",
        "1.6",
        "a second turn is refused as retryable while one runs",
        *started(COUNT),
        call("more", "turn/start", {**SESSION, "input": HELLO}),
        refusal("more", -32001, {"retryable": True}, {"method": "turn/completed"}),
    ),
    agent(
        "interrupt",
        "1.6",
        "an interrupted turn is completed as such before the answer",
        *started(COUNT),
        call("stop", "turn/interrupt", SESSION),
        over("interrupted", None, {"id": "stop"}),
        result("stop", {}),
        *turn(HELLO, "next"),
    ),
    agent(
        "interrupt-silent",
        "1.2",
        "an interrupt without an id is carried out, and has no answer",
        *started(COUNT),
        Say({"jsonrpc": "2.0", "method": "turn/interrupt", "params": SESSION}),
        over("interrupted"),
        ALIVE,
        alive({"id": None}),
    ),
    agent(
        "interrupt-idle",
        "1.6",
        "an interrupt without a turn is refused",
        call("stop", "turn/interrupt", SESSION),
        refusal("stop", -32602),
    ),
    agent(
        "end-in-turn",
        "1.4",
        "the end of input interrupts the turn and ends the process",
        *started(COUNT),
        EndInput(),
        over("interrupted"),
        AwaitEnd(0),
    ),
    agent(
        "images",
        "1.3",
        "an image of a declared type is accepted in an input",
        call(1, "initialize", INITIALIZE),
        Await(
            {"id": 1, "result": {"input_content_parts": {"mime_types": Bind()}}},
            "result",
            unless={"id": 1},
            absent="no content parts are declared",
        ),
        INITIALIZED,
        *opened(),
        call(
            "turn",
            "turn/start",
            {
                **SESSION,
                "input": [{"type": "text", "text": HELLO}, _IMAGE],
            },
        ),
        result("turn", {"turnId": ANY}),
        greet=(),
    ),
    agent(
        "again",
        "1.3",
        "a handshake that is refused takes the one before away",
        call(2, "initialize", {**INITIALIZE, "protocolVersion": 999}),
        refusal(2, -32602, None),
        ALIVE,
        refusal("alive", -32002, None),
        *SHAKEN,
        ALIVE,
        alive(),
    ),
    agent(
        "inputs",
        "1.6",
        "turn/start refuses a blank text, no parts, an object, null, a number, and unknown parts",
        *(
            step
            for number, given in enumerate(("   ", [], {"type": "user", "content": []}, None, 5, [{"type": "audio"}]))
            for step in (
                call(f"i{number}", "turn/start", {**SESSION, "input": given}),
                refusal(f"i{number}", -32602),
            )
        ),
        *turn(HELLO),
    ),
    agent(
        "steer",
        "1.6",
        "a running turn is steered, and goes on",
        *started(COUNT),
        call("steer", "turn/steer", {**SESSION, "input": STEER}),
        result("steer", {}, {"method": "turn/completed"}),
        call("stop", "turn/interrupt", SESSION),
        over("interrupted"),
    ),
    agent(
        "steer-idle",
        "1.6",
        "without a running turn steering is refused",
        call("steer", "turn/steer", {**SESSION, "input": STEER}),
        refusal("steer", -32602),
    ),
    agent(
        "steer-joins",
        "1.6",
        "what a turn is steered with joins before the model is asked again",
        *ASKED,
        call("steer", "turn/steer", {**SESSION, "input": STEER}),
        result("steer", {}),
        decide("deny"),
        Await(
            item("messages_updated", messages=Holds(({"role": "user", "content": STEER},))),
            "messages_updated with the user's words",
            ({"method": "turn/completed"},),
        ),
        over("completed"),
        level="should",
    ),
    agent(
        "interrupt-asking",
        "1.6",
        "an interrupt ends the turn also while a permission waits, which then is not pending",
        *ASKED,
        call("stop", "turn/interrupt", SESSION),
        over("interrupted", None, {"id": "stop"}),
        result("stop", {}),
        decide("allow_once"),
        refusal("decide", -32602, ANY, {"method": "item/tool_result"}),
    ),
)
