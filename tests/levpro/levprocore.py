"""A core under test: a real process with real pipes, driven line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

PATIENCE = 15.0
"""Seconds after which waiting counts as a failure; nothing waits that long when all is well."""

Line = dict[str, Any]


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait for something that another process does to a file, of which nothing tells."""
    with trio.fail_after(2 * PATIENCE):
        while not holds():  # noqa: ASYNC110
            await trio.sleep(0.02)


class Core:
    """One process that speaks the wire. Every line it writes is kept in ``lines``, and checked at the end."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.lines: list[Line] = []
        self.stderr = bytearray()
        self._tail = b""
        self._ended = False
        self._news = trio.lowlevel.ParkingLot()
        self._reading = trio.Event()
        self._reading.set()

    # --- in ---

    async def write(self, text: str | bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(text.encode() if isinstance(text, str) else text)

    async def ask(self, *requests: Line) -> None:
        await self.write("".join(json.dumps(request) + "\n" for request in requests))

    async def end_input(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    # --- out ---

    async def read(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                await self._reading.wait()
                chunk = await self.process.stdout.receive_some(65536)
                if not chunk:
                    break
                *lines, self._tail = (self._tail + bytes(chunk)).split(b"\n")
                self.lines += map(json.loads, lines)
                self._news.unpark_all()
        except trio.ClosedResourceError:
            pass  # the test closed our end to see what the process makes of it
        finally:
            self._ended = True
            self._news.unpark_all()

    async def read_errors(self) -> None:
        assert self.process.stderr is not None
        async for chunk in self.process.stderr:
            self.stderr += chunk

    def hold_reading(self) -> None:
        """Read no more of the output (beyond a chunk already asked for)."""
        self._reading = trio.Event()

    def resume_reading(self) -> None:
        self._reading.set()

    async def hang_up(self) -> None:
        """Close our end of the process's output."""
        assert self.process.stdout is not None
        await self.process.stdout.aclose()

    async def until(self, fits: Callable[[Line], bool]) -> Line:
        """The first line that fits, whether it came before or comes yet."""
        seen = 0
        with trio.move_on_after(PATIENCE):
            while True:
                for line in self.lines[seen:]:
                    if fits(line):
                        return line
                seen = len(self.lines)
                if self._ended:
                    break
                await self._news.park()
        raise AssertionError(f"no such line\n{self.story()}")

    async def event(self, request: Any, name: str) -> Line:
        """An event of a chat."""
        return await self.until(lambda line: line["id"] == request and line.get("event") == name)

    async def terminal(self, request: Any) -> Line:
        """The result or error of a request."""
        return await self.until(lambda line: line["id"] == request and line["type"] in ("result", "error"))

    async def run(self, request: Line) -> Line:
        """Ask, and wait for the answer."""
        await self.ask(request)
        return await self.terminal(request["id"])

    def of(self, request: Any) -> list[str]:
        """What was said of a request: names of events, then result or the error's code."""
        return [
            line.get("event") or line.get("code") or line["type"] for line in self.lines if line["id"] == request
        ]  # fmt: skip

    def text(self, request: Any) -> str:
        return "".join(line["delta"] for line in self.lines if line["id"] == request and "delta" in line)

    async def exit(self) -> int:
        with trio.move_on_after(PATIENCE):
            await self.process.wait()
            while not self._ended:
                await self._news.park()
            return self.process.returncode or 0
        raise AssertionError(f"it did not end\n{self.story()}")

    @property
    def errors(self) -> str:
        return self.stderr.decode(errors="replace")

    def story(self) -> str:
        lines = [json.dumps(line)[:300] for line in self.lines[-40:]]
        return "\n".join([*lines, "--- standard error", self.errors[-4000:]])

    def check(self) -> None:
        """Every line is whole, and nothing of a request follows its answer."""
        assert self._tail == b"", self._tail
        answered: list[Any] = []
        for line in self.lines:
            if line["id"] is not None:
                key = (type(line["id"]).__name__, line["id"])
                assert key not in answered, self.story()
                if line["type"] != "event":
                    answered.append(key)
        assert "Traceback" not in self.errors, self.errors


class Launcher:
    """Starts cores in a world of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "work"
        self.workspace.mkdir()
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
            "AGENTWIRE_DATA_DIR": str(root / "data"),
            "AGENTWIRE_CONFIG_DIR": str(root / "config"),
        }

    def script(self, *replies: Line) -> list[str]:
        """Options for a model that gives these replies."""
        path = self.root / "script.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return ["--provider", "script", "--provider-option", f"script={path}"]

    def serve(self, *replies: Line, more: Sequence[str] = ()) -> list[str]:
        """``agentwire serve`` with a scripted model."""
        return ["agentwire", "serve", "--codec", "levpro", *self.script(*replies), *more]

    @asynccontextmanager
    async def start(self, arguments: Sequence[str], *, unruly: bool = False) -> AsyncIterator[Core]:
        """Run ``python -m ARGUMENTS``; at the end input is closed, if it is not, and what was said is checked."""
        pipe = subprocess.PIPE
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", *arguments], stdin=pipe, stdout=pipe, stderr=pipe, cwd=self.workspace,
            env=self.environ,
        )  # fmt: skip
        core = Core(process)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(core.read)
            nursery.start_soon(core.read_errors)
            try:
                yield core
                core.resume_reading()
                await core.end_input()
                await core.exit()
            finally:
                if process.returncode is None:
                    process.kill()
                nursery.cancel_scope.cancel()
        if not unruly:
            core.check()
