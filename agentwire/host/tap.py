"""Between a foreign host and a foreign agent: bytes pass untouched, and are recorded and checked as they do.

What passes is written on before anybody looks at it, so that looking costs neither side time. Nothing is held: a side
that does not read is not read for either, as if the pipe went straight through.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Sequence

import trio

from agentwire.children import watchdog
from agentwire.codec.checking import Checker, Violation
from agentwire.codec.framing import HOST_LIMIT, Framer, LineFault
from agentwire.recording import Recorder
from agentwire.transport.stdio import StdioPipes, StdioTransport

logger = logging.getLogger("agentwire.tap")

Report = Callable[[str, int, Violation], None]
"""Told of a violation: by whom (``host`` or ``agent``), in which line of theirs (from 1; 0: at the end), and what."""


class Direction:
    """The lines of one side, looked at after they have passed."""

    def __init__(self, who: str, report: Report) -> None:
        self.lines = 0
        self.violations = 0
        self.look: Callable[[bytes | LineFault], list[Violation]] | None = None
        """Checks a line."""
        self.record: Callable[[bytes], None] | None = None
        """Keeps what passed."""
        self._who = who
        self._report = report
        self._framer = Framer(HOST_LIMIT)

    def passed(self, data: bytes) -> None:
        """Look at bytes that were written on."""
        if self.record is not None:
            self.record(data)
        self._see(self._framer.feed(data))

    def ended(self) -> None:
        """Look at a last line without its end."""
        self._see(self._framer.finish())

    def _see(self, lines: Sequence[bytes | LineFault]) -> None:
        for line in lines:
            self.lines += 1
            if self.look is not None:
                self.tell(self.lines, self.look(line))

    def tell(self, line: int, found: Sequence[Violation]) -> None:
        """Report what is wrong with a line."""
        for violation in found:
            self.violations += 1
            self._report(self._who, line, violation)


class Tap:
    """One agent process, and the host on our own standard input and output."""

    def __init__(self, pipes: StdioPipes, checker: Checker | None, recorder: Recorder | None, report: Report) -> None:
        self._outer = StdioTransport(pipes)
        self._checker = checker
        self.host = Direction("host", report)
        self.agent = Direction("agent", report)
        if checker is not None:
            self.host.look, self.agent.look = checker.host, checker.agent
        if recorder is not None:
            self.host.record, self.agent.record = recorder.host, recorder.agent

    async def run(self, argv: Sequence[str]) -> int:
        """Start the agent and pass bytes until it has ended. Its exit status; raises ``OSError`` if it cannot start."""
        process = await trio.lowlevel.open_process(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        watchdog.guard(process.pid)  # it ends with us, even if we are killed
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_signals, process)
            nursery.start_soon(self._inward, process)
            await self._outward(process)
            status = await process.wait()
            nursery.cancel_scope.cancel()
        watchdog.release(process.pid)
        if self._checker is not None:
            self.agent.tell(0, self._checker.close())
        return status if status >= 0 else 128 - status

    async def _inward(self, process: trio.Process) -> None:
        """From the host to the agent, until the host ends its input."""
        stdin = process.stdin
        if stdin is None:
            raise RuntimeError("the process was started without a pipe")
        async with stdin:
            while data := await self._outer.receive():
                try:
                    await stdin.send_all(data)
                except trio.BrokenResourceError:
                    logger.info("the agent reads no more")
                    return
                self.host.passed(data)
            self.host.ended()

    async def _outward(self, process: trio.Process) -> None:
        """From the agent to the host, until the agent ends its output or the host reads no more."""
        stdout = process.stdout
        if stdout is None:
            raise RuntimeError("the process was started without a pipe")
        async with stdout:
            while data := await stdout.receive_some():
                try:
                    await self._write(data)
                except OSError as error:  # the agent finds the same when it writes next: we no longer read
                    logger.info("the host reads no more: %s", error)
                    return
                self.agent.passed(bytes(data))
            self.agent.ended()

    async def _write(self, data: bytes | bytearray) -> None:
        with memoryview(data) as view:
            sent = self._outer.send_now(view)
            while sent < len(view):
                await self._outer.wait_writable()
                sent += self._outer.send_now(view[sent:])

    async def _pass_signals(self, process: trio.Process) -> None:
        """Signals that are meant for the agent reach it; what it does about them is its own affair."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP, signal.SIGINT) as signals:
            async for number in signals:
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    return
