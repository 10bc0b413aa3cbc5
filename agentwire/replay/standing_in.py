"""A recording in the place of its agent: a host on standard input and output is answered as it was recorded."""

from __future__ import annotations

import logging
import sys
from collections import deque
from typing import Final

import trio

from agentwire.codec.contract import Codec
from agentwire.codec.everything import Everything
from agentwire.codec.framing import Framer, LineFault
from agentwire.commands import Done, Outcome, Ping, Refusal, Shutdown
from agentwire.recording import Entry, Recording
from agentwire.replay.ids import Ids
from agentwire.replay.matching import Said, difference
from agentwire.replay.pace import Pace
from agentwire.replay.script import Say, Wait, script
from agentwire.server.connection import Transport
from agentwire.transcode import Asked, LogReader
from agentwire.transport.stdio import StdioTransport, claim

logger = logging.getLogger("agentwire.replay")

DIVERGED: Final = 1
"""Exit status: the host did not do what was recorded."""

SHOWN: Final = 300
"""Characters of a line that a report quotes."""


class Diverged(Exception):
    """The host does not do what was recorded. The message says where and how."""


class HostGone(Exception):
    """The host reads no more."""


def stand_in(recording: Recording, codec: Codec, pace: Pace, *, lenient: bool = False) -> int:
    """Answer the host on this process's standard input and output until it is gone. The exit status.

    Raises :class:`agentwire.recording.RecordingError`.
    """
    pipes = claim()
    agent = StandIn(recording, codec, StdioTransport(pipes), pace, lenient=lenient)
    try:
        return trio.run(agent.run)
    finally:
        pipes.close()


class StandIn:
    """One replay to one host.

    What the recorded agent said without being asked is sent by itself; where a line of the host follows in the
    recording, the host is waited for. Its lines are read at any time and looked at when their turn has come.
    """

    def __init__(
        self, recording: Recording, codec: Codec, transport: Transport, pace: Pace, *, lenient: bool = False
    ) -> None:
        self._recording = recording
        self._codec = codec
        self._transport = transport
        self._pace = pace
        self._lenient = lenient
        self._ids = Ids()
        self._reader = LogReader(
            codec
        )  # follows the live wire, so that the host's lines are understood as an agent would
        self._inbox: deque[bytes | LineFault] = deque()
        self._news = trio.Event()
        self._ended = False
        self.divergences = 0

    async def run(self) -> int:
        """Play to the end. The exit status."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen)
            try:
                await self._play()
            except Diverged as error:
                self._report(str(error))
                nursery.cancel_scope.cancel()
                return DIVERGED
            except HostGone:
                logger.info("the host reads no more")
            nursery.cancel_scope.cancel()
        return 0

    # --- the script ---

    async def _play(self) -> None:
        last: Wait | Say | None = None
        for last in script(self._recording, self._codec):
            if isinstance(last, Say):
                await self._say(last)
            elif not await self._await(last):
                return
        if self._codec.begin is not None or (isinstance(last, Wait) and isinstance(last.command, Shutdown)):
            return  # an agent that ends by itself
        while (line := await self._next()) is not None:
            said = self._understood(line)
            if said is not None:
                self._astray(f"{self._recording.path}, at the end: the host goes on", said)

    async def _say(self, say: Say) -> None:
        self._ids.heard(say.data)
        data = self._ids.translate(say.data)
        self._reader.feed(Entry(say.at, "agent", data.decode("utf-8", "replace")))
        if delay := self._pace.delay(say.at):
            await trio.sleep(delay)
        await self._write(data)

    async def _await(self, wait: Wait) -> bool:
        """Wait for the host to say what was recorded. False: it has ended its input."""
        while True:
            line = await self._next()
            if line is None:
                if not (wait.guessed or self._lenient):
                    raise Diverged(f"{self._place(wait)}: the host ended its input; recorded: {_quote(wait.said)}")
                return False
            said = self._understood(line)
            if said is None:
                continue
            self._pace.restart(wait.at)
            found = difference(wait, said, self._ids, lenient=self._lenient)
            if not found:
                return True
            self._astray(f"{self._place(wait)}: the host sent {found}\n  recorded: {_quote(wait.said)}", said)
            await self._answer(line)

    def _astray(self, what: str, said: Said) -> None:
        """The host does something else: the end, or (lenient) something to be reported."""
        text = f"{what}\n  now:      {_quote(said.line)}"
        if not self._lenient:
            raise Diverged(text)
        self._report(text)

    def _report(self, text: str) -> None:
        self.divergences += 1
        print(f"replay: {text}", file=sys.stderr, flush=True)

    def _place(self, wait: Wait) -> str:
        return f"{self._recording.path}, line {wait.line}"

    # --- the host ---

    def _understood(self, line: bytes | LineFault) -> Said | None:
        """A line of the host as the command it is. None: its wire ignores it."""
        if isinstance(line, LineFault):
            return Said(b"", None, Refusal("bad_line", line.message))
        for item in self._reader.feed(Entry(0, "host", line.decode() + "\n")):
            if isinstance(item, Asked):
                return Said(line, item.command, item.refusal)
        return None

    async def _answer(self, line: bytes | LineFault) -> None:
        """Do not leave a host without an answer that waits for one."""
        side = self._codec.agent()
        request = side.receive(line, Everything())
        if request is None:
            return
        out = bytearray()
        refusal = request.refusal or Refusal("unsupported", "This agent is a recording; that is not in it")
        side.outcome(request, Outcome(Done() if isinstance(request.command, Ping) else refusal), out)
        await self._write(bytes(out))

    async def _next(self) -> bytes | LineFault | None:
        while not self._inbox:
            if self._ended:
                return None
            self._news = trio.Event()
            await self._news.wait()
        return self._inbox.popleft()

    async def _listen(self) -> None:
        framer = Framer(self._codec.max_line)
        while data := await self._transport.receive():
            self._inbox.extend(framer.feed(data))
            self._news.set()
        self._inbox.extend(framer.finish())
        self._ended = True
        self._news.set()

    async def _write(self, data: bytes) -> None:
        try:
            with memoryview(data) as view:
                sent = self._transport.send_now(view)
                while sent < len(view):
                    await self._transport.wait_writable()
                    sent += self._transport.send_now(view[sent:])
        except OSError:
            raise HostGone from None


def _quote(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return (text[:SHOWN] + "..." if len(text) > SHOWN else text) or "(nothing: a log of the agent alone)"
