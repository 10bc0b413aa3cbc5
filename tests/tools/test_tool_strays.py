"""What leaves its process group (``setsid``, as daemons do) ends with its command all the same, where that is known."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from support.agent_process import alive, gone, lines_of

from agentwire.children import reaper, watchdog

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="only Linux tells what is in a process's environment"
)

LEAVES = "import os, time; os.setsid(); print(os.getpid(), file=open('pids', 'a'), flush=True); time.sleep(300)"
DAEMON = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        print(os.getpid(), file=open('pids', 'a'), flush=True)\n"
    "        time.sleep(300)\n"
    "    os._exit(0)\n"
)
STUBBORN = f"import signal; signal.signal(15, signal.SIG_IGN); {LEAVES}"


def python(program: str) -> str:
    """A shell command that runs it in the background."""
    return f'{sys.executable} -I -S -c "{program}" & '


@pytest.mark.parametrize("program", [LEAVES, DAEMON, STUBBORN], ids=["setsid", "daemon", "stubborn"])
async def test_a_time_limit_reaches_what_left_the_group(bench: Any, program: str) -> None:
    wait = "while ! [ -s pids ]; do sleep 0.01; done; sleep 300"
    with trio.fail_after(20):
        result = await bench("ExecCommand", cmd=python(program) + wait, timeout=1500)
    assert "timed out after 1500ms" in result.output
    (pid,) = await lines_of(bench.workspace / "pids", 1)
    await gone(int(pid), within=1)


async def test_a_stop_reaches_what_left_the_group(bench: Any) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: bench("ExecCommand", cmd=python(DAEMON) + python(LEAVES) + "wait; sleep 300"))
        pids = await lines_of(bench.workspace / "pids", 2)
        started = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - started < 2
    for pid in pids:
        await gone(int(pid), within=1)


async def test_other_calls_and_what_ended_in_good_order_are_left_alone(bench: Any) -> None:
    """A daemon that an earlier command left is none of a later command's."""
    await bench.works("ExecCommand", cmd=python(DAEMON) + "while ! [ -s pids ]; do sleep 0.01; done")
    (pid,) = await lines_of(bench.workspace / "pids", 1)
    assert (await bench("ExecCommand", cmd="sleep 300", timeout=50)).is_error
    assert alive(int(pid))
    reaper.kill({int(pid)}, 9)
    await gone(int(pid), within=1)


AGENT = """
import sys, trio
from pathlib import Path
from agentwire.tools import ToolContext, builtin_tools
from agentwire.tools.contract import ReadCache

async def main():
    context = ToolContext(workspace=Path.cwd(), cache=ReadCache())
    tool = next(tool for tool in builtin_tools() if tool.name == "ExecCommand")
    await tool.run({"cmd": sys.argv[1]}, context)

trio.run(main)
"""


async def test_a_killed_agent_takes_even_its_daemons_with_it(tmp_path: Path) -> None:
    command = python(DAEMON) + python(STUBBORN) + "wait; sleep 300"
    agent = await trio.lowlevel.open_process([sys.executable, "-c", AGENT, command], cwd=tmp_path)
    pids = await lines_of(tmp_path / "pids", 2)
    agent.kill()
    await agent.wait()
    for pid in pids:
        await gone(int(pid), within=4)


def test_marks_tell_calls_apart() -> None:
    one, other = watchdog.new_mark(), watchdog.new_mark()
    environ = {watchdog.MARK: one}
    with subprocess.Popen(["sleep", "300"], env=environ, start_new_session=True) as process:
        try:
            assert watchdog.strays(one, group=0) == {process.pid}
            assert watchdog.strays(one, group=process.pid) == set()
            assert watchdog.strays(other, group=0) == set()
            assert reaper.marked("") == set()
        finally:
            process.kill()
