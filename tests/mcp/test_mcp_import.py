"""The half second that the SDK takes to import is spent where it stalls nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

HEAVY = ["mcp", "mcp_types", "anyio", "asyncio", "pydantic", "httpx", "httpx2", "starlette"]

IMPORTS = """
import sys
import agentwire.mcp.manager, agentwire.mcp.spec, agentwire.mcp.tool
print([name for name in sys.argv[1:] if name in sys.modules])
"""

STALL = """
import json, sys, time, trio
from agentwire.mcp.manager import McpManager
from mcp_testing import raw_spec

class Steps(trio.abc.Instrument):
    worst, count, began = 0.0, 0, time.thread_time()
    def before_task_step(self, task):
        self.began = time.thread_time()
    def after_task_step(self, task):
        self.count += 1
        self.worst = max(self.worst, time.thread_time() - self.began)

async def main():
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    async with McpManager() as manager:
        server = await manager.connect(raw_spec())
        await server.call("echo", {})
    print(json.dumps({"worst": steps.worst, "count": steps.count, "imported": "mcp" in sys.modules}))

trio.run(main)
"""


def run(program: str, *arguments: str) -> str:
    paths = [str(HERE), str(HERE.parents[1])]
    source = f"import sys; sys.path[:0] = {paths!r}\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", source, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert run(IMPORTS, *HEAVY) == "[]\n"


def test_the_first_connect_never_stalls_the_loop() -> None:
    """Measured as processor time of the loop's own thread, so that a busy machine makes no difference."""
    measured = json.loads(run(STALL))
    assert measured["imported"]
    assert measured["count"] > 20
    assert 0 < measured["worst"] < 0.04
