"""Both ends of a bridge in one process: a host's own side on a socket, and our server behind the agent's pipes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio
from support.stage import Opener, SocketTransport
from support.world import Reply, tools

from agentwire import load_codec
from agentwire.agent.loop import Agent
from agentwire.bridge.running import Bridge
from agentwire.codec.contract import Answered, Heard
from agentwire.codec.framing import HOST_LIMIT, Framer
from agentwire.commands import Command, Done, ForkSession, OpenSession, Refusal
from agentwire.events import CallRef, CallStarted, Event, ReasoningDelta, TextDelta, TurnFinished, Unknown, Usage
from agentwire.host import connect, process
from agentwire.log.record import Record
from agentwire.opening import fork_session
from agentwire.options import ServeOptions
from agentwire.provider.contract import Completion, Emit, ModelRequest, ProviderError
from agentwire.server.connection import Connection
from agentwire.server.outbox import Outbox
from agentwire.server.runtime import make_runner
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.setup import Boot
from agentwire.tools.contract import Tool

ANSWERS = ("answer", "result")
"""What host sides call an answer to nothing that they asked."""


class Player:
    """A model that reasons, speaks, calls, takes its time and fails, as told."""

    name, model, thinking, effort_levels = "model", "m", True, ("low",)

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = iter(replies)

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        reply = next(self.replies)
        emit(ReasoningDelta("let me see"))
        for piece in reply.text.split("|"):
            emit(TextDelta(piece))
            await trio.sleep(0.01)
        if reply.fails == "never ends":
            await trio.sleep_forever()
        if reply.fails:
            raise ProviderError("the service broke", kind="auth")
        calls = [CallRef(f"call_{len(request.messages)}_{index}", name, "{}") for index, name in enumerate(reply.calls)]
        for call in calls:
            emit(CallStarted(call.call_id, call.name))
        finish = "tool_calls" if calls else "stop"
        return Completion(reply.text.replace("|", ""), "let me see", calls, Usage(3, 2), finish)

    async def aclose(self) -> None:
        pass


class Stdin:
    """The half of a stream that is written."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.send_all = stream.send_all
        self.aclose = stream.send_eof


class Silent:
    """A standard error to which nothing is written."""

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return b""


class Inside:
    """An agent that is no process, but looks like one to whoever has its pipes."""

    def __init__(self, serve: Callable[[socket.socket], Any]) -> None:
        ours, self._theirs = socket.socketpair()
        self._serve = serve
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        self.stdin, self.stdout, self.stderr = Stdin(self._stream), self._stream, Silent()
        self.returncode: int | None = None
        self.pid = 0
        self._gone = trio.Event()
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        with self._scope:
            await self._serve(self._theirs)
        self._theirs.close()
        self.returncode = 1 if self._scope.cancelled_caught else 0
        self._gone.set()

    def kill(self) -> None:
        self._scope.cancel()

    async def wait(self) -> int | None:
        await self._gone.wait()
        return self.returncode


class NoWatchdog:
    """There is no process to end."""

    @staticmethod
    def guard(pid: int) -> None:
        pass

    @staticmethod
    def release(pid: int) -> None:
        pass


class Forking(Opener):
    """Sessions that can be copied."""

    def fork(self, source: Session, command: ForkSession) -> Boot:
        return Boot(fork_session(None, source, command.id or "fork"), None, [])  # type: ignore[arg-type]  # no journal


class Agents:
    """Agents of one wire, made as a bridge starts them."""

    def __init__(self, codec: str, replies: Sequence[Reply], own_tools: Sequence[Tool], workspace: Path) -> None:
        self.codec = load_codec(codec)
        self.argv = ["agent"]
        self.replies = replies
        self.tools = own_tools
        self.workspace = workspace
        self.servers: list[Server] = []
        self.started: list[Inside] = []
        self.serve: Callable[[socket.socket], Any] = self.our_server

    async def start(self, argv: Sequence[str], **more: Any) -> Inside:
        inside = Inside(self.serve)
        self.started.append(inside)
        trio.lowlevel.spawn_system_task(inside.run)
        return inside

    async def our_server(self, end: socket.socket) -> None:
        codec, provider = self.codec, Player(self.replies)
        agent = Agent(tools=self.tools, builtins=False, system_prompt="Be brief.")
        opener = Forking(codec.policy, provider, self.workspace)
        async with trio.open_nursery() as nursery:
            server = Server(
                nursery, lambda boot: make_runner(boot.session, agent, nursery, opener.provider_for), opener
            )
            self.servers.append(server)
            side = codec.agent()
            outbox = Outbox(side, feeds=codec.feeds)
            one = codec.sessions == "one"
            own = ""
            if one:
                boot = opener.open(OpenSession())
                own = boot.session.id
                server.add(make_runner(boot.session, agent, nursery, opener.provider_for))
                outbox.follow(boot.session, after=0)
            connection = Connection(
                server, side, SocketTransport(end), max_line=codec.max_line, session=own, outbox=outbox,
                begin=codec.begin, single=one,
            )  # fmt: skip
            server.attach(connection)
            await connection.run()
            nursery.cancel_scope.cancel()

    @contextmanager
    def in_place(self, monkeypatch: Any):
        """Whoever starts an agent process gets one of these."""
        with monkeypatch.context() as patch:
            patch.setattr(connect, "start_process", self.start)
            patch.setattr(process, "watchdog", NoWatchdog)
            yield self


