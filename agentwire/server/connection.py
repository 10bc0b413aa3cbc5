"""One connection: bytes in, commands out to the server; records and outcomes in, bytes out.

Two tasks and no queue between them and the log. The reader handles a chunk's lines where it reads them. The writer
parks when everything is written; an append that finds it parked may write at once, so that a single event reaches
the host without a turn of the scheduler, and a burst is written in batches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import trio

from agentwire.codec.contract import AgentSide, Request
from agentwire.codec.framing import Framer, LineFault
from agentwire.commands import Done, Outcome, Refusal, ResumeSession, SessionState
from agentwire.server.outbox import Outbox
from agentwire.server.server import Server
from agentwire.session import Session

logger = logging.getLogger("agentwire.connection")

QUIET_NS = 200_000
"""A direct write is made only if the last one is longer ago than this: a burst goes out in batches."""


class Transport(Protocol):
    """What carries the bytes of a connection."""

    async def receive(self) -> bytes:
        """The next bytes; ``b""`` at the end."""
        ...

    def send_now(self, data: bytearray | memoryview) -> int:
        """Write what goes without waiting; raises ``OSError`` if the other end is gone."""
        ...

    async def wait_writable(self) -> None:
        """Wait until more can be written."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Connection:
    """A host at the other end of a transport, speaking one codec."""

    def __init__(
        self,
        server: Server,
        side: AgentSide,
        transport: Transport,
        *,
        max_line: int,
        session: str = "",
        outbox: Outbox | None = None,
        name: str = "",
        begin: Callable[[AgentSide], Sequence[Request]] | None = None,
        end: Callable[[AgentSide], Sequence[Request]] | None = None,
        single: bool = True,
        outlives_output: str = "",
    ) -> None:
        self._server = server
        self._side = side
        self._transport = transport
        self._framer = Framer(max_line)
        self._session = session
        """The session of commands that name none."""
        self._begin = begin
        self._end = end
        self._single = single
        """The wire shows one session at a time: resuming another leaves this one."""
        self._outlives_output = outlives_output
        self.name = name
        self.outbox = outbox or Outbox(side)
        self.broken = False
        """The other end is gone; nothing can be written any more."""
        self._discards = False
        """The other end is gone, and the wire says to go on without it."""
        self._parked = False
        self._work = trio.Event()
        self._room = trio.Event()
        self._ending = False
        self._last_direct = 0
        self._last_outcome = 0.0
        self._outcomes_seen = 0

    async def run(self) -> int:
        """Serve until the host is gone and everything due is written. The process's exit status."""
        async with trio.open_nursery() as nursery:
            for request in self._begin(self._side) if self._begin is not None else ():
                self._carry_out(request, starting=True)
            nursery.start_soon(self._write, nursery.cancel_scope)
            await self._read()
            for request in self._end(self._side) if self._end is not None else ():
                self._carry_out(request)
            await self._server.host_gone(self)
            self._ending = True
            self._wake()
        for session in list(self.outbox.follows):
            self.outbox.unfollow(session)
        return self.outbox.exit_status or 0

    def follows(self, session: str) -> bool:
        """Whether this connection shows that session to its host."""
        return session in self.outbox.follows

    def follow(self, session: Session, after: int | None) -> None:
        """Show a session to the host, from after record ``after`` or from its head."""
        if session.id not in self.outbox.follows:
            self.outbox.follow(session, after=after)
            if self._single:
                self._make_own(session.id)
            self._wake()

    def end(self) -> None:
        """Write what is due and stop writing; for a server that shuts down."""
        self._ending = True
        self._wake()

    # --- in ---

    async def _read(self) -> None:
        while not self.broken:
            try:
                chunk = await self._transport.receive()
            except OSError as error:  # a terminal that hung up, a connection that was reset: there is nothing more
                logger.info("the host's input broke off: %s", error)
                chunk = b""
            for line in self._framer.feed(chunk) if chunk else self._framer.finish():
                self._handle(line)
                if self.outbox.overfull:
                    self._room = trio.Event()
                    await self._room.wait()
            if not chunk:
                return

    def _handle(self, line: bytes | LineFault) -> None:
        try:
            request = self._side.receive(line, self._server)
        except Exception:  # a codec's bug: this line is lost, and said; what follows may be fine
            logger.exception("the codec could not read a line")
            request = Request(None, Refusal("internal", "This line could not be read; see the agent's log"))
        if request is not None:
            self._carry_out(request)

    def _carry_out(self, request: Request, *, starting: bool = False) -> None:
        """Have a request's command carried out, and its outcome written."""
        session = request.session or getattr(request.command, "session", "") or self._session
        if request.refusal is not None or request.command is None:
            if request.refusal is not None:
                self._reply(request, session, Outcome(request.refusal))
            return
        if self._server.stopping:
            return  # nothing that comes now is read any more

        def reply(outcome: Outcome) -> None:
            state = outcome.result.value if isinstance(outcome.result, Done) else None
            if isinstance(state, SessionState) and (
                (starting and not self._session) or (self._single and isinstance(request.command, ResumeSession))
            ):
                self._make_own(state.id)
            self._reply(request, session, outcome)

        self._server.dispatch(request.command, session, reply, by=self.name, peer=self)

    def _make_own(self, session: str) -> None:
        """Commands that name no session mean this one from now on; the one before is shown to its end and left."""
        for name in self.outbox.follows if self._single else ():
            if name == session:
                self.outbox.stay(name)
            else:
                self.outbox.leave(name)
        self._session = session

    def _reply(self, request: Request, session: str, outcome: Outcome) -> None:
        self.outbox.put(request, outcome, session)
        self._on_append()

    # --- out ---

    def _on_append(self) -> None:
        """Something may be due: written at once if the pipe is quiet, else by the writer."""
        if self._parked and not self._work.is_set():
            now = time.perf_counter_ns()
            if now - self._last_direct > QUIET_NS:
                self._last_direct = now
                self._fill()
                self._note_outcomes()
                self._send_now()
                if not self.broken and not self.outbox.held and self.outbox.park(self._on_append):
                    return
        self._wake()

    def _fill(self) -> None:
        try:
            self.outbox.fill()
        except Exception:  # a codec's bug: this connection cannot go on, others can
            logger.exception("the codec could not render; the connection ends")
            self.broken = True

    def _wake(self) -> None:
        self._work.set()

    def _send_now(self) -> None:
        out = self.outbox.out
        if not out or self.broken or self._discards:
            out.clear()
            return
        try:
            sent = self._transport.send_now(out)
        except OSError as error:
            if self._outlives_output and not self._discards:
                logger.warning("%s: the host reads no more: %s", self._outlives_output, error)
                self._discards = True
            else:
                logger.info("the host closed its end: %s", error)
            self.broken = not self._discards
            out.clear()
            return
        del out[:sent]

    async def _write(self, scope: trio.CancelScope) -> None:
        while True:
            self._fill()
            self._note_outcomes()
            while self.outbox.out:
                self._send_now()
                if self.outbox.out:
                    await self._transport.wait_writable()
                else:
                    self._last_direct = time.perf_counter_ns()  # what comes right after this is of the same burst
            if self.broken:
                # Nobody reads: the host is gone, whatever its other pipe says.
                await self._server.host_gone(self, broken=True)
                return scope.cancel()
            if not self.outbox.overfull:
                self._room.set()
            if self.outbox.exit_status is not None or (self._ending and self.outbox.drained):
                return scope.cancel()
            await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        self._work = trio.Event()
        if not self.outbox.park(self._on_append):
            # Give readers and turns their chance between two batches.
            await trio.lowlevel.checkpoint()
            self._release_holds()  # one session that is never at rest does not hold back the others
            return
        self._parked = True
        try:
            with trio.move_on_after(self._hold_seconds()):
                await self._work.wait()
        finally:
            self._parked = False
        self._release_holds()

    # --- holding back ---

    def _note_outcomes(self) -> None:
        if self.outbox.outcomes_written != self._outcomes_seen:
            self._outcomes_seen = self.outbox.outcomes_written
            self._last_outcome = trio.current_time()

    def _hold_seconds(self) -> float:
        ends = [self._last_outcome + (follow.hold_ms or 0) / 1000 for follow in self.outbox.held]
        return max(0.0, min(ends) - trio.current_time()) if ends else float("inf")

    def _release_holds(self) -> None:
        now = trio.current_time()
        for follow in self.outbox.held:
            if now >= self._last_outcome + (follow.hold_ms or 0) / 1000:
                follow.hold_ms = None
