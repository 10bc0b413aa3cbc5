"""The server: who is connected, which sessions there are, and what commands do to them.

It knows no wire and no transport. Connections give it commands and a way to reply; it gives every command exactly
one outcome.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import trio

from agentwire.commands import (
    LAST,
    NOW,
    AddMcpServer,
    AnswerHostTool,
    Approve,
    ArchiveSession,
    Command,
    Deny,
    Doctor,
    Done,
    ForkSession,
    GetHistory,
    GetHostTools,
    InitHistory,
    ListSessions,
    OpenSession,
    Outcome,
    Ping,
    Plan,
    Prompt,
    Refusal,
    ResetSession,
    ResumeSession,
    SetConfig,
    SetHostTools,
    SetMode,
    SetModel,
    Shutdown,
    Steer,
    Stop,
)
from agentwire.provider.contract import ConfigError
from agentwire.server.runner import Reply, SessionRunner, refused
from agentwire.server.sessions import MakeRunner, Sessions
from agentwire.session import Session

if TYPE_CHECKING:
    from agentwire.setup import Setup

logger = logging.getLogger("agentwire.server")

SHUTDOWN_SECONDS = 5.0
"""How long running turns may take to end when a host asks for a shutdown."""

FOR_A_SESSION: dict[type[Command], Callable[[SessionRunner, Any, str], Outcome]] = {
    Steer: SessionRunner.steer,
    Approve: SessionRunner.approve,
    Deny: SessionRunner.deny,
    SetMode: SessionRunner.set_mode,
    SetConfig: SessionRunner.set_config,
    SetModel: SessionRunner.set_model,
    InitHistory: SessionRunner.init_history,
    AddMcpServer: SessionRunner.add_mcp_server,
    ResetSession: SessionRunner.reset,
    GetHistory: SessionRunner.get_history,
    GetHostTools: SessionRunner.get_host_tools,
    SetHostTools: SessionRunner.set_host_tools,
}
"""Commands that a session carries out at once, by the method that does it."""


class Peer(Protocol):
    """A connection, as far as the server knows it."""

    name: str
    """How the log calls it where it says who decided; given by :meth:`Server.attach` if empty."""

    def follows(self, session: str) -> bool:
        """Whether it shows that session to its host."""
        ...

    def follow(self, session: Session, after: int | None) -> None:
        """Show a session to its host: from after record ``after``, or (None) from its head. Twice is once."""
        ...

    def end(self) -> None:
        """Write what is due and stop."""
        ...


class Server:
    """Sessions, and dispatch. ``nursery`` owns every turn."""

    def __init__(
        self, nursery: trio.Nursery, make_runner: MakeRunner | None = None, setup: Setup | None = None
    ) -> None:
        self.nursery = nursery
        self.sessions = Sessions(make_runner or _no_runner, setup)
        self.peers: list[Peer] = []
        self.stopping = False
        """No more commands are read, and no turn begins."""
        self._setup = setup
        self._attached = 0
        self._looking = 0
        self._looked = trio.Event()

    def add(self, runner: SessionRunner) -> None:
        """Take charge of a session."""
        self.sessions.add(runner)

    # --- dispatch ---

    def dispatch(
        self, command: Command, session: str, reply: Reply, *, by: str = "host", peer: Peer | None = None
    ) -> None:
        """Carry out a command; ``reply`` is called exactly once, now or later.

        ``session`` is the one that a command without one means. ``peer``, who asked, follows the sessions that its
        commands open.
        """
        handler = FOR_A_SESSION.get(type(command))
        if handler is not None:
            runner = self.sessions.get(session)
            reply(handler(runner, command, by) if runner is not None else Sessions.unknown(session))
            return
        mine = self._OWN.get(type(command))
        if mine is None:
            reply(refused("unsupported", f"This server cannot do '{type(command).__name__}'"))
        else:
            mine(self, command, session, reply, peer)

    def _ping(self, command: Command, session: str, reply: Reply, peer: Peer | None) -> None:
        reply(Outcome(Done(), NOW))

    def _prompt(self, command: Prompt, session: str, reply: Reply, peer: Peer | None) -> None:
        if self.stopping:
            return reply(refused("unsupported", "The server is shutting down"))
        found = self.sessions.get(session)
        if command.open and found is None:
            opened = self.sessions.take_up(command)
            if isinstance(opened, Outcome):
                return reply(opened)
            found = opened
        if found is None:
            return reply(Sessions.unknown(session))
        if command.open:
            self._show(found, peer)
        if found.session.policy.busy_scope == "process" and not found.session.active and self.turn_active():
            return reply(found.busy())
        return found.prompt(command, reply)

    def _stop(self, command: Stop, session: str, reply: Reply, peer: Peer | None) -> None:
        runner = self.sessions.get(session)
        if runner is None:
            return reply(Sessions.unknown(session))
        return runner.stop(command, reply)

    def _answer(self, command: AnswerHostTool, session: str, reply: Reply, peer: Peer | None) -> None:
        """Answer a host tool's call: the id says in which session."""
        for runner in self.sessions:
            outcome = runner.answer_host_tool(command)
            if outcome is not None:
                return reply(outcome)
        return reply(refused("not_pending", f"No host tool request '{command.request_id}' is waiting"))

    # --- sessions ---

    def _open(self, command: OpenSession, session: str, reply: Reply, peer: Peer | None) -> None:
        self._tell(self.sessions.open(command), reply, peer)

    def _resume(self, command: ResumeSession, session: str, reply: Reply, peer: Peer | None) -> None:
        self._tell(self.sessions.resume(command), reply, peer)

    def _fork(self, command: ForkSession, session: str, reply: Reply, peer: Peer | None) -> None:
        self._tell(self.sessions.fork(command), reply, peer)

    def _tell(self, opened: SessionRunner | Outcome, reply: Reply, peer: Peer | None) -> None:
        if isinstance(opened, Outcome):
            return reply(opened)
        self._show(opened, peer)
        return reply(Outcome(Done(opened.state()), NOW))

    def _show(self, runner: SessionRunner, peer: Peer | None) -> None:
        """Have ``peer`` follow a session: from its beginning if it was opened just now."""
        first = runner.session.opened
        if peer is not None and not peer.follows(runner.session.id):
            peer.follow(runner.session, first.seq - 1 if first is not None and not runner.shown else None)
            runner.host_there()
        runner.shown = True

    def _archive(self, command: ArchiveSession, session: str, reply: Reply, peer: Peer | None) -> None:
        reply(self.sessions.archive(command))

    def _list(self, command: ListSessions, session: str, reply: Reply, peer: Peer | None) -> None:
        reply(self.sessions.list(command))

    # --- the process ---

    def _doctor(self, command: Doctor, session: str, reply: Reply, peer: Peer | None) -> None:
        self._start_looking(lambda setup: setup.checks(), reply)

    def _plan(self, command: Plan, session: str, reply: Reply, peer: Peer | None) -> None:
        self._start_looking(lambda setup: setup.plan(), reply)

    def _start_looking(self, look: Callable[[Setup], Any], reply: Reply) -> None:
        """Look at the set-up, in a thread: it may read files and ask other programs."""
        if self._setup is None:
            return reply(refused("unsupported", "This server has no set-up to look at"))
        self._looking += 1
        return self.nursery.start_soon(self._look, look, self._setup, reply)

    async def _look(self, look: Callable[[Setup], Any], setup: Setup, reply: Reply) -> None:
        try:
            found = await trio.to_thread.run_sync(look, setup, abandon_on_cancel=True)
        except ConfigError as error:
            return reply(Outcome(Refusal("config", str(error), data=error.kind), NOW))
        except Exception as error:  # a foreign plugin, or a bug
            logger.exception("the set-up could not be looked at")
            return reply(refused("internal", f"{type(error).__name__}: {error}"))
        finally:
            self._looking -= 1
            self._looked.set()
            self._looked = trio.Event()
        return reply(Outcome(Done(found), NOW))

    def _shutdown(self, command: Shutdown, session: str, reply: Reply, peer: Peer | None) -> None:
        self.nursery.start_soon(self._shut_down_and_say, reply)

    async def _shut_down_and_say(self, reply: Reply) -> None:
        self.stopping = True
        self._stop_all()
        with trio.move_on_after(SHUTDOWN_SECONDS):
            await self.idle()
        reply(Outcome(Done(), LAST))
        self._end_peers()

    _OWN: dict[type[Command], Callable[[Any, Any, str, Reply, Peer | None], None]] = {  # noqa: RUF012 - a table
        Ping: _ping,
        Prompt: _prompt,
        Stop: _stop,
        AnswerHostTool: _answer,
        OpenSession: _open,
        ResumeSession: _resume,
        ForkSession: _fork,
        ArchiveSession: _archive,
        ListSessions: _list,
        Doctor: _doctor,
        Plan: _plan,
        Shutdown: _shutdown,
    }

    # --- what codecs may look at ---

    def has_session(self, session: str) -> bool:
        """Whether this process has that session open."""
        return session in self.sessions

    def turn_active(self, session: str = "") -> bool:
        """Whether a turn runs in that session, or (empty) in any."""
        if not session:
            return any(runner.session.active is not None for runner in self.sessions)
        runner = self.sessions.get(session)
        return runner is not None and runner.session.active is not None

    def active_session(self) -> str:
        """The session whose turn runs, or ``""``; if several do, any of them."""
        return next((runner.session.id for runner in self.sessions if runner.session.active is not None), "")

    def pending(self, request: str, session: str = "") -> bool:
        """Whether an approval or a host tool request with that id waits for an answer."""
        return any(runner.pending(request) for runner in self.sessions if not session or runner.session.id == session)

    def is_directory(self, path: str) -> bool:
        """Whether the path is an existing directory."""
        try:
            return os.path.isdir(path)
        except ValueError:  # a NUL inside
            return False

    # --- ends ---

    def attach(self, peer: Peer) -> None:
        """Take note of a connection: while it follows a session, there is somebody to ask."""
        self._attached += 1
        peer.name = peer.name or f"host-{self._attached}"
        self.peers.append(peer)
        for runner in self.sessions:
            if peer.follows(runner.session.id):
                runner.shown = True
                runner.host_there()

    async def host_gone(self, peer: Peer, *, broken: bool = False) -> None:
        """A host closed its input, or (``broken``) reads no more: do with running turns what their policies say.

        Returns when the turns that nobody else follows have ended.
        """
        if peer in self.peers:
            self.peers.remove(peer)
        left = [runner for runner in self.sessions if not any(other.follows(runner.session.id) for other in self.peers)]
        for runner in left:
            runner.host_gone()
            if broken or runner.session.policy.on_eof == "cancel":
                runner.stop_all()
        await self._ended(left)

    async def idle(self) -> None:
        """Wait until no turn runs, and nobody waits to be told of the set-up."""
        await self._ended(list(self.sessions))

    async def _ended(self, runners: list[SessionRunner]) -> None:
        while turns := [runner.session.active for runner in runners if runner.session.active]:
            await turns[0].finished.wait()
        with trio.move_on_after(SHUTDOWN_SECONDS):
            while self._looking:
                await self._looked.wait()

    async def shut_down(self) -> None:
        """Stop every turn, let every connection write what is due, and end."""
        if self.stopping:
            return
        self.stopping = True
        self._stop_all()
        await self.idle()
        self._end_peers()

    def _stop_all(self) -> None:
        for runner in self.sessions:
            runner.stop_all()

    def _end_peers(self) -> None:
        for peer in list(self.peers):
            peer.end()


def _no_runner(boot: Any) -> SessionRunner:
    raise RuntimeError("this server was given no way to run sessions that it opens")
