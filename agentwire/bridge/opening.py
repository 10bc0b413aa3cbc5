"""Where a bridge's sessions come from: each has a process of its own, or shares that of the one it was copied from."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from agentwire.allowing import without_effect
from agentwire.approvals import CATEGORIES
from agentwire.bridge.agent import RemoteAgent
from agentwire.bridge.agents import Agents
from agentwire.bridge.following import beside
from agentwire.bridge.link import Link
from agentwire.bridge.memory import AgentSession, Memory, is_note, note
from agentwire.commands import Check, ForkSession, OpenSession, Prompt, ResumeSession, SessionState
from agentwire.events import Capabilities, Notice, SessionOpened
from agentwire.log.cursor import Cursor
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.opening import LATEST, fork_session, open_session
from agentwire.options import ServeOptions
from agentwire.policy import Policy
from agentwire.provider.contract import Completion, ConfigError, Emit, ModelRequest, Provider
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.setup import Boot, Setup
from agentwire.store import DATA_DIR, BadSessionId, SessionNotFound, SessionStore, new_session_id

logger = logging.getLogger("agentwire.bridge")


def default_directory(environ: Mapping[str, str]) -> str:
    """Where the sessions of bridges are kept: not where our own agents, which may be the other half, keep theirs."""
    data = environ.get(DATA_DIR)
    if not data:
        from platformdirs import user_data_dir

        data = user_data_dir("agentwire", appauthor=False)
    return os.path.join(data, "bridged")


class Elsewhere:
    """In the place of a provider: the model is the agent's affair, and these are its capabilities."""

    def __init__(self, name: str, capabilities: Capabilities) -> None:
        self.name, self.model = name, ""
        self.thinking = capabilities.thinking
        self.effort_levels = capabilities.effort_levels
        self.mcp = capabilities.mcp

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Nobody asks for this."""
        raise RuntimeError("the model is on the other side of the bridge")

    async def aclose(self) -> None:
        """There is nothing to close."""


class BridgeSetup(Setup):
    """What our own server asks for sessions. One is prepared (:meth:`prepare`) before the server opens it."""

    def __init__(
        self,
        options: ServeOptions,
        policy: Policy,
        agents: Agents,
        nursery: trio.Nursery,
        silence: float,
        directory: str = "",
    ) -> None:
        super().__init__(options, policy)
        self.store = SessionStore(directory or default_directory(os.environ))
        self.agents = agents
        self.links: dict[str, Link] = {}
        """By our session's id."""
        self.remotes: dict[str, RemoteAgent] = {}
        self._kept: dict[str, Cursor] = {}
        self._nursery = nursery
        self._silence = silence
        self._prepared: Link | None = None
        self._memory: Memory | None = None
        """Of the session that is opened next, if it was there before."""
        self._sessions: dict[str, Session] = {}
        self._over: list[Session] = []
        """Those that the end of the bridge ended."""
        # Which tools there are, and what their commands do, only the agent knows.
        for text in without_effect(options.allow, tools=(), categories=sorted(CATEGORIES), more=True):
            logger.warning("%s", text)

    # --- preparing ---

    def prepare(self, link: Link, memory: Memory | None = None) -> None:
        """The session that is opened next is this one; ``memory`` is what is known of it, if it was there before."""
        self.drop_prepared()
        self._prepared, self._memory = link, memory

    def drop_prepared(self) -> None:
        """What was prepared is not needed: the server opened no session."""
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None
        self._memory = None

    def remembered(self, name: str, workspace: str = "", *, literal: bool = False) -> Memory | None:
        """What is known of a session that a bridge has left. None: there is none.

        ``latest`` is the last one of this workspace, unless ``literal`` says that it is a name like any.

        Raises :class:`agentwire.store.StoreError` for one that cannot be read, or is in use.
        """
        if self.options.ephemeral or not name or name in self.links:
            return None
        try:
            if name == LATEST and not literal:
                where = workspace or self.options.workspace or os.getcwd()
                return Memory(self.store, self.store.latest(Path(where).resolve()).id)
            return Memory(self.store, name)
        except (SessionNotFound, BadSessionId):
            return None

    @property
    def prepared(self) -> bool:
        """There is one to be opened."""
        return self._prepared is not None

    # --- what a server asks ---

    def at_start(self) -> Boot:
        """The one session of a wire that has its session from the start."""
        if self._memory is not None:
            return self._again(self._memory)
        return self.open(OpenSession(id=self.options.session_id or ""))

    def open(self, command: OpenSession) -> Boot:
        """A new session, with the prepared one as its agent's."""
        return self._booted(command.id, command, "new")

    def resume(self, command: ResumeSession) -> Boot:
        """A session that was left here, or one that its agent has stored."""
        if self._memory is not None:
            return self._again(self._memory)
        link = self._prepared
        return self._booted(
            (link.told_id if link else "") or command.id, OpenSession(workspace=command.workspace), "resumed"
        )

    def take_up(self, prompt: Prompt) -> Boot:
        """The session of the name that a prompt gives: one that was left here, else a new one."""
        if self._memory is not None:
            return self._again(self._memory)
        return self._booted(prompt.session, OpenSession(), "new")

    def fork(self, source: Session, command: ForkSession) -> Boot:
        """A copy of a session, with that which its agent made."""
        session = fork_session(self.store, source, command.id or new_session_id())
        return self._attached(session)

    def stored(self) -> list[SessionState]:
        """The sessions that bridges have left, unless nothing is kept: then what is stored the agents have stored."""
        return [] if self.options.ephemeral else super().stored()

    def provider_for(self, model: str, workspace: Path) -> tuple[Provider | None, str]:
        """Any model: whether there is one of that name the agent says."""
        return None, model

    def checks(self) -> list[Check]:
        """Whether the agent is a program that can be started. Starts nothing."""
        program = self.agents.argv[0]
        if shutil.which(program) is None:
            return [Check("agent", "fail", f"'{program}' is no program that can be started")]
        return [Check("agent", "ok", f"'{program}' can be started; it speaks {self.agents.words.codec.name}")]

    # --- how ---

    def _booted(self, name: str, command: OpenSession, kind: Any) -> Boot:
        settings, provider = self._set(command)
        name = name or new_session_id()
        journal = None
        if not (command.ephemeral or self.options.ephemeral):
            where = Path(settings.workspace).resolve()
            journal = self.store.create(name, workspace=where, provider=provider.name, model=settings.model)
        session = Session(
            name, SessionLog(journal), History(), settings=settings, policy=self.policy, provider=provider,
            mcp=provider.mcp, ephemeral=journal is None,
        )  # fmt: skip
        session.opened = session.append(
            SessionOpened(
                session.id, kind, str(session.workspace), provider.name, settings.model, session.capabilities(),
                ephemeral=journal is None, policy=self.policy.name,
            )
        )  # fmt: skip
        return self._attached(session)

    def _again(self, memory: Memory) -> Boot:
        """A session that was left here."""
        settings, provider = self._set(OpenSession(workspace=memory.workspace))
        settings.model = settings.model or memory.model
        session = open_session(
            self.store, settings, self.policy, provider, resume=memory.id, literal=True, mcp=provider.mcp
        )
        return self._attached(session)

    def _set(self, command: OpenSession) -> tuple[SessionSettings, Elsewhere]:
        link, options = self._prepared, self.options
        if link is None:
            raise ConfigError("The agent's session is not ready")
        capabilities = link.capabilities
        settings = SessionSettings(
            workspace=command.workspace or options.workspace or os.getcwd(),
            model=command.model or link.state.model or options.model,
            mode="yolo" if options.auto_approve else "default",
            allow=frozenset(options.allow),
            builtins=False,
            host_permissions=command.host_permissions,
            image_input=capabilities.image_input,
        )
        return settings, Elsewhere(self.agents.words.codec.name, capabilities)

    def _attached(self, session: Session) -> Boot:
        link, self._prepared, self._memory = self._prepared, None, None
        if link is None:
            raise ConfigError("The agent's session is not ready")
        self._sessions[session.id] = session
        self.links[session.id] = link
        agent = self.remotes[session.id] = RemoteAgent(link, self._nursery, silence=self._silence)
        self._kept[session.id] = session.log.cursor(after=session.opened.seq - 1 if session.opened else 0)

        # What the journal of a session that was there before says of its agent is over, whatever this one is called.
        noted = None if session.opened and session.opened.seq > 1 else ""

        def keep_name() -> None:
            """Note what the agent calls the session, as soon as it says so."""
            nonlocal noted
            if link.told_id != noted and not session.ephemeral:
                noted = link.told_id
                session.append(note(AgentSession(self.agents.words.codec.name, noted)))

        def outside(record: Record) -> None:
            if session.closed:
                return
            if isinstance(record.event, SessionOpened):
                keep_name()
            beside(session.append, record.event, session.approvals.mode)

        def say(text: str) -> None:
            if not session.closed:
                session.append(Notice(text, "warning"))

        link.outside = outside
        keep_name()
        link.tell(say)
        link.start(self._nursery)
        return Boot(session, agent, [])

    def left(self, session: str) -> None:
        """A session is over: its log is counted, and its agent ended."""
        link = self.links.pop(session, None)
        over = self._sessions.pop(session, None)
        cursor = self._kept.pop(session, None)
        self.remotes.pop(session, None)
        if link is not None:
            link.close()
        if cursor is not None:
            while found := cursor.take():
                self.agents.account.add(session, [record for record in found if not is_note(record)])
            cursor.close()
            self.agents.account.end(session)
        if over is not None and not over.log.closed:
            self._over.append(over)

    def close(self) -> None:
        """The agents are gone: only now may other bridges take the sessions up, for the agents' halves are free."""
        for session in [*self._over, *self._sessions.values()]:
            session.log.close()
