"""What drives an agent, whatever its wire: drivers as the contract has them, and lines that are written whole."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import structs
from stand_ins import HELLO, StandIn, call, end, write

import agentwire
from agentwire import load_codec
from agentwire.codec.contract import Driver, HostSide
from agentwire.commands import Command, Ping, Refusal, Stop
from agentwire.events import ApprovalRequested
from agentwire.host.driven import Driven, environment
from agentwire.host.plain import PlainDriver, driver_of
from agentwire.host.process import AgentDied, AgentProcess, start_process
from agentwire.registry import CODECS, names


@pytest.mark.parametrize("name", names(CODECS))
def test_every_wire_has_a_driver(name: str) -> None:
    codec = load_codec(name)
    driver = driver_of(codec)
    wanted = {word for part in (Driver, HostSide) for word in vars(part) if not word.startswith("_")}
    assert wanted <= set(dir(driver))
    assert driver is not driver_of(codec)
    assert driver.begin(["agent", "--flag"]) == ["agent", "--flag"]
    assert driver.ready() in (True, False)
    assert not driver.resumable()
    assert 0 < codec.ready_within <= 60


def test_without_one_of_its_own_a_wire_is_driven_as_it_is() -> None:
    driver = driver_of(load_codec("pagent"))
    assert isinstance(driver, PlainDriver)
    out = bytearray()
    assert driver.due(out) == []
    assert out == b""
    assert driver.ready() is (not load_codec("pagent").greets)
    assert not isinstance(driver.ready(), Refusal)


def test_an_environment_that_is_given_is_the_agent_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "stray")
    aionrs, jan, pagent = (load_codec(name) for name in ("aionrs", "jan", "pagent"))
    assert environment(aionrs, {"MODEL": "m"}) == {"MODEL": "m"}
    assert environment(jan, {"A": "b"}) == {"A": "b", "JAN_CLI_NO_UPDATE_CHECK": "1"}
    assert environment(pagent, None) is None  # ours, as it is
    assert "MODEL" not in (environment(aionrs, None) or {})
    assert (environment(jan, None) or {})["MODEL"] == "stray"


DEAF = """
import pathlib, sys, time
print("here", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.005)
print(len(sys.stdin.buffer.readline()), flush=True)
"""
LONG = b"x" * 1_000_000 + b"\n"


class Deaf:
    """An agent that does not read before it is told to, then tells how long its first line is."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.heard: list[Any] = []
        self.speaks = trio.Event()
        self.process: AgentProcess

    async def start(self, nursery: trio.Nursery) -> None:
        self.process = AgentProcess(await start_process([sys.executable, "-c", DEAF], cwd=self.workspace), self._hear)
        self.process.start(nursery)
        await self.speaks.wait()

    def _hear(self, line: Any) -> None:
        self.heard.append(line)
        self.speaks.set()

    async def write_meanwhile(self, clock: trio.testing.MockClock, seconds: float) -> None:
        """Write more than the pipe holds, and let so many seconds pass."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.process.write, LONG)
            await trio.testing.wait_all_tasks_blocked(0.05)
            clock.jump(seconds)
            (self.workspace / "go").touch()


async def test_an_agent_may_leave_a_line_unread_for_a_while(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    """A real aionrs does for half a minute while it connects a server."""
    agent = Deaf(tmp_path)
    async with trio.open_nursery() as nursery:
        await agent.start(nursery)
        await agent.write_meanwhile(mock_clock, 50)
        await agent.process.gone.wait()
        nursery.cancel_scope.cancel()
    assert agent.heard == [b"here", str(len(LONG)).encode(), None]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_one_that_reads_nothing_at_all_is_given_up(
    cancelled: bool, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """After a minute, and soon if whoever writes has gone away: half a line would spoil what follows."""
    agent = Deaf(tmp_path)
    async with trio.open_nursery() as nursery:
        await agent.start(nursery)
        writing = trio.CancelScope()

        async def write() -> None:
            with writing, pytest.raises(AgentDied, match="does not read"):
                await agent.process.write(LONG)

        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked(0.05)
        if cancelled:
            writing.cancel()
        else:
            mock_clock.jump(60.1)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert agent.process.process.returncode is None
        mock_clock.jump(5.1)
        await agent.process.gone.wait()
        nursery.cancel_scope.cancel()
    assert agent.process.process.returncode == -signal.SIGKILL
    assert agent.heard == [b"here", None]


async def test_a_child_that_it_leaves_behind_does_not_hide_its_death(tmp_path: Path) -> None:
    program = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(5)'])"
    heard: list[Any] = []
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            process = AgentProcess(await start_process([sys.executable, "-c", program], cwd=tmp_path), heard.append)
            process.start(nursery)
            await process.gone.wait()
            await process.close()
            nursery.cancel_scope.cancel()
    assert process.orderly
    assert heard == [None]


class Restarting(PlainDriver):
    """Has its agent started again whenever that has ended; ``slow``: is not ready before it has said something."""

    def __init__(self) -> None:
        super().__init__(load_codec("pagent"))
        self.over = self.said = False
        self.slow = False

    def begin(self, argv: Sequence[str]) -> list[str]:
        self.said = False
        return list(argv)

    def ready(self) -> bool | Refusal:
        return not self.over and (self.said or not self.slow)

    def resumable(self) -> bool:
        return self.over

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        out += b"x\n"
        return 1

    def receive(self, line: Any) -> list[Any]:
        self.said, self.over = True, False
        return []

    def close(self) -> list[Any]:
        self.over = True
        return []


def driven(
    program: str, nursery: trio.Nursery, tmp_path: Path, start: Any = start_process
) -> tuple[Driven, Restarting]:
    """An agent whose driver restarts it."""
    side = Restarting()
    codec = structs.replace(load_codec("pagent"), driver=lambda: side)
    made = Driven(
        codec, [sys.executable, "-c", program], nursery, lambda heard: None, start=start, cwd=tmp_path, env=None,
        tap=None, recorder=None, ready_timeout=20,
    )  # fmt: skip
    return made, side


async def becomes(condition: Callable[[], bool]) -> None:
    """Wait for something; the clock may stand still."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        await trio.lowlevel.checkpoint()


