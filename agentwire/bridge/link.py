"""One session of an agent process: what is sent to it, in order, and what is heard of it, as it comes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import trio

from agentwire.bridge.report import Account
from agentwire.bridge.words import Words
from agentwire.commands import Command, Done, Ping, Refusal, SessionState
from agentwire.events import Capabilities, TurnStarted
from agentwire.host.connect import Peer
from agentwire.host.process import AgentDied
from agentwire.host.refused import Refused
from agentwire.host.remote import RemoteSession
from agentwire.log.record import Record
from agentwire.transcode.logbook import Logbook
from agentwire.transcode.steps import At

logger = logging.getLogger("agentwire.bridge")

QUIET = 0.02
"""Seconds without a word after which a reply is taken to have no more calls, on wires that do not tell its end."""

Answered = Callable[[Done | Refusal], None]


class Hearing(Protocol):
    """A turn that is being followed."""

    turn: int
    """Its number in what is heard; 0: the agent has not begun it."""

    def hear(self, record: Record) -> bool:
        """Take something of the turn. True: it holds back something that it will give out when there is quiet."""
        ...

    def quiet(self) -> None:
        """Nothing came for a while."""
        ...

    def failed(self, why: Refusal) -> None:
        """It was refused, or cannot be sent."""
        ...


class Process:
    """An agent process, and how many links use it."""

    def __init__(self, peer: Peer, close: trio.Event) -> None:
        self.peer = peer
        self.users = 0
        self._close = close

    def leave(self) -> None:
        """One link fewer; without any the process is ended."""
        self.users -= 1
        if self.users <= 0:
            self._close.set()


class Link:
    """A session of an agent process. ``remote`` is it by its own; None: the one that the wire has."""

    def __init__(
        self, process: Process, remote: RemoteSession | None, words: Words, account: Account, *, opens: bool = False
    ) -> None:
        self.words = words
        self.account = account
        self.book = Logbook("")
        """Makes a log in good order out of what is heard."""
        self.hearing: Hearing | None = None
        self.outside: Callable[[Record], None] | None = None
        """Told of what belongs to no turn."""
        self._said: list[str] = []
        self._say: Callable[[str], None] | None = None
        self.process = process
        self.opens = opens
        """The wire opens sessions by their first prompt."""
        self._remote = remote
        self._to_send, self._sending = trio.open_memory_channel[tuple[Command, Answered | None]](float("inf"))
        self._news = trio.Event()
        self._started = False
        process.users += 1

    @property
    def peer(self) -> Peer:
        """The process, as its host sees it."""
        return self.process.peer

    @property
    def id(self) -> str:
        """The session's id on the agent's wire, where commands name it; else ``""``."""
        return self._remote.id if self._remote is not None else ""

    @property
    def told_id(self) -> str:
        """The session's id, as far as the agent says it."""
        return self._remote.id if self._remote is not None else self.peer.session_id

    @property
    def state(self) -> SessionState:
        """What the agent said when the session was opened."""
        return self._remote.state if self._remote is not None else SessionState(self.peer.session_id)

    @property
    def capabilities(self) -> Capabilities:
        """What the agent said that the session can do."""
        return self._remote.capabilities if self._remote is not None else self.peer.capabilities

    def start(self, nursery: trio.Nursery) -> None:
        """Begin to send and to listen; what was heard before comes first."""
        self._started = True
        nursery.start_soon(self._send)
        nursery.start_soon(self._listen)
        nursery.start_soon(self._watch)

    def close(self) -> None:
        """Send what is due and nothing more, and end the process if nobody else uses it."""
        self._to_send.close()
        if not self._started:
            self.process.leave()

    # --- what the host should know ---

    def warn(self, text: str) -> None:
        """Have the host told something; now, or when there is a session to tell it in."""
        if self._say is not None:
            self._say(text)
        else:
            self._said.append(text)

    def tell(self, say: Callable[[str], None]) -> None:
        """There is a session: ``say`` tells its host."""
        self._say = say
        for text in self._said:
            say(text)
        self._said.clear()

    # --- out ---

    def post(self, command: Command, answered: Answered | None = None) -> None:
        """Send a command after those before it. ``answered`` is told its outcome, if the wire tells one."""
        try:
            self._to_send.send_nowait((command, answered))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            if answered is not None:
                answered(Refusal("internal", "The agent's session is closed"))

    def ask(self, command: Command, answered: Answered) -> None:
        """Send a command and be told its outcome, once: at the latest when the agent has read what came after it."""
        told = False

        def once(result: Done | Refusal) -> None:
            nonlocal told
            if not told:
                told = True
                answered(result)

        self.post(command, once)
        if self.words.can(Ping()):
            self.post(Ping(), lambda result: once(Done() if isinstance(result, Done) else result))
        else:
            once(Done())  # such a wire answers nothing

    async def _send(self) -> None:
        async for command, answered in self._sending:
            try:
                await self.peer.send(command, answered)
            except Refused as refused:
                if answered is not None:
                    answered(refused.refusal)
                else:
                    logger.info("the agent's wire cannot carry %s: %s", type(command).__name__, refused)
            except AgentDied as died:
                if answered is not None:
                    answered(Refusal("internal", str(died)))
        self.process.leave()

    # --- in ---

    async def _listen(self) -> None:
        cursor = (self._remote.log if self._remote is not None else self.peer.log).cursor(after=0)
        holding = False
        while True:
            records = cursor.take()
            for record in records:
                holding = self._hear(record)
            if records:
                await trio.lowlevel.checkpoint()
                continue
            if self.peer.gone:
                return
            self._news = trio.Event()
            if not cursor.park(self._news.set):
                continue
            with trio.move_on_after(QUIET if holding else float("inf")) as scope:
                await self._news.wait()
            if scope.cancelled_caught:
                holding = False
                if self.hearing is not None:
                    self.hearing.quiet()

    async def _watch(self) -> None:
        await self.peer.process.gone.wait()
        self._news.set()

    def _hear(self, record: Record) -> bool:
        hearing = self.hearing
        if not record.turn:
            if self.outside is not None:
                self.outside(record)
            return False
        if hearing is not None and not hearing.turn and isinstance(record.event, TurnStarted) and not record.origin:
            hearing.turn = record.turn
        if hearing is not None and hearing.turn == record.turn:
            return hearing.hear(record)
        self.account.unasked[str(type(record.event).__struct_config__.tag)] += 1
        return False

    def place(self, record: Record) -> At:
        """When something was heard, for the book."""
        return At(record.time, 0)
