"""A recording done again by our own server, and compared: no model is asked and nothing is run."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
import trio.testing
from msgspec import Struct
from msgspec.structs import replace

from agentwire import registry
from agentwire.agent.loop import Agent
from agentwire.agent.running import as_run
from agentwire.codec.contract import Codec
from agentwire.codec.framing import HOST_LIMIT, Framer
from agentwire.commands import AddMcpServer
from agentwire.config import Config
from agentwire.events import McpServerFailed, McpServerReady
from agentwire.mcp.spec import McpServerSpec, McpSpecError, from_command
from agentwire.options import ServeOptions
from agentwire.policy import Policy
from agentwire.provider.contract import ConfigError, Provider
from agentwire.recording import Recording, RecordingError
from agentwire.replay.cast import Parts, PlayedModel
from agentwire.replay.comparing import Comparison, pretty
from agentwire.replay.ids import Ids
from agentwire.replay.places import placed
from agentwire.server.connection import Connection
from agentwire.server.mcp_servers import LONGEST_WAIT, McpServers
from agentwire.server.outbox import Outbox
from agentwire.server.runner import SessionRunner
from agentwire.server.server import Server
from agentwire.server.toolboxes import toolbox_for
from agentwire.setup import Boot, Place, Setup
from agentwire.store import SessionStore, StoreError
from agentwire.transcode import Logged, LogReader

QUIET: Final = 3600.0
"""Seconds, of a clock that jumps when everybody waits: who says nothing for so long says nothing any more."""

PATIENCE: Final = 20
"""How often that is believed only after asking again: a thread may be at work, for which the clock does not wait."""

JUMP_AFTER: Final = 0.03
"""Real seconds of nobody doing anything after which the clock jumps."""

INSTRUCTIONS: Final = "Recorded"
"""The system prompt: nobody reads it."""

AT_THE_END: Final = "the recording ends"
NOTHING_MORE: Final = "the server says nothing more"


class Difference(Struct):
    """The first line in which the server did something else."""

    path: str
    line: int
    """Of the recording's file; where it ends, its last."""
    number: int
    """Which of the lines that the server wrote, from 1."""
    recorded: bytes | None
    now: bytes | None

    def __str__(self) -> str:
        then = f"{self.path}, line {self.line}" if self.recorded is not None else AT_THE_END
        now = f"the server's line {self.number}" if self.now is not None else NOTHING_MORE
        changes = difflib.unified_diff(pretty(self.recorded), pretty(self.now), then, now, lineterm="", n=4)
        return "\n".join(changes)


def verify(recording: Recording) -> Difference | None:
    """Have our own server do a recording of ``agentwire serve --record`` again; the first difference.

    The model's replies and the tools' results are the recorded ones; the host's lines come when they came. Raises
    :class:`agentwire.recording.RecordingError` for a recording that does not hold what that takes.
    """
    parts = Parts()
    wire: list[_Line] = []
    servers: dict[str, list[tuple[int, Any]]] = {}
    try:
        codec = registry.load_codec(recording.header.codec)
    except registry.UnknownName as error:
        raise RecordingError(str(error)) from None
    reader = LogReader(codec)
    for place in placed(recording):
        entry = place.entry
        if entry.who in ("host", "agent"):
            wire.append(_Line(entry.who == "host", entry.at, place.line, entry.data))
            for item in reader.feed(entry):
                if isinstance(item, Logged) and isinstance(item.record.event, McpServerReady | McpServerFailed):
                    servers.setdefault(item.record.event.name, []).append((entry.at, item.record.event))
        else:
            parts.learn(place)
    _check(recording, parts)
    clock = trio.testing.MockClock(autojump_threshold=JUMP_AFTER)
    with tempfile.TemporaryDirectory(prefix="agentwire-verify-") as directory:
        again = _Again(recording.path, codec, parts, wire, servers, Path(directory).resolve())
        return trio.run(again.run, clock=clock)


def _check(recording: Recording, parts: Parts) -> None:
    if not parts.setup:
        raise RecordingError(
            f"{recording.path} does not say what the agent was given; only `agentwire serve --record` keeps that"
        )
    if parts.setup.get("agent"):
        raise RecordingError(
            f"{recording.path} is of an agent of its own, {parts.setup['agent']}, not the built-in one"
        )
    options = parts.setup.get("options", {})
    if options.get("resume"):
        raise RecordingError(f"{recording.path} begins with a stored session, which is not in it")


