"""Agents of the wires that have many sessions or one run, each driven by its own host side over real pipes.

What a case feeds and what a line answers is looked at as it stands on the wire (``events``); what a turn comes to is
looked at as the host side understands it (``heard``), so that one test can be about every wire.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio
from support.agent_process import PATIENCE, AgentProcess
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import matches
from support.replies import JsonObject
from support.wire_rules import compact

from agentwire import load_codec
from agentwire.codec import Answered
from agentwire.commands import Command, Done, OpenSession, Prompt, Refusal, SessionState, Stop
from agentwire.events import AnyEvent, CallFinished, Event, SessionOpened, TextDelta, TurnFinished, TurnStarted

Kind = TypeVar("Kind", bound=Event)


class Peer(AgentProcess):
    """One agent. ``session`` is what a prompt is for, where the wire names one."""

    wire = ""
    open_turn: str | None = None

    def __init__(self, process: trio.Process) -> None:
        super().__init__(process)
        self.codec = load_codec(self.wire)
        self.host = self.codec.host()
        self.rules = self  # type: ignore[assignment]  # lines are read here
        self.heard: list[AnyEvent] = []
        self.results: dict[int, Done | Refusal] = {}
        self.session = "s"
        self._passed = 0
        self._fences = 0

    # --- lines ---

    def read(self, line: bytes) -> JsonObject:
        """Check one line, given without its line feed: strict UTF-8, compact, an object."""
        event = json.loads(line.decode("utf-8"))
        assert isinstance(event, dict), line
        assert compact(event) == line
        for said in self.host.receive(line):
            if isinstance(said, Answered):
                self.results[said.command] = said.result
            else:
                self.heard.append(said.event)  # type: ignore[arg-type]  # every event is of the union
        return event

    def message(self, text: str) -> JsonObject:
        """A user's input as a line."""
        raise NotImplementedError

    def question(self, name: str) -> JsonObject:
        """A line that is always answered, whatever goes on."""
        raise NotImplementedError

    def is_answer(self, event: JsonObject, name: str) -> bool:
        """Whether a line answers :meth:`question`."""
        raise NotImplementedError

    def decision(self, question: str, decision: str, name: str) -> JsonObject:
        """A line that answers a question of the agent's; ``name`` is its id, where lines have one."""
        raise NotImplementedError

    def is_stale(self, event: JsonObject, name: str) -> bool:
        """Whether a line says that the question of :meth:`decision` is not, or no longer, asked."""
        raise NotImplementedError

    async def answers(self, *lines: str | bytes | JsonObject) -> list[JsonObject]:
        """Write lines; what was said from then up to the answer to a question that follows them."""
        self.rest()
        for line in lines:
            await self.send_bytes(_line(line))
        self._fences += 1
        name = f"fence-{self._fences}"
        await self.send(self.question(name))
        said: list[JsonObject] = []
        while not self.is_answer(event := await self.next_event(), name):
            said.append(event)
        return said

    # --- commands and what is heard ---

    async def begin(self) -> None:
        """Come to where a prompt can be sent."""

    async def do(self, *commands: Command) -> list[int]:
        """Send commands in one write; their numbers."""
        out = bytearray()
        numbers = [self.host.send(command, out) for command in commands]
        await self.send_bytes(bytes(out))
        for number in numbers:
            assert isinstance(number, int), number
        return numbers  # type: ignore[return-value]  # just looked at

    async def result(self, number: int) -> Done | Refusal:
        """What became of a command."""
        with trio.move_on_after(PATIENCE):
            while number not in self.results and not self._ended:
                await self._news.park()
        assert number in self.results, self.story()
        return self.results[number]

    async def ask(self, command: Command) -> Done | Refusal:
        """Send a command and wait for what becomes of it."""
        (number,) = await self.do(command)
        return await self.result(number)

    async def prompt(self, text: str = "go") -> None:
        """Send a user input."""
        await self.do(Prompt(text, session=self.session))

    async def stop(self, *, together_with: bytes = b"") -> None:
        """Stop what runs; ``together_with`` are lines of the same write, after it."""
        out = bytearray()
        assert isinstance(self.host.send(Stop(self.session), out), int)
        await self.send_bytes(bytes(out) + together_with)

    async def hear(self, kind: type[Kind], within: float = PATIENCE, **fields: Any) -> Kind:
        """The next thing of that kind; what came before it is passed over."""
        with trio.move_on_after(within):
            while True:
                while self._passed < len(self.heard):
                    event = self.heard[self._passed]
                    self._passed += 1
                    if isinstance(event, kind) and all(getattr(event, name) == fields[name] for name in fields):
                        return event
                if self._ended:
                    break
                await self._news.park()
        raise AssertionError(f"no {kind.__name__} {fields} within {within} s\n{self.story()}")

    async def turn(self, text: str = "go") -> list[AnyEvent]:
        """Send a user input; everything heard up to the end of its turn."""
        before = self._passed
        await self.prompt(text)
        await self.hear(TurnFinished)
        return self.heard[before : self._passed]

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Everything of that kind."""
        return [event for event in self.heard if isinstance(event, kind)]


class Jan(Peer):
    """The RPC."""

    wire = "jan"

    async def begin(self) -> None:
        """The handshake, and a session."""
        await self.open()

    async def open(self) -> str:
        """Open a session and make it the one that prompts are for."""
        done = await self.ask(OpenSession(workspace=".", subagents=False))
        assert isinstance(done, Done), done
        assert isinstance(done.value, SessionState)
        self.session = done.value.id
        self.rest()
        return self.session

    def message(self, text: str) -> JsonObject:
        return _rpc("message", "turn/start", {"sessionId": self.session, "input": text})

    def question(self, name: str) -> JsonObject:
        return _rpc(name, "session/list", {})

    def is_answer(self, event: JsonObject, name: str) -> bool:
        return event.get("id") == name

    def decision(self, question: str, decision: str, name: str) -> JsonObject:
        return _rpc(name, "permission/respond", {"requestId": question, "decision": decision})

    def is_stale(self, event: JsonObject, name: str) -> bool:
        return matches(event, {"id": name, "error.code": -32602, "error.data.kind": "not_pending"})


class JanStream(Peer):
    """One run."""

    wire = "jan-stream"

    async def begin(self) -> None:
        """Read its first line."""
        self.session = (await self.hear(SessionOpened)).id
        self.rest()

    def message(self, text: str) -> JsonObject:
        return {"type": "user", "text": text}

    def question(self, name: str) -> JsonObject:
        return {"type": name}

    def is_answer(self, event: JsonObject, name: str) -> bool:
        return event["type"] == "input_error" and event["message"].startswith(f"unknown type '{name}'")

    def decision(self, question: str, decision: str, name: str) -> JsonObject:
        return {"type": "permission", "request_id": question, "decision": decision}

    def is_stale(self, event: JsonObject, name: str) -> bool:
        message = event.get("message", "")
        return event["type"] == "input_error" and message.startswith("no permission request '")


class Levpro(Peer):
    """Chats."""

    wire = "levpro"

    def message(self, text: str) -> JsonObject:
        return {"id": "message", "method": "chat", "params": {"input": text, "session_id": self.session}}

    def question(self, name: str) -> JsonObject:
        return {"id": name, "method": "ping"}

    def is_answer(self, event: JsonObject, name: str) -> bool:
        return event["id"] == name


PEERS: dict[str, type[Peer]] = {peer.wire: peer for peer in (Jan, JanStream, Levpro)}

DROP_IN = "agentwire_jan.command"
RUN = ("cli", "agent", "run", "--output-format", "stream-json", "--input-format", "stream-json")


class Starter(Launcher):
    """Starts agents of every wire; at the end each must leave in good order."""

    def options(self, wire: str, provider: str = "openai") -> tuple[str, ...]:
        """The usual command line."""
        return tuple(wire if word == "aionrs" else word for word in self.serve(provider))

    async def start(
        self, wire: str, *more: str, provider: str = "openai", expected: tuple[int, ...] = (0,)
    ) -> Peer:  # fmt: skip
        """Start ``agentwire serve --codec WIRE`` on the scripted model service."""
        return await self.run(wire, *self.options(wire, provider), *more, expected=expected)

    async def run(
        self,
        wire: str,
        *arguments: str,
        expected: tuple[int, ...] = (0,),
        environ: Mapping[str, str] | None = None,
        module: str = "agentwire",
    ) -> Peer:
        """Start any program that speaks ``wire`` and come to where a prompt can be sent."""
        peer = await self.launch(wire, *arguments, expected=expected, environ=environ, module=module)
        await peer.begin()
        return peer

    async def launch(
        self,
        wire: str,
        *arguments: str,
        expected: tuple[int, ...] = (0,),
        environ: Mapping[str, str] | None = None,
        module: str = "agentwire",
    ) -> Peer:
        """Start it and no more."""
        peer = await PEERS[wire].spawn(
            self._nursery, arguments, cwd=self.workspace, environ={**self.environ, **(environ or {})}, module=module
        )
        assert isinstance(peer, Peer)
        self.agents.append(peer)
        self._expected[peer] = frozenset(expected)
        return peer

    def configure_jan(self) -> None:
        """Tell ``agentwire-jan`` of the scripted model service."""
        from agentwire_jan.configuration import set_service

        path = self.home / ".jan" / "config.toml"
        set_service(path, "stub", api_key="test-key", base_url=self.url, models=["stub-model"], api_type="")

    async def drop_in(self, *more: str, expected: tuple[int, ...] = (0,)) -> Peer:
        """Start ``agentwire-jan cli agent run`` with both streams."""
        self.configure_jan()
        return await self.run("jan-stream", *RUN, *more, expected=expected, module=DROP_IN)

    def journal(self, session: str) -> Path:
        """The file that has a session's content."""
        (path,) = (path for path in (self.data / "sessions").glob(f"{session}*.jsonl") if path.stat().st_size)
        return path


