"""An agent as a child process: its pipes, its lines, its death."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from agentwire.children import watchdog
from agentwire.codec.framing import HOST_LIMIT, Framer, LineFault
from agentwire.commands import Refusal
from agentwire.recording import Recorder

logger = logging.getLogger("agentwire.connect")

STDERR_TAIL = 16 * 1024

DRAIN = 0.25
"""Seconds that a dead agent's output is still read."""

GRACE = 5.0
"""Seconds between closing the agent's input, SIGTERM and SIGKILL."""

PATIENCE = 60.0
"""Seconds for which an agent may leave a line unread; a real aionrs does while it connects an MCP server."""


class AgentDied(Exception):
    """The agent process ended while it was needed. ``status`` is its exit status, ``stderr`` the end of its log."""

    def __init__(self, status: int | None, stderr: str) -> None:
        tail = stderr.strip().splitlines()[-3:]
        super().__init__(f"the agent ended with status {status}" + (f": {' / '.join(tail)}" if tail else ""))
        self.status = status
        self.stderr = stderr


class Undrivable(AgentDied):
    """The agent runs, but its wire does not let us drive it: ``refusal`` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(None, "")
        self.args = (f"the agent cannot be driven: {refusal.message}",)
        self.refusal = refusal


class AgentProcess:
    """A running agent. ``hear`` is given its lines, and at the end None, once."""

    def __init__(
        self,
        process: trio.Process,
        hear: Callable[[bytes | LineFault | None], None],
        recorder: Recorder | None = None,
    ) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("the process was started without its pipes")
        self.process = process
        self.gone = trio.Event()
        """Set when nothing more will be heard."""
        self._stdin, self._stdout, self._errors = process.stdin, process.stdout, process.stderr
        self._hear = hear
        self._recorder = recorder
        self._tail: deque[bytes] = deque()
        self._writing = trio.Lock()
        self._listening = trio.CancelScope()

    def start(self, nursery: trio.Nursery) -> None:
        """Begin to listen."""
        watchdog.guard(self.process.pid)  # it does not outlive us, even if we are killed
        nursery.start_soon(self._listen)
        nursery.start_soon(self._drain)
        nursery.start_soon(self._watch_death)

    async def write(self, line: bytes | bytearray) -> None:
        """Write a whole line. Raises :class:`AgentDied`.

        Half a line would spoil the next one: once begun, a line is written whole, or the agent is given up. That
        takes a minute, or some seconds if whoever writes is cancelled.
        """
        if self._recorder is not None:
            self._recorder.host(line)
        sent = died = False
        async with self._writing, trio.open_nursery() as nursery:
            begun = trio.CancelScope(shield=True)
            nursery.start_soon(_hurry, begun)
            with begun:
                try:
                    await self._stdin.send_all(line)
                    sent = True
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    died = True
            if not (sent or died):
                _signal(self.process, signal.SIGKILL)
            nursery.cancel_scope.cancel()
        if not sent:
            raise AgentDied(self.process.returncode, self.stderr if died else "the agent does not read what it is sent")

    async def until(self, event: trio.Event, deadline: float = float("inf")) -> None:
        """Wait for an event, for the end of the process, or (``deadline``, by trio's clock) long enough."""
        with trio.move_on_at(deadline):
            async with trio.open_nursery() as nursery:

                async def wait(which: trio.Event) -> None:
                    await which.wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(wait, event)
                nursery.start_soon(wait, self.gone)

    @property
    def stderr(self) -> str:
        """The end of what the agent wrote to its standard error."""
        return b"".join(self._tail).decode("utf-8", errors="replace")

    @property
    def orderly(self) -> bool:
        """It ended by itself, with status 0."""
        return self.process.returncode == 0

    def died(self) -> AgentDied:
        """What to raise when the process is gone and was needed."""
        return AgentDied(self.process.returncode, self.stderr)

    async def close(self) -> None:
        """End the process: close its input, then SIGTERM, then SIGKILL, each after some seconds; hear its last words.

        Not cancelled.
        """
        with trio.CancelScope(shield=True):
            await self._stdin.aclose()
            await self._end_by(None, signal.SIGTERM, signal.SIGKILL)
            with trio.move_on_after(2 * DRAIN):
                await self.gone.wait()

    async def end(self) -> None:
        """End the process without asking: SIGTERM, and after some seconds SIGKILL. Not cancelled."""
        with trio.CancelScope(shield=True):
            await self._end_by(signal.SIGTERM, signal.SIGKILL)

    async def _end_by(self, *steps: signal.Signals | None) -> None:
        for step in steps:
            if step is not None and self.process.returncode is None:
                if step is not steps[0]:
                    logger.warning("the agent did not end by itself; sending %s", step.name)
                _signal(self.process, step)
            with trio.move_on_after(GRACE):
                await self.process.wait()
                watchdog.release(self.process.pid)
                return

    async def _listen(self) -> None:
        try:
            await self._listen_to_the_end()
        finally:
            self.gone.set()  # also where this is cancelled or fails: nobody is to wait for more

    async def _listen_to_the_end(self) -> None:
        framer = Framer(HOST_LIMIT)
        with self._listening:
            while chunk := await self._stdout.receive_some():
                if self._recorder is not None:
                    self._recorder.agent(chunk)
                for line in framer.feed(chunk):
                    self._hear(line)
        for line in framer.finish():
            self._hear(line)
        self._hear(None)
        # An agent that closed its output has nothing more to say, even if it lives on.
        with trio.move_on_after(GRACE):
            await self.process.wait()
        if self.process.returncode is None:
            _signal(self.process, signal.SIGTERM)

    async def _watch_death(self) -> None:
        """A child that the agent left behind may hold its output open: that must not hide the agent's death."""
        await self.process.wait()
        watchdog.release(self.process.pid)
        await trio.sleep(DRAIN)
        self._listening.cancel()

    async def _drain(self) -> None:
        size = 0
        while chunk := await self._errors.receive_some():
            if self._recorder is not None:
                self._recorder.log(chunk)
            self._tail.append(bytes(chunk))
            size += len(chunk)
            while size - len(self._tail[0]) > STDERR_TAIL:
                size -= len(self._tail.popleft())


async def start_process(
    argv: Sequence[str], *, cwd: str | Path | None = None, env: Mapping[str, str] | None = None
) -> trio.Process:
    """Start an agent in a process group of its own, with three pipes. Raises ``OSError`` if that cannot be done."""
    return await trio.lowlevel.open_process(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=dict(env) if env is not None else None,
        start_new_session=True,
    )


async def _hurry(begun: trio.CancelScope) -> None:
    """End a write after long enough, or soon after whoever waits for it was cancelled."""
    try:
        await trio.sleep(PATIENCE)
    finally:
        begun.deadline = trio.current_time() + GRACE


def _signal(process: trio.Process, number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):  # the latter is macOS's answer for a group of zombies
        return