class _Line(Struct):
    host: bool
    at: int
    line: int
    data: bytes


class _Again:
    """One run of the server over a recording."""

    def __init__(
        self, path: str, codec: Codec, parts: Parts, wire: Sequence[_Line], servers: dict[str, list[tuple[int, Any]]],
        directory: Path,
    ) -> None:  # fmt: skip
        self._path = path
        self._codec = codec
        self._parts = parts
        self._wire = wire
        self._servers = servers
        self._pipe = _Pipe()
        self._workspace = directory / "workspace"
        self._workspace.mkdir()
        self._setup = _PlayedSetup(parts, codec.policy, self._workspace, directory / "sessions")
        self._then, self._there = (
            _inside_json(str(parts.setup.get("workspace", ""))),
            _inside_json(str(self._workspace)),
        )
        self._ids = Ids()
        self._comparison = Comparison(self._ids)
        self._written = 0

    async def run(self) -> Difference | None:
        self._parts.zero = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve)
            found = await self._drive()
            nursery.cancel_scope.cancel()
        return found

    # --- the server ---

    async def _serve(self) -> None:
        codec, setup = self._codec, self._setup
        try:
            side = codec.agent(**setup.options.codec_options)
            boot = setup.at_start() if codec.sessions == "one" else None
        except (ConfigError, StoreError) as error:
            raise RecordingError(f"the session cannot be opened as it was: {error}") from None
        outbox = Outbox(side, feeds=codec.feeds)
        if boot is not None:
            first = boot.session.opened
            outbox.follow(boot.session, after=first.seq - 1 if first else None)
        async with trio.open_nursery() as nursery:

            def run(opened: Boot) -> SessionRunner:
                session = opened.session
                toolbox = toolbox_for(Agent(), session)
                toolbox.watch = self._parts.tool
                mcp = _PlayedServers(session, toolbox, nursery, self._parts, self._servers)
                mcp.configured()
                return SessionRunner(session, as_run(Agent()), toolbox, nursery, mcp, setup.provider_for)

            server = Server(nursery, run, setup)
            if boot is not None:
                server.add(run(boot))
            connection = Connection(
                server, side, self._pipe, max_line=codec.max_line, outbox=outbox, begin=codec.begin,
                session=boot.session.id if boot is not None else "", single=codec.sessions == "one",
            )  # fmt: skip
            server.attach(connection)
            await connection.run()
            nursery.cancel_scope.cancel()
        for runner in server.sessions:
            runner.session.log.close()
        self._pipe.end()

    # --- the host ---

    async def _drive(self) -> Difference | None:
        """Say what the host said when it said it, and compare what comes back."""
        last = 0
        for due in self._wire:
            last = due.line
            if due.host:
                await self._parts.until(due.at)
                self._pipe.give(self._moved(self._ids.translate(due.data)))
                continue
            now = await self._pipe.take()
            self._written += now is not None
            then, now = due.data.rstrip(b"\r\n"), now and self._back(now)
            if now is None or self._comparison.different(then, now):
                return Difference(self._path, due.line, self._written, then, now)
        self._pipe.give(b"")
        now = await self._pipe.take()
        return None if now is None else Difference(self._path, last, self._written + 1, None, now)

    def _moved(self, line: bytes) -> bytes:
        """A line of the host with our workspace in the place of the recorded one."""
        return line.replace(self._then, self._there) if len(self._then) > 1 else line

    def _back(self, line: bytes) -> bytes:
        """A line of the server with the recorded workspace in the place of ours."""
        return line.replace(self._there, self._then)


