"""An MCP server made with the official SDK that gives all that tools can give: ``talkative.py TRANSPORT``.

It takes its time to start, prints to stdout before it serves and in the middle of a call (over stdio), and its list of
tools grows while it runs.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
import time
from typing import Any, TypedDict

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8cfc0f01f00050001ff5a5bd9d70000000049454e44ae426082"
)
NOISE = b"[INFO] talkative speaks\n"

server = MCPServer("talkative", log_level="CRITICAL")


class Weather(TypedDict):
    place: str
    degrees: float


def noise() -> None:
    """Bypass what the SDK does with sys.stdout."""
    if sys.argv[1] == "stdio":
        os.write(1, NOISE)


@server.tool()
def weather(place: str) -> Weather:
    """Structured content."""
    noise()
    return {"place": place, "degrees": 21.5}


@server.tool()
def everything() -> CallToolResult:
    """Every kind of content."""
    dot = base64.b64encode(DOT).decode()
    resource: dict[str, Any] = {"uri": "memo://1", "mime_type": "text/plain", "text": "from a resource"}
    content = [
        TextContent(text="first"),
        ImageContent(data=dot, mime_type="image/png"),
        AudioContent(data="AAAA", mime_type="audio/wav"),
        EmbeddedResource(resource=TextResourceContents(**resource)),
        EmbeddedResource(resource=BlobResourceContents(uri="memo://2", mime_type="image/png", blob=dot)),
        ResourceLink(name="link", uri="memo://3"),
        TextContent(text="last"),
    ]
    return CallToolResult(content=content)


@server.tool()
def refused() -> CallToolResult:
    """An error with content."""
    return CallToolResult(content=[TextContent(text="not today")], is_error=True)


@server.tool()
async def grow(context: Context) -> str:
    """One tool more, and one less."""

    def grown() -> str:
        return "new here"

    server.add_tool(grown)
    server.remove_tool("refused")
    await context.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def linger(context: Context) -> str:
    """Says that it has begun, and waits."""
    await context.report_progress(0, 1, "begun")
    await anyio.sleep_forever()
    return "never"


def main(transport: str) -> None:
    time.sleep(float(os.environ.get("SLOW", "0")))
    noise()
    if transport == "stdio":
        server.run("stdio")
        return
    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on")).run(sockets=[listener])


main(sys.argv[1])
