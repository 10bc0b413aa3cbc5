"""Servers made with the official SDK, over all transports."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from mcp_testing import SERVERS, Told

from agentwire.events import Image
from agentwire.mcp.errors import McpCallError
from agentwire.mcp.manager import McpManager
from agentwire.mcp.spec import McpServerSpec
from agentwire.tools.contract import ReadCache, ToolContext

pytestmark = pytest.mark.slow

PATHS = {"sse": "/sse", "streamable-http": "/mcp"}


@pytest.fixture(params=["stdio", "sse", "streamable-http"])
async def spec(request: pytest.FixtureRequest) -> AsyncIterator[McpServerSpec]:
    """A description of a server that is ready (over HTTP) or can be started."""
    transport: str = request.param
    program = [str(SERVERS / "sdk.py"), transport]
    if transport == "stdio":
        yield McpServerSpec(name="official", transport=transport, command=sys.executable, args=program)
        return
    process = await trio.lowlevel.open_process([sys.executable, *program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        heard = b""
        with trio.fail_after(60):
            while not heard.endswith(b"\n"):
                heard += await process.stdout.receive_some()
        yield McpServerSpec(
            name="official",
            transport=transport,
            url=f"http://127.0.0.1:{int(heard)}{PATHS[transport]}",
            headers={"X-Token": "hush"},
        )
    finally:
        process.kill()
        await process.wait()


async def test_an_official_server(spec: McpServerSpec, manager: McpManager, told: Told, tmp_path: Path) -> None:
    """One server for everything: each costs a second to start."""
    server = await manager.connect(spec)
    assert server.tool_names == ["add", "fail", "picture", "count", "wait", "vanish", "header"]
    tools = {tool.name: tool for tool in manager.tools(())}
    live: list[str] = []
    context = ToolContext(
        workspace=tmp_path, cache=ReadCache(), image_input="supported", output=lambda text, stream: live.append(text)
    )

    assert (await tools["add"].run({"a": 1, "b": 2}, context)).output == "3"
    assert tools["add"].description == "Add two numbers."
    assert set(tools["add"].parameters["properties"]) == {"a", "b"}

    failed = await tools["fail"].run({}, context)
    assert failed.is_error
    assert "fail" in failed.output

    picture = await tools["picture"].run({}, context)
    assert picture.output == "[image: image/png]"
    assert [type(image) for image in picture.images] == [Image]
    assert base64.b64decode(picture.images[0].data).startswith(b"\x89PNG")

    assert (await tools["count"].run({"to": 3}, context)).output == "counted"
    assert live == ["at 1 (1/3)\n", "at 2 (2/3)\n", "at 3 (3/3)\n"]

    if spec.url:
        assert (await tools["header"].run({"name": "x-token"}, context)).output == "hush"

    with trio.move_on_after(0.1) as stopped:
        await tools["wait"].run({}, context)
    assert stopped.cancelled_caught
    assert (await tools["add"].run({"a": 2, "b": 2}, context)).output == "4"

    with trio.fail_after(5), pytest.raises(McpCallError, match="vanish: connection closed"):
        await server.call("vanish", {})
    if spec.url:
        with trio.fail_after(5), pytest.raises(McpCallError):
            await server.call("add", {"a": 1, "b": 1})
    else:
        assert (await tools["add"].run({"a": 3, "b": 3}, context)).output == "6"
        assert told.failures == []
    assert told.notices == []
