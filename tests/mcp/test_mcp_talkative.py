"""All that tools of an official server can give, over every transport."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from mcp_testing import SERVERS, Told

from agentwire.mcp.manager import McpManager
from agentwire.mcp.spec import McpServerSpec
from agentwire.tools.contract import ReadCache, ToolContext, ToolError

pytestmark = pytest.mark.slow

PROGRAM = str(SERVERS / "talkative.py")
PATHS = {"sse": "/sse", "streamable-http": "/mcp"}


@asynccontextmanager
async def running(transport: str) -> AsyncIterator[McpServerSpec]:
    """A server that can be connected to, or started."""
    if transport == "stdio":
        yield McpServerSpec(
            name="talkative",
            transport=transport,
            command=sys.executable,
            args=[PROGRAM, transport],
            env={"SLOW": "0.3"},
        )
        return
    process = await trio.lowlevel.open_process([sys.executable, PROGRAM, transport], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        heard = b""
        with trio.fail_after(60):
            while not heard.endswith(b"\n"):
                heard += await process.stdout.receive_some()
        yield McpServerSpec(
            name="talkative", transport=transport, url=f"http://127.0.0.1:{int(heard)}{PATHS[transport]}"
        )
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("transport", ["stdio", "sse", "streamable-http"])
async def test_s_f01_s_f06_whatever_a_server_gives(
    transport: str, manager: McpManager, told: Told, tmp_path: Path
) -> None:
    """One server for everything: each costs a second to start."""
    async with running(transport) as spec:
        server = await manager.connect(spec)
        assert server.tool_names == ["weather", "everything", "refused", "grow", "linger"]
        live: list[str] = []
        begun = trio.Event()

        def output(text: str, stream: str) -> None:
            live.append(text)
            begun.set()

        context = ToolContext(workspace=tmp_path, cache=ReadCache(), image_input="supported", output=output)
        tools = {tool.name: tool for tool in manager.tools(())}

        weather = await tools["weather"].run({"place": "Köln"}, context)
        assert json.loads(weather.output) == {"place": "Köln", "degrees": 21.5}
        assert not weather.is_error

        everything = await tools["everything"].run({}, context)
        lines = everything.output.split("\n")
        assert (lines[0], lines[-1]) == ("first", "last")
        assert "from a resource" in everything.output
        assert "[audio: audio/wav]" in lines
        assert "memo://3" in everything.output
        assert "iVBORw0KGgo" not in everything.output
        assert [image.mime_type for image in everything.images] == ["image/png", "image/png"]
        assert all(base64.b64decode(image.data).startswith(b"\x89PNG") for image in everything.images)

        refused = await tools["refused"].run({}, context)
        assert (refused.is_error, refused.output) == (True, "not today")

        async def linger(scope: trio.CancelScope) -> None:
            with scope:
                await tools["linger"].run({}, context)

        scope = trio.CancelScope()
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(linger, scope)
                await begun.wait()
                scope.cancel()
        assert scope.cancelled_caught
        assert live == ["begun (0/1)\n"]
        assert server.connected

        grown = await tools["grow"].run({}, context)
        assert grown.output == "grown"
        names = ["weather", "everything", "grow", "linger", "grown"]
        await told.until(lambda: names in told.changes)
        assert {tool.name for tool in manager.tools(())} == set(names)
        tools = {tool.name: tool for tool in manager.tools(())}
        assert (await tools["grown"].run({}, context)).output == "new here"

        assert told.failures == []
        if transport == "stdio":  # what it printed on the way was skipped, and told once
            assert [text.rpartition(": ")[2] for text in told.notices] == ["[INFO] talkative speaks"]
        else:
            assert told.notices == []
    if transport == "stdio":
        return
    with trio.fail_after(20), pytest.raises(ToolError):  # it is gone
        await tools["weather"].run({"place": "x"}, context)