@pytest.fixture
async def start(nursery: trio.Nursery, tmp_path: Path, model: ModelService) -> AsyncIterator[Starter]:
    """Starts agents of every wire."""
    starter = Starter(nursery, tmp_path, model)
    try:
        yield starter
        for agent in starter.agents:
            agent.resume_reading()
            await starter.close(agent)
    finally:
        starter.kill_all()


class Talk:
    """One conversation, in as many processes as it takes: where a process is a run, the next one resumes it."""

    def __init__(
        self, start: Starter, wire: str, *options: str, provider: str = "openai", session: str = ""
    ) -> None:  # fmt: skip
        self._start, self._wire, self._options, self._provider = start, wire, options, provider
        self._peer: Peer | None = None
        self._session = session
        self._runs = wire == "jan-stream"

    async def peer(self) -> Peer:
        """Whoever takes the next prompt."""
        if self._peer is None:
            more = ("--codec-option", f"resume={self._session}") if self._session and self._runs else ()
            self._peer = await self._start.start(self._wire, *self._options, *more, provider=self._provider)
            if self._session and not self._runs:
                self._peer.session = self._session
            self._session = self._peer.session
        return self._peer

    async def turn(self, text: str = "go") -> list[AnyEvent]:
        """A user input, and everything heard of its turn."""
        peer = await self.peer()
        await peer.do(Prompt(text, session=peer.session))
        return await self.ended()

    async def turn_of(self, line: bytes) -> list[AnyEvent]:
        """A user input as it stands on the wire, and everything heard of its turn."""
        await (await self.peer()).send_bytes(line + b"\n")
        return await self.ended()

    async def ended(self) -> list[AnyEvent]:
        """Everything heard up to the end of the turn that runs."""
        peer = await self.peer()
        await peer.hear(TurnFinished)
        await self.over()
        return last_turn(peer.heard)

    async def over(self) -> None:
        """The turn has ended, and so does a process that is a run."""
        if self._runs and self._peer is not None:
            assert await self._peer.wait_exit() == 0, self._peer.story()
            self._peer = None


def last_turn(events: list[AnyEvent]) -> list[AnyEvent]:
    """What belongs to the last turn among events."""
    begins = max(n for n, event in enumerate(events) if isinstance(event, TurnStarted))
    return events[begins:]


def said(events: list[AnyEvent]) -> str:
    """The text of the last turn among events."""
    text: list[str] = []
    for event in events:
        if isinstance(event, TurnStarted):
            text.clear()
        elif isinstance(event, TextDelta):
            text.append(event.text)
    return "".join(text)


def outputs(events: list[AnyEvent]) -> list[str]:
    """What the calls among events gave back."""
    return [event.output for event in events if isinstance(event, CallFinished)]


def tool(wire: str, name: str) -> str:
    """What a built-in tool is called on a wire."""
    return load_codec(wire).policy.tool_names.get(name, name)


def _rpc(number: str, method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def _line(line: str | bytes | JsonObject) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode() + b"\n"
