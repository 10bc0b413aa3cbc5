"""Plays one side of a wire, step by step, and keeps what both sides said."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import trio

from agentwire.codec.framing import HOST_LIMIT, Framer, LineFault
from agentwire.codec.jsontext import clip
from agentwire.codec.kit import (
    Again,
    Await,
    AwaitEnd,
    EndInput,
    Grumble,
    HangUp,
    Let,
    Play,
    ReadOn,
    Rest,
    Said,
    Say,
    Step,
    StopReading,
    Terminate,
    Transcript,
    Unseen,
    Who,
)
from agentwire.codec.patterns import filled, matches

PADDING: Final = "agentwire_padding"
"""Key of no meaning that makes a line long."""

TORN_PAUSE: Final = 0.05
"""Seconds between the halves of a line that is cut."""

DRAIN: Final = 0.3
"""Seconds that the output of a program that is gone is still read: a child of its may hold it open."""

Gone = Callable[[], Awaitable["int | None"]]
"""Waits until the other side is gone; its exit status, if it has one."""


class Pipes(NamedTuple):
    """The way to the other side and back."""

    outgoing: trio.abc.SendStream
    incoming: trio.abc.ReceiveStream
    gone: Gone
    terminate: Callable[[], None] | None = None
    """Sends the other side's process the signal to end."""


Restart = Callable[[list[str]], Awaitable[Pipes]]
"""Ends an agent if it is still there, and starts it anew with these words added to its command."""


class _Over(Exception):
    """The play ends here. ``unseen``: what it was to prove cannot be seen."""

    def __init__(self, why: str, *, unseen: bool = False) -> None:
        super().__init__(why)
        self.unseen = unseen


