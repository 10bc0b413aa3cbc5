"""Children do not outlive us: the watchdog, and its helper process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from support.agent_process import alive, gone, lines_of

from agentwire.children import reaper, watchdog

AGENT = """
import sys, trio
from pathlib import Path
from agentwire.tools import ToolContext, builtin_tools
from agentwire.tools.contract import ReadCache

async def main():
    context = ToolContext(workspace=Path.cwd(), cache=ReadCache())
    tool = next(tool for tool in builtin_tools() if tool.name == "ExecCommand")
    for command in sys.argv[1:]:
        await tool.run({"cmd": command}, context)

trio.run(main)
"""

STUBBORN = "trap '' TERM HUP; echo $$ >> pids; sleep 300 & echo $! >> pids; wait; sleep 300"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", AGENT, STUBBORN], cwd=tmp_path) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
async def test_a_killed_agent_takes_its_commands_with_it(
    tmp_path: Path, agent: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    pids = [int(line) for line in await lines_of(tmp_path / "pids", 2)]
    agent.send_signal(number)
    agent.wait()
    for pid in pids:
        await gone(pid, within=4)


KILLED_EARLY = """
import os
from agentwire.children import watchdog
watchdog.guard = lambda group: os.kill(os.getpid(), 9)
"""


async def test_a_command_does_not_begin_before_it_is_guarded(tmp_path: Path) -> None:
    """An agent that is killed right after it started a process has not started the command."""
    command = f"echo begun > {tmp_path}/begun; sleep 300"
    agent = await trio.lowlevel.open_process([sys.executable, "-c", KILLED_EARLY + AGENT, command], cwd=tmp_path)
    assert await agent.wait() == -signal.SIGKILL
    listed = await trio.run_process(["ps", "-A", "-o", "pid=,args="], capture_stdout=True)
    for line in listed.stdout.decode(errors="replace").split("\n"):
        if f"{tmp_path}/begun" in line:
            await gone(int(line.split()[0]), within=4)
    assert not (tmp_path / "begun").exists()


async def test_what_was_left_in_the_background_goes_when_the_agent_ends(tmp_path: Path) -> None:
    """Also what a command left that had ended long before; but not before the agent ends."""
    wait = "while ! [ -e go ]; do sleep 0.01; done"
    left = "sleep 300 & echo $! >> pids"
    agent = await trio.lowlevel.open_process([sys.executable, "-c", AGENT, left, wait], cwd=tmp_path)
    (pid,) = await lines_of(tmp_path / "pids", 1)
    assert alive(int(pid))
    (tmp_path / "go").touch()
    with trio.fail_after(20):
        assert await agent.wait() == 0
    assert not alive(int(pid)), "an agent that ends in good order waits for the helper"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as process:
        yield process
        process.kill()


def helper() -> subprocess.Popen[bytes]:
    process = watchdog._watchdog._process
    assert process is not None
    return process


def test_the_helper_is_of_another_session_and_holds_nothing_of_ours(sleeper: subprocess.Popen[bytes]) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    dog = watchdog._Watchdog()
    dog.guard(sleeper.pid)
    try:
        os.close(writing)
        assert dog._process is not None
        assert os.getsid(dog._process.pid) == dog._process.pid
        # Nobody else has the writing end: the pipe ends at once.
        assert select.select([reading], [], [], 5)[0]
        assert os.read(reading, 1) == b""
    finally:
        os.close(reading)
        dog.release(sleeper.pid)
        sleeper.kill()
        sleeper.wait()
        dog.close()


def test_a_helper_that_was_killed_is_replaced_and_told_all(sleeper: subprocess.Popen[bytes]) -> None:
    dog = watchdog._Watchdog()
    dog.guard(sleeper.pid)
    first = dog._process
    assert first is not None
    first.kill()
    first.wait()
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as other:
        dog.guard(other.pid)
        assert dog._process is not first
        dog.close()
        assert sleeper.wait(5) == -signal.SIGTERM
        assert other.wait(5) == -signal.SIGTERM


def test_a_released_group_that_is_empty_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    """Its number may belong to somebody else by then."""
    dog = watchdog._Watchdog()
    dog.guard(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    dog.release(sleeper.pid)
    assert dog._groups == set()
    dog.release(sleeper.pid)  # unknown by now, and no harm
    dog.close()


def test_a_fork_of_us_does_not_keep_the_helper_waiting(sleeper: subprocess.Popen[bytes]) -> None:
    watchdog.guard(sleeper.pid)
    there = helper()
    assert there.stdin is not None
    pid = os.fork()
    if pid == 0:
        os._exit(0 if watchdog._watchdog._process is None and not watchdog._watchdog._groups else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert there.poll() is None
    watchdog.release(sleeper.pid)


@pytest.mark.parametrize("group", [0, 1, -5, os.getpgrp()])
def test_our_own_group_is_never_guarded(group: int) -> None:
    with pytest.raises(ValueError, match="not a process group of a child"):
        watchdog.guard(group)


REAPER = [sys.executable, "-I", "-S", watchdog._PROGRAM]


def test_the_helper_ends_by_itself_and_ignores_polite_signals() -> None:
    with subprocess.Popen(REAPER, stdin=subprocess.PIPE, start_new_session=True) as dog:
        assert dog.stdin is not None
        with subprocess.Popen(["sleep", "300"], start_new_session=True) as one:
            dog.stdin.write(b"+%d\n" % one.pid)  # its handlers are set before it reads this
            dog.stdin.close()
            assert one.wait(5) == -signal.SIGTERM
        assert dog.wait(5) == 0


def test_the_helper_waits_before_it_kills() -> None:
    ready = "trap 'echo term; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.01; done"
    pipes = {"stdout": subprocess.PIPE, "start_new_session": True}
    with (
        subprocess.Popen(REAPER, stdin=subprocess.PIPE, start_new_session=True) as dog,
        subprocess.Popen(["sh", "-c", ready], **pipes) as one,  # type: ignore[call-overload]
        subprocess.Popen(["sh", "-c", stubborn], **pipes) as other,  # type: ignore[call-overload]
    ):
        assert dog.stdin is not None
        for process in (one, other):
            assert process.stdout.readline() == b"ready\n"
            dog.stdin.write(b"+%d\n" % process.pid)
        started = time.monotonic()
        dog.stdin.close()
        assert one.wait(5) == 7
        assert other.wait(5) == -signal.SIGKILL
        assert time.monotonic() - started < 3
        assert dog.wait(5) == 0


def test_the_helper_forgets_released_groups_that_are_empty(sleeper: subprocess.Popen[bytes]) -> None:
    """Seen from inside, for what it does with a number that was given to others cannot be provoked."""
    reading, writing = os.pipe()
    with subprocess.Popen(["true"], start_new_session=True) as dead:
        dead.wait()
    os.write(writing, b"+%d\n+%d\n-%d\n-%d\n+77777" % (sleeper.pid, dead.pid, sleeper.pid, dead.pid))
    os.close(writing)
    assert reaper.listen(reading) == {sleeper.pid}
    reaper.end({sleeper.pid, dead.pid})
    assert sleeper.wait(5) == -signal.SIGTERM
    os.close(reading)
