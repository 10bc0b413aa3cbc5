"""Server processes: what they inherit, and that none of them is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from mcp_testing import Raw, alive, until_true

from agentwire.mcp.errors import McpCallError
from agentwire.mcp.manager import McpManager

pytestmark = pytest.mark.slow


async def test_a_server_gets_no_keys_but_what_is_meant_for_it(raw: Raw) -> None:
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "OPENAI_API_KEY": "secret", "ANTHROPIC_API_KEY": "secret"}
    async with McpManager(environ=environ) as manager:
        server = await manager.connect(raw(call="show_environment", env={"TOKEN": "x", "PATH": "/mine"}))
        seen = json.loads((await server.call("echo", {}))["content"][0]["text"])
    assert seen["TOKEN"] == "x"
    assert seen["PATH"] == "/mine"
    assert seen["LANG"] == "C.UTF-8"
    assert "secret" not in seen.values()


async def test_a_server_starts_in_the_directory_it_is_told(raw: Raw, tmp_path: Path) -> None:
    async with McpManager(cwd=tmp_path) as manager:
        server = await manager.connect(raw(call="show_directory"))
        assert (await server.call("echo", {}))["content"][0]["text"] == str(tmp_path)


async def test_the_end_of_the_manager_is_the_end_of_a_stubborn_family(raw: Raw, tmp_path: Path) -> None:
    """Server and grandchild ignore SIGTERM and the end of stdin."""
    pids = tmp_path / "pids"
    async with McpManager() as manager:
        for number in range(3):
            await manager.connect(raw(str(number), initialize="be_stubborn", file=str(pids)))
        began = trio.current_time()
    assert trio.current_time() - began < 2.5
    family = [int(pid) for pid in pids.read_text().split()]
    assert len(family) == 6
    assert [pid for pid in family if alive(pid)] == []


async def test_cancelling_the_manager_is_as_good(raw: Raw, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with trio.open_nursery() as nursery:
        manager = await nursery.start(McpManager().run)
        await manager.connect(raw(initialize="be_stubborn", file=str(pids)))
        nursery.cancel_scope.cancel()
    assert [pid for pid in pids.read_text().split() if alive(int(pid))] == []


async def test_calls_under_way_fail_when_their_server_is_closed(raw: Raw, tmp_path: Path) -> None:
    called = tmp_path / "called"
    async with McpManager() as manager, trio.open_nursery() as nursery:
        server = await manager.connect(raw(call="never_answer", file=str(called)))

        async def call() -> None:
            with pytest.raises(McpCallError, match="connection closed"):
                await server.call("echo", {})

        nursery.start_soon(call)
        await until_true(called.exists)
        await server.close()
        with pytest.raises(McpCallError, match="was closed"):
            await server.call("echo", {})


OWNER = """
import sys, trio
sys.path[:0] = sys.argv[2].split(",")
from agentwire.mcp.manager import McpManager
from mcp_testing import raw_spec

async def main():
    async with McpManager() as manager:
        await manager.connect(raw_spec(initialize="be_stubborn", file=sys.argv[1]))
        print("ready", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_server_does_not_outlive_us_when_we_are_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    here = Path(__file__).parent
    paths = f"{here},{here.parents[1]}"
    owner = await trio.lowlevel.open_process(
        [sys.executable, "-c", OWNER, str(pids), paths], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert owner.stdout is not None
    try:
        with trio.fail_after(30):
            assert await owner.stdout.receive_some() in (b"ready", b"ready\n")
    finally:
        owner.send_signal(signal.SIGKILL)
        await owner.wait()
    family = [int(pid) for pid in pids.read_text().split()]
    assert len(family) == 2
    await until_true(lambda: not any(alive(pid) for pid in family))
