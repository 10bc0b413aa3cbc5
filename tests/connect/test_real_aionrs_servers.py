"""MCP servers that a host gives to a real aionrs, against a program that takes them as that one does."""

from __future__ import annotations

import pytest
from stand_ins import HELLO, StandIn, of, write

from agentwire.commands import AddMcpServer
from agentwire.events import (
    ApprovalRequested,
    McpServerReady,
    Notice,
)
from agentwire.host.refused import Refused

pytestmark = pytest.mark.slow

# --- 4 and 5: servers ----------------------------------------------------------------------------------------


def server(name: str, transport: str = "stdio") -> AddMcpServer:
    return AddMcpServer(name, transport, "node")


async def test_c04_servers_are_added_before_the_rest(aionrs: StandIn) -> None:
    """Any other command ends the time for it: also the ping that a host fences a command with."""
    aionrs.play(HELLO, servers={"one": ["tool_a"], "two": ["tool_b"]}, connect_after=0.05)
    async with aionrs.connect() as peer:
        await peer.call(server("one"))
        await peer.call(server("two"))
        await peer.set_mode("yolo")
        with pytest.raises(Refused, match="only allowed before first Message") as late:
            await peer.call(server("three"))
        assert late.value.refusal.code == "too_late"
        assert await peer.ask("hi") == "Hello."
    assert aionrs.kinds() == ["add_mcp_server", "add_mcp_server", "set_mode", "message"]
    ready = of(McpServerReady, [record.event for record in peer.log.cursor(after=0).take()])
    assert [(one.name, one.tools) for one in ready] == [("one", ["tool_a"]), ("two", ["tool_b"])]


async def test_c04_a_ping_waits_with_the_server_that_is_being_connected(aionrs: StandIn) -> None:
    aionrs.play(HELLO, servers={"one": ["tool_a"], "two": ["tool_b"]}, connect_after=0.2)
    async with aionrs.connect() as peer:
        await peer.send(server("one"))
        await peer.ping()
        assert [line["type"] for line in aionrs.said] == ["ready", "mcp_ready"]
        await peer.call(server("two"))
        assert aionrs.kinds() == ["add_mcp_server", "add_mcp_server"]
        await peer.ping()  # now there is nothing to wait with
    assert aionrs.kinds()[2:] == ["ping"]


async def test_c04_in_a_turn_nobody_would_answer(aionrs: StandIn) -> None:
    aionrs.play([{"say": "a", "calls": [write()]}, {"say": "b"}])
    async with aionrs.connect() as peer:
        async for event in peer.prompt("go"):
            if isinstance(event, ApprovalRequested):
                with pytest.raises(Refused):
                    await peer.call(server("late"))
                await peer.approve(event.call_id)
    assert "add_mcp_server" not in aionrs.kinds()
    assert aionrs.diary("lost") == []


async def test_c05_a_server_without_tools_has_failed(aionrs: StandIn) -> None:
    async with aionrs.connect() as peer:
        await peer.call(server("broken"))
        told = [record.event for record in peer.log.cursor(after=0).take()]
        assert of(McpServerReady, told)[0].tools == []
        (warning,) = of(Notice, told)
        assert (warning.level, "'broken'" in warning.text) == ("warning", True)
        with pytest.raises(Refused, match="unknown transport: pigeon") as refused:
            await peer.call(server("other", "pigeon"))
        assert refused.value.refusal.code == "bad_params"
