"""A recording done again by our own server, and compared: no model is asked and nothing is run."""

from __future__ import annotations

import tempfile
from collections import deque
from math import inf
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
import trio.testing
from msgspec import Struct

from agentwire import registry
from agentwire.agent.loop import Agent
from agentwire.agent.names import agent_named, can_be_named
from agentwire.agent.running import as_run
from agentwire.codec.framing import HOST_LIMIT, Framer
from agentwire.commands import Refusal
from agentwire.events import McpServerFailed, McpServerReady
from agentwire.provider.contract import ConfigError
from agentwire.recording import Recording, RecordingError
from agentwire.replay.cast import Parts
from agentwire.replay.comparing import Comparison, Difference
from agentwire.replay.ids import Ids
from agentwire.replay.places import Placed, placed
from agentwire.replay.rereading import Reply, Reread
from agentwire.replay.stage import PlayedServers, PlayedSetup
from agentwire.server.connection import Connection
from agentwire.server.outbox import Outbox
from agentwire.server.runner import SessionRunner
from agentwire.server.server import Server
from agentwire.server.toolboxes import toolbox_for
from agentwire.setup import Boot
from agentwire.store import StoreError
from agentwire.transcode import Logged, LogReader

QUIET: Final = 3600.0
"""Seconds, of a clock that jumps when everybody waits: who says nothing for so long says nothing any more."""

PATIENCE: Final = 20
"""How often that is believed only after asking again: a thread may be at work, for which the clock does not wait."""

INSTANT: Final = 50_000
"""Microseconds within which lines about different things may change places."""

MOST_EARLY: Final = 16

JUMP_AFTER: Final = 0.03
"""Real seconds of nobody doing anything after which the clock jumps for an agent that may wait for other programs."""


NOT_SERVED: Final = "{path} does not say what the agent was given; only `agentwire serve --record` keeps that"


def verify(recording: Recording, agent: str = "") -> Difference | None:
    """Have our own server do a recording of ``agentwire serve --record`` again; the first difference.

    The model's replies and the tools' results are the recorded ones; the host's lines come when they came. An agent
    that is not the built-in one is imported as ``agent`` says (``MODULE:NAME``), else by the name it was recorded with.
    Raises :class:`agentwire.recording.RecordingError` for a recording that does not hold what that takes.
    """
    takes: list[_Take] = []
    for place in placed(recording):
        if not takes or takes[-1].part != place.part:
            takes.append(_Take(place.part, place.codec))
        takes[-1].learn(place)
    if not takes:
        raise RecordingError(NOT_SERVED.format(path=recording.path))
    differences = (_done_again(recording, take, agent) for take in takes)
    return next((found for found in differences if found is not None), None)


def _done_again(recording: Recording, take: _Take, agent: str) -> Difference | None:
    setup = take.parts.setup
    if not setup:
        raise RecordingError(NOT_SERVED.format(path=recording.path))
    if setup.get("options", {}).get("resume") and "sessions" not in setup:
        raise RecordingError(f"{recording.path} begins with a stored session, which is not in it")
    take.parts.can_read()
    own = _agent(recording, setup.get("agent", ""), agent)
    clock = trio.testing.MockClock(autojump_threshold=JUMP_AFTER if own is not None else inf)
    with tempfile.TemporaryDirectory(prefix="agentwire-verify-") as directory:
        again = _Again(recording.path, take, Path(directory).resolve(), own)
        return trio.run(again.run, clock, clock=clock)


def _agent(recording: Recording, recorded: str, given: str) -> Any:
    """The agent that a person named; None: the built-in one. What a file names is not imported for that alone."""
    if not given:
        if not recorded:
            return None
        name = recorded if can_be_named(recorded) else "MODULE:NAME"
        raise RecordingError(
            f"{recording.path} is of the agent {recorded}, whose own code would run: name it, --agent {name}"
        )
    try:
        return agent_named(given)
    except ConfigError as error:
        raise RecordingError(f"{recording.path} is of the agent {recorded or 'built in'}: {error}") from None


class _Line(Struct):
    host: bool
    at: int
    line: int
    data: bytes


class _Early(Struct):
    at: int
    """Time of the recorded line that should have been first."""
    data: bytes


class _Take:
    """One recording: a server from its start to its end."""

    def __init__(self, part: int, codec: str) -> None:
        self.part = part
        """Which recording of its file, from 0."""
        try:
            self.codec = registry.load_codec(codec)
        except registry.UnknownName as error:
            raise RecordingError(str(error)) from None
        self.parts = Parts()
        self.wire: list[_Line] = []
        self.servers: dict[str, list[tuple[int, Any]]] = {}
        """What became of MCP servers, and when."""
        self._reader = LogReader(self.codec)

    def learn(self, place: Placed) -> None:
        """Take an entry. Raises :class:`agentwire.recording.RecordingError` for one that makes no sense."""
        entry = place.entry
        if entry.who not in ("host", "agent"):
            return self.parts.learn(place)
        self.wire.append(_Line(entry.who == "host", entry.at, place.line, entry.data))
        for item in self._reader.feed(entry):
            if isinstance(item, Logged) and isinstance(item.record.event, McpServerReady | McpServerFailed):
                self.servers.setdefault(item.record.event.name, []).append((entry.at, item.record.event))
        return None


