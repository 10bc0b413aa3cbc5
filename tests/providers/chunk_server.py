"""An HTTP server on 127.0.0.1 that sends exactly the chunks it is given, each as a write of its own.

Answers are given beforehand, one for each request; requests are kept. After every chunk the server waits until the
client has nothing left to do, so that chunks are never joined on their way.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import h11
import trio
from trio.testing import wait_all_tasks_blocked

HANG = "hang"


@dataclass
class Answer:
    """What one request gets. ``end``: ``clean``, ``reset`` (TCP reset), ``cut`` (closed mid-body) or ``hang``."""

    chunks: list[bytes] = field(default_factory=list)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    end: str = "clean"
    before_chunk: Callable[[int], Any] | None = None
    """Called with a chunk's number (from 0) before it is sent; awaited if it gives something to await."""


@dataclass
class Seen:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    raw: bytes
    connection: int
    closed: trio.Event = field(default_factory=trio.Event)
    """The client hung up while its answer was under way."""

    @property
    def body(self) -> Any:
        return json.loads(self.raw.decode("utf-8"))


class ChunkServer:
    """The server; use :func:`chunk_server`."""

    def __init__(self, listener: trio.SocketListener) -> None:
        self.port: int = listener.socket.getsockname()[1]
        self.answers: list[Answer] = []
        self.requests: list[Seen] = []
        self.arrived = trio.Event()
        self._connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, stream: trio.SocketStream) -> None:
        self._connections += 1
        number, link = self._connections, h11.Connection(h11.SERVER)
        async with stream:
            while (seen := await self._receive(link, stream, number)) is not None:
                self.requests.append(seen)
                self.arrived.set()
                answer = self.answers.pop(0)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch, stream, seen)
                    try:
                        alive = await self._send(answer, link, stream)
                    except trio.BrokenResourceError:
                        alive = False
                    nursery.cancel_scope.cancel()
                if not alive or link.our_state is not h11.DONE:
                    return
                link.start_next_cycle()

    async def _receive(self, link: h11.Connection, stream: trio.SocketStream, number: int) -> Seen | None:
        head, body = None, b""
        while True:
            event = link.next_event()
            if event is h11.NEED_DATA:
                try:
                    link.receive_data(await stream.receive_some(65536))
                except trio.BrokenResourceError:
                    return None
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                headers = {name.decode(): value.decode() for name, value in head.headers}
                return Seen(head.target.decode(), headers, body, number)
            else:
                return None

    async def _watch(self, stream: trio.SocketStream, seen: Seen) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # a reset closes it as well as an end
            await stream.receive_some(1)
        seen.closed.set()

    async def _send(self, answer: Answer, link: h11.Connection, stream: trio.SocketStream) -> bool:
        head = h11.Response(status_code=answer.status, headers=list(answer.headers.items()))
        await stream.send_all(link.send(head) or b"")
        for number, chunk in enumerate(answer.chunks):
            if answer.before_chunk is not None and (wait := answer.before_chunk(number)) is not None:
                await wait
            await stream.send_all(link.send(h11.Data(data=chunk)) or b"")
            await wait_all_tasks_blocked()
        match answer.end:
            case "clean":
                await stream.send_all(link.send(h11.EndOfMessage()) or b"")
                return True
            case "reset":
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case "hang":
                await trio.sleep_forever()
        await stream.aclose()
        return False


@asynccontextmanager
async def chunk_server(*answers: Answer) -> AsyncIterator[ChunkServer]:
    """A server with those answers, on a free port."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = ChunkServer(listener)
    server.answers += answers
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()
