"""One MCP server for as long as it is wanted, over the lives of its connections."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from msgspec import Struct

from agentwire.mcp.errors import ConnectionLostError, McpCallError, McpConnectError
from agentwire.mcp.schema import Schema, SchemaError, usable_schema
from agentwire.mcp.spec import McpServerSpec
from agentwire.text import scrub

if TYPE_CHECKING:
    from agentwire.mcp.connection import Connection

RETRY_AFTER = 30.0
"""Seconds during which a server that could not be restarted is not tried again: its calls fail at once."""

Progress = Callable[[float, float | None, str], None]
"""What a server says about a running call: how much is done, of how much, and a message or ``""``."""


class ListedTool(Struct, frozen=True):
    """A tool as its server lists it, with a schema that every model service accepts."""

    name: str
    description: str
    parameters: Schema


class Listing(Struct, frozen=True):
    """Everything one ``tools/list`` brought: all names in the server's order, and which tools can be offered."""

    names: list[str] = []
    tools: list[ListedTool] = []
    notices: list[str] = []
    """One sentence for each tool that is left out."""


class Watcher(Struct, frozen=True):
    """Whom a server tells what happens to it. Plain functions, called on the event loop."""

    tools_changed: Callable[[McpServer], None]
    notice: Callable[[McpServer, str], None]
    failed: Callable[[McpServer, McpConnectError], None]


class McpServer:
    """A connected server: what tools it has, and how to call them.

    If the server dies, the calls under way fail and the next one starts it again, once; if that fails too, calls
    fail at once for :data:`RETRY_AFTER` seconds. Made by :meth:`agentwire.mcp.manager.McpManager.connect`.
    """

    def __init__(self, spec: McpServerSpec, watcher: Watcher, environ: Mapping[str, str], cwd: Path | None) -> None:
        self.spec = spec
        self.listing = Listing()
        self._nursery: trio.Nursery | None = None
        self._watcher = watcher
        self._environ = environ
        self._cwd = cwd
        self._starting = trio.Lock()
        self._connection: Connection | None = None
        self._closed = False
        self._blocked_until = 0.0
        self._last_failure = ""

    @property
    def name(self) -> str:
        """The server's name in the configuration or in the host's command."""
        return self.spec.name

    @property
    def tool_names(self) -> list[str]:
        """All tools by the server's own names, also those that cannot be offered."""
        return self.listing.names

    @property
    def connected(self) -> bool:
        """Whether its connection is alive now, as far as anyone knows."""
        return self._connection is not None and not self._connection.over.is_set()

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect for the first time, with all its tasks in ``nursery``; raises :class:`McpConnectError`."""
        self._nursery = nursery
        async with self._starting:
            await self._connect()

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        progress: Progress | None = None,
        *,
        timeout_ms: int = 0,
        trace: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Call a tool by the server's own name for it; the answer is the ``tools/call`` result as it came.

        ``trace`` is the trace context to pass on, as ``_meta`` of the request.

        Raises :class:`McpCallError`. Cancelled, or after ``timeout_ms`` (0: never), the server is told to stop. A
        call that the server may have acted on is never sent again.
        """
        params: dict[str, Any] = {"name": tool, "arguments": _sendable(arguments)}
        if trace:
            params["_meta"] = dict(trace)
        with trio.CancelScope() as scope:
            if timeout_ms:
                scope.deadline = trio.current_time() + timeout_ms / 1000
            for last in (False, True):
                connection = await self._alive()
                try:
                    return await connection.request("tools/call", params, progress)
                except ConnectionLostError as lost:
                    if lost.taken or last:
                        raise McpCallError(f"{tool}: connection closed ({lost.reason})") from lost
        raise McpCallError(f"{tool}: no answer from MCP server '{self.name}' within {timeout_ms}ms")

    async def close(self) -> None:
        """End the connection in good order, in bounded time. The server is not started again."""
        self._closed = True
        if self._connection is not None:
            self._connection.over.set()
            await self._connection.finished.wait()

    async def _alive(self) -> Connection:
        async with self._starting:
            if self._closed:
                raise McpCallError(f"MCP server '{self.name}' was closed")
            if self._connection is not None and not self._connection.over.is_set():
                return self._connection
            if trio.current_time() < self._blocked_until:
                raise McpCallError(f"MCP server '{self.name}' is down: {self._last_failure}")
            if self._connection is not None:
                await self._connection.finished.wait()
            try:
                return await self._connect()
            except McpConnectError as error:
                self._blocked_until = trio.current_time() + RETRY_AFTER
                self._last_failure = error.cause
                self._watcher.failed(self, error)
                raise McpCallError(
                    f"MCP server '{self.name}' died and could not be restarted: {error.cause}"
                ) from error

    async def _connect(self) -> Connection:
        assert self._nursery is not None  # noqa: S101 - started first
        make = await trio.to_thread.run_sync(_connection_class, abandon_on_cancel=True)
        connection = make(
            self.spec,
            environ=self._environ,
            cwd=self._cwd,
            on_listing=self._listed,
            on_notice=lambda text: self._watcher.notice(self, text),
        )
        await self._nursery.start(connection.serve)
        self._connection = connection
        return connection

    async def _listed(self, tools: list[Any]) -> None:
        listing = await read_listing(self.name, tools)
        if listing == self.listing:
            return
        first = self._connection is None
        known = set(self.listing.notices)
        self.listing = listing
        for text in listing.notices:
            if text not in known:
                self._watcher.notice(self, text)
        if not first:
            self._watcher.tools_changed(self)


def _connection_class() -> type[Connection]:
    """The class that needs the SDK. Half a second the first time: for a worker thread."""
    from agentwire.mcp.connection import Connection, rehearse

    rehearse()
    return Connection


async def read_listing(server: str, tools: list[Any]) -> Listing:
    """What a list of tool objects, as they came, is worth. Gives way to other tasks between tools."""
    listing = Listing()
    for tool in tools:
        await trio.lowlevel.checkpoint()
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name:
            listing.notices.append(f"MCP server '{server}': a tool without a name is left out")
            continue
        if name in listing.names:
            listing.notices.append(f"MCP server '{server}': tool '{name}' is listed twice; the first one counts")
            continue
        listing.names.append(name)
        try:
            parameters = usable_schema(tool.get("inputSchema"))
        except SchemaError as error:
            listing.notices.append(f"MCP server '{server}': tool '{name}' is left out: {error}")
            continue
        text = tool.get("description")
        listing.tools.append(ListedTool(name, text if isinstance(text, str) else "", parameters))
    return listing


def _sendable(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with half surrogate pairs, which no transport can carry, replaced."""
    text = json.dumps(arguments, ensure_ascii=False)
    clean = scrub(text)
    if clean is text:
        return arguments
    replaced: dict[str, Any] = json.loads(clean)
    return replaced
