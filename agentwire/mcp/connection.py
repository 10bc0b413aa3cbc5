"""One connection to an MCP server, from the handshake to the end of its transport.

Everything of it is opened and closed in the one task that runs :meth:`Connection.serve`, for the SDK's task groups
and cancel scopes must be left where they were entered. Requests come from other tasks and run in that task's
nursery, so that a caller who is cancelled leaves at once while the server is still told.

This module imports the SDK: see :mod:`agentwire.mcp`.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import anyio
import httpx2
import trio
from mcp import MCPError
from mcp.client import ClientSession
from mcp.shared.dispatcher import OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp.types import CONNECTION_CLOSED, INVALID_REQUEST, METHOD_NOT_FOUND, Implementation
from pydantic import ValidationError

from agentwire.mcp.errors import ConnectionLostError, McpCallError, McpConnectError
from agentwire.mcp.http import open_http, place, trouble_of
from agentwire.mcp.server import Progress
from agentwire.mcp.spec import McpServerSpec
from agentwire.mcp.stdio import StdioChild

logger = logging.getLogger(__name__)

CLOSE_GRACE = 1.0
"""Seconds for taking leave of a server over HTTP."""


def _client() -> Implementation:
    try:
        return Implementation(name="agentwire", version=version("agentwire"))
    except PackageNotFoundError:  # run from a checkout that is not installed
        return Implementation(name="agentwire", version="0")


_CLIENT = _client()


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher; it also says when it has ended, and lets us hear notifications in their order."""

    def __init__(self, read: Any, write: Any, heard: OnNotifyIntercept, ended: Callable[[], None]) -> None:
        super().__init__(read, write)
        self._heard = heard
        self._ended = ended

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        def heard(method: str, params: Mapping[str, Any] | None) -> bool:
            return self._heard(method, params) or bool(on_notify_intercept and on_notify_intercept(method, params))

        try:
            await super().run(on_request, on_notify, heard, task_status=task_status)
        finally:
            self._ended()


