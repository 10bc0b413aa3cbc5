"""What the RPC asks of agents about host tools: declarations, calls, answers. Each play is a scripted host."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    DIRECTORY,
    TOOL,
    USE,
    Await,
    AwaitEnd,
    EndInput,
    Say,
    Step,
)
from agentwire.codec.patterns import Bind, Given, Has, OneOf
from agentwire_jan.requirement_parts import (
    NOT_PENDING,
    PROBE,
    SESSION,
    SHAKEN,
    agent,
    call,
    decide,
    item,
    opened,
    over,
    question,
    refusal,
    refusals,
    result,
    started,
)

_NAME: Final = f"host__{TOOL}"
_PLAIN: Final = {"name": TOOL, "description": "Repeats a text."}
_DELEGATES: Final = ["dispatch_subagent", "message_subagent", "stop_subagent", "list_subagents"]


def _open(*tools: Any, **more: Any) -> tuple[Step, ...]:
    return (*SHAKEN, *opened(builtins=False, tools=list(tools), **more))


def _requested(*never: Any) -> Await:
    return Await(
        item("tool_request", request_id=Bind("request", "string"), tool_name=TOOL, args=Bind("args", "object")),
        "tool_request under the name that the host gave",
        never,
        unless={"method": "turn/completed"},
        absent="the model called no host tool",
    )


_USED: Final = started(USE.format(tool=_NAME))
_HELD: Final[tuple[Step, ...]] = (*_open(PROBE), *_USED, _requested({"method": "item/permission_request"}))
"""A read tool of the host, called: nobody is asked."""


def _respond(content: Any, asked: Any = "tool", **more: Any) -> Say:
    return call(asked, "tool/respond", {"requestId": Given("request"), "content": content, **more})


def _tool_result(content: Any, *never: Any, is_error: bool = False) -> Await:
    told = item("tool_result", id=Bind("call", "string"), content=content, is_error=is_error)
    return Await(told, "tool_result", ({"method": "turn/completed"}, *never))


_ASKED_FIRST: Final = question(_NAME)

HOST_TOOLS: Final = (
    agent(
        "host-tools",
        "3.1",
        "a declared host tool is among the session's tools",
        *SHAKEN,
        call(
            "open",
            "session/start",
            {"cwd": DIRECTORY, "ephemeral": True, "builtins": False, "tools": [PROBE]},
        ),
        result("open", {"tools": [_NAME], "toolSpecs": [{"type": "function"}]}),
        greet=(),
    ),
    agent(
        "tool-names",
        "3.2",
        "the same tool declared twice is refused, and no session is opened",
        *SHAKEN,
        call("open", "session/start", {"cwd": DIRECTORY, "tools": [PROBE, PROBE]}),
        refusal("open", -32602, {"kind": "invalid_tools"}),
        call("list", "session/list", {}),
        result("list", {"sessions": []}),
        greet=(),
    ),
    agent(
        "tool-refusals",
        "3.2",
        "reserved, blank and overlong tool declarations are refused as invalid_tools, and no session is opened",
        *SHAKEN,
        *refusals(
            "session/start",
            -32602,
            *(
                {"cwd": DIRECTORY, "tools": tools}
                for tools in (
                    [{"name": "read"}],
                    [{"name": " "}],
                    [{"name": "x", "capability": "write"}],
                    [{"name": "x", "parameters": []}],
                    [{"name": "x", "later": 1}],
                    ["x"],
                    [{"name": f"t{number}"} for number in range(129)],
                )
            ),
            data={"kind": "invalid_tools"},
        ),
        call("list", "session/list", {}),
        result("list", {"sessions": []}),
        greet=(),
    ),
    agent(
        "tool-mapped",
        "3.1",
        "the tool name agentwire.probe is advertised as host__agentwire_probe_ and a digest",
        *SHAKEN,
        call("open", "session/start", {"cwd": DIRECTORY, "builtins": False, "tools": [{"name": "agentwire.probe"}]}),
        result("open", {"tools": ["host__agentwire_probe_14268f4d"]}),
        greet=(),
        level="should",
    ),
    agent(
        "delegates",
        "1.6",
        "without built-in tools, subagents brings the four delegate tools before the host's",
        *SHAKEN,
        call(
            "open",
            "session/start",
            {"cwd": DIRECTORY, "ephemeral": True, "builtins": False, "subagents": True, "tools": [PROBE]},
        ),
        result("open", {"tools": [*_DELEGATES, _NAME]}),
        greet=(),
        level="should",
    ),
    agent(
        "host-call",
        "3.4",
        "a host tool is called, answered, and its result and details are told under the model's id",
        *_USED,
        _requested({"method": "item/permission_request"}),
        _respond("agentwire-check says so", details={"frame": 7}),
        result("tool", {}, {"method": "item/tool_result"}),
        _tool_result("agentwire-check says so"),
        Await(item("tool_details", id=Given("call"), details={"frame": 7}), "tool_details"),
        over("completed"),
        greet=_open(PROBE),
    ),
    agent(
        "host-parts",
        "3.4",
        "an answer of content parts is a tool_result of their texts",
        _respond([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]),
        result("tool", {}),
        _tool_result("one\ntwo"),
        over("completed"),
        greet=_HELD,
    ),
    agent(
        "host-error",
        "3.4",
        "an answer with isError is a tool_result with is_error and the prefix ERROR:",
        _respond("no frame", isError=True),
        result("tool", {}),
        _tool_result("ERROR: no frame", is_error=True),
        over("completed"),
        greet=_HELD,
    ),
    agent(
        "host-bad-parts",
        "3.6",
        "an answer that cannot be read is refused, and the request stays open",
        _respond([{"type": "audio"}], "a"),
        refusal("a", -32602, None),
        _respond(7, "b"),
        refusal("b", -32602, None),
        _respond("ok"),
        result("tool", {}),
        over("completed"),
        greet=_HELD,
    ),
    agent(
        "host-late",
        "1.6",
        "a second answer is refused as not pending",
        _respond("ok"),
        result("tool", {}),
        _respond("again", "late"),
        refusal("late", -32602, NOT_PENDING),
        greet=_HELD,
    ),
    agent(
        "host-interrupt",
        "3.5",
        "an interrupt withdraws what the host holds before the turn's end, and its answer comes too late",
        call("stop", "turn/interrupt", SESSION),
        Await(
            item("tool_request_cancelled", request_id=Given("request"), reason="interrupted"),
            "tool_request_cancelled",
            ({"method": "turn/completed"}, {"id": "stop"}),
        ),
        over("interrupted", None, {"id": "stop"}),
        result("stop", {}),
        _respond("too late"),
        refusal("tool", -32602, NOT_PENDING),
        greet=_HELD,
    ),
    agent(
        "host-gone",
        "3.5",
        "the end of input withdraws what the host holds",
        EndInput(),
        Await(
            item("tool_request_cancelled", request_id=Given("request"), reason="client_gone"),
            "tool_request_cancelled",
            ({"method": "turn/completed"},),
        ),
        over("interrupted"),
        AwaitEnd(0),
        greet=_HELD,
        level="should",
    ),
    agent(
        "host-gate",
        "3.3",
        "a host tool that declares nothing is asked about, by the name that the model knows",
        *_USED,
        _ASKED_FIRST,
        decide("allow_once"),
        result("decide", {}, {"method": "item/tool_request"}),
        _requested(),
        _respond("ok"),
        result("tool", {}),
        over("completed"),
        greet=_open(_PLAIN),
    ),
    agent(
        "host-denied",
        "3.3",
        "a host tool that is denied is not called",
        *_USED,
        _ASKED_FIRST,
        decide("deny"),
        result("decide", {}),
        _tool_result(Has("denied"), {"method": "item/tool_request"}, is_error=True),
        over("completed"),
        greet=_open({**_PLAIN, "capability": "actuator"}),
    ),
    agent(
        "host-owner",
        "3.3",
        "a host that decides itself is not asked about its tools",
        *_USED,
        _requested({"method": "item/permission_request"}),
        _respond("ok"),
        result("tool", {}),
        over("completed"),
        greet=_open({**_PLAIN, "capability": "actuator"}, permissions="host"),
    ),
    agent(
        "host-schema",
        "3.4",
        "arguments that do not fit the declared schema are an error, and the host is not called",
        *_USED,
        Await(
            item("tool_result", content=Has("do not match its schema"), is_error=True),
            "tool_result that tells of the schema",
            ({"method": "item/tool_result"},),
            unless=OneOf(({"method": "turn/completed"}, {"method": "item/tool_request"})),
            absent="the model kept to the schema",
        ),
        over("completed"),
        greet=_open(
            {
                **PROBE,
                "parameters": {
                    "type": "object",
                    "properties": {"text": {"type": "string", "const": "nothing"}},
                    "required": ["text", "frame"],
                },
            }
        ),
    ),
)