def _inside_json(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


class _Pipe:
    """Standard input and output of a server in the same event loop; a transport, and its other end."""

    def __init__(self) -> None:
        self._in: deque[bytes] = deque()
        self._lines: deque[bytes] = deque()
        self._framer = Framer(HOST_LIMIT)
        self._heard = trio.Event()
        self._said = trio.Event()
        self._over = False

    # --- the server's end ---

    async def receive(self) -> bytes:
        """The next bytes of the host."""
        while not self._in:
            self._said = trio.Event()
            await self._said.wait()
        return self._in.popleft()

    def send_now(self, data: bytearray | memoryview) -> int:
        """Take everything."""
        self._lines += [line for line in self._framer.feed(data) if isinstance(line, bytes)]
        self._heard.set()
        return len(data)

    async def wait_writable(self) -> None:
        """There is always room."""
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Nothing is open."""

    def end(self) -> None:
        """The server has ended."""
        self._over = True
        self._heard.set()

    # --- the host's end ---

    def give(self, data: bytes) -> None:
        """Say something to the server; ``b""`` ends its input."""
        self._in.append(data)
        self._said.set()

    async def take(self) -> bytes | None:
        """The next line of the server; None if it says nothing more."""
        patience = PATIENCE
        while not self._lines:
            if self._over or not patience:
                return None
            self._heard = trio.Event()
            with trio.move_on_after(QUIET) as scope:
                await self._heard.wait()
            patience -= scope.cancelled_caught
        return self._lines.popleft()


class _PlayedSetup(Setup):
    """The set-up that was recorded: its options and configuration, and the recorded model."""

    def __init__(self, parts: Parts, policy: Policy, workspace: Path, sessions: Path) -> None:
        told = parts.setup
        try:
            options = msgspec.convert(told.get("options", {}), ServeOptions, strict=False)
            self._config = replace(
                msgspec.convert(told.get("config", {}), Config, strict=False), system_prompt=INSTRUCTIONS
            )
        except msgspec.ValidationError as error:
            raise RecordingError(f"the recorded set-up cannot be read: {error}") from None
        super().__init__(replace(options, workspace=str(workspace)), policy)
        self.store = SessionStore(os.fspath(sessions))
        self._parts = parts
        self._workspace = workspace
        self._notice = str(told.get("notice", ""))

    def _place(self, given: str) -> Place:
        return Place(self._workspace, self._config, self._notice)

    def _provider(self, config: Config, asked: str) -> tuple[Provider | None, str]:
        maker = self._parts.makers.get(asked)
        if maker is None:
            raise ConfigError(f"No configured provider serves the model '{asked}'", "model")
        return PlayedModel(self._parts, maker), maker.serves


class _PlayedServers(McpServers):
    """MCP servers of a recording: they are there when they were, and nothing is started."""

    __slots__ = ("_chapters", "_connecting", "_news", "_owner", "_parts", "_tasks")

    def __init__(
        self, session: Any, toolbox: Any, nursery: trio.Nursery, parts: Parts,
        chapters: dict[str, list[tuple[int, Any]]],
    ) -> None:  # fmt: skip
        super().__init__(session, toolbox, nursery)
        self._owner = session
        self._parts = parts
        self._tasks = nursery
        self._chapters = chapters
        self._connecting: set[str] = set()
        self._news = trio.Event()

    def configured(self) -> None:
        """Play those that the configuration named."""
        for name, events in list(self._chapters.items()):
            if not events[0][1].dynamic:
                self._play(name)

    def configure(self, specs: list[McpServerSpec]) -> None:
        """Nothing: what the recorded configuration named is played."""

    def add(self, command: AddMcpServer) -> str | None:
        """Play one that the host asked for; what is wrong with the request, or None."""
        try:
            spec = from_command(command)
        except McpSpecError as error:
            joint = ": " if error.kind == "transport" else " failed: "
            return f"AddMcpServer '{command.name}'{joint}{error.message}"
        self._play(spec.name)
        return None

    async def settled(self) -> None:
        """Wait until no connection is under way, or long enough."""
        with trio.move_on_after(LONGEST_WAIT):
            while self._connecting:
                self._news = trio.Event()
                await self._news.wait()

    def _play(self, name: str) -> None:
        events = self._chapters.pop(name, ())
        if events:
            self._connecting.add(name)
        for at, event in events:
            self._tasks.start_soon(self._say, at, event)

    async def _say(self, at: int, event: Any) -> None:
        await self._parts.until(at)
        if isinstance(event, McpServerReady):
            self._owner.set_mcp()
        self._owner.append(event)
        self._connecting.discard(event.name)
        self._news.set()