async def test_a_process_that_was_being_started_while_it_was_closed_is_ended(tmp_path: Path) -> None:
    started: list[trio.Process] = []
    going, go = trio.Event(), trio.Event()

    async def start(argv: Any, **more: Any) -> trio.Process:
        if started:
            going.set()
            await go.wait()
        started.append(await start_process([sys.executable, "-c", "input()" if started else ""], **more))
        return started[-1]

    async def send(agent: Driven) -> None:
        with pytest.raises(AgentDied):
            await agent.send(Ping())

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            agent, _ = driven("", nursery, tmp_path, start)
            await agent.start()
            await agent.process.gone.wait()
            nursery.start_soon(send, agent)
            await going.wait()
            await agent.close()
            go.set()
        assert [process.returncode for process in started] == [0, -signal.SIGTERM]
        await send(agent)
    assert len(started) == 2, "what is closed is not started again"


HERE = "print('here', flush=True); input()"

LIVES_ON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
os.close(1)
time.sleep(60)
"""


async def test_one_that_lives_on_without_an_output_is_ended_before_another_is_started(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    running: list[bool] = []
    processes: list[trio.Process] = []

    async def start(argv: Any, **more: Any) -> trio.Process:
        running.append(any(process.returncode is None for process in processes))
        processes.append(await start_process([sys.executable, "-c", LIVES_ON if not processes else HERE], **more))
        return processes[-1]

    async with trio.open_nursery() as nursery:
        agent, side = driven("", nursery, tmp_path, start)
        await agent.start()
        await becomes(lambda: side.over)
        nursery.start_soon(agent.at_hand)
        for _ in range(3):
            await trio.testing.wait_all_tasks_blocked(0.05)
            mock_clock.jump(5.1)
        await becomes(lambda: len(processes) == 2)
        await agent.at_hand()
        await agent.close()
        nursery.cancel_scope.cancel()
    assert running == [False, False]
    assert processes[0].returncode == -signal.SIGKILL


SLOW = """
import pathlib, time
if not pathlib.Path("again").exists():
    pathlib.Path("again").touch()
    raise SystemExit
while not pathlib.Path("go").exists():
    time.sleep(0.005)
print("here", flush=True)
input()
"""


async def test_a_stop_does_not_end_a_process_that_is_only_starting(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        agent, side = driven(SLOW, nursery, tmp_path)
        await agent.start()
        before = agent.process
        await before.gone.wait()
        side.slow = True
        nursery.start_soon(agent.at_hand)
        await becomes(lambda: agent.process is not before)
        await agent.send(Stop())
        await trio.testing.wait_all_tasks_blocked(0.05)
        mock_clock.jump(6)
        await trio.testing.wait_all_tasks_blocked(0.05)
        (tmp_path / "go").touch()
        await agent.at_hand()
        assert agent.process.process.returncode is None
        nursery.start_soon(agent.close)
        await agent.process.gone.wait()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("wire", ["aionrs", "jan"])
async def test_whoever_is_cancelled_in_a_turn_still_stops_it_well(wire: str, request: pytest.FixtureRequest) -> None:
    """What is said meanwhile is heard, so that nothing has to be waited for in vain."""
    agent: StandIn = request.getfixturevalue(wire)
    agent.play([{"calls": [write() if wire == "aionrs" else call("write_file")]}, *HELLO])
    with trio.CancelScope() as scope:
        async with agent.connect() as peer:
            async for event in peer.prompt("go"):
                if isinstance(event, ApprovalRequested):
                    began = time.monotonic()
                    scope.cancel()
    assert scope.cancelled_caught
    assert time.monotonic() - began < 4
    assert peer.process.orderly
    cursor = peer.log.cursor(after=0)
    assert end([record.event for record in cursor.take() if record.turn]).outcome == "cancelled"


async def test_one_that_is_cancelled_from_the_beginning_is_never_started(aionrs: StandIn) -> None:
    with trio.fail_after(10), trio.CancelScope() as scope:
        scope.cancel()
        async with agentwire.connect(aionrs.argv(), codec="aionrs", cwd=aionrs.workspace):
            pytest.fail("it was started")
    assert scope.cancelled_caught
    assert not aionrs.diary("argv")
