"""All MCP servers of a process or a session, and their ends."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType

import trio

from agentwire.mcp.errors import McpConnectError
from agentwire.mcp.naming import Offer, register_names
from agentwire.mcp.server import McpServer, Watcher
from agentwire.mcp.spec import McpServerSpec
from agentwire.mcp.tool import McpTool

CLOSE_WITHIN = 1.75
"""Seconds in which servers may be taken leave of; after that they are ended as if the manager were cancelled."""


def _ignore(*_: object) -> None:
    pass


class McpManager:
    """Connects MCP servers, keeps them, and ends them all with its own end.

    Used as an async context manager; every server lives in a task of the manager's nursery, so that a slow or dead
    one delays nobody. The callbacks are plain functions, called on the event loop: ``on_tools_changed(server)``
    when a connected server lists other tools than before, ``on_notice(server, text)`` for what a person should know
    (a tool left out, lines on stdout that are no messages), ``on_failed(server, error)`` when a server died and
    could not be restarted.

    ``environ`` is what children's environment is made from (default: this process's), ``cwd`` where they start.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        on_tools_changed: Callable[[McpServer], None] = _ignore,
        on_notice: Callable[[McpServer, str], None] = _ignore,
        on_failed: Callable[[McpServer, McpConnectError], None] = _ignore,
    ) -> None:
        self._environ: Mapping[str, str] = os.environ if environ is None else environ
        self._cwd = cwd
        self._watcher = Watcher(tools_changed=on_tools_changed, notice=on_notice, failed=on_failed)
        self._all: list[McpServer] = []
        self._ready: set[McpServer] = set()
        self._under_way = 0
        self._settled = trio.Event()
        self._settled.set()
        self._waiting: list[Callable[[], Awaitable[None]]] = []
        self._opening: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None

    async def __aenter__(self) -> McpManager:
        self._opening = trio.open_nursery()
        self._nursery = await self._opening.__aenter__()
        for connect in self._waiting:
            self._nursery.start_soon(connect)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._opening is not None  # noqa: S101 - only ever entered through __aenter__
        assert self._nursery is not None  # noqa: S101
        try:
            with trio.move_on_after(CLOSE_WITHIN, shield=True):
                async with trio.open_nursery() as closing:
                    for server in self._ready:
                        closing.start_soon(server.close)
        finally:
            self._settled.set()
            self._nursery.cancel_scope.cancel()
            ended = await self._opening.__aexit__(kind, error, trace)
        return ended

    async def run(self, *, task_status: trio.TaskStatus[McpManager] = trio.TASK_STATUS_IGNORED) -> None:
        """Be open until cancelled, for ``nursery.start(manager.run)``."""
        async with self:
            task_status.started(self)
            await trio.sleep_forever()

    @property
    def servers(self) -> list[McpServer]:
        """Every server that was connected, in the order they were asked for, also if it has died since."""
        return [server for server in self._all if server in self._ready]

    async def connect(self, spec: McpServerSpec) -> McpServer:
        """Connect a server and list its tools.

        Raises :class:`agentwire.mcp.spec.McpSpecError` or :class:`McpConnectError`. Cancelled, it leaves nothing
        running.
        """
        if self._nursery is None:
            raise RuntimeError("the manager is not open")
        return await self._connect(self._enter(spec), self._nursery)

    def connect_soon(
        self,
        spec: McpServerSpec,
        on_ready: Callable[[McpServer], None],
        on_failed: Callable[[McpServerSpec, McpConnectError], None],
    ) -> None:
        """Connect a server in a task of its own and say how it went; before the manager is open: once it is.

        Of servers that a host adds, the one asked for first has the first claim on a name, whenever it is ready.
        Raises :class:`agentwire.mcp.spec.McpSpecError` at once.
        """
        server = self._enter(spec)

        async def connect() -> None:
            assert self._nursery is not None  # noqa: S101 - it runs there
            try:
                await self._connect(server, self._nursery)
            except McpConnectError as error:
                on_failed(spec, error)
            else:
                on_ready(server)

        if self._nursery is None:
            self._waiting.append(connect)
        else:
            self._nursery.start_soon(connect)

    async def settled(self) -> None:
        """Wait until no connect is under way, however they ended."""
        await self._settled.wait()

    def tools(self, taken: Collection[str]) -> list[McpTool]:
        """The tools of all connected servers under names that differ from each other and from ``taken``."""
        servers = self.servers
        offers = [
            Offer(server.name, [tool.name for tool in server.listing.tools], server.spec.dynamic) for server in servers
        ]
        names = register_names(offers, taken)
        return [
            McpTool(server, tool, given[tool.name])
            for server, given in zip(servers, names, strict=True)
            for tool in server.listing.tools
        ]

    def _enter(self, spec: McpServerSpec) -> McpServer:
        server = McpServer(spec.check(), self._watcher, self._environ, self._cwd)
        self._all.append(server)
        self._under_way += 1
        if self._settled.is_set():
            self._settled = trio.Event()
        return server

    async def _connect(self, server: McpServer, nursery: trio.Nursery) -> McpServer:
        try:
            await server.start(nursery)
            self._ready.add(server)
        except BaseException:
            self._all.remove(server)
            raise
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._settled.set()
        return server