class _Again:
    """One run of the server over a recording."""

    def __init__(self, path: str, take: _Take, directory: Path, agent: Any) -> None:
        parts = take.parts
        self._path = path
        self._codec = take.codec
        self._parts = parts
        self._wire = take.wire
        self._servers = take.servers
        self._pipe = _Pipe()
        self._workspace = directory / "workspace"
        self._workspace.mkdir()
        self._agent = Agent() if agent is None else agent
        self._jumps = agent is None
        self._ids = Ids()
        self._setup = PlayedSetup(parts, take.codec.policy, self._workspace, directory / "sessions", self._ids, agent)
        try:
            self._side = take.codec.agent(**self._setup.options.codec_options)
        except TypeError as error:
            raise RecordingError(f"the recorded set-up cannot be read: {error}") from None
        told = parts.setup
        self._places = [
            (_inside_json(then), _inside_json(str(here)))
            for then, here in (
                (told.get("workspace", ""), self._workspace), (told.get("sessions", ""), directory / "sessions"),
            )
            if len(then) > 1
        ]  # fmt: skip
        for session, journal in parts.journals.items():
            self._setup.keep(session, self._moved(bytes(journal)))
        self._read_otherwise: Difference | None = None
        parts.differs = self._differs
        parts.same_session = self._ids.same
        self._comparison = Comparison(self._ids)
        self._written = 0
        self._begun = b""
        self._early: list[_Early] = []
        """What the server said before its time."""
        self._late: Difference | None = None
        """What is different if the first of those has no time in the recording."""

    async def run(self, clock: trio.testing.MockClock) -> Difference | None:
        self._parts.zero = trio.current_time()
        async with trio.open_nursery() as nursery:
            if self._jumps:
                nursery.start_soon(_jump, clock)
            nursery.start_soon(self._serve)
            found = await self._drive()
            nursery.cancel_scope.cancel()
        return found

    # --- the server ---

    async def _serve(self) -> None:
        codec, setup, side = self._codec, self._setup, self._side
        try:
            boot = setup.at_start() if codec.sessions == "one" else None
        except (ConfigError, StoreError) as error:
            out = bytearray()
            side.fatal(Refusal("config", str(error)), out)
            self._pipe.send_now(out)
            return self._pipe.end()
        outbox = Outbox(side, feeds=codec.feeds)
        if boot is not None:
            first = boot.session.opened
            outbox.follow(boot.session, after=first.seq - 1 if first else None)
        async with trio.open_nursery() as nursery:

            def run(opened: Boot) -> SessionRunner:
                session = opened.session
                toolbox = toolbox_for(self._agent, session)
                toolbox.watch = self._parts.tool
                mcp = PlayedServers(session, toolbox, nursery, self._parts, self._servers)
                mcp.configured()
                return SessionRunner(session, as_run(self._agent), toolbox, nursery, mcp, setup.provider_for)

            server = Server(nursery, run, setup)
            if boot is not None:
                server.add(run(boot))
            connection = Connection(
                server, side, self._pipe, max_line=codec.max_line, outbox=outbox, begin=codec.begin,
                end=codec.end, session=boot.session.id if boot is not None else "", single=codec.sessions == "one",
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
            found = await self._compare(due)
            if found is not None:
                return found
        self._pipe.give(b"")
        if self._early:
            return self._read_otherwise or self._late
        now = await self._next()
        if now is None or self._read_otherwise is not None:
            return self._read_otherwise
        return Difference(self._path, last, self._written, None, now)

    async def _compare(self, due: _Line) -> Difference | None:
        """Hold a recorded line against what the server says next: a line, or several that it is the sum of.

        Of things that happen in the same instant nobody can tell which will be first: a line about another call or
        chat may come before its time, by little.
        """
        recorded = due.data.rstrip(b"\r\n")
        then, first = recorded, b""
        for early in self._early:
            if due.at - early.at > INSTANT:
                return self._late
            if not self._comparison.different(then, early.data):
                self._early.remove(early)
                return None
        while then:
            now = await self._next()
            if self._read_otherwise is not None:
                return self._read_otherwise
            first = first or now or b""
            if now is not None and not self._comparison.different(then, now):
                return None
            rest = None if now is None else self._comparison.rest(then, now)
            if rest is None and now is not None and then is recorded and self._comparison.apart(then, now):
                if not self._early:
                    self._late = Difference(self._path, due.line, self._written, recorded, now)
                if len(self._early) == MOST_EARLY:
                    return self._late
                self._early.append(_Early(due.at, now))
                first = b""
                continue
            if rest is None:
                if self._early:
                    return self._late
                return Difference(self._path, due.line, self._written or 1, recorded, first or None)
            then, self._begun = rest
        return None

    async def _next(self) -> bytes | None:
        """The next line of the server, or what is left of one that more was said with than was recorded."""
        if self._begun:
            now, self._begun = self._begun, b""
            return now
        found = await self._pipe.take()
        self._written += found is not None
        return found and self._back(found)

    def _differs(self, reply: Reply, found: Reread) -> None:
        """A reply is read otherwise than it was: that comes before whatever comes of it."""
        then, now = (None if value is None else msgspec.json.encode(value) for value in (found.then, found.now))
        self._read_otherwise = self._read_otherwise or Difference(self._path, reply.line, 0, then, now)
        self._pipe.end()

    def _moved(self, text: bytes) -> bytes:
        """What the host said, or a journal holds, with our places in the place of the recorded ones."""
        for then, here in self._places:
            text = text.replace(then, here)
        return text

    def _back(self, line: bytes) -> bytes:
        """A line of the server with the recorded places in the place of ours."""
        for then, here in self._places:
            line = line.replace(here, then)
        return line


async def _jump(clock: trio.testing.MockClock) -> None:
    """Let time pass at once while everybody waits for it, but for threads: what they do takes its time."""
    while True:
        await trio.testing.wait_all_tasks_blocked()
        if trio.testing.active_thread_count():
            await trio.testing.wait_all_threads_completed()
        else:
            clock.jump(min(max(trio.lowlevel.current_statistics().seconds_to_next_deadline, 0), QUIET))


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
