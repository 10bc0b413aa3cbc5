"""Where a bridge's sessions come from: each has a process of its own, or shares that of the one it was copied from."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace

from agentwire.bridge.agent import RemoteAgent
from agentwire.bridge.following import beside
from agentwire.bridge.link import Link, Process
from agentwire.bridge.report import Account
from agentwire.bridge.words import Words
from agentwire.codec.contract import Codec
from agentwire.commands import (
    Check,
    ForkSession,
    OpenSession,
    Prompt,
    Refusal,
    ResumeSession,
    SessionState,
    SetConfig,
    SetHostTools,
    SetModel,
)
from agentwire.events import Capabilities, SessionOpened
from agentwire.host.connect import Peer, connect
from agentwire.host.process import AgentDied
from agentwire.host.refused import Refused
from agentwire.log.cursor import Cursor
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.opening import fork_session
from agentwire.options import ServeOptions
from agentwire.policy import Policy
from agentwire.provider.contract import Completion, ConfigError, Emit, ModelRequest, Provider
from agentwire.recording import RecordingError
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.setup import Boot, Setup
from agentwire.store import new_session_id

logger = logging.getLogger("agentwire.bridge")

CHOSEN_HERE = ("id", "workspace", "roots")
"""What of a new session is the bridge's affair: its name, and where the agent's process is started."""


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


class Agents:
    """Starts agent processes. ``record``: file names that their wires are recorded to are made of this one."""

    def __init__(self, argv: Sequence[str], codec: Codec, nursery: trio.Nursery, account: Account, record: str) -> None:
        self.argv = list(argv)
        self.words = Words(codec)
        self.account = account
        self._nursery = nursery
        self._record = record
        self._started = 0

    async def open(self, command: OpenSession) -> Link:
        """A new session of a new process. Raises :class:`Refused`."""
        process = await self._start(command.workspace)
        peer, codec = process.peer, self.words.codec
        if codec.sessions == "one" or codec.begin is not None:
            self._unsaid(command, [*self._all(command), *(("model",) if command.model else ())])
            link = Link(process, None, self.words, self.account)
            if command.model:
                self._choose(link, command.model)
            return link
        wanted = replace(command, id="", roots=[], workspace=command.workspace or os.getcwd())
        if (refusal := self.words.refusal(wanted)) is not None and refusal.code == "unsupported":
            self._unsaid(command, [*self._all(command), *(("model",) if command.model else ())])
            name = command.id or secrets.token_hex(4)
            return Link(process, peer.adopt(SessionState(name)), self.words, self.account, opens=True)
        self._unsaid(command, self.words.unsaid(wanted, self._all(wanted)))
        try:
            remote = peer.adopt(await peer.call(wanted))
        except (Refused, AgentDied) as error:
            process.leave()
            raise self._refused(error) from None
        return Link(process, remote, self.words, self.account)

    async def resume(self, command: ResumeSession) -> Link:
        """A session that the agent has stored. Raises :class:`Refused`."""
        wanted = replace(command, tools=[], workspace="", host_permissions=False)
        if (refusal := self.words.refusal(wanted)) is not None:
            raise Refused(refusal)
        process = await self._start(command.workspace)
        peer = process.peer
        try:
            state = await peer.call(wanted)
        except (Refused, AgentDied) as error:
            process.leave()
            raise self._refused(error) from None
        remote = None if self.words.codec.sessions == "one" else peer.adopt(state)
        link = Link(process, remote, self.words, self.account)
        if command.tools:
            link.post(SetHostTools(link.id or "session", command.tools))
        return link

    async def fork(self, source: Link) -> Link:
        """A copy of a session, by the same process. Raises :class:`Refused`."""
        command = ForkSession(source.id or "session")
        if (refusal := self.words.refusal(command)) is not None:
            raise Refused(refusal)
        try:
            remote = source.peer.adopt(await source.peer.call(command))
        except AgentDied as error:
            raise self._refused(error) from None
        return Link(source.process, remote, self.words, self.account)

    # --- how ---

    def _all(self, command: OpenSession) -> list[str]:
        """The fields in which a host asks for something else than a session as it is."""
        plain = OpenSession()
        fields = [name for name in command.__struct_fields__ if name not in (*CHOSEN_HERE, "model", "ephemeral")]
        return [name for name in fields if getattr(command, name) != getattr(plain, name)]

    def _unsaid(self, command: OpenSession, fields: Sequence[str]) -> None:
        for name in fields:
            self.account.unsaid[f"open_session.{name}"] += 1

    def _choose(self, link: Link, model: str) -> None:
        """Ask for a model on a wire whose sessions cannot be opened with one."""
        for command in (SetModel(link.id or "session", model), SetConfig(model=model, session=link.id)):
            if self.words.can(command):
                link.post(command)
                self.account.unsaid["open_session.model"] -= 1
                return

    async def _start(self, workspace: str) -> Process:
        if workspace and not Path(workspace).is_dir():
            raise Refused(Refusal("config", f"Workspace '{workspace[:200]}' is not a directory", data=""))
        self._started += 1
        record = _beside(self._record, self._started) if self._record else None
        try:
            started: Process = await self._nursery.start(self._hold, workspace or None, record)
        except OSError as error:
            why = f"The agent '{self.argv[0]}' cannot be started: {error.strerror}"
            raise Refused(Refusal("config", why, data="binary_missing")) from None
        except trio.TooSlowError:
            raise Refused(Refusal("config", "The agent did not say in time that it is ready", data="")) from None
        except (AgentDied, RecordingError) as error:
            raise Refused(Refusal("config", str(error), data="")) from None
        return started

    async def _hold(self, cwd: str | None, record: str | None, *, task_status: trio.TaskStatus[Process]) -> None:
        """Keep a process until it is not needed any more."""
        close = trio.Event()
        async with AsyncExitStack() as stack:
            peer: Peer = await stack.enter_async_context(
                connect(self.argv, codec=self.words.codec.name, cwd=cwd, record=record)
            )
            task_status.started(Process(peer, close))
            await close.wait()

    @staticmethod
    def _refused(error: Refused | AgentDied) -> Refused:
        return error if isinstance(error, Refused) else Refused(Refusal("config", str(error), data=""))


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
        return self.open(OpenSession(id=self.options.session_id or ""))

    def open(self, command: OpenSession) -> Boot:
        return self._booted(command.id, command, "new")

    def resume(self, command: ResumeSession) -> Boot:
        link = self._prepared
        return self._booted(
            (link.told_id if link else "") or command.id, OpenSession(workspace=command.workspace), "resumed"
        )

    def take_up(self, prompt: Prompt) -> Boot:
        return self._booted(prompt.session, OpenSession(), "new")

    def fork(self, source: Session, command: ForkSession) -> Boot:
        session = fork_session(self.store, source, command.id or new_session_id())
        return self._attached(session)

    def stored(self) -> list[SessionState]:
        return []

    def provider_for(self, model: str, workspace: Path) -> tuple[Provider | None, str]:
        return None, model

    def checks(self) -> list[Check]:
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


def _beside(path: str, number: int) -> str:
    """The name of the recording of an agent's wire, beside that of the host's."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}.agent-{number}{suffix}"
