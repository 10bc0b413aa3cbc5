"""An MCP server made with the official SDK: ``sdk.py stdio|sse|streamable-http``.

Over HTTP it listens on a port of the system's choice and prints it.
"""

from __future__ import annotations

import os
import socket
import sys

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image

server = MCPServer("official", log_level="CRITICAL")

DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8cfc0f01f00050001ff5a5bd9d70000000049454e44ae426082"
)


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("broken on purpose")


@server.tool()
def picture() -> Image:
    """A picture of one dot."""
    return Image(data=DOT, format="png")


@server.tool()
async def count(to: int, context: Context) -> str:
    """Count and say so."""
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"at {number}")
    return "counted"


@server.tool()
async def wait() -> str:
    """Waits until it is told to stop."""
    await anyio.sleep_forever()
    return "never"


@server.tool()
def vanish() -> str:
    """Takes the whole server with it."""
    os._exit(3)


@server.tool()
async def header(name: str, context: Context) -> str:
    """What the client sent in an HTTP header."""
    return str((context.headers or {}).get(name, ""))


def main(transport: str) -> None:
    if transport == "stdio":
        server.run("stdio")
        return
    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    listener = socket.socket()
    listener.bind(("127.0.0.1", int(os.environ.get("PORT", "0"))))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="critical", lifespan="on")
    uvicorn.Server(config).run(sockets=[listener])


main(sys.argv[1])
