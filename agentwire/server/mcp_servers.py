"""The MCP servers of one session: connected in tasks of their own, their tools registered when they are there."""

from __future__ import annotations

import logging

import trio

from agentwire.agent.toolbox import Toolbox
from agentwire.commands import AddMcpServer
from agentwire.events import ErrorInfo, McpServerFailed, McpServerReady, Notice
from agentwire.mcp.errors import McpConnectError
from agentwire.mcp.manager import McpManager
from agentwire.mcp.server import McpServer
from agentwire.mcp.spec import McpServerSpec, McpSpecError, from_command
from agentwire.session import Session

logger = logging.getLogger("agentwire.mcp")

LONGEST_WAIT = 30.0
"""Seconds that a turn's first model request waits for connections under way."""


class McpServers:
    """Connects servers for a session; a slow or dead one delays nothing but the first model request.

    Nothing runs until the first server is asked for.
    """

    __slots__ = ("_manager", "_nursery", "_scope", "_session", "_toolbox")

    def __init__(self, session: Session, toolbox: Toolbox, nursery: trio.Nursery) -> None:
        self._session = session
        self._toolbox = toolbox
        self._nursery = nursery
        self._manager: McpManager | None = None
        self._scope = trio.CancelScope()

    def add(self, command: AddMcpServer) -> str | None:
        """Begin to connect a server that the host asked for; what is wrong with the request, or None."""
        try:
            spec = from_command(command)
        except McpSpecError as error:
            joint = ": " if error.kind == "transport" else " failed: "
            return f"AddMcpServer '{command.name}'{joint}{error.message}"
        self._begin(spec)
        return None

    def configure(self, specs: list[McpServerSpec]) -> None:
        """Begin to connect the servers of the configuration files."""
        for spec in specs:
            self._begin(spec)

    def close(self) -> None:
        """End the servers: the session is closed."""
        self._scope.cancel()

    async def settled(self) -> None:
        """Wait until no connection is under way, or long enough."""
        with trio.move_on_after(LONGEST_WAIT):
            if self._manager is not None:
                await self._manager.settled()

    def _begin(self, spec: McpServerSpec) -> None:
        if self._manager is None:
            self._manager = McpManager(
                cwd=self._session.workspace,
                on_tools_changed=lambda server: self._register(),
                on_notice=self._notice,
                on_failed=self._died,
            )
            self._nursery.start_soon(self._run, self._manager)
        self._manager.connect_soon(spec, self._ready, self._failed)

    async def _run(self, manager: McpManager) -> None:
        with self._scope:
            await manager.run()

    def _ready(self, server: McpServer) -> None:
        self._register()
        self._session.set_mcp()
        self._session.append(McpServerReady(server.name, server.tool_names, server.spec.dynamic))

    def _register(self) -> None:
        if self._manager is not None:
            self._toolbox.set_foreign(self._manager.tools(self._toolbox.own_names))

    def _notice(self, server: McpServer, text: str) -> None:
        self._session.append(Notice(text, "warning"))

    def _died(self, server: McpServer, error: McpConnectError) -> None:
        self._register()
        self._failed(server.spec, error)

    def _failed(self, spec: McpServerSpec, error: McpConnectError) -> None:
        logger.warning("MCP server %s: %s", spec.name, error.cause)
        text = f"AddMcpServer '{spec.name}' failed: {error.cause}" if spec.dynamic else (
            f"MCP server '{spec.name}' failed: {error.cause}"
        )  # fmt: skip
        self._session.append(McpServerFailed(spec.name, ErrorInfo("config_error", text), spec.dynamic))
