"""What stream-json asks of agents about host tools. Each play is a scripted host, whose tool the model calls."""

from __future__ import annotations

from typing import Final

from agentwire.codec.kit import (
    TOOL,
    USE,
    Await,
    AwaitEnd,
    EndInput,
    Say,
    Step,
)
from agentwire.codec.patterns import (
    ANY,
    Bind,
    Given,
    Has,
    Holds,
)
from agentwire_jan.stream_requirement_parts import agent, hears, user

DECLARED: Final = [{"name": TOOL, "description": "Repeats a text.", "capability": "read"}]
"""What a host declares in the file of ``--host-tools``."""

_OFFERED: Final[tuple[Step, ...]] = (
    Await(
        {"type": "init", "tools": Holds((f"host__{TOOL}",)), "tool_specs": [{"function": {"name": f"host__{TOOL}"}}]},
        "init with the host tool",
        unless={"type": "init"},
        absent="no host tool is declared; have the agent's command end in --host-tools {host_tools}",
    ),
)

_HELD: Final[tuple[Step, ...]] = (
    user(USE.format(tool=f"host__{TOOL}")),
    Await(
        {"type": "tool_request", "request_id": Bind("request", "string"), "tool_name": TOOL, "args": ANY},
        "tool_request under the name that the host gave",
        ({"type": "permission_request"},),
        unless={"type": "result"},
        absent="the model called no host tool",
    ),
)


HOST_TOOLS: Final = (
    agent(
        "host-call",
        "4.2",
        "a host tool is called under the host's name, and its answer is the result, with its details",
        *_HELD,
        Say({"type": "tool_result", "request_id": Given("request"), "content": "check says so", "details": {"f": 1}}),
        hears("tool_result", "result", id=Bind("call", "string"), content="check says so", is_error=False),
        hears("tool_details", "result", id=Given("call"), details={"f": 1}),
        hears("result", is_error=False),
        greet=_OFFERED,
    ),
    agent(
        "host-late",
        "4.2",
        "a second answer of a host tool is an input_error",
        *_HELD,
        Say({"type": "tool_result", "request_id": Given("request"), "content": "one"}),
        Say({"type": "tool_result", "request_id": Given("request"), "content": "two"}),
        hears("input_error", message=Has("pending"), line=Has("two")),
        greet=_OFFERED,
    ),
    agent(
        "host-abort",
        "4.3",
        "an abort withdraws what the host holds before the end",
        *_HELD,
        Say({"type": "abort"}),
        hears("tool_request_cancelled", "done", "result", request_id=Given("request"), reason="aborted"),
        hears("done", "result", stop_reason="aborted"),
        hears("result", is_error=False),
        AwaitEnd(0),
        greet=_OFFERED,
    ),
    agent(
        "host-gone",
        "4.3",
        "the end of input withdraws what the host holds, and the run goes on",
        *_HELD,
        EndInput(),
        hears("tool_request_cancelled", "result", request_id=Given("request"), reason="client_gone"),
        hears("result", is_error=False),
        AwaitEnd(0),
        greet=_OFFERED,
    ),
)
