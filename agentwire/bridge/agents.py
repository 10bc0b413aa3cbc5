"""Starting agent processes, and opening sessions in them."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import trio
from msgspec.structs import replace

from agentwire.bridge.link import Link, Process
from agentwire.bridge.memory import Memory
from agentwire.bridge.report import Account
from agentwire.bridge.words import Words
from agentwire.codec.contract import Codec
from agentwire.commands import (
    Done,
    ForkSession,
    InitHistory,
    OpenSession,
    Refusal,
    ResumeSession,
    SessionState,
    SetConfig,
    SetHostTools,
    SetModel,
)
from agentwire.host.connect import Peer, connect
from agentwire.host.process import AgentDied
from agentwire.host.refused import Refused
from agentwire.recording import RecordingError

logger = logging.getLogger("agentwire.bridge")

FORGOTTEN = "The agent does not know what was said before in this session: it cannot take it up, nor be told."

CHOSEN_HERE = ("id", "workspace", "roots")
"""What of a new session is the bridge's affair: its name, and where the agent's process is started."""


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
            link = Link(process, None, self.words, self.account)
            chosen = not command.model or self._choose(link, command.model)
            self._unsaid(command, [*self._all(command), *(() if chosen else ("model",))])
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

    async def again(self, memory: Memory, workspace: str) -> Link:
        """A session that was left here: taken up by the agent if it can, else a new one that is told what was said.

        Raises :class:`Refused` if there is no agent at all.
        """
        where = workspace or memory.workspace
        if memory.agent is not None and memory.agent.codec == self.words.codec.name:
            link = await self._taken_up(memory.agent.session, where)
            if link is not None:
                self.account.resumed["taken up"] += 1
                return link
        link = await self.open(OpenSession(id=memory.id, workspace=where))
        self._hand_over(memory, link)
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

    async def _taken_up(self, session: str, workspace: str) -> Link | None:
        """The agent's own session of that id; None if it has it no more, or no way to go on with it."""
        codec, wanted = self.words.codec, ResumeSession(session)
        resume = self.words.refusal(wanted) is None
        named = not resume and codec.sessions == "many" and codec.begin is None and not self.words.can(OpenSession())
        argv = codec.resuming(self.argv, session) if codec.resuming is not None and codec.sessions == "one" else None
        if not (resume or named or argv is not None):
            return None
        try:
            process = await self._start(workspace, argv)
        except Refused as why:
            if argv is None:
                raise
            logger.warning("the agent does not go on with its session %s: %s", session, why)
            return None
        if named:  # the wire's prompts say which session they are for
            return Link(process, process.peer.adopt(SessionState(session)), self.words, self.account, opens=True)
        if argv is not None:
            return Link(process, None, self.words, self.account)
        try:
            state = await process.peer.call(wanted)
        except (Refused, AgentDied) as why:
            process.leave()
            logger.warning("the agent does not go on with its session %s: %s", session, why)
            return None
        remote = None if codec.sessions == "one" else process.peer.adopt(state)
        return Link(process, remote, self.words, self.account)

    def _hand_over(self, memory: Memory, link: Link) -> None:
        """Tell a new session of the agent what was said before; its host is told if that cannot be."""
        if not memory.text:
            return
        told = InitHistory(memory.text, link.id)

        def forgotten() -> None:
            self.account.resumed["forgotten"] += 1
            link.warn(FORGOTTEN)

        def answered(result: Done | Refusal) -> None:
            if isinstance(result, Refusal):
                forgotten()
            else:
                self.account.resumed["handed over"] += 1

        if self.words.can(told):
            link.ask(told, answered)
        else:
            forgotten()

    def _all(self, command: OpenSession) -> list[str]:
        """The fields in which a host asks for something else than a session as it is."""
        plain = OpenSession()
        fields = [name for name in command.__struct_fields__ if name not in (*CHOSEN_HERE, "model", "ephemeral")]
        return [name for name in fields if getattr(command, name) != getattr(plain, name)]

    def _unsaid(self, command: OpenSession, fields: Sequence[str]) -> None:
        for name in fields:
            self.account.unsaid[f"open_session.{name}"] += 1

    def _choose(self, link: Link, model: str) -> bool:
        """Ask for a model on a wire whose sessions cannot be opened with one. False: it cannot be asked for."""
        for command in (SetModel(link.id or "session", model), SetConfig(model=model, session=link.id)):
            if self.words.can(command):
                link.post(command)
                return True
        return False

    async def _start(self, workspace: str, argv: Sequence[str] | None = None) -> Process:
        if workspace and not Path(workspace).is_dir():
            raise Refused(Refusal("config", f"Workspace '{workspace[:200]}' is not a directory", data=""))
        self._started += 1
        record = _beside(self._record, self._started) if self._record else None
        try:
            started: Process = await self._nursery.start(self._hold, argv or self.argv, workspace or None, record)
        except OSError as error:
            why = f"The agent '{self.argv[0]}' cannot be started: {error.strerror}"
            raise Refused(Refusal("config", why, data="binary_missing")) from None
        except trio.TooSlowError:
            raise Refused(Refusal("config", "The agent did not say in time that it is ready", data="")) from None
        except (AgentDied, RecordingError) as error:
            raise Refused(Refusal("config", str(error), data="")) from None
        return started

    async def _hold(
        self, argv: Sequence[str], cwd: str | None, record: str | None, *, task_status: trio.TaskStatus[Process]
    ) -> None:
        """Keep a process until it is not needed any more."""
        close = trio.Event()
        async with AsyncExitStack() as stack:
            peer: Peer = await stack.enter_async_context(
                connect(argv, codec=self.words.codec.name, cwd=cwd, record=record)
            )
            task_status.started(Process(peer, close))
            await close.wait()

    @staticmethod
    def _refused(error: Refused | AgentDied) -> Refused:
        return error if isinstance(error, Refused) else Refused(Refusal("config", str(error), data=""))


def _beside(path: str, number: int) -> str:
    """The name of the recording of an agent's wire, beside that of the host's."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}.agent-{number}{suffix}"
