"""What these tests share: descriptions of the servers beside them, and a memory for what the manager tells."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from agentwire.mcp.errors import McpConnectError
from agentwire.mcp.server import McpServer
from agentwire.mcp.spec import McpServerSpec

SERVERS = Path(__file__).with_name("servers")

Raw = Callable[..., McpServerSpec]


class Told:
    """What the manager's callbacks were called with."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.changes: list[list[str]] = []
        self.failures: list[str] = []
        self.ready: list[str] = []
        self._news = trio.Event()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    def notice(self, server: McpServer, text: str) -> None:
        self.notices.append(text)
        self._wake()

    def change(self, server: McpServer) -> None:
        self.changes.append(list(server.tool_names))
        self._wake()

    def failure(self, server: McpServer, error: McpConnectError) -> None:
        self.failures.append(error.cause)
        self._wake()

    def connected(self, server: McpServer) -> None:
        self.ready.append(server.name)
        self._wake()

    def not_connected(self, spec: McpServerSpec, error: McpConnectError) -> None:
        self.failures.append(error.cause)
        self._wake()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for news that make the condition true."""
        with trio.fail_after(20):
            while not condition():
                await self._news.wait()


def raw_spec(name: str = "demo", **plan: Any) -> McpServerSpec:
    """Our own server with a plan (see servers/raw.py); ``timeout_ms`` and ``env`` are for the spec."""
    timeout = plan.pop("timeout_ms", 20_000)
    env = plan.pop("env", {})
    dynamic = plan.pop("dynamic", False)
    plan.setdefault("tools", [{"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}}])
    args = ["-I", "-S", str(SERVERS / "raw.py"), json.dumps(plan)]
    return McpServerSpec(
        name=name, command=sys.executable, args=args, env=env, startup_timeout_ms=timeout, dynamic=dynamic
    )


async def until_true(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does to a file or to itself."""
    with trio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - nothing in this process could set an event
            await trio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return False
        return _runs(pid)
    return state != "Z"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
