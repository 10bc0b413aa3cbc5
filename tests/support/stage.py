"""One agent behind any codec: a server, a connection over a socket pair, and the codec's own host side driving it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from agentwire import load_codec
from agentwire.agent.loop import Agent
from agentwire.codec.contract import Answered, Heard
from agentwire.codec.framing import HOST_LIMIT, Framer
from agentwire.commands import Command, Done, OpenSession, Prompt, Refusal
from agentwire.events import SessionOpened, TurnFinished
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.policy import Policy
from agentwire.provider.contract import Provider
from agentwire.server.connection import Connection
from agentwire.server.outbox import Outbox
from agentwire.server.runtime import make_runner
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.setup import Boot
from agentwire.tools.contract import Tool

SESSION = "s"


class SocketTransport:
    """One end of a socket pair."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.end = end

    async def receive(self) -> bytes:
        await trio.lowlevel.wait_readable(self.end)
        return self.end.recv(65536)

    def send_now(self, data) -> int:
        try:
            return self.end.send(data)
        except BlockingIOError:
            return 0

    async def wait_writable(self) -> None:
        await trio.lowlevel.wait_writable(self.end)

    def close(self) -> None:
        self.end.close()


class Opener:
    """Where the server's sessions come from: all alike, but for the name."""

    def __init__(self, policy: Policy, provider: Provider, workspace: Path) -> None:
        self.policy, self.provider, self.workspace = policy, provider, workspace

    def open(self, command: OpenSession) -> Boot:
        return self._boot(command.id or SESSION)

    def take_up(self, prompt: Prompt) -> Boot:
        return self._boot(prompt.session or SESSION)

    def provider_for(self, model: str, workspace: Path) -> tuple[Provider, str]:
        return self.provider, model

    def _boot(self, name: str) -> Boot:
        settings = SessionSettings(workspace=str(self.workspace), model="m")
        session = Session(
            name, SessionLog(None), History(), settings=settings, policy=self.policy, provider=self.provider,
            ephemeral=True,
        )  # fmt: skip
        session.opened = session.append(
            SessionOpened(name, "new", str(self.workspace), "model", "m", session.capabilities(), ephemeral=True)
        )
        return Boot(session, None, [])


class Stage:
    """A host that speaks ``codec`` to an agent of one session."""

    def __init__(
        self,
        nursery: trio.Nursery,
        codec: str,
        policy: Policy,
        provider: Provider,
        tools: Sequence[Tool],
        workspace: Path,
        **options: Any,
    ) -> None:
        self.codec = load_codec(codec)
        self.host = self.codec.host()
        self.heard: list[Heard] = []
        self.results: dict[int, Done | Refusal] = {}
        self.workspace = workspace
        agent = Agent(tools=tools, builtins=False, system_prompt="Be brief.")
        opener = Opener(policy, provider, workspace)
        self.server = Server(
            nursery, lambda boot: make_runner(boot.session, agent, nursery, opener.provider_for), opener
        )
        side = self.codec.agent(**options)
        one = self.codec.sessions == "one"
        outbox = Outbox(side, feeds=self.codec.feeds)
        if one:
            boot = opener.open(OpenSession())
            self.server.add(make_runner(boot.session, agent, nursery, opener.provider_for))
            outbox.follow(boot.session, after=0)
        ours, theirs = socket.socketpair()
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        self.connection = Connection(
            self.server,
            side,
            SocketTransport(theirs),
            max_line=self.codec.max_line,
            session=SESSION if one else "",
            outbox=outbox,
            begin=self.codec.begin,
            end=self.codec.end,
            single=one,
            outlives_output=self.codec.outlives_output,
        )
        self.server.attach(self.connection)
        nursery.start_soon(self.connection.run)
        nursery.start_soon(self._listen)

    async def _listen(self) -> None:
        framer = Framer(HOST_LIMIT)
        async for chunk in self.stream:
            for line in framer.feed(chunk):
                for item in self.host.receive(line):
                    if isinstance(item, Answered):
                        self.results[item.command] = item.result
                    else:
                        self.heard.append(item)

    @property
    def session(self) -> Session:
        """The one session."""
        (runner,) = self.server.sessions
        return runner.session

    async def send(self, command: Command) -> int:
        """Write a command as this wire does; its number. Fails if the wire has no word for it."""
        out = bytearray()
        number = self.host.send(command, out)
        assert not isinstance(number, Refusal), number
        await self.stream.send_all(out)
        return number

    async def open(self) -> None:
        """Open the session, on a wire where a host does that."""
        if self.codec.sessions == "many" and self.codec.begin is None:
            out = bytearray()
            number = self.host.send(OpenSession(workspace=str(self.workspace)), out)
            if isinstance(number, Refusal):
                return  # a wire whose prompts open their session
            await self.stream.send_all(out)
            await self.until(lambda: number in self.results)

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something is so; under a mock clock this takes no time."""
        with trio.fail_after(60):
            while not holds():  # noqa: ASYNC110 - of both ends and of the log: there is no one event to wait for
                await trio.sleep(0.001)

    def ends(self) -> int:
        """Turns that have ended."""
        return sum(isinstance(record.event, TurnFinished) and not record.origin for record in self.records())

    def records(self) -> list[Record]:
        """The whole log."""
        if not list(self.server.sessions):
            return []
        cursor = self.session.log.cursor(after=0)
        found: list[Record] = []
        while batch := cursor.take():
            found += batch
        cursor.close()
        return found
