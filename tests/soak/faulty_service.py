"""A model service (Chat Completions, streamed) on 127.0.0.1 that does what the user's last message plans."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import h11
import trio
from soakplan import TEXT
from support.strict_requests import openai_faults

Json = dict[str, Any]


def chunk(delta: Json, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return (
        b"data: " + json.dumps({"id": "x", "object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"
    )


def stream_of(step: Json, number: str) -> Iterator[bytes]:
    for _ in range(step["size"]):
        yield chunk({"content": TEXT})
    if step["kind"] == "error":
        yield b'data: {"error":{"message":"quota used up","code":402}}\n\n'
        return
    for index, (name, arguments) in enumerate(step["calls"]):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call_{number}_{index}", "type": "function", "function": function}
        yield chunk({"tool_calls": [call]})
    if step["kind"] == "cut":
        yield chunk({"content": "the end of this is mis"})[:-9]
        return
    yield chunk({}, "tool_calls" if step["calls"] else "stop")
    yield b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}}\n\n'
    yield b"data: [DONE]\n\n"


def recent(messages: list[Json]) -> list[Json]:
    """The last two things the user said and all after them: what was before was seen when it was new."""
    asked = [position for position, message in enumerate(messages) if message["role"] == "user"]
    return messages[asked[-2] if len(asked) > 1 else 0 :]


class FaultyService:
    """The service. What is wrong with a request is kept in :attr:`faults`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.faults: list[str] = []
        self.requests = 0
        self._refused_once: set[str] = set()

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection."""
        link = h11.Connection(h11.SERVER)
        async with stream:
            try:
                while (body := await self._receive(link, stream)) is not None:
                    if not await self._answer(link, stream, body):
                        return
                    link.start_next_cycle()
            except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
                return  # the client has hung up, as it does when a turn is stopped

    async def _receive(self, link: h11.Connection, stream: trio.SocketStream) -> Json | None:
        body = b""
        while True:
            event = link.next_event()
            if event is h11.NEED_DATA:
                link.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                found: Json = json.loads(body)
                return found
            elif not isinstance(event, h11.Request):
                return None

    def _planned(self, body: Json) -> tuple[Json, str]:
        """The step that this request asks for, and its name."""
        messages: list[Json] = body["messages"]
        last = max(n for n, message in enumerate(messages) if message["role"] == "user")
        content = messages[last]["content"]
        plan = json.loads(content.rpartition("\n")[2])
        done = sum(message["role"] == "assistant" for message in messages[last:])
        return plan["steps"][min(done, len(plan["steps"]) - 1)], f"{plan['number']}_{done}"

    async def _answer(self, link: h11.Connection, stream: trio.SocketStream, body: Json) -> bool:
        """Whether the connection can be used on."""
        self.requests += 1
        self.faults += openai_faults({**body, "messages": recent(body["messages"])})
        step, number = self._planned(body)
        kind = step["kind"]
        if kind == "hang":
            await stream.receive_some(1)  # until the client gives up
            return False
        if kind == "refused" or (kind == "busy" and number not in self._refused_once):
            self._refused_once.add(number)
            status = 401 if kind == "refused" else 429
            headers = [("content-type", "application/json"), ("retry-after", "0")]
            await stream.send_all(link.send(h11.Response(status_code=status, headers=headers)) or b"")
            await stream.send_all(link.send(h11.Data(data=b'{"error":{"message":"no"}}')) or b"")
            await stream.send_all(link.send(h11.EndOfMessage()) or b"")
            return True
        head = h11.Response(status_code=200, headers=[("content-type", "text/event-stream")])
        await stream.send_all(link.send(head) or b"")
        for data in stream_of(step, number):
            await stream.send_all(link.send(h11.Data(data=data)) or b"")
        if kind == "cut":
            return False
        await stream.send_all(link.send(h11.EndOfMessage()) or b"")
        return True


@asynccontextmanager
async def faulty_service() -> AsyncIterator[FaultyService]:
    """The service on a free port."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    service = FaultyService(listener.socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, service.serve, [listener])
        yield service
        nursery.cancel_scope.cancel()
