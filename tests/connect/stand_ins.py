"""Starts the stand-ins with a play, and reads what they wrote down."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import agentwire
from agentwire import Peer
from agentwire.events import HostTool, TurnFinished
from agentwire.host.connect import AgentDied, RemoteSession

HERE = Path(__file__).parent

HELLO = [{"say": "Hello."}]


def write(call_id: str = "w1", name: str = "Write", **more: Any) -> dict[str, Any]:
    """A call that a model of aionrs may make."""
    return {"id": call_id, "name": name, "args": {"file_path": "/a"}, **more}


def shell(call_id: str = "x1", **more: Any) -> dict[str, Any]:
    """One that runs a program."""
    return {"id": call_id, "name": "ExecCommand", "args": {"cmd": "make"}, **more}


ARM = HostTool("arm", "Moves.", {"type": "object", "properties": {"to": {"type": "string"}}})
EYE = HostTool("eye", "Looks.", {"type": "object"}, capability="read")
PNG = "iVBORw0KGgo="


def call(name: str = "host__arm", call_id: str = "c1", **more: Any) -> dict[str, Any]:
    """A call that a model of Jan may make."""
    return {"id": call_id, "name": name, "args": {"to": "bin"}, **more}


class StandIn:
    """One of the programs beside this file, in a workspace of its own."""

    def __init__(self, program: str, codec: str, workspace: Path) -> None:
        self.codec = codec
        self.workspace = workspace
        self._program = str(HERE / program)
        self._play = workspace / "play.json"
        self.written: list[dict[str, Any]] = []
        """What its host wrote, as JSON, in order."""
        self.said: list[dict[str, Any]] = []
        """What it said."""

    def play(self, *turns: Any, **more: Any) -> None:
        """What its model says, turn by turn, and how it behaves."""
        self._play.write_text(json.dumps({"turns": turns, **more}))

    def argv(self, *flags: str) -> list[str]:
        """The command that starts it."""
        own = ("--profile", str(self._play)) if self.codec == "aionrs" else ("cli", "agent", "rpc")
        return [sys.executable, self._program, *own, *flags]

    @asynccontextmanager
    async def connect(self, *flags: str, within: float = 30, **options: Any) -> AsyncIterator[Peer]:
        """Be its host, for so many seconds at most."""
        options.setdefault("cwd", self.workspace)
        with trio.fail_after(within):
            async with agentwire.connect(self.argv(*flags), codec=self.codec, tap=self._tap, **options) as peer:
                yield peer

    def _tap(self, way: str, line: bytes) -> None:
        (self.written if way == "in" else self.said).append(json.loads(line))

    def diary(self, what: str) -> list[Any]:
        """What it wrote down of one kind, in order."""
        file = self._play.with_suffix(".diary")
        notes = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [note[what] for note in notes if what in note]

    async def noted(self, what: str, count: int = 1) -> None:
        """Wait until it has written down something of a kind; clocks that stand still do not matter."""

        def wait() -> None:
            deadline = time.monotonic() + 30
            while len(self.diary(what)) < count:
                assert time.monotonic() < deadline, f"it never wrote down {what}"
                time.sleep(0.005)

        await trio.to_thread.run_sync(wait)

    def kinds(self) -> list[str]:
        """The commands that it was sent, by their types or methods."""
        return [line.get("type") or line["method"] for line in self.written]


def of(kind: type[Any], events: list[Any]) -> list[Any]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def end(events: list[Any]) -> TurnFinished:
    """The one end of a turn, which is its last event."""
    (finished,) = of(TurnFinished, events)
    assert events[-1] is finished
    return finished


async def turn(session: Peer | RemoteSession, text: str = "go") -> list[Any]:
    """A whole turn."""
    return [event async for event in session.prompt(text)]


async def stopped_after(peer: Peer, kind: type[Any]) -> list[Any]:
    """A turn that is stopped once something of a kind was heard."""
    events = []
    async for event in peer.prompt("go"):
        events.append(event)
        if isinstance(event, kind):
            await peer.stop()
    return events


async def killed_at(peer: Peer, kind: type[Any], *, before: Callable[[], None] = lambda: None) -> list[Any]:
    """A turn in which the process is killed, as far as it was heard. ``before`` is called when it is deaf already."""
    events = []

    async def follow() -> None:
        async for event in peer.prompt("go"):
            events.append(event)
            if isinstance(event, kind):
                os.kill(peer.process.process.pid, signal.SIGSTOP)
                before()
                await trio.testing.wait_all_tasks_blocked(0.01)
                peer.process.process.kill()

    with pytest.raises(AgentDied, match="status -9"):
        await follow()
    return events


def offering(peer: Peer, *tools: tuple[HostTool, Any]) -> Any:
    """A session with nothing but tools of the host, which are not asked about."""
    return peer.open(tools=tools, host_permissions=True, builtins=False)


def sent(jan: StandIn, method: str) -> list[Any]:
    """The parameters of what was asked, in order."""
    return [line["params"] for line in jan.written if line["method"] == method]
