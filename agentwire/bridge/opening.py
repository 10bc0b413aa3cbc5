"""Where a bridge's sessions come from: each has a process of its own, or shares that of the one it was copied from."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace

from agentwire.bridge.agent import RemoteAgent
from agentwire.bridge.agents import Agents
from agentwire.bridge.following import beside
from agentwire.bridge.link import Link
from agentwire.commands import Check, ForkSession, OpenSession, Prompt, ResumeSession, SessionState
from agentwire.events import Capabilities, SessionOpened
from agentwire.log.cursor import Cursor
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.opening import fork_session
from agentwire.options import ServeOptions
from agentwire.policy import Policy
from agentwire.provider.contract import Completion, ConfigError, Emit, ModelRequest, Provider
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.setup import Boot, Setup
from agentwire.store import new_session_id

logger = logging.getLogger("agentwire.bridge")


class Elsewhere:
    """In the place of a provider: the model is the agent's affair, and these are its capabilities."""

    def __init__(self, name: str, capabilities: Capabilities) -> None:
        self.name, self.model = name, ""
        self.thinking = capabilities.thinking
        self.effort_levels = capabilities.effort_levels

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Nobody asks for this."""
        raise RuntimeError("the model is on the other side of the bridge")

    async def aclose(self) -> None:
        """There is nothing to close."""


class BridgeSetup(Setup):
    """What our own server asks for sessions. One is prepared (:meth:`prepare`) before the server opens it."""

    def __init__(self, options: ServeOptions, policy: Policy, agents: Agents, nursery: trio.Nursery, silence: float):
        super().__init__(replace(options, ephemeral=True), policy)
        self.agents = agents
        self.links: dict[str, Link] = {}
        """By our session's id."""
        self.remotes: dict[str, RemoteAgent] = {}
        self._kept: dict[str, Cursor] = {}
        self._nursery = nursery
        self._silence = silence
        self._prepared: Link | None = None

    # --- preparing ---

    def prepare(self, link: Link) -> None:
        """The session that is opened next is this one."""
        self.drop_prepared()
        self._prepared = link

    def drop_prepared(self) -> None:
        """What was prepared is not needed: the server opened no session."""
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None

    @property
    def prepared(self) -> bool:
        """There is one to be opened."""
        return self._prepared is not None

    # --- what a server asks ---

    def at_start(self) -> Boot:
        """The one session of a wire that has its session from the start."""
        return self.open(OpenSession(id=self.options.session_id or ""))

    def open(self, command: OpenSession) -> Boot:
        """A new session, with the prepared one as its agent's."""
        return self._booted(command.id, command, "new")

    def resume(self, command: ResumeSession) -> Boot:
        """A session that its agent has taken up again."""
        link = self._prepared
        return self._booted(
            (link.told_id if link else "") or command.id, OpenSession(workspace=command.workspace), "resumed"
        )

    def take_up(self, prompt: Prompt) -> Boot:
        """A new session by the name that a prompt gives it."""
        return self._booted(prompt.session, OpenSession(), "new")

    def fork(self, source: Session, command: ForkSession) -> Boot:
        """A copy of a session, with that which its agent made."""
        session = fork_session(self.store, source, command.id or new_session_id())
        return self._attached(session)

    def stored(self) -> list[SessionState]:
        """None: what is stored the agents have stored."""
        return []

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
        link = self._prepared
        if link is None:
            raise ConfigError("The agent's session is not ready")
        capabilities = link.capabilities
        options = self.options
        settings = SessionSettings(
            workspace=command.workspace or options.workspace or os.getcwd(),
            model=command.model or link.state.model or options.model,
            mode="yolo" if options.auto_approve else "default",
            allow=frozenset(options.allow),
            builtins=False,
            host_permissions=command.host_permissions,
            image_input=capabilities.image_input,
        )
        provider = Elsewhere(self.agents.words.codec.name, capabilities)
        session = Session(
            name or new_session_id(), SessionLog(None), History(), settings=settings, policy=self.policy,
            provider=provider, mcp=capabilities.mcp, ephemeral=True,
        )  # fmt: skip
        session.opened = session.append(
            SessionOpened(
                session.id, kind, str(session.workspace), provider.name, settings.model, session.capabilities(),
                ephemeral=True, policy=self.policy.name,
            )
        )  # fmt: skip
        return self._attached(session)

    def _attached(self, session: Session) -> Boot:
        link, self._prepared = self._prepared, None
        if link is None:
            raise ConfigError("The agent's session is not ready")
        self.links[session.id] = link
        agent = self.remotes[session.id] = RemoteAgent(link, self._nursery, silence=self._silence)
        self._kept[session.id] = session.log.cursor(after=session.opened.seq - 1 if session.opened else 0)

        def outside(record: Record) -> None:
            if not session.closed:
                beside(session.append, record.event, session.approvals.mode)

        link.outside = outside
        link.start(self._nursery)
        return Boot(session, agent, [])

    def left(self, session: str) -> None:
        """A session is over: its log is counted, and its agent ended."""
        link = self.links.pop(session, None)
        cursor = self._kept.pop(session, None)
        self.remotes.pop(session, None)
        if link is not None:
            link.close()
        if cursor is not None:
            records: list[Record] = []
            while found := cursor.take():
                records += found
            cursor.close()
            self.agents.account.add(session, records)