class _Exchange:
    """One request on its way."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self.result: dict[str, Any] | None = None
        self.error: MCPError | None = None


class Connection:
    """A live (or once live) connection to one server."""

    def __init__(
        self,
        spec: McpServerSpec,
        *,
        environ: Mapping[str, str],
        cwd: Path | None,
        on_listing: Callable[[list[Any]], Awaitable[None]],
        on_notice: Callable[[str], None],
    ) -> None:
        self.over = trio.Event()
        """No request is taken any more; set it to end the connection."""
        self.finished = trio.Event()
        """Everything is closed, the child is dead."""
        self._spec = spec
        self._on_listing = on_listing
        self._child = StdioChild(spec, environ, cwd, on_notice) if spec.wire == "stdio" else None
        self._ready = False
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._dispatcher: _Dispatcher | None = None
        self._trouble = ""
        """What the transport last complained about."""
        self._broken = False
        """A message could not be sent, and no answer to it will ever come."""
        self._forgotten = False
        """The server answered that it does not know our session (any more)."""
        self._stale = trio.Event()
        self._tokens = itertools.count(1)
        self._progress: dict[str, Progress] = {}

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, say so, and live until :attr:`over`; for ``nursery.start``.

        Raises :class:`McpConnectError` if it does not come to that; nothing later.
        """
        failures: list[Exception] = []
        self._scope.deadline = trio.current_time() + self._spec.startup_timeout_ms / 1000
        try:
            with self._scope:
                try:
                    await self._live(task_status)
                except* Exception as group:  # noqa: BLE001 - the SDK's tasks raise what they like; it is all told below
                    failures.extend(_leaves(group))
        finally:
            self.over.set()
            self.finished.set()
        if self._ready:
            for failure in failures:
                self._trouble = self._trouble or trouble_of(failure)
                logger.warning("MCP server %r: connection ended: %s", self._spec.name, trouble_of(failure))
        elif self._broken or not self._scope.cancelled_caught:
            raise McpConnectError(self._cause(failures))
        else:
            raise McpConnectError(
                f"Transport error: MCP server '{self._spec.name}' startup timed out after "
                f"{self._spec.startup_timeout_ms}ms; set startup_timeout_ms to increase it"
            )

    async def request(self, method: str, params: dict[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """Send a request and wait for its result, as it came.

        Raises :class:`McpCallError` if the server answers with an error and :class:`ConnectionLostError` if it cannot
        answer any more. Being cancelled returns at once and has the server told.
        """
        if self.over.is_set() or self._nursery is None:
            raise ConnectionLostError(self._reason(), taken=False)
        exchange = _Exchange()
        self._nursery.start_soon(self._exchange, exchange, method, params, progress)
        try:
            await exchange.done.wait()
        except trio.Cancelled:
            exchange.scope.cancel()
            raise
        error = exchange.error
        if exchange.result is not None:
            return exchange.result
        if error is None or _closed_by(error):
            await self.finished.wait()
            raise ConnectionLostError(self._reason())
        if error.code == CONNECTION_CLOSED and error.message.startswith("SSE stream"):  # the stream of this request
            raise ConnectionLostError(error.message)
        if self._forgotten and (error.code, error.message) == (INVALID_REQUEST, "Session terminated"):
            self.over.set()
            raise ConnectionLostError("the server has forgotten the session", taken=False)
        raise McpCallError(self._answer(error))

    # --- the life of the connection ---

    async def _live(self, task_status: trio.TaskStatus[None]) -> None:
        async with self._streams() as (read, write):
            dispatcher = _Dispatcher(read, write, self._heard, self.over.set)
            dispatcher.on_stream_exception = self._stream_failed
            self._dispatcher = dispatcher
            async with ClientSession(dispatcher=dispatcher, client_info=_CLIENT) as session:
                await session.initialize()
                await self._on_listing(await self._list_tools(dispatcher))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._follow_changes, dispatcher)
                    self._nursery = nursery
                    self._ready = True
                    if self._child is not None:
                        self._child.patient = True
                    self._scope.deadline = math.inf
                    task_status.started()
                    await self.over.wait()
                    self._scope.deadline = trio.current_time() + CLOSE_GRACE
                    nursery.cancel_scope.cancel()

    def _streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        if self._child is not None:
            return self._child.open()
        return open_http(self._spec, self._report)

    async def _list_tools(self, dispatcher: _Dispatcher) -> list[Any]:
        """All pages of ``tools/list``, as they came: the SDK's types would refuse them all over one bad tool."""
        tools: list[Any] = []
        cursors: set[str] = set()
        params: dict[str, Any] | None = None
        while True:
            try:
                page = await dispatcher.send_raw_request("tools/list", params)
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND and params is None:
                    return []  # a server of prompts or resources alone
                raise
            found = page.get("tools")
            tools.extend(found if isinstance(found, list) else [])
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return tools
            if cursor in cursors:
                logger.warning("MCP server %r gives page %r of its tools again and again", self._spec.name, cursor)
                return tools
            cursors.add(cursor)
            params = {"cursor": cursor}

    async def _follow_changes(self, dispatcher: _Dispatcher) -> None:
        while True:
            await self._stale.wait()
            self._stale = trio.Event()
            try:
                tools = await self._list_tools(dispatcher)
            except MCPError as error:
                logger.warning("MCP server %r: its changed tools cannot be listed: %s", self._spec.name, error)
            else:
                await self._on_listing(tools)

    async def _exchange(
        self, exchange: _Exchange, method: str, params: dict[str, Any], progress: Progress | None
    ) -> None:
        assert self._dispatcher is not None  # noqa: S101 - set before the nursery this runs in
        token = f"progress-{next(self._tokens)}"
        if progress is not None:
            self._progress[token] = progress
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": token}}
        try:
            with exchange.scope:
                exchange.result = await self._dispatcher.send_raw_request(method, params)
        except MCPError as error:
            exchange.error = error
        finally:
            self._progress.pop(token, None)
            exchange.done.set()

    # --- what the transport and the server say unasked ---

    def _heard(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """A notification, in its order; True: it is dealt with."""
        if method == "notifications/tools/list_changed":
            self._stale.set()
            return True
        if method != "notifications/progress" or params is None:
            return False
        token, done, total, message = (params.get(key) for key in ("progressToken", "progress", "total", "message"))
        progress = self._progress.get(token) if isinstance(token, str) else None
        if progress is not None and isinstance(done, int | float):
            progress(
                float(done),
                float(total) if isinstance(total, int | float) else None,
                message if isinstance(message, str) else "",
            )
        return True

    async def _stream_failed(self, error: Exception) -> None:
        self._trouble = trouble_of(error)
        logger.warning("MCP server %r: %s", self._spec.name, self._trouble)

    def _report(self, request: httpx2.Request, trouble: str, status: int) -> None:
        self._trouble = trouble
        if status == 404 and "mcp-session-id" in request.headers:
            self._forgotten = True
        if self._spec.wire == "sse":
            # Answers come on another stream, where nobody would learn that this request has failed.
            self._broken = True
            self.over.set()
            if not self._ready:
                self._scope.cancel()

    # --- words for errors ---

    def _reason(self) -> str:
        detail = self._child.epitaph if self._child is not None else self._trouble or place(self._spec.url)
        return f"MCP server '{self._spec.name}': {detail}"

    def _answer(self, error: MCPError) -> str:
        trouble, self._trouble = self._trouble, ""
        return f"JSON-RPC error {error.code}: {error.message}{f' ({trouble})' if trouble else ''}"

    def _cause(self, failures: list[Exception]) -> str:
        """The cause of a failed connect (aionrs protocol, section 2.8), from the most telling failure."""
        for kind, words in _CAUSES:
            for failure in failures:
                if isinstance(failure, kind):
                    return words(self, failure)
        return self._closed()

    def _closed(self) -> str:
        if self._child is not None:
            return "Transport error: Child process stdout closed"
        return f"Transport error: {self._trouble or f'{place(self._spec.url)}: connection closed'}"

    def _refused(self, error: MCPError) -> str:
        return self._closed() if _closed_by(error) else self._answer(error)

    def _unfit(self, error: RuntimeError) -> str:
        if self._dispatcher is None:  # the SDK's event stream ended before it could begin
            return f"Transport error: {place(self._spec.url)}: the server named no endpoint for messages"
        return f"Initialization failed: {error}"


_CAUSES: tuple[tuple[type[Exception], Callable[[Connection, Any], str]], ...] = (
    (McpConnectError, lambda _, error: str(error)),
    (httpx2.HTTPError, lambda _, error: f"Transport error: {trouble_of(error)}"),
    (ValidationError, lambda _, error: "Initialization failed: the server's answer to initialize is not valid"),
    (MCPError, Connection._refused),
    (RuntimeError, Connection._unfit),
    (Exception, lambda _, error: f"Transport error: {trouble_of(error)}"),
)
"""What to say of each kind of failure, the most telling first."""


def _closed_by(error: MCPError) -> bool:
    """Whether it is the SDK that says so. Servers use the code too, for whatever they like."""
    return (error.code, error.message) == (CONNECTION_CLOSED, "Connection closed")


def _leaves(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


@cache
def rehearse() -> None:
    """Do on this (worker) thread what the SDK's libraries put off until their first use."""
    trio.run(_rehearsal)


async def _rehearsal() -> None:
    send, receive = anyio.create_memory_object_stream[int](1)
    async with send, receive, anyio.create_task_group():
        await send.send(1)
        await receive.receive()
