"""What drives an agent, whatever its wire: drivers as the contract has them, and lines that are written whole."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from agentwire import load_codec
from agentwire.codec.contract import Driver, HostSide
from agentwire.commands import Refusal
from agentwire.host.driven import environment
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
