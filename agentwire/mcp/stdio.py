"""The stdio transport: an MCP server as a child process (Model Context Protocol, transports, stdio).

The SDK has one too. Ours exists because a server may print what is no message on its stdout, because a child must
be in a process group that dies with us, because its environment holds no keys of ours, and because ending it has
to fit into the time a host grants.

This module imports the SDK: see :mod:`agentwire.mcp`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from agentwire.children import watchdog
from agentwire.children.ending import end_group
from agentwire.children.environment import environment
from agentwire.mcp.errors import McpConnectError
from agentwire.mcp.spec import McpServerSpec

logger = logging.getLogger(__name__)

MAX_LINE = 64 * 1024 * 1024
"""Longest message that is read, in bytes."""

EOF_GRACE = 0.5
"""Seconds a server has to end by itself once its stdin is closed."""
LAST_WORDS = 0.5
"""Seconds after the child's end in which what it wrote is still read, if others hold its stdout open."""

_CHUNK = 64 * 1024
_OUTBOX = 64
"""Messages that may wait for a child that does not read, so that telling it to cancel never blocks a caller."""

Incoming = SessionMessage | Exception


class StdioChild:
    """A server process and the pipes to it."""

    def __init__(
        self, spec: McpServerSpec, environ: Mapping[str, str], cwd: Path | None, on_notice: Callable[[str], None]
    ) -> None:
        self.patient = False
        """The session was established, so the server is given time to end by itself."""
        self._spec = spec
        self._environ = environ
        self._cwd = cwd
        self._on_notice = on_notice
        self._noisy = False
        self._oversized = False
        self._heard_all = trio.Event()
        self._mark = watchdog.new_mark()
        self._status: int | None = None
        """How it ended by itself; None: it lives, or it was we who ended it."""

    @property
    def epitaph(self) -> str:
        """How it ended, for the reader of an error."""
        if self._oversized:
            return f"it sent a message of more than {MAX_LINE} bytes"
        if self._status is None:
            return "it closed its stdout"
        if self._status < 0:
            return f"it was ended by signal {-self._status}"
        return f"it ended with exit code {self._status}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], Any]]:
        """Start the server; afterwards neither it nor anything in its process group is left.

        Raises :class:`McpConnectError` if it cannot be started.
        """
        with trio.CancelScope(shield=True):  # else a cancellation could lose a process that was just started
            process = await self._spawn()
        inbox, incoming = anyio.create_memory_object_stream[Incoming](0)
        outgoing, outbox = anyio.create_memory_object_stream[SessionMessage](_OUTBOX)
        try:
            watchdog.guard(process.pid)
            with inbox, incoming, outgoing, outbox:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._listen, process, inbox)
                    nursery.start_soon(self._speak, process, outbox, inbox)
                    nursery.start_soon(self._attend, process, inbox)
                    try:
                        yield incoming, outgoing
                    finally:
                        nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._end(process)

    async def _spawn(self) -> trio.Process:
        spec = self._spec
        try:
            return await trio.lowlevel.open_process(
                [spec.command, *spec.args],
                stdin=PIPE,
                stdout=PIPE,
                stderr=None,
                env={**environment(self._environ), **spec.env, watchdog.MARK: self._mark},
                cwd=self._cwd,
                start_new_session=True,
            )
        except OSError as error:
            reason = f"{os.strerror(error.errno)} (os error {error.errno})" if error.errno else str(error)
            raise McpConnectError(f"Transport error: Failed to spawn '{spec.command}': {reason}") from error
        except ValueError as error:  # a NUL in an argument
            raise McpConnectError(f"Transport error: Failed to spawn '{spec.command}': {error}") from error

    # --- what it says ---

    async def _listen(self, process: trio.Process, inbox: MemoryObjectSendStream[Incoming]) -> None:
        assert process.stdout is not None  # noqa: S101 - spawned with pipes
        parts: list[bytes | bytearray] = []
        size = 0
        try:
            while chunk := await process.stdout.receive_some(_CHUNK):
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    parts.append(line)
                    await self._receive(b"".join(parts), inbox)
                    parts.clear()
                    size = 0
                parts.append(rest)
                size += len(rest)
                if size > MAX_LINE:
                    self._oversized = True
                    break
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            pass  # we are ending it
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the session has ended first
        finally:
            self._heard_all.set()
            inbox.close()

    async def _receive(self, line: bytes, inbox: MemoryObjectSendStream[Incoming]) -> None:
        text = line.decode(errors="replace").strip()
        if not text:
            return
        try:
            message = jsonrpc_message_adapter.validate_json(text, by_name=False)
        except ValueError:
            self._noise(text)
            return
        await inbox.send(SessionMessage(message))

    def _noise(self, text: str) -> None:
        logger.debug("MCP server %r wrote what is no message: %.200s", self._spec.name, text)
        if not self._noisy:
            self._noisy = True
            self._on_notice(
                f"MCP server '{self._spec.name}' writes lines to stdout that are no messages; they are skipped. "
                f"The first: {text[:200]}"
            )

    # --- what it is told ---

    async def _speak(
        self,
        process: trio.Process,
        outbox: MemoryObjectReceiveStream[SessionMessage],
        inbox: MemoryObjectSendStream[Incoming],
    ) -> None:
        assert process.stdin is not None  # noqa: S101 - spawned with pipes
        try:
            async for item in outbox:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send_all(line.encode() + b"\n")
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            # It no longer reads. It may live and never answer, so the session has to learn that it is over.
            inbox.close()

    # --- its end ---

    async def _attend(self, process: trio.Process, inbox: MemoryObjectSendStream[Incoming]) -> None:
        self._status = await process.wait()
        with trio.move_on_after(LAST_WORDS):
            await self._heard_all.wait()
        inbox.close()

    async def _end(self, process: trio.Process) -> None:
        """Close its stdin and, if it deserves that, wait; then end it and what is left of its group."""
        assert process.stdin is not None  # noqa: S101 - spawned with pipes
        assert process.stdout is not None  # noqa: S101
        await process.stdin.aclose()
        if self.patient:
            with trio.move_on_after(EOF_GRACE):
                self._status = await process.wait()
        await end_group(process, self._mark)
        await process.stdout.aclose()
        watchdog.release(process.pid)
