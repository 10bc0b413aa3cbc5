"""Programs that run beside us: no window in which one is nobody's."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import trio
from support.agent_process import alive, gone

from agentwire.children import watchdog
from agentwire.provider import child_environment, start_child

ENVIRON = {"PATH": os.environ["PATH"]}


@pytest.fixture
def output(tmp_path: Path) -> int:
    return os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


async def test_its_outputs_go_where_they_should(tmp_path: Path, output: int) -> None:
    command = ["sh", "-c", "echo one; echo two >&2; cat; pwd; echo $0", "it's"]
    child = await start_child(command, cwd=tmp_path, environ=ENVIRON, output=output)
    assert await child.process.wait() == 0
    await child.end()
    assert (tmp_path / "out").read_text() == f"one\ntwo\n{tmp_path.resolve()}\nit's\n"


async def test_what_is_no_program_shows_in_its_status(tmp_path: Path, output: int) -> None:
    child = await start_child([str(tmp_path / "nothing")], cwd=tmp_path, environ=ENVIRON, output=output)
    assert await child.process.wait() == 127
    await child.end()


async def test_one_that_cannot_be_guarded_is_not_run(
    tmp_path: Path, output: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded: list[int] = []

    def refuse(group: int) -> None:
        guarded.append(group)
        raise OSError("no helper")

    monkeypatch.setattr(watchdog, "guard", refuse)
    with pytest.raises(OSError, match="no helper"):
        await start_child(["touch", "ran"], cwd=tmp_path, environ=ENVIRON, output=output)
    assert not alive(guarded[0])
    assert not (tmp_path / "ran").exists()


KILLED_EARLY = """
import os, sys, trio
from pathlib import Path
from agentwire.provider import start_child
from agentwire.children import watchdog

def guard(group):
    print(group, flush=True)
    os.kill(os.getpid(), 9)

watchdog.guard = guard
trio.run(lambda: start_child(["touch", "ran"], cwd=Path.cwd(), environ=os.environ, output=2))
"""


async def test_it_does_not_begin_before_it_is_guarded(tmp_path: Path) -> None:
    done = await trio.run_process([sys.executable, "-c", KILLED_EARLY], cwd=tmp_path, check=False, capture_stdout=True)
    assert done.returncode == -signal.SIGKILL
    await gone(int(done.stdout), within=4)
    assert not (tmp_path / "ran").exists()


async def test_one_that_is_cancelled_at_its_start_is_not_lost(tmp_path: Path, output: int) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        child = await start_child(["sleep", "300"], cwd=tmp_path, environ=ENVIRON, output=output)
    assert child.process.returncode is None
    await child.end()
    assert child.process.returncode == -signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's environment")
async def test_what_left_its_group_is_ended_too(tmp_path: Path, output: int) -> None:
    command = ["sh", "-c", "setsid sh -c 'echo $$ > stray; exec sleep 300' & while [ ! -s stray ]; do sleep 0.01; done"]
    child = await start_child(command, cwd=tmp_path, environ=ENVIRON, output=output)
    assert await child.process.wait() == 0
    stray = int((tmp_path / "stray").read_text())
    assert alive(stray)
    await child.end()
    await gone(stray, within=4)


def test_keys_of_services_stay_here() -> None:
    assert child_environment({"OPENAI_API_KEY": "k", "LANG": "C"}) == {"LANG": "C"}
