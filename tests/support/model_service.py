"""A scripted model service on 127.0.0.1: OpenAI Chat Completions and Anthropic Messages over real HTTP.

Replies come from a script (:mod:`support.replies`); every request is kept for the test to look at, and refused
with status 400 if a strict service would refuse it. Every part of a reply is a chunk and a write of its own.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import h11
import trio

from .replies import (
    Answer,
    Chooser,
    Cut,
    Frame,
    Gate,
    JsonObject,
    Refused,
    Reply,
    anthropic_frames,
    openai_frames,
)
from .strict_requests import anthropic_faults, openai_faults

PATIENCE = 10.0
"""Seconds after which waiting counts as a failure."""


@dataclass(frozen=True)
class _Dialect:
    frames: Callable[[Reply, JsonObject], Iterator[Frame]]
    faults: Callable[[JsonObject], list[str]]


_DIALECTS = {
    "/chat/completions": _Dialect(openai_frames, openai_faults),
    "/messages": _Dialect(anthropic_frames, anthropic_faults),
}


@dataclass(eq=False)
class ModelRequest:
    """A request as it arrived, and what became of it."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: JsonObject
    answered: trio.Event = field(default_factory=trio.Event)
    """The whole reply was handed to the operating system."""
    disconnected: trio.Event = field(default_factory=trio.Event)
    """The client closed the connection before the reply was complete."""

    @property
    def messages(self) -> list[JsonObject]:
        """The messages, the system prompt apart."""
        return [message for message in self.body["messages"] if message["role"] not in ("system", "developer")]

    @property
    def system(self) -> str:
        """The system prompt."""
        if "system" in self.body:
            return _text(self.body["system"])
        return "\n".join(_text(message["content"]) for message in self.body["messages"] if message["role"] == "system")

    @property
    def tools(self) -> list[str]:
        """Names of the tools on offer."""
        return [tool.get("function", tool)["name"] for tool in self.body.get("tools", [])]

    def texts(self, role: str) -> list[str]:
        """The text of every message of ``role``, where it has any."""
        found = [_text(message.get("content")) for message in self.messages if message["role"] == role]
        return [text for text in found if text]

    @property
    def results(self) -> dict[str, str]:
        """What the model reads as the result of each call, by call id."""
        found = {m["tool_call_id"]: _text(m["content"]) for m in self.messages if m["role"] == "tool"}
        for block in self.result_blocks:
            found[block["tool_use_id"]] = _text(block["content"])
        return found

    @property
    def result_blocks(self) -> list[JsonObject]:
        """Anthropic's tool_result blocks."""
        blocks = [block for m in self.messages if isinstance(m.get("content"), list) for block in m["content"]]
        return [block for block in blocks if block["type"] == "tool_result"]


def _text(content: str | list[JsonObject] | None) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or [] if part["type"] == "text")


