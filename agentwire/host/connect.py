"""Driving an agent process of any codec: start it, prompt it, answer its questions, stop it, see it die."""

from __future__ import annotations

import inspect
import logging
import os
import signal
import subprocess
import uuid
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

import trio

from agentwire import registry
from agentwire.codec.contract import Answered, Heard, HostSide
from agentwire.codec.framing import Framer, LineFault
from agentwire.commands import Approve, Command, Deny, Done, Ping, Prompt, Refusal, SetConfig, SetMode, Stop
from agentwire.events import (
    AnyEvent,
    ApprovalRequested,
    Capabilities,
    CapabilitiesChanged,
    ConfigChanged,
    Mode,
    ModeChanged,
    SessionOpened,
    TurnFinished,
)
from agentwire.host.groups import one_error
from agentwire.host.refused import Refused
from agentwire.log.log import SessionLog
from agentwire.tools import watchdog

logger = logging.getLogger("agentwire.connect")

LONGEST_LINE = 64 * 1024 * 1024
STDERR_TAIL = 16 * 1024
READY_TIMEOUT = 60.0
"""Seconds; a real aionrs with a hanging MCP server needs up to 30 before it is ready."""

DRAIN = 0.25
"""Seconds that a dead agent's output is still read."""

GRACE = 5.0
"""Seconds between closing the agent's input, SIGTERM and SIGKILL."""

OnApproval = Callable[[ApprovalRequested], "bool | Awaitable[bool]"]

Tap = Callable[[Literal["in", "out"], bytes], None]
"""Sees every line as it stands on the wire, without its line feed; ``in`` is what the agent reads."""


class AgentDied(Exception):
    """The agent process ended while it was needed. ``status`` is its exit status, ``stderr`` the end of its log."""

    def __init__(self, status: int | None, stderr: str) -> None:
        tail = stderr.strip().splitlines()[-3:]
        super().__init__(f"the agent ended with status {status}" + (f": {' / '.join(tail)}" if tail else ""))
        self.status = status
        self.stderr = stderr