class Ends:
    """A bridge with its host's end in hand. The host is the codec's own host side."""

    def __init__(
        self,
        nursery: trio.Nursery,
        host: str,
        agents: Agents,
        *,
        silence: float = 0,
        directory: str = "",
        **options: Any,
    ) -> None:
        self.codec = load_codec(host)
        self.host = self.codec.host()
        self.heard: list[Heard] = []
        self.overheard: list[Event] = []
        """What one makes of the bridge's lines who does not know what the host asked, answers left out."""
        self._listener = self.codec.host()
        self.results: dict[int, Done | Refusal] = {}
        self.agents = agents
        self.logs: dict[str, list[Record]] = {}
        ours, theirs = socket.socketpair()
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        options.setdefault("ephemeral", not directory)
        given = ServeOptions(codec=host, workspace=str(agents.workspace), **options)
        self.bridge = Bridge(self.codec, agents.codec, agents.argv, given, silence=silence, directory=directory)
        self.transport = SocketTransport(theirs)
        keep = self.bridge._account.add

        def add(session: str, records: Sequence[Record]) -> None:
            self.logs.setdefault(session, []).extend(records)
            keep(session, records)

        self.bridge._account.add = add  # type: ignore[method-assign]
        self.ended = trio.Event()
        self.status: int | None = None
        nursery.start_soon(self._serve)
        nursery.start_soon(self._listen)

    async def _serve(self) -> None:
        self.status = await self.bridge.serve(self.transport)
        self.transport.close()

    async def _listen(self) -> None:
        framer = Framer(HOST_LIMIT)
        async for chunk in self.stream:
            for line in framer.feed(chunk):
                self._take(self.host.receive(line))
                self._overhear(self._listener.receive(line))
        self._take(self.host.close())
        self._overhear(self._listener.close())
        self.ended.set()

    def _take(self, said: Sequence[Heard | Answered]) -> None:
        for item in said:
            if isinstance(item, Answered):
                self.results[item.command] = item.result
            else:
                self.heard.append(item)

    def _overhear(self, said: Sequence[Heard | Answered]) -> None:
        for item in said:
            event = item.event if isinstance(item, Heard) else None
            if event is not None and not (isinstance(event, Unknown) and event.name in ANSWERS):
                self.overheard.append(event)

    async def send(self, command: Command) -> int:
        out = bytearray()
        number = self.host.send(command, out)
        assert not isinstance(number, Refusal), number
        await self.stream.send_all(out)
        return number

    async def ask(self, command: Command) -> Done | Refusal:
        number = await self.send(command)
        await self.until(lambda: number in self.results)
        return self.results[number]

    async def open(self, **more: Any) -> None:
        """Open the session, on a wire where a host does that."""
        if (
            self.codec.sessions == "many"
            and self.codec.begin is None
            and not isinstance(self.codec.host().send(OpenSession(), bytearray()), Refusal)
        ):
            answer = await self.ask(OpenSession(workspace=str(self.agents.workspace), **more))
            assert isinstance(answer, Done), answer

    async def until(self, holds: Callable[[], object]) -> None:
        with trio.fail_after(20):
            while not holds():  # noqa: ASYNC110 - of both ends and of the log: there is no one event to wait for
                await trio.sleep(0.001)

    def events(self, kind: type[Any]) -> list[Any]:
        return [item.event for item in self.heard if isinstance(item.event, kind)]

    async def turns(self, count: int) -> None:
        """Wait until so many turns have ended, as the host reads it."""
        await self.until(lambda: len(self.events(TurnFinished)) >= count)

    async def leave(self) -> None:
        """Close the host's end, and wait for all that is still said."""
        await self.stream.send_eof()
        with trio.fail_after(20):
            await self.ended.wait()


__all__ = ["Agents", "Ends", "Inside", "Player", "Reply", "tools"]
