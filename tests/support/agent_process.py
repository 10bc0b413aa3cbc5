"""The process under test: ``agentwire serve`` with real pipes, in a world of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

from .patterns import matches
from .replies import JsonObject
from .wire_rules import WireRules, compact

PATIENCE = 10.0
"""Seconds after which waiting counts as a failure; nothing waits that long when all is well."""


class AgentProcess:
    """One ``agentwire serve``. Every line it writes is checked by :class:`WireRules` and kept in ``events``."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.events: list[JsonObject] = []
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.rules = WireRules()
        self.deaf = False
        self._next = 0
        self._tail = b""
        self._ended = False
        self._news = trio.lowlevel.ParkingLot()
        self._reading = trio.Event()
        self._reading.set()

    @classmethod
    async def spawn(
        cls, nursery: trio.Nursery, arguments: Sequence[str], *, cwd: Path, environ: Mapping[str, str],
        python: Sequence[str] = (), module: str = "agentwire",
    ) -> AgentProcess:  # fmt: skip
        """Start ``python -m MODULE ARGUMENTS`` and read both its outputs in ``nursery``."""
        command = [sys.executable, *python, "-m", module, *arguments]
        pipe = subprocess.PIPE
        process = await trio.lowlevel.open_process(
            command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=dict(environ)
        )
        agent = cls(process)
        nursery.start_soon(agent._read_stdout)
        nursery.start_soon(agent._read_stderr)
        return agent

    # --- what the process says -----------------------------------------------------------------------------

    async def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                await self._reading.wait()
                chunk = await self.process.stdout.receive_some(65536)
                if not chunk:
                    break
                self._take(chunk)
        except trio.ClosedResourceError:
            pass  # the test closed our end to see what the process makes of it
        finally:
            self._ended = True
            self._news.unpark_all()

    def _take(self, chunk: bytes | bytearray) -> None:
        self.stdout += chunk
        *lines, self._tail = (self._tail + bytes(chunk)).split(b"\n")
        for line in lines:
            self.events.append(self.rules.read(line))
        self._news.unpark_all()

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        async for chunk in self.process.stderr:
            self.stderr += chunk

    def hold_reading(self) -> None:
        """Read no more of the process's output (beyond a chunk already asked for)."""
        self._reading = trio.Event()

    def resume_reading(self) -> None:
        """Read again."""
        self._reading.set()

    async def hang_up(self) -> None:
        """Close our end of the process's output; it can no longer tell us the end of a turn."""
        self.deaf = True
        assert self.process.stdout is not None
        await self.process.stdout.aclose()

    @property
    def errors(self) -> str:
        """What it has written to stderr so far."""
        return self.stderr.decode("utf-8", "replace")

    async def next_event(self, timeout: float = PATIENCE) -> JsonObject:
        """The next event; that none comes is a failure, told with all that came before."""
        if self._next == len(self.events):
            with trio.move_on_after(timeout):
                while self._next == len(self.events) and not self._ended:
                    await self._news.park()
        if self._next < len(self.events):
            self._next += 1
            return self.events[self._next - 1]
        if self._ended:
            raise AssertionError(f"the output ended\n{self.story()}")
        raise AssertionError(f"no event within {timeout} s\n{self.story()}")

    async def expect(self, kind: str, /, **fields: Any) -> JsonObject:
        """The next event, which must be of that kind and have these fields (``error__code`` looks inside)."""
        event = await self.next_event()
        pattern = _pattern(kind, fields)
        assert matches(event, pattern), f"got {event}\nwanted {pattern}\n{self.story()}"
        return event

    async def expect_line(self, line: JsonObject) -> None:
        """The next event must be exactly this, to the byte."""
        event = await self.next_event()
        assert compact(event) == compact(line), f"got {event}\nwanted {line}\n{self.story()}"

    async def until(self, kind: str, /, **fields: Any) -> list[JsonObject]:
        """All events up to and including the first that matches."""
        passed = []
        while True:
            passed.append(await self.next_event())
            if matches(passed[-1], _pattern(kind, fields)):
                return passed

    async def turn(self, msg_id: str) -> list[JsonObject]:
        """All events up to the end of that turn."""
        return await self.until("stream_end", msg_id=msg_id)

    async def fence(self) -> None:
        """Prove that nothing was said in answer to all earlier lines: the next event is our own pong."""
        await self.send({"type": "ping"})
        await self.expect_line({"type": "pong"})

    def rest(self) -> list[JsonObject]:
        """Events that came and were not looked at yet."""
        unseen = self.events[self._next :]
        self._next = len(self.events)
        return unseen

    def story(self) -> str:
        """Both outputs, for a failure's message."""
        lines = [compact(event).decode()[:300] for event in self.events[-40:]]
        return "\n".join(["--- stdout", *lines, "--- stderr", self.errors[-4000:]])

    # --- what it is told -----------------------------------------------------------------------------------

    async def send(self, *commands: JsonObject) -> None:
        """Write the commands, one line each, in one write."""
        await self.send_bytes(b"".join(compact(command) + b"\n" for command in commands))

    async def send_bytes(self, data: bytes) -> None:
        """Write ``data`` as it is."""
        assert self.process.stdin is not None
        with trio.move_on_after(PATIENCE) as waiting:
            await self.process.stdin.send_all(data)
        assert not waiting.cancelled_caught, f"stdin is not read\n{self.story()}"

    async def message(self, msg_id: str, content: str = "go", **more: Any) -> None:
        """Send a user message."""
        await self.send({"type": "message", "msg_id": msg_id, "content": content, **more})

    async def approve(self, *call_ids: str, scope: str = "once") -> None:
        """Approve these calls, in one write."""
        await self.send(*({"type": "tool_approve", "call_id": call_id, "scope": scope} for call_id in call_ids))

    async def deny(self, call_id: str, reason: str) -> None:
        """Deny a call."""
        await self.send({"type": "tool_deny", "call_id": call_id, "reason": reason})

    async def stop(self) -> None:
        """Stop the running turn."""
        await self.send({"type": "stop"})

    async def close_stdin(self) -> None:
        """End of input."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    def kill(self) -> None:
        """Kill it with a signal that it cannot catch."""
        self.process.kill()

    def send_signal(self, which: signal.Signals) -> None:
        """Send a signal to the process, not to its group."""
        self.process.send_signal(which)

    # --- how it ends ---------------------------------------------------------------------------------------

    async def wait_exit(self, within: float = PATIENCE) -> int:
        """The exit status, once the process is gone and all it wrote was read."""
        with trio.move_on_after(within):
            status = await self.process.wait()
            while not self._ended:
                await self._news.park()
            assert not self._tail, f"the last line is cut: {self._tail[:300]!r}"
            return status
        raise AssertionError(f"still running after {within} s\n{self.story()}")

    @property
    def running(self) -> bool:
        """Whether the process still lives."""
        return self.process.poll() is None

    def memory(self) -> int:
        """Its resident memory in bytes."""
        listed = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(self.process.pid)], check=True, capture_output=True, text=True
        )
        return int(listed.stdout) * 1024


def _pattern(kind: str, fields: dict[str, Any]) -> JsonObject:
    return {"type": kind, **{name.replace("__", "."): value for name, value in fields.items()}}


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and only not yet collected does not."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True)
    return listed.stdout.strip()[:1] not in ("", "Z")


async def gone(pid: int, within: float) -> None:
    """Wait until a process that is no child of ours has ended."""
    with trio.move_on_after(within):
        while alive(pid):  # noqa: ASYNC110 - another process's doing comes with no event
            await trio.sleep(0.02)
        return
    os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"process {pid} still runs after {within} s")


async def lines_of(path: Path, count: int) -> list[str]:
    """The lines of a file that another process writes, once there are ``count``."""
    with trio.move_on_after(PATIENCE):
        while not path.exists() or (text := path.read_text()).count("\n") < count:  # noqa: ASYNC110
            await trio.sleep(0.02)
        return text.splitlines()
    raise AssertionError(f"{path} has no {count} lines")
