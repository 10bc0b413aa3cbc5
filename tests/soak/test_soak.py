"""Two thousand turns in which things break at random, and what must hold after them.

Real sockets, processes and files: a model service that cuts its streams and refuses, tools that crash, shells that
are stopped, an MCP server that dies, a host that stops turns at any moment and one that hardly reads. Sessions are
opened, resumed and forked from their journals. A seed makes it all; ``AGENTWIRE_SOAK_SEED`` chooses another, and
``AGENTWIRE_SOAK_TURNS`` another length.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import resource
import statistics
import sys
import uuid
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from faulty_service import FaultyService, faulty_service
from soakhosts import Follower, Host, Json
from soakplan import draw

from agentwire.agent.loop import Agent
from agentwire.commands import ArchiveSession, Done
from agentwire.events import (
    CallCancelled,
    CallFinished,
    CallReady,
    CallStarted,
    McpServerReady,
    TurnFinished,
    TurnStarted,
)
from agentwire.log.record import Record
from agentwire.log.waiting import next_records
from agentwire.mcp.spec import McpServerSpec
from agentwire.opening import open_session
from agentwire.policy import Policy
from agentwire.provider import ProviderSettings
from agentwire.server.runtime import make_runner
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.store import SessionStore
from agentwire.tools import builtin_tools
from agentwire.tools.contract import Tool, ToolContext, ToolResult
from agentwire_openai import provider as openai

SEED = int(os.environ.get("AGENTWIRE_SOAK_SEED", "20261130"))
TURNS = int(os.environ.get("AGENTWIRE_SOAK_TURNS", "2000"))
ROUND = 50
"""Turns of a session before it is closed."""

MARK = "SOAK_MARK"
TURN_SECONDS = 30
GROWTH_MIB = 8
"""How much more memory the last quarter of the rounds may take than the second."""


class Note(Tool):
    """Does something, or crashes."""

    def __init__(self, name: str, category: str, *, crashes: bool = False) -> None:
        self.name, self.category, self.crashes = name, category, crashes  # type: ignore[assignment]

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        context.output("working\n", "stdout")
        await trio.lowlevel.checkpoint()
        if self.crashes:
            raise ZeroDivisionError("a bug in a tool")
        return ToolResult(f"noted {arguments}")


def tools() -> list[Tool]:
    shell = next(tool for tool in builtin_tools() if tool.name == "ExecCommand")
    return [Note("note", "info"), Note("crash", "info", crashes=True), Note("asked", "edit"), shell]


def memory() -> float:
    """Resident memory in MiB; where the system does not tell, the most it ever was."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return pages * resource.getpagesize() / 2**20


def descriptors() -> dict[int, str]:
    """What this process has open, where the system tells what that is."""
    found = {}
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the one that the folder itself was read with
            os.fstat(int(name))
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}") if Path("/proc/self/fd").exists() else ""
    return found


