"""The first line of a wire goes out before anything heavy is imported; the log and the store must not need it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = {
    "trio",
    "asyncio",
    "httpx",
    "mcp",
    "rich",
    "click",
    "platformdirs",
    "logging",
    "tempfile",
    "pathlib",
    "pydantic",
}

PROGRAM = """
import sys
before = set(sys.modules)
from agentwire.events import Notice, TextDelta
from agentwire.log import SessionLog
from agentwire.log.history import History
from agentwire.log.repair import closing_events
from agentwire.log.waiting import follow
from agentwire.store import SessionStore
store = SessionStore(sys.argv[1])
log = SessionLog(store.create("s"))
history = History()
history.feed(log.append(TextDelta("a")))
history.feed(log.append(Notice("a")))
log.cursor(0).take()
print(*set(sys.modules) - before)
"""


def test_a_session_can_be_opened_and_greeted_without_heavy_imports(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())
