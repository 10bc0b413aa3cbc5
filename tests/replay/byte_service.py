"""A service on 127.0.0.1 that answers each request with the bytes it is given, piece by piece, whatever was asked."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio


@dataclass
class Answer:
    """A status, headers and the pieces of a body; ``end``: ``whole``, ``cut`` or ``reset`` (of the connection)."""

    pieces: Sequence[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    end: str = "whole"


class ByteService:
    """The service; use :func:`byte_service`."""

    def __init__(self, answers: Sequence[Answer], port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.heads: list[bytes] = []
        """The requests that came: their first lines and headers."""
        self._answers = iter(answers)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one connection's one request."""
        got = b""
        while b"\r\n\r\n" not in got:
            got += await stream.receive_some()
        head, _, body = got.partition(b"\r\n\r\n")
        self.heads.append(head)
        (length,) = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while len(body) < length:
            body += await stream.receive_some()
        await self._answer(next(self._answers), stream)
        await stream.aclose()

    async def _answer(self, answer: Answer, stream: trio.SocketStream) -> None:
        headers = {**answer.headers, "transfer-encoding": "chunked", "connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await stream.send_all(f"HTTP/1.1 {answer.status} Said\r\n{lines}\r\n".encode())
        for piece in answer.pieces:
            await stream.send_all(b"%x\r\n%s\r\n" % (len(piece), piece))
        if answer.end == "whole":
            await stream.send_all(b"0\r\n\r\n")
        elif answer.end == "reset":
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@asynccontextmanager
async def byte_service(*answers: Answer) -> AsyncIterator[ByteService]:
    """A service with those answers, on a free port."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    service = ByteService(answers, listener.socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, service.serve, [listener])
        yield service
        nursery.cancel_scope.cancel()
