"""Descriptions of servers: from a host's command, from a configuration table."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from agentwire.commands import AddMcpServer
from agentwire.mcp.spec import McpServerSpec, McpSpecError, from_command, from_config


def test_a_host_s_command_becomes_a_dynamic_server_with_the_default_timeout() -> None:
    command = AddMcpServer("t", "stdio", command="node", args=["bridge.js"], env={"TOKEN": "x"})
    spec = from_command(command)
    assert spec == McpServerSpec(
        name="t", transport="stdio", command="node", args=["bridge.js"], env={"TOKEN": "x"}, dynamic=True
    )
    assert spec.startup_timeout_ms == 30_000
    assert spec.call_timeout_ms == 0


@pytest.mark.parametrize(
    ("name", "wire"),
    [("sse", "sse"), ("streamable-http", "streamable-http"), ("streamable_http", "streamable-http")],
)
def test_transports_by_every_name(name: str, wire: str) -> None:
    assert from_command(AddMcpServer("t", name, url="https://host/mcp")).wire == wire


@pytest.mark.parametrize(
    ("command", "message", "kind"),
    [
        (AddMcpServer("b", "carrier-pigeon"), "unknown transport: carrier-pigeon", "transport"),
        (AddMcpServer("b", ""), "unknown transport: ", "transport"),
        (AddMcpServer("b", "stdio"), "Initialization failed: stdio transport requires 'command'", "incomplete"),
        (AddMcpServer("b", "sse", command="x"), "Initialization failed: SSE transport requires 'url'", "incomplete"),
        (
            AddMcpServer("b", "streamable_http"),
            "Initialization failed: streamable-http transport requires 'url'",
            "incomplete",
        ),
        (
            AddMcpServer("b", "sse", url="file:///etc"),
            "Initialization failed: 'url' must be an http or https URL",
            "incomplete",
        ),
        (
            AddMcpServer("b", "sse", url="http://[::1"),
            "Initialization failed: 'url' must be an http or https URL",
            "incomplete",
        ),
    ],
)
def test_what_is_wrong_with_a_command(command: AddMcpServer, message: str, kind: str) -> None:
    with pytest.raises(McpSpecError) as caught:
        from_command(command)
    assert (caught.value.message, caught.value.kind) == (message, kind)


def test_a_bad_header_is_named_but_its_secret_is_not_shown() -> None:
    command = AddMcpServer("b", "sse", url="http://h/", headers={"Authorization": "Bearer s3cret\nX: y"})
    with pytest.raises(McpSpecError, match="'Authorization' is not valid") as caught:
        from_command(command)
    assert "s3cret" not in str(caught.value)


def test_a_configuration_table() -> None:
    tables = tomllib.loads("""
        [mcp_servers.local]
        command = "sleep"
        args = ["1000"]
        startup_timeout_ms = 1500
        deferred = false
        [mcp_servers.remote]
        url = "https://host/mcp"
        headers = { Authorization = "Bearer x" }
        call_timeout_ms = 60000
    """)["mcp_servers"]
    local, remote = (from_config(name, table) for name, table in tables.items())
    assert (local.name, local.wire, local.startup_timeout_ms, local.dynamic) == ("local", "stdio", 1500, False)
    assert (remote.wire, remote.headers, remote.call_timeout_ms) == (
        "streamable-http",
        {"Authorization": "Bearer x"},
        60_000,
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"command": "x", "agrs": []}, "unknown field `agrs`"),
        ({"command": "x", "args": "not a list"}, r"Expected `array`, got `str` - at `\$\.args`"),
        ({"command": "x", "name": "y"}, "unknown key 'name'"),
        ({"command": "x", "dynamic": True}, "unknown key 'dynamic'"),
        ({"command": "x", "startup_timeout_ms": 0}, "less than 1 ms"),
        ({"command": "x", "call_timeout_ms": -1}, "less than 1 ms"),
        ({}, "stdio transport requires 'command'"),
        ({"transport": "x"}, "unknown transport: x"),
    ],
)
def test_what_is_wrong_with_a_table(table: dict[str, Any], message: str) -> None:
    with pytest.raises(McpSpecError, match=message):
        from_config("n", table)