class Actor:
    """One run of a play. ``me`` is the side that is played; ``patience`` the seconds that a step may take."""

    def __init__(
        self,
        me: Who,
        play: Play,
        pipes: Pipes,
        patience: float,
        given: Mapping[str, Any] | None = None,
        restart: Restart | None = None,
    ) -> None:
        self.transcript = Transcript(play.name, given=dict(given or {}))
        self._me: Who = me
        self._other: Who = "agent" if me == "host" else "host"
        self._play = play
        self._pipes, self._restart = pipes, restart
        self._patience = patience
        self._given = self.transcript.given
        self._heard: list[Any] = []
        self._passed = 0
        """Of the lines heard, how many the steps are done with."""
        self._news = trio.Event()
        self._prepare()

    def _prepare(self) -> None:
        """For a new process of the other side."""
        self._ended = self._hung_up = False
        self._reading = trio.Event()
        self._reading.set()
        self._written = trio.Event()
        self._dismissed = trio.Event()
        """The other side has taken its leave in words."""
        self._pieces, self._due = trio.open_memory_channel[bytes | float | None](float("inf"))
        self._conversing = trio.CancelScope()

    async def run(self) -> Transcript:
        """Play; never raises for what the other side does."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._converse)
            try:
                for step in self._play.steps:
                    await self._step(step)
            except _Over as over:
                if over.unseen:
                    self.transcript.unseen = str(over)
                else:
                    self.transcript.broken = str(over)
            nursery.cancel_scope.cancel()
        return self.transcript

    async def _converse(self) -> None:
        with self._conversing:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                nursery.start_soon(self._read)

    # --- steps ---

    async def _step(self, step: Step) -> None:
        match step:
            case Say():
                self._say(step)
            case Await():
                for _ in range(0 if step.spare in self._given else step.times):
                    await self._await(step)
            case EndInput():
                self._pieces.send_nowait(None)
            case HangUp():
                self._pieces.send_nowait(None)
                with trio.move_on_after(self._patience):
                    await self._written.wait()
                self._hung_up = True
                await self._pipes.incoming.aclose()
            case StopReading():
                self._reading = trio.Event()
            case ReadOn():
                self._reading.set()
            case Let(name, value):
                self._given[name] = value
            case Rest(seconds):
                await trio.sleep(seconds)
            case Grumble(size):
                await trio.to_thread.run_sync(_grumble, size)
            case AwaitEnd():
                await self._await_end(step)
            case Again():
                await self._again(step)
            case Terminate():
                if self._pipes.terminate is None:
                    raise RuntimeError("only an agent is told to end by a signal")
                self._pipes.terminate()
            case Unseen(why):
                raise _Over(why, unseen=True)

    def _say(self, step: Say) -> None:
        line = filled(step.line, self._given)
        if step.pad:
            line = {**line, PADDING: "x" * step.pad}
        data = line if isinstance(line, bytes) else _encode(line)
        self._keep(self._me, data, times=step.times)
        end = {"crlf": b"\r\n", "open": b""}.get(step.delivery, b"\n")
        if step.delivery == "bytes":
            for byte in data + end:
                self._pieces.send_nowait(bytes([byte]))
        elif step.delivery == "torn":
            cut = _inside_character(data)
            for piece in (data[:cut], TORN_PAUSE, data[cut:] + end):
                self._pieces.send_nowait(piece)
        else:
            self._pieces.send_nowait((data + end) * step.times)

    async def _await(self, step: Await) -> None:
        wanted = f"no {step.what} came in {self._patience:g} s"
        with trio.move_on_after(self._patience):
            while True:
                while self._passed < len(self._heard):
                    value = self._heard[self._passed]
                    self._passed += 1
                    if matches(step.line, value, self._given):
                        return
                    if any(matches(never, value, dict(self._given)) for never in step.never):
                        raise _Over(f"{clip(_text(value))} came where {step.what} should")
                    if step.unless is not None and matches(step.unless, value, dict(self._given)):
                        raise _Over(step.absent, unseen=True)
                if self._ended:
                    wanted = f"no {step.what} came: the output has ended"
                    break
                await self._wait()
        if step.absent and not self._ended:
            raise _Over(step.absent, unseen=True)
        raise _Over(wanted)

    async def _await_end(self, step: AwaitEnd) -> None:
        if self._hung_up and self._me == "agent":
            return  # a host that is gone cannot be told from here; its starter sees it
        with trio.move_on_after(self._patience):
            await self._leave()
            with trio.move_on_after(DRAIN):
                while not self._ended and not self._dismissed.is_set() and self._reading.is_set():
                    await self._wait()
            if wrong := wrong_end(step, self.transcript.status):
                raise _Over(wrong)
            return
        raise _Over("it did not end" if self._me == "host" else "it did not close its agent's input")

    async def _again(self, step: Again) -> None:
        """The other side ends, and is started anew."""
        if self._restart is None:
            raise RuntimeError("only an agent is started anew")
        if not step.killed:
            self._pieces.send_nowait(None)
            await self._await_end(AwaitEnd())
        self._conversing.cancel()
        words = [str(filled(word, self._given)) for word in step.arguments]
        self._pipes = await self._restart(words)
        self._passed = len(self._heard)
        self.transcript.status = None
        self._prepare()
        self._nursery.start_soon(self._converse)

    async def _leave(self) -> None:
        """Wait until the other side is gone, or says that it will be."""
        async with trio.open_nursery() as nursery:

            async def gone() -> None:
                self.transcript.status = await self._pipes.gone()
                nursery.cancel_scope.cancel()

            nursery.start_soon(gone)
            await self._dismissed.wait()
            self._pieces.send_nowait(None)
            await self._written.wait()
            nursery.cancel_scope.cancel()

    async def _wait(self) -> None:
        self._news = trio.Event()
        await self._news.wait()

    # --- lines ---

    def _keep(self, who: Who, line: bytes | LineFault, times: int = 1) -> Any:
        """Add lines to the transcript; their JSON value."""
        said = Said(who, b"", line.message) if isinstance(line, LineFault) else _said(who, line)
        self.transcript.lines += [said] * times
        return said.value

    def _hear(self, line: bytes | LineFault) -> None:
        value = self._keep(self._other, line)
        self._heard.append(value)
        for reply in self._play.replies:
            given = dict(self._given)
            if matches(reply.on, value, given):
                for said in reply.say:
                    data = _encode(filled(said, given))
                    self._keep(self._me, data)
                    self._pieces.send_nowait(data + b"\n")
                if reply.ends:
                    self._dismissed.set()

    async def _read(self) -> None:
        framer = Framer(HOST_LIMIT)
        try:
            while True:
                await self._reading.wait()
                chunk = await self._pipes.incoming.receive_some()
                if not chunk:
                    break
                self.transcript.carriage_returns |= b"\r\n" in chunk
                for line in framer.feed(chunk):
                    self._hear(line)
                self._news.set()
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            pass  # we hung up, or the other side did: either is an end
        for line in framer.finish():
            self.transcript.unfinished = True
            self._hear(line)
        self._ended = True
        self._news.set()

    async def _write(self) -> None:
        async for piece in self._due:
            try:
                if piece is None:
                    await self._pipes.outgoing.aclose()
                    break
                if isinstance(piece, float):
                    await trio.sleep(piece)
                else:
                    await self._pipes.outgoing.send_all(piece)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                break  # the other side reads no more; what that means shows in what it says, or does not
        self._written.set()


def wrong_end(step: AwaitEnd, status: int | None) -> str:
    """What is wrong with an exit status; nothing is if it is not known."""
    if status is None:
        return ""
    if step.fails and status == 0:
        return "it ended with status 0, as if all were well"
    if step.status is not None and status != step.status:
        return f"it ended with status {status} instead of {step.status}"
    return ""


def _said(who: Who, line: bytes) -> Said:
    try:
        return Said(who, line, value=json.loads(line))
    except (ValueError, RecursionError) as error:
        return Said(who, line, f"not JSON: {error}")


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _inside_character(data: bytes) -> int:
    """A place to cut: after the first byte of a character of several, if there is one."""
    for place, byte in enumerate(data):
        if byte >= 0xC0:
            return place + 1
    return len(data) // 2


def _grumble(size: int) -> None:
    line = "agentwire check: " + "noise " * 10 + "\n"
    sys.stderr.write(line * (size // len(line) + 1))
    sys.stderr.flush()