class ModelService:
    """The service. ``replies`` answers the requests in turn; ``choose``, if set, answers what is beyond them."""

    def __init__(self) -> None:
        self.replies: list[Answer] = []
        self.choose: Chooser | None = None
        self.requests: list[ModelRequest] = []
        self.faults: list[str] = []
        """What was wrong with requests, or that one came which the script does not know."""
        self.port = 0
        self._arrived = trio.lowlevel.ParkingLot()

    @property
    def url(self) -> str:
        """The base address, with the version segment that both APIs have."""
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, *replies: Answer | str) -> None:
        """Add replies; a string is a reply of one piece of text."""
        self.replies += [Reply(reply) if isinstance(reply, str) else reply for reply in replies]

    async def request(self, number: int) -> ModelRequest:
        """The request with that number, counting from 1, as soon as it has arrived."""
        with trio.move_on_after(PATIENCE):
            while len(self.requests) < number:
                await self._arrived.park()
            return self.requests[number - 1]
        raise AssertionError(f"request {number} did not arrive; there were {len(self.requests)}")

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen on a free port until cancelled."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self._connection, listeners)
            task_status.started()

    async def _connection(self, stream: trio.SocketStream) -> None:
        link = h11.Connection(h11.SERVER)
        async with stream:
            try:
                while (request := await self._receive(link, stream)) is not None:
                    await self._answer(request, link, stream)
                    if link.our_state is not h11.DONE or link.their_state is not h11.DONE:
                        return
                    link.start_next_cycle()
            except (trio.BrokenResourceError, h11.RemoteProtocolError):
                return  # the client went away; whoever waits for it has the request's `disconnected`

    async def _receive(self, link: h11.Connection, stream: trio.SocketStream) -> ModelRequest | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = link.next_event()
            if event is h11.NEED_DATA:
                link.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                headers = {name.decode(): value.decode() for name, value in head.headers}
                return ModelRequest(head.target.decode(), headers, bytes(body), json.loads(body.decode("utf-8")))
            else:
                return None

    async def _answer(self, request: ModelRequest, link: h11.Connection, stream: trio.SocketStream) -> None:
        path = request.path.partition("?")[0]
        dialect = next((d for end, d in _DIALECTS.items() if path.endswith(end)), None)
        faults = dialect.faults(request.body) if dialect else [f"no such path: {request.path}"]
        answer = self._next_answer(request) if not faults else None
        if answer is None:
            self.faults += faults or [f"no reply is scripted for request {len(self.requests) + 1}"]
            answer = Refused(400, "; ".join(self.faults))
        self.requests.append(request)
        self._arrived.unpark_all()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, request, link, stream, nursery.cancel_scope)
            try:
                if isinstance(answer, Refused):
                    await _refuse(answer, link, stream)
                else:
                    assert dialect is not None
                    await _stream(dialect.frames(answer, request.body), link, stream)
                request.answered.set()
            except trio.BrokenResourceError:
                request.disconnected.set()
            nursery.cancel_scope.cancel()

    def _next_answer(self, request: ModelRequest) -> Answer | None:
        if self.replies:
            return self.replies.pop(0)
        return self.choose(request.body) if self.choose else None

    async def _watch(
        self, request: ModelRequest, link: h11.Connection, stream: trio.SocketStream, reply: trio.CancelScope
    ) -> None:
        """Notice at once when the client hangs up while its reply is under way."""
        try:
            data = await stream.receive_some(65536)
            while data:
                link.receive_data(data)
                data = await stream.receive_some(65536)
        except trio.BrokenResourceError:
            pass  # a reset is a disconnect like any other
        except trio.ClosedResourceError:
            return  # we cut the connection ourselves
        request.disconnected.set()
        reply.cancel()


async def _refuse(answer: Refused, link: h11.Connection, stream: trio.SocketStream) -> None:
    body = json.dumps({"type": "error", "error": {"type": "error", "message": answer.message}}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **answer.headers}
    head = h11.Response(status_code=answer.status, headers=list(headers.items()))
    parts = [link.send(head), link.send(h11.Data(data=body)), link.send(h11.EndOfMessage())]
    await stream.send_all(b"".join(part or b"" for part in parts))


async def _stream(frames: Iterator[Frame], link: h11.Connection, stream: trio.SocketStream) -> None:
    head = h11.Response(status_code=200, headers=[("content-type", "text/event-stream"), ("cache-control", "no-cache")])
    await stream.send_all(link.send(head) or b"")
    for frame in frames:
        if isinstance(frame, Gate):
            frame.reached.set()
            await frame.opened.wait()
        elif isinstance(frame, Cut):
            if frame.reset:
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.aclose()
            link.send_failed()
            return
        elif frame:
            await stream.send_all(link.send(h11.Data(data=frame)) or b"")
    await stream.send_all(link.send(h11.EndOfMessage()) or b"")


async def wait_for(event: trio.Event, what: str, within: float = PATIENCE) -> None:
    """Wait for ``event``; that ``what`` did not happen in time is a failure."""
    with trio.move_on_after(within):
        await event.wait()
        return
    raise AssertionError(f"{what}: not within {within} s")