def marked_processes(mark: str) -> list[str]:
    """Command lines of the processes, other than this one, that descend from the soak: their environment tells."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) != os.getpid() and mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # gone meanwhile, or somebody else's
    return found


class Soak:
    """The rounds, and what was seen in them."""

    def __init__(self, folder: Path, service: FaultyService, rng: random.Random) -> None:
        self.folder, self.service, self.rng = folder, service, rng
        self.store = SessionStore(folder / "sessions")
        self.outcomes: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.memory: list[float] = []
        self.turns = 0
        self.last = ""
        self._generation = 0

    def open(self, provider: Any) -> Session:
        """A new session, or the last one taken up or copied, twice in a row at most."""
        how: dict[str, Any] = {"session_id": f"soak-{self.turns}"}
        self._generation += 1
        if self.last and self._generation < 3:
            how = {"resume": self.last, "fork": self.rng.random() < 0.5}
        else:
            self._generation = 0
        settings = SessionSettings(
            workspace=str(self.folder), model="m", builtins=False, subagents=False, mode="default",
            allow=frozenset({"info", "exec", "mcp"}),
        )  # fmt: skip
        return open_session(self.store, settings, Policy(), provider, **how)

    async def round(self, turns: int) -> None:
        """A session from its opening to its end."""
        provider = openai.create(ProviderSettings(base_url=self.service.url, api_key="sk-soak"))
        session = self.open(provider)
        self.last, began = session.id, session.log.seq
        async with trio.open_nursery() as nursery:
            server = Server(nursery)
            runner = make_runner(session, Agent(tools=tools(), system_prompt="Be brief."), nursery)
            server.add(runner)
            cursor = session.log.cursor()
            runner.mcp.configure(
                [McpServerSpec(name="flaky", command=sys.executable,
                               args=["-I", "-S", str(Path(__file__).with_name("flaky_mcp.py"))])]
            )  # fmt: skip
            with trio.fail_after(TURN_SECONDS):
                while not any(isinstance(record.event, McpServerReady) for record in await next_records(cursor)):
                    pass
            cursor.close()
            host = Host(nursery, server, session, None)
            slow = Follower(nursery, server, session, self.rng)
            for _ in range(turns):
                with trio.fail_after(TURN_SECONDS):
                    await host.play(draw(self.turns, self.rng))
                self.turns += 1
            with trio.fail_after(TURN_SECONDS):
                await server.idle()
                slow.caught_up = True
                await slow.until_end(f"m{self.turns - 1}")
            archived: list[Any] = []
            server.dispatch(ArchiveSession(session.id), session.id, archived.append)
            assert isinstance(archived[0].result, Done)
            with trio.fail_after(TURN_SECONDS):
                await host.close()
                await slow.close()
            check_hosts(host.events, slow.events)
            nursery.cancel_scope.cancel()
        await provider.aclose()
        self.check_journal(session.id, began, turns)
        self.memory.append(memory())

    def check_journal(self, session: str, began: int, turns: int) -> None:
        """What must hold of the file on disk."""
        records = list(self.store.read(session))
        check_log(records)
        mine = [record.event for record in records if record.seq > began]
        ends = [event for event in mine if isinstance(event, TurnFinished)]
        assert len(ends) == turns
        self.outcomes.update(end.outcome for end in ends)
        self.events.update(type(event).__name__ for event in mine)
        self.events.update(f"error of {e.name}" for e in mine if isinstance(e, CallFinished) and e.status == "error")


def check_log(records: list[Record]) -> None:
    """One end per turn, nothing of a turn after it, every call that was shown closed before it."""
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    running, shown = 0, set()
    for record in records:
        event = record.event
        if isinstance(event, TurnStarted):
            assert running == 0
            running = record.turn
        elif record.turn:
            assert record.turn == running, f"{event} is outside its turn"
        if isinstance(event, CallStarted | CallReady):
            shown.add(event.call_id)
        elif isinstance(event, CallFinished | CallCancelled):
            shown.remove(event.call_id)
        elif isinstance(event, TurnFinished):
            assert shown == set()
            running = 0
    assert running == 0


def joined(events: list[Json]) -> list[Json]:
    """With neighbouring pieces of text joined: a slow reader may get them so."""
    found: list[Json] = []
    for event in events:
        if event["type"] == "text_delta" and found and found[-1]["type"] == "text_delta":
            found[-1] = {**found[-1], "text": found[-1]["text"] + event["text"]}
        else:
            found.append(event)
    return found


def check_hosts(quick: list[Json], slow: list[Json]) -> None:
    """A slow reader gets all that a quick one gets. Replies to commands are for those who sent them."""
    ours = ("ready", "stream_start", "text_delta", "tool_request", "tool_running", "tool_result", "tool_cancelled",
            "stream_end")  # fmt: skip
    first, second = ([event for event in events if event["type"] in ours] for events in (quick, slow))
    assert joined(second) == joined(first)


async def soak(folder: Path) -> Soak:
    rng = random.Random(SEED)
    async with faulty_service() as service:
        found = Soak(folder, service, rng)
        await found.round(ROUND)  # what is made once in a process is made now
        tasks, files = trio.lowlevel.current_statistics().tasks_living, descriptors()
        while found.turns < TURNS:
            await found.round(min(ROUND, TURNS - found.turns))
        with trio.fail_after(TURN_SECONDS):
            while trio.lowlevel.current_statistics().tasks_living > tasks:  # noqa: ASYNC110 - the service's own end
                await trio.sleep(0.01)
        left = descriptors()
        assert len(left) <= len(files), f"before {files}, after {left}"
        assert service.faults == []
    return found


@pytest.mark.slow
def test_two_thousand_turns_in_which_things_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    # What is logged of tools that crash holds all that they had in hand, and pytest keeps it.
    monkeypatch.setattr(logging.getLogger("agentwire"), "disabled", True)
    for name in ("calls", "turn", "mcp", "connection"):
        monkeypatch.setattr(logging.getLogger(f"agentwire.{name}"), "disabled", True)
    found = trio.run(soak, tmp_path)
    print(f"\nseed {SEED}: {dict(found.outcomes)} in {found.turns} turns, {found.service.requests} requests")
    print(dict(found.events))
    print("MiB after each round:", [round(size, 1) for size in found.memory])
    assert marked_processes(mark) == []
    assert sum(found.outcomes.values()) == TURNS
    # It was a soak: everything that was to happen did, many times.
    assert min(found.outcomes[outcome] for outcome in ("completed", "cancelled", "failed")) > TURNS / 100
    for name in ("crash", "ExecCommand", "vanish", "no.such tool"):
        assert found.events[f"error of {name}"] > TURNS / 500, name
    quarter = len(found.memory) // 4
    before, after = found.memory[quarter : 2 * quarter], found.memory[-quarter:]
    assert statistics.median(after) - statistics.median(before) < GROWTH_MIB, found.memory
