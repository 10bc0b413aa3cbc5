"""What this wire asks of agents about tool servers. Each play is a scripted host, which brings a server along."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    HELLO,
    PYTHON,
    TOOL,
    TOOL_SERVER,
    USE,
    Await,
    Say,
)
from agentwire.codec.patterns import Bind, Has, Holds
from agentwire_aionrs.requirement_parts import APPROVE, CALL, PING, agent, asked, ended, pong, set_mode, turn


def _add(*more: Any, command: Any = PYTHON, **fields: Any) -> Say:
    server = {"transport": "stdio", "command": command, "args": [TOOL_SERVER, *more], **fields}
    return Say({"type": "add_mcp_server", "name": "check", **server})


_ADDED: Final = Await({"type": "mcp_ready", "name": "check", "tools": Holds((TOOL,))}, "mcp_ready with the tool")
_NOT_ADDED: Final = Await({"type": "error", "error": {"code": Bind(kind="string")}}, "error", ({"type": "mcp_ready"},))

SERVERS: Final = (
    agent("mcp", "1.13", "a tool server that is added is connected, and its tools are told", _add(), _ADDED),
    agent(
        "mcp-window",
        "2.8",
        "tool servers may be added up to the first message, whatever was sent before",
        PING,
        pong(),
        *set_mode("default"),
        _add(),
        _ADDED,
    ),
    agent(
        "mcp-call",
        "1.5",
        "a tool of a server is asked about in the category mcp, and its answer is the result",
        _add(),
        _ADDED,
        *asked(USE.format(tool=TOOL), category="mcp"),
        APPROVE,
        Await({"type": "tool_running", **CALL}, "tool_running"),
        Await(
            {"type": "tool_result", **CALL, "status": "success", "output": Has("agentwire-check says")},
            "tool_result with the tool's answer",
            ({"type": "tool_result", **CALL},),
        ),
        ended(),
    ),
    agent(
        "mcp-ping",
        "2.9",
        "ping is answered at once, also while a tool server is being connected",
        _add("mute"),
        PING,
        pong({"type": "mcp_ready"}),
    ),
    agent(
        "mcp-transport",
        "2.8",
        "a transport that does not exist is an error",
        _add(transport="agentwire-none"),
        _NOT_ADDED,
    ),
    agent(
        "mcp-failed",
        "1.13",
        "a tool server that cannot be started is an error, and not ready",
        _add(command="/agentwire/none"),
        _NOT_ADDED,
        level="should",
    ),
    agent(
        "late-mcp",
        "2.8",
        "add_mcp_server after the first message is rejected",
        *turn(HELLO),
        _add(),
        Await(
            {"type": "error", "error": {"message": Has("only allowed before first Message")}},
            "error",
            ({"type": "mcp_ready"},),
        ),
    ),
)
