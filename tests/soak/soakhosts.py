"""Two hosts of one session: one that reads and answers, one that reads only when it likes."""

from __future__ import annotations

import json
import random
import socket
from typing import Any

import trio
from soakplan import Plan
from support.stage import SocketTransport

from agentwire import load_codec
from agentwire.server.connection import Connection
from agentwire.server.server import Server
from agentwire.session import Session

Json = dict[str, Any]
CODEC = load_codec("aionrs")


class Follower:
    """A host that shows everything and reads at its own pace: in bursts, with pauses, or not at all for a while."""

    def __init__(self, nursery: trio.Nursery, server: Server, session: Session, rng: random.Random | None) -> None:
        ours, theirs = socket.socketpair()
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        self._sending = trio.Lock()
        self.transport = SocketTransport(theirs)
        self.connection = Connection(server, CODEC.agent(), self.transport, max_line=CODEC.max_line, session=session.id)
        self.connection.outbox.follow(session)
        server.attach(self.connection)
        self.events: list[Json] = []
        self.caught_up = False
        """Set to have it read without pauses."""
        self._rng = rng
        self._rest = b""
        self._news = trio.Event()
        self.closed = trio.Event()
        nursery.start_soon(self._serve)
        nursery.start_soon(self._listen)

    async def _serve(self) -> None:
        await self.connection.run()
        self.transport.close()

    async def _listen(self) -> None:
        while chunk := await self.stream.receive_some(65536):
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self.events += map(json.loads, lines)
            self._news.set()
            self._news = trio.Event()
            if self._rng is not None and not self.caught_up:
                await trio.sleep(self._rng.choice((0.0, 0.01, 0.1, 0.4)))
        assert self._rest == b"", "the last line has no end"
        self.closed.set()

    async def until_end(self, msg_id: str) -> None:
        """Wait for the end of a turn."""
        while not any(event["type"] == "stream_end" and event["msg_id"] == msg_id for event in self.events[-40:]):
            await self._news.wait()

    async def send(self, *messages: Json) -> None:
        """Write commands."""
        async with self._sending:  # a stop may come while an answer is under way
            await self.stream.send_all(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def close(self) -> None:
        """End the input, read what is due."""
        self.caught_up = True
        await self.stream.send_eof()
        await self.closed.wait()
        await self.stream.aclose()


class Host(Follower):
    """The host that drives: sends messages, answers questions, stops."""

    async def play(self, plan: Plan) -> None:
        """One turn."""
        msg_id = f"m{plan.number}"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answer, plan, len(self.events))
            await self.send({"type": "message", "msg_id": msg_id, "content": plan.message()})
            if plan.stop_after >= 0:
                nursery.start_soon(self._stop, plan.stop_after)
            await self.until_end(msg_id)
            nursery.cancel_scope.cancel()

    async def _stop(self, after: float) -> None:
        """Again and again: a stop that comes before its turn has begun is for nobody."""
        await trio.sleep(after)
        while True:
            await self.send({"type": "stop"})
            await trio.sleep(0.2)

    async def _answer(self, plan: Plan, position: int) -> None:
        while True:
            for event in self.events[position:]:
                position += 1
                if event["type"] == "tool_request" and plan.answers != "nothing":
                    word = {"approve": "tool_approve", "deny": "tool_deny"}[plan.answers]
                    more = {"scope": "once"} if plan.answers == "approve" else {"reason": "no"}
                    await self.send({"type": word, "call_id": event["call_id"], **more})
            await self._news.wait()
