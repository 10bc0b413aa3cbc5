"""A live agent: its process, what drives it, and the next process where a stop ends one."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import trio

from agentwire.codec.contract import Answered, Codec, Heard
from agentwire.codec.framing import LineFault
from agentwire.commands import Approve, Command, Deny, Done, Refusal, Stop
from agentwire.host.plain import driver_of
from agentwire.host.process import GRACE, AgentDied, AgentProcess, Undrivable
from agentwire.host.refused import Refused
from agentwire.recording import Recorder

logger = logging.getLogger("agentwire.connect")

Tap = Callable[[Literal["in", "out"], bytes], None]
"""Sees every line as it stands on the wire, without its line feed; ``in`` is what the agent reads."""

Answer = Callable[[Done | Refusal], None]

Start = Callable[..., Awaitable[trio.Process]]
"""Starts a process; see :func:`agentwire.host.process.start_process`."""

OF_THE_PROCESS = (Stop, Approve, Deny)
"""Commands that mean nothing to a process that is not the one they were about: none is started for them."""


class Driven:
    """An agent and whatever process it has now. ``hear`` is given what it says, answers left out."""

    def __init__(
        self,
        codec: Codec,
        argv: Sequence[str],
        nursery: trio.Nursery,
        hear: Callable[[Heard], None],
        *,
        start: Start,
        cwd: str | Path | None,
        env: Mapping[str, str] | None,
        tap: Tap | None,
        recorder: Recorder | None,
        ready_timeout: float,
    ) -> None:
        self._side = driver_of(codec)
        self._speaks = codec.driver is not None
        self._argv = list(argv)
        self._nursery = nursery
        self._take = hear
        self._start = start
        self._process: AgentProcess | None = None
        self._ended = self._closed = False
        self._stops = 0
        self._cwd, self._env = cwd, environment(codec, env)
        self._tap, self._recorder = tap, recorder
        self._ready_timeout = ready_timeout
        self._answers: dict[int, Answer] = {}
        self._out = bytearray()
        self._writing, self._starting = trio.Lock(), trio.Lock()
        self._heard = trio.Event()
        self._ready = trio.Event()

    # --- the process ---

    async def start(self) -> None:
        """Start the agent, and wait until it is ready.

        Raises :class:`AgentDied`, :class:`trio.TooSlowError`, ``OSError``.
        """
        started = await self._start(self._side.begin(self._argv), cwd=self._cwd, env=self._env)
        process = AgentProcess(started, self._hear, self._recorder)
        if self._closed:  # meanwhile: whoever did that knew nothing of this process
            await process.end()
            raise process.died()
        self._process, self._ended = process, False
        self._out.clear()
        process.start(self._nursery)
        if self._speaks:
            self._nursery.start_soon(self._speak, process)
        try:
            await self._wait_ready()
        except trio.TooSlowError:
            await process.end()
            raise

    @property
    def process(self) -> AgentProcess:
        """The process that runs, or ran last."""
        if self._process is None:
            raise RuntimeError("the agent was not started")
        return self._process

    @property
    def silent(self) -> bool:
        """The process's output has ended: what it did not answer it never will."""
        return self._ended or (self._process is not None and self._process.gone.is_set())

    async def _wait_ready(self) -> None:
        """Wait until commands may be sent. Raises :class:`AgentDied` and :class:`trio.TooSlowError`."""
        with trio.fail_after(self._ready_timeout):
            while not self.silent and not (ready := self._side.ready()):
                self._ready = trio.Event()
                await self.process.until(self._ready)
        if self.silent:
            await self.process.gone.wait()
            raise self.process.died()
        if isinstance(ready, Refusal):
            raise Undrivable(ready)

    @property
    def gone(self) -> bool:
        """Nothing more will be heard."""
        return self.process.gone.is_set() and not self._side.resumable()

    @property
    def ended_well(self) -> bool:
        """The process has ended, by itself or because a stop ends it."""
        return self.process.orderly or self._side.resumable()

    @property
    def restarts(self) -> bool:
        """The turn that runs was stopped, and the process may end with it: another takes up its session."""
        return self._side.resumable()

    async def at_hand(self) -> None:
        """See to it that there is a process that can be talked to. Raises :class:`AgentDied`."""
        if not self.silent and self._side.ready() is True:
            return
        async with self._starting:
            try:
                while self.silent or self._side.ready() is not True:
                    await (self._start_again() if self.silent else self._leaving_or_ready())
            except trio.TooSlowError:
                await self.process.close()
                raise AgentDied(None, f"it was not ready within {self._ready_timeout:g} seconds") from None
            except OSError as error:
                raise AgentDied(None, f"it cannot be started again: {error.strerror or error}") from None

    async def _start_again(self) -> None:
        await self.process.gone.wait()
        if self._closed or not self._side.resumable():
            raise self.process.died()
        if self.process.process.returncode is None:  # it lives on without an output; two would share the session
            await self.process.end()
        logger.info("a stop ended the agent; starting it again")
        await self.start()

    async def _leaving_or_ready(self) -> None:
        try:
            await self._wait_ready()
        except AgentDied:
            if not self._side.resumable():
                raise

    async def _bound_stop(self, process: AgentProcess, number: int) -> None:
        """End a process that does not heed a stop in time; its session is taken up by another."""
        with trio.move_on_after(GRACE):
            await process.gone.wait()
            return
        if number == self._stops and process is self._process and self._stopping():
            logger.warning("the agent did not heed the stop; ending it")
            await process.end()

    def _stopping(self) -> bool:
        """A turn is stopped, and the process may be ended for it. One that is only starting is not to pay for that."""
        return not self.silent and self._side.ready() is True and self._side.resumable()

    async def close(self) -> None:
        """End the process, if there is one, and start no other; see :meth:`AgentProcess.close`."""
        self._closed = True
        if self._process is not None:
            await self._process.close()

    # --- out ---

    async def send(self, command: Command, answered: Answer | None = None) -> None:
        """Send a command; ``answered`` is told its outcome, if the wire tells one.

        Raises :class:`Refused` for what cannot be sent, and :class:`AgentDied`.
        """
        if not isinstance(command, OF_THE_PROCESS):
            await self.at_hand()
        self._collect()
        number = self._side.send(command, self._out)
        if isinstance(number, Refusal):
            raise Refused(number)
        if answered is not None:
            self._answers[number] = answered
        self._collect()
        if isinstance(command, Stop) and self._stopping():
            self._stops += 1
            self._nursery.start_soon(self._bound_stop, self.process, self._stops)
        await self._flush()

    def _collect(self) -> None:
        """Take what is due, and tell what is known without hearing it."""
        if self._speaks:
            self._tell(self._side.due(self._out))

    async def _flush(self) -> None:
        async with self._writing:
            while self._out:
                lines, self._out = self._out, bytearray()
                if self._tap is not None:
                    for line in lines.removesuffix(b"\n").split(b"\n"):
                        self._tap("in", bytes(line))
                await self.process.write(lines)

    async def _speak(self, process: AgentProcess) -> None:
        """Write what is due, whenever something was heard."""
        while process is self._process and not self.silent:
            self._heard = trio.Event()
            self._collect()
            try:
                await self._flush()
            except AgentDied:
                return  # whoever needs it learns that from its end
            await self._heard.wait()

    # --- in ---

    def _hear(self, line: bytes | LineFault | None) -> None:
        if self._tap is not None and isinstance(line, bytes):
            self._tap("out", line)
        self._ended = line is None
        self._tell(self._side.close() if line is None else self._side.receive(line))
        if not self._ready.is_set() and (self.silent or self._side.ready()):
            self._ready.set()
        if self._speaks and not self._heard.is_set():
            self._heard.set()

    def _tell(self, said: Sequence[Heard | Answered]) -> None:
        for item in said:
            if isinstance(item, Heard):
                self._take(item)
                continue
            answered = self._answers.pop(item.command, None)
            if answered is not None:
                answered(item.result)


def environment(codec: Codec, given: Mapping[str, str] | None) -> dict[str, str] | None:
    """The environment of an agent: ``given``, or ours without what it would take for a choice. None: ours."""
    if not codec.environment:
        return None if given is None else dict(given)
    withheld = {name for name, value in codec.environment.items() if value is None}
    if given is None:
        if left := sorted(withheld & os.environ.keys()):
            logger.warning("not handed down to the agent, which would take it for a choice: %s", ", ".join(left))
        found = {name: value for name, value in os.environ.items() if name not in withheld}
    else:
        found = dict(given)
    return {name: value for name, value in codec.environment.items() if value is not None} | found
