"""The server: the sessions of one process, and what commands do to them.

It knows no wire and no transport. Connections give it commands and a way to reply; it gives every command exactly
one outcome.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import trio

from agentwire.commands import (
    NOW,
    AddMcpServer,
    Approve,
    ArchiveSession,
    Command,
    Deny,
    Done,
    InitHistory,
    ListSessions,
    Outcome,
    Ping,
    Prompt,
    ResetSession,
    SetConfig,
    SetMode,
    SetModel,
    Shutdown,
    Steer,
    Stop,
)
from agentwire.events import SessionClosed
from agentwire.server.runner import SessionRunner, refused

Reply = Callable[[Outcome], None]

FOR_A_SESSION: dict[type[Command], Callable[[SessionRunner, Any, str], Outcome]] = {
    Prompt: SessionRunner.prompt,
    Stop: SessionRunner.stop,
    Steer: SessionRunner.steer,
    Approve: SessionRunner.approve,
    Deny: SessionRunner.deny,
    SetMode: SessionRunner.set_mode,
    SetConfig: SessionRunner.set_config,
    SetModel: SessionRunner.set_model,
    InitHistory: SessionRunner.init_history,
    AddMcpServer: SessionRunner.add_mcp_server,
    ResetSession: SessionRunner.reset,
}
"""Commands that a session carries out, by the method that does it."""


class Peer(Protocol):
    """A connection, as far as the server knows it."""

    name: str
    """How the log calls it where it says who decided; given by :meth:`Server.attach` if empty."""

    def follows(self, session: str) -> bool:
        """Whether it shows that session to its host."""
        ...

    def end(self) -> None:
        """Write what is due and stop."""
        ...


class Server:
    """Sessions, and dispatch. ``nursery`` owns every turn."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.sessions: dict[str, SessionRunner] = {}
        self.peers: list[Peer] = []
        self._attached = 0
        self._stopping = False

    def add(self, runner: SessionRunner) -> None:
        """Take charge of a session."""
        self.sessions[runner.session.id] = runner

    # --- dispatch ---

    def dispatch(self, command: Command, session: str, reply: Reply, *, by: str = "host") -> None:
        """Carry out a command; ``reply`` is called exactly once, now or later."""
        if self._stopping and isinstance(command, Prompt):
            reply(refused("unsupported", "The server is shutting down"))
            return
        handler = FOR_A_SESSION.get(type(command))
        if handler is not None:
            runner = self.sessions.get(session)
            if runner is None:
                reply(refused("not_found", f"Session '{session}' not found"))
            else:
                reply(handler(runner, command, by))
            return
        mine = self._OWN.get(type(command))
        if mine is None:
            reply(refused("unsupported", f"This server cannot do '{type(command).__name__}'"))
        else:
            reply(mine(self, command))

    def _ping(self, command: Command) -> Outcome:
        return Outcome(Done(), NOW)

    def _list(self, command: Command) -> Outcome:
        return Outcome(Done([runner.session for runner in self.sessions.values()]), NOW)

    def _archive(self, command: ArchiveSession) -> Outcome:
        runner = self.sessions.get(command.session)
        if runner is None:
            return refused("not_found", f"Session '{command.session}' not found")
        if runner.session.active is not None:
            return refused("busy", "This session's turn is running", retryable=True)
        after = runner.session.log.seq
        runner.session.append(SessionClosed("archived"))
        runner.session.closed = True
        runner.session.log.close()  # another process may take it up; what is unread can still be read
        del self.sessions[command.session]
        return Outcome(Done(), after)

    def _shutdown(self, command: Command) -> Outcome:
        self.nursery.start_soon(self.shut_down)
        return Outcome(Done(), NOW)

    _OWN: dict[type[Command], Callable[[Any, Any], Outcome]] = {  # noqa: RUF012 - a table, never changed
        Ping: _ping,
        ListSessions: _list,
        ArchiveSession: _archive,
        Shutdown: _shutdown,
    }

    # --- what codecs may look at ---

    def has_session(self, session: str) -> bool:
        """Whether this process has that session open."""
        return session in self.sessions

    def turn_active(self, session: str = "") -> bool:
        """Whether a turn runs in that session, or (empty) in any."""
        runners = (
            [self.sessions[session]] if session in self.sessions else self.sessions.values() if not session else []
        )
        return any(runner.session.active is not None for runner in runners)

    def pending(self, request: str, session: str = "") -> bool:
        """Whether a question with that id is open."""
        runners = self.sessions.values() if not session else filter(None, [self.sessions.get(session)])
        return any(q.approval_id == request for runner in runners for q in runner.session.approvals.open)

    def is_directory(self, path: str) -> bool:
        """Whether the path is an existing directory."""
        return os.path.isdir(path)

    # --- ends ---

    def attach(self, peer: Peer) -> None:
        """Take note of a connection: while it follows a session, there is somebody to ask."""
        self._attached += 1
        peer.name = peer.name or f"host-{self._attached}"
        self.peers.append(peer)
        for runner in self.sessions.values():
            if peer.follows(runner.session.id):
                runner.session.approvals.absent = None

    async def host_gone(self, peer: Peer, *, broken: bool = False) -> None:
        """A host closed its input, or (``broken``) reads no more: do with running turns what their policies say.

        Returns when the turns that nobody else follows have ended.
        """
        if peer in self.peers:
            self.peers.remove(peer)
        left = [
            runner
            for runner in self.sessions.values()
            if not any(other.follows(runner.session.id) for other in self.peers)
        ]
        for runner in left:
            runner.host_gone()
            turn = runner.session.active
            if turn is not None and (broken or runner.session.policy.on_eof == "cancel"):
                runner.stop_all()
        await self._ended(left)

    async def idle(self) -> None:
        """Wait until no turn runs."""
        await self._ended(list(self.sessions.values()))

    async def _ended(self, runners: list[SessionRunner]) -> None:
        while turns := [runner.session.active for runner in runners if runner.session.active]:
            await turns[0].finished.wait()

    async def shut_down(self) -> None:
        """Stop every turn, let every connection write what is due, and end."""
        if self._stopping:
            return
        self._stopping = True
        for runner in self.sessions.values():
            runner.stop_all()
        await self.idle()
        for peer in list(self.peers):
            peer.end()