class Peer:
    """An agent process, as its host sees it. Made by :func:`connect`."""

    def __init__(
        self, process: trio.Process, side: HostSide, on_approval: OnApproval | None, tap: Tap | None = None
    ) -> None:
        self.process = process
        self.capabilities = Capabilities()
        self.session_id = ""
        self.log = SessionLog(None)
        """Everything heard from the agent, in order, with this host's own numbering."""
        self._side = side
        self._on_approval = on_approval
        self._tap = tap
        self._turns: dict[object, int] = {}
        self._running = ""
        self._answers: dict[int, Callable[[Done | Refusal], None]] = {}
        self._stderr: deque[bytes] = deque()
        self._ready = trio.Event()
        self._gone = trio.Event()
        self._writing = trio.Lock()
        self._listening = trio.CancelScope()

    # --- driving ---

    async def prompt(self, text: str, *, files: Sequence[str] = ()) -> AsyncGenerator[AnyEvent, None]:
        """Send a user input and yield the events of its turn, its end included.

        Leaving the loop early stops the turn. Raises :class:`AgentDied` if the process ends first, after what it
        said; :class:`Refused` if a turn runs already or the wire cannot carry the prompt.
        """
        if self._running:
            raise Refused(Refusal("busy", "a turn is running", retryable=True))
        ref = self._running = uuid.uuid4().hex
        cursor = self.log.cursor()
        ended = False
        news = trio.Event()
        refused: list[Refusal] = []

        def answered(result: Done | Refusal) -> None:
            if isinstance(result, Refusal):
                refused.append(result)
            news.set()

        try:
            await self.send(Prompt(text, ref=ref, files=list(files)), answered)
            while not ended:
                records = cursor.take()
                for record in records:
                    if record.turn != self._turns.get(ref):
                        continue
                    ended = ended or (isinstance(record.event, TurnFinished) and not record.origin)
                    yield record.event
                    if isinstance(record.event, ApprovalRequested) and self._on_approval is not None:
                        await self._answer(record.event, self._on_approval)
                if refused:
                    ended = True
                    raise Refused(refused[0])
                if not records and not ended:
                    if self._gone.is_set():
                        break
                    news = trio.Event()
                    if cursor.park(news.set):
                        await self._either(news)
        finally:
            cursor.close()
            if not ended and not self._gone.is_set():
                # Whoever leaves has an error of their own, or none; a dead agent has stopped.
                with trio.CancelScope(shield=True), trio.move_on_after(GRACE), suppress(AgentDied):
                    await self._stop_and_wait(ref)
            self._running = ""
        if self._gone.is_set() and not self._orderly():
            raise AgentDied(self.process.returncode, self.stderr)

    async def ask(self, text: str, *, files: Sequence[str] = ()) -> str:
        """Send a user input and wait for the answer's text."""
        answer = ""
        async with aclosing(self.prompt(text, files=files)) as events:
            async for event in events:
                if isinstance(event, TurnFinished):
                    answer = event.text
        return answer

    async def approve(self, call_id: str, scope: Literal["once", "always"] = "once") -> None:
        """Let a call run."""
        await self.send(Approve(call_id, scope=scope))

    async def deny(self, call_id: str, reason: str = "") -> None:
        """Do not let a call run."""
        await self.send(Deny(call_id, reason=reason))

    async def stop(self) -> None:
        """End the running turn; its end comes as an event."""
        await self.send(Stop())

    async def set_mode(self, mode: Mode) -> None:
        """Change the approval mode."""
        await self.send(SetMode(mode))

    async def set_model(self, model: str) -> None:
        """Change the model."""
        await self.send(SetConfig(model=model))

    async def ping(self) -> None:
        """Wait until the agent has read everything sent before."""
        heard = trio.Event()
        result: list[Done | Refusal] = []

        def answered(outcome: Done | Refusal) -> None:
            result.append(outcome)
            heard.set()

        await self.send(Ping(), answered)
        await self._either(heard)
        if not result:
            raise AgentDied(self.process.returncode, self.stderr)

    async def send(self, command: Command, answered: Callable[[Done | Refusal], None] | None = None) -> None:
        """Send any command. Raises :class:`Refused` if the wire has no word for it, :class:`AgentDied`."""
        out = bytearray()
        number = self._side.send(command, out)
        if isinstance(number, Refusal):
            raise Refused(number)
        if answered is not None:
            self._answers[number] = answered
        if self._tap is not None:
            self._tap("in", bytes(out).rstrip(b"\n"))
        stdin = self.process.stdin
        if stdin is None:
            raise RuntimeError("the process was started without a pipe")
        # Half a line would spoil the next one: once begun, a line is written whole, or the agent is given up.
        sent = False
        try:
            async with self._writing:
                with trio.CancelScope(shield=True), trio.move_on_after(GRACE):
                    await stdin.send_all(out)
                    sent = True
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise AgentDied(self.process.returncode, self.stderr) from None
        if not sent:
            _signal(self.process, signal.SIGKILL)
            raise AgentDied(self.process.returncode, "the agent does not read what it is sent")

    @property
    def stderr(self) -> str:
        """The end of what the agent wrote to its standard error."""
        return b"".join(self._stderr).decode("utf-8", errors="replace")

    # --- listening ---

    async def _listen(self) -> None:
        framer = Framer(LONGEST_LINE)
        stdout = self.process.stdout
        if stdout is None:
            raise RuntimeError("the process was started without a pipe")
        with self._listening:
            while chunk := await stdout.receive_some():
                self._hear(framer.feed(chunk))
        self._hear(framer.finish())
        self._take(self._side.close())
        # An agent that closed its output has nothing more to say, even if it lives on.
        with trio.move_on_after(GRACE):
            await self.process.wait()
        if self.process.returncode is None:
            _signal(self.process, signal.SIGTERM)
        self._gone.set()
        self._ready.set()

    async def _watch_death(self) -> None:
        """A child that the agent left behind may hold its output open: that must not hide the agent's death."""
        await self.process.wait()
        watchdog.release(self.process.pid)
        await trio.sleep(DRAIN)
        self._listening.cancel()

    def _hear(self, lines: Sequence[bytes | LineFault]) -> None:
        for line in lines:
            if self._tap is not None and isinstance(line, bytes):
                self._tap("out", line)
            self._take(self._side.receive(line))

    def _take(self, heard: list[Heard | Answered]) -> None:
        for item in heard:
            if isinstance(item, Answered):
                callback = self._answers.pop(item.command, None)
                if callback is not None:
                    callback(item.result)
                continue
            event = item.event
            if isinstance(event, SessionOpened):
                self.session_id = event.id
                self._ready.set()
            if isinstance(event, SessionOpened | CapabilitiesChanged | ConfigChanged | ModeChanged):
                self.capabilities = event.capabilities
            turn = 0 if item.ref is None else self._turns.setdefault(item.ref, len(self._turns) + 1)
            self.log.append(event, turn, item.origin)  # type: ignore[arg-type]  # every event is of the union

    async def _drain_stderr(self) -> None:
        stream = self.process.stderr
        if stream is None:
            raise RuntimeError("the process was started without a pipe")
        size = 0
        while chunk := await stream.receive_some():
            self._stderr.append(bytes(chunk))
            size += len(chunk)
            while size - len(self._stderr[0]) > STDERR_TAIL:
                size -= len(self._stderr.popleft())

    async def _stop_and_wait(self, ref: str) -> None:
        """Stop a turn that nobody follows any more, and wait for its end, so that the next finds none before it."""
        cursor = self.log.cursor()
        await self.send(Stop())
        while not self._gone.is_set():
            for record in cursor.take():
                if record.turn == self._turns.get(ref) and isinstance(record.event, TurnFinished) and not record.origin:
                    return
            news = trio.Event()
            if cursor.park(news.set):
                await self._either(news)

    async def _answer(self, question: ApprovalRequested, on_approval: OnApproval) -> None:
        answer = on_approval(question)
        if await answer if inspect.isawaitable(answer) else answer:
            await self.approve(question.call_id)
        else:
            await self.deny(question.call_id, "Not allowed")

    async def _either(self, event: trio.Event) -> None:
        """Wait for an event, or for the end of the process."""
        async with trio.open_nursery() as nursery:

            async def until(which: trio.Event) -> None:
                await which.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(until, event)
            nursery.start_soon(until, self._gone)

    async def wait_ready(self, timeout: float) -> None:
        """Wait for the agent's greeting. Raises :class:`AgentDied` or :class:`trio.TooSlowError`."""
        with trio.fail_after(timeout):
            await self._ready.wait()
        if self._gone.is_set():
            raise AgentDied(self.process.returncode, self.stderr)

    def _orderly(self) -> bool:
        return self.process.returncode == 0

    async def close(self) -> None:
        """End the process: close its input, then SIGTERM, then SIGKILL, each after some seconds."""
        with trio.CancelScope(shield=True):
            if self.process.stdin is not None:
                await self.process.stdin.aclose()
            for step in (None, signal.SIGTERM, signal.SIGKILL):
                if step is not None and self.process.returncode is None:
                    logger.warning("the agent did not end by itself; sending %s", step.name)
                    _signal(self.process, step)
                with trio.move_on_after(GRACE):
                    await self.process.wait()
                    return


def _signal(process: trio.Process, number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


@asynccontextmanager
async def connect(
    argv: Sequence[str],
    *,
    codec: str = "aionrs",
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    on_approval: OnApproval | None = None,
    tap: Tap | None = None,
    ready_timeout: float = READY_TIMEOUT,
) -> AsyncIterator[Peer]:
    """Start an agent process that speaks ``codec`` and drive it as its host.

    ``on_approval`` answers its questions (True lets a call run); without it, answer them with
    :meth:`Peer.approve` and :meth:`Peer.deny` while iterating over :meth:`Peer.prompt`. ``tap`` sees every line in
    both directions. The process is ended when
    the block is left. Raises :class:`AgentDied` if it ends before it is ready, :class:`trio.TooSlowError` if that
    takes longer than ``ready_timeout`` seconds.
    """
    wire = registry.load_codec(codec)
    process = await trio.lowlevel.open_process(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=dict(env) if env is not None else None,
        start_new_session=True,
    )
    watchdog.guard(process.pid)  # it does not outlive us, even if we are killed
    peer = Peer(process, wire.host(), on_approval, tap)
    with one_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer._listen)
            nursery.start_soon(peer._drain_stderr)
            nursery.start_soon(peer._watch_death)
            try:
                if wire.greets:
                    await peer.wait_ready(ready_timeout)
                yield peer
            finally:
                await peer.close()
                nursery.cancel_scope.cancel()
