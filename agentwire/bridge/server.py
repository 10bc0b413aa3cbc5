"""Our server with agents of another wire: what a session's agent must do or know too is passed on before it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import trio
from msgspec.structs import replace

from agentwire.bridge.link import Link
from agentwire.bridge.memory import Memory
from agentwire.bridge.opening import BridgeSetup
from agentwire.commands import (
    NOW,
    AddMcpServer,
    Approve,
    ArchiveSession,
    Command,
    Doctor,
    Done,
    ForkSession,
    GetHostTools,
    InitHistory,
    ListSessions,
    OpenSession,
    Outcome,
    Plan,
    Prompt,
    Refusal,
    ResetSession,
    ResumeSession,
    SessionState,
    SetConfig,
    SetHostTools,
    SetMode,
    SetModel,
    Steer,
)
from agentwire.host.refused import Refused
from agentwire.server.runner import LATE_HISTORY, LATE_MCP, Reply, SessionRunner, refused
from agentwire.server.server import Peer, Server
from agentwire.server.sessions import MakeRunner
from agentwire.store import SessionInUse, StoreError

PROMPT_FIELDS: Final = ("agent", "user", "files", "resume")
"""What a prompt may say that not every wire has a word for."""

NO_TOOLS: Final = SetHostTools("s", [])

Go = Callable[[], None]
"""Has our own server carry a command out."""


class BridgeServer(Server):
    """Sessions whose agents are elsewhere."""

    def __init__(self, nursery: trio.Nursery, make_runner: MakeRunner, setup: BridgeSetup) -> None:
        super().__init__(nursery, make_runner, setup)
        self._bridge = setup
        self._words = setup.agents.words
        self._account = setup.agents.account
        self._opening: dict[str, list[Go]] = {}
        """By the name of a session that is being opened: what is to be done after that."""
        self._openings = 0
        self._opened = trio.Event()

    def dispatch(
        self, command: Command, session: str, reply: Reply, *, by: str = "host", peer: Peer | None = None
    ) -> None:
        """Carry out a command, after the agent has if it is for the agent as well."""
        if isinstance(command, OpenSession | ResumeSession) and command.tools and not self._words.can(NO_TOOLS):
            self._account.unsaid[f"{command.__struct_config__.tag}.tools"] += 1
            command = replace(command, tools=[])

        def go(reply: Reply = reply) -> None:
            Server.dispatch(self, command, session, reply, by=by, peer=peer)

        def again() -> None:
            self.dispatch(command, session, reply, by=by, peer=peer)

        if session in self._opening:
            self._opening[session].append(again)
        elif self._needs_link(command, session):
            self._open_first(command, session, reply, go)
        else:
            handle = _PASSED_ON.get(type(command))
            runner = self.sessions.get(session)
            if handle is None or (runner is None and type(command) not in _OF_PROCESS):
                go()
            else:
                handle(self, command, runner, reply, go)

    # --- opening ---

    def _needs_link(self, command: Command, session: str) -> bool:
        if self.stopping or self._bridge.prepared:
            return False
        if isinstance(command, ResumeSession):
            return command.id not in self.sessions
        if isinstance(command, Prompt):
            return command.open and session not in self.sessions
        return isinstance(command, OpenSession) or (isinstance(command, ForkSession) and session in self.sessions)

    def _open_first(self, command: Command, session: str, reply: Reply, go: Callable[..., None]) -> None:
        """Have the agent open its session; then ours opens."""
        self._openings += 1
        name = session if isinstance(command, Prompt) else getattr(command, "id", "") or f"\0{self._openings}"
        source = self.sessions.get(session)
        if isinstance(command, ForkSession) and source is not None and source.session.active is not None:
            return go()  # which refuses it
        if isinstance(command, Prompt) and (why := self._unfit(command)) is not None:
            return reply(Outcome(why, NOW))
        self._opening.setdefault(name, [])
        return self.nursery.start_soon(self._open_both, command, session, name, reply, go)

    async def _open_both(self, command: Any, session: str, name: str, reply: Reply, go: Callable[..., None]) -> None:
        agents = self._bridge.agents
        memory = None
        try:
            if isinstance(command, ResumeSession | Prompt):
                memory = self._remembered(command, session)
            if memory is not None:
                link = await agents.again(memory, getattr(command, "workspace", ""))
            elif isinstance(command, ResumeSession):
                link = await agents.resume(command)
            elif isinstance(command, ForkSession):
                link = await agents.fork(self._bridge.links[session])
            else:
                link = await agents.open(command if isinstance(command, OpenSession) else OpenSession(id=session))
        except Refused as why:
            self._count(why.refusal, command)
            reply(Outcome(why.refusal, NOW))
        else:
            self._bridge.prepare(link, memory)
            if isinstance(command, Prompt):
                go(self._expecting(command, session, reply))
            else:
                go(self._as_told(link, reply))
            self._bridge.drop_prepared()
        finally:
            waiting = self._opening.pop(name, [])
            for later in waiting:
                later()
            self._opened.set()
            self._opened = trio.Event()

    def _remembered(self, command: ResumeSession | Prompt, session: str) -> Memory | None:
        """What is known of a session that was left here. Raises :class:`Refused` for one that cannot be taken up."""
        try:
            if isinstance(command, Prompt):
                return self._bridge.remembered(session, literal=True)
            return self._bridge.remembered(command.id, command.workspace)
        except SessionInUse as error:
            raise Refused(Refusal("busy", error.message, retryable=True)) from None
        except StoreError as error:
            raise Refused(Refusal("config", error.message, data="")) from None

    @staticmethod
    def _as_told(link: Link, reply: Reply) -> Reply:
        """The answer to whoever opened a session, with the tools that its agent told of."""

        def opened(outcome: Outcome) -> None:
            state = outcome.result.value if isinstance(outcome.result, Done) else None
            if isinstance(state, SessionState) and link.state.tools:
                state.tools = link.state.tools
            reply(outcome)

        return opened

    # --- turns ---

    def _unfit(self, command: Prompt) -> Refusal | None:
        """Why the agent's wire cannot carry a prompt."""
        asked = replace(command, session="s", open=False, approve=[], when_busy="", ref="r")
        refusal = self._words.refusal(asked)
        if refusal is not None:
            self._count(refusal, command)
            return refusal
        for name in self._words.unsaid(asked, PROMPT_FIELDS):
            self._account.unsaid[f"prompt.{name}"] += 1
        return None

    def _expecting(self, command: Prompt, session: str, reply: Reply) -> Reply:
        """Remember what was said for the turn that it becomes."""

        def started(outcome: Outcome) -> None:
            remote = self._bridge.remotes.get(session)
            if remote is not None and isinstance(outcome.result, Done) and isinstance(outcome.result.value, str):
                remote.expect(outcome.result.value, command)
            reply(outcome)

        return started

    def _on_prompt(self, command: Prompt, runner: SessionRunner, reply: Reply, go: Callable[..., None]) -> None:
        if (why := self._unfit(command)) is not None:
            return reply(Outcome(why, NOW))
        if command.agent:  # whom there are to ask for the agent knows
            runner.session.settings.agents.setdefault(command.agent, "")
        return go(self._expecting(command, runner.session.id, reply))

    def _on_steer(self, command: Steer, runner: SessionRunner, reply: Reply, go: Go) -> None:
        turn = runner.session.active
        if turn is None:
            return go()

        def joined() -> None:
            go()
            if runner.session.active is turn and not turn.over:
                turn.take_joined()

        return self._first_the_agent(Steer(command.text, self._link(runner).id, command.parts), runner, reply, joined)

    # --- settings ---

    def _on_set_mode(self, command: SetMode, runner: SessionRunner, reply: Reply, go: Go) -> None:
        """Where an agent asks, or reads beforehand what it may do, the mode can be kept on this side."""
        told = SetMode(command.mode, self._link(runner).id)
        if self._words.can(told):
            return self._first_the_agent(told, runner, reply, go)
        if self._words.can(Approve("c", "c", session="s")) or self._words.approves_ahead:
            return go()
        return self._refuse(command, reply)

    def _on_set_config(self, command: SetConfig, runner: SessionRunner, reply: Reply, go: Go) -> None:
        self._first_the_agent(replace(command, session=self._link(runner).id), runner, reply, go)

    def _on_set_model(self, command: SetModel, runner: SessionRunner, reply: Reply, go: Go) -> None:
        told: Command = SetModel(self._link(runner).id or "s", command.model)
        if not self._words.can(told):
            told = SetConfig(model=command.model, session=self._link(runner).id)
        if runner.session.active is not None or not command.model.strip():
            return go()  # which refuses it
        return self._first_the_agent(told, runner, reply, go)

    def _on_init_history(self, command: InitHistory, runner: SessionRunner, reply: Reply, go: Go) -> None:
        if runner.session.prompted:
            return reply(refused("too_late", LATE_HISTORY))
        return self._first_the_agent(replace(command, session=self._link(runner).id), runner, reply, go)

    def _on_add_mcp_server(self, command: AddMcpServer, runner: SessionRunner, reply: Reply, go: Go) -> None:
        """The agent connects it, and tells how that went."""
        if runner.session.prompted:
            return reply(refused("too_late", LATE_MCP.format(name=command.name)))

        def asked() -> None:
            runner.session.set_mcp()
            reply(Outcome(Done(deferred=True), runner.session.log.seq))

        return self._first_the_agent(replace(command, session=self._link(runner).id), runner, reply, asked)

    def _on_set_host_tools(self, command: SetHostTools, runner: SessionRunner, reply: Reply, go: Go) -> None:
        if runner.session.active is not None:
            return go()
        return self._first_the_agent(SetHostTools(self._link(runner).id or "s", command.tools), runner, reply, go)

    def _on_reset(self, command: ResetSession, runner: SessionRunner, reply: Reply, go: Go) -> None:
        if runner.session.active is not None:
            return go()
        return self._first_the_agent(ResetSession(self._link(runner).id or "s"), runner, reply, go)

    def _on_get_host_tools(self, command: GetHostTools, runner: SessionRunner, reply: Reply, go: Go) -> None:
        """What tools there are the agent knows, if it can be asked."""
        told = GetHostTools(self._link(runner).id or "s")
        if not self._words.can(told):
            return go()

        def answered(result: Done | Refusal) -> None:
            state = runner.state()
            if isinstance(result, Done) and isinstance(result.value, SessionState):
                state.tools, state.host_tools = result.value.tools, result.value.host_tools
            reply(Outcome(Done(state), NOW))

        return self._link(runner).ask(told, answered)

    # --- sessions and the process ---

    def _on_archive(
        self, command: ArchiveSession, runner: SessionRunner, reply: Reply, go: Callable[..., None]
    ) -> None:
        def closed(outcome: Outcome) -> None:
            if isinstance(outcome.result, Done):
                link = self._link(runner)
                if command.remove and self._words.can(ArchiveSession(link.id or "s")):
                    link.post(ArchiveSession(link.id, command.remove))
                self._bridge.left(runner.session.id)
            reply(outcome)

        go(closed)

    def _on_list(self, command: ListSessions, runner: Any, reply: Reply, go: Callable[..., None]) -> None:
        """The sessions here, and those that were left; if nothing is kept, those that an agent has stored."""
        link = next(iter(self._bridge.links.values()), None)
        if not command.stored or not self._bridge.options.ephemeral or link is None or not self._words.can(command):
            return go()

        def listed(outcome: Outcome) -> None:
            def answered(result: Done | Refusal) -> None:
                if isinstance(result, Done) and isinstance(result.value, list) and isinstance(outcome.result, Done):
                    here = {link.id for link in self._bridge.links.values()} | {s.id for s in outcome.result.value}
                    outcome.result.value += [replace(s, open=False) for s in result.value if s.id not in here]
                reply(outcome)

            link.ask(command, answered)

        return go(listed)

    def _on_plan(self, command: Plan | Doctor, runner: Any, reply: Reply, go: Go) -> None:
        """How its set-up is only the agent knows."""
        link = next(iter(self._bridge.links.values()), None)
        if self._words.can(command) and link is not None:
            return link.ask(command, lambda result: reply(Outcome(result, NOW)))
        return go() if isinstance(command, Doctor) else self._refuse(command, reply)

    async def host_gone(self, peer: Peer, *, broken: bool = False) -> None:
        """What the host asked last is still answered."""
        while self._opening and not broken:
            await self._opened.wait()
        await super().host_gone(peer, broken=broken)

    # --- how ---

    def _link(self, runner: SessionRunner) -> Link:
        return self._bridge.links[runner.session.id]

    def _first_the_agent(self, told: Command, runner: SessionRunner, reply: Reply, go: Go) -> None:
        """Pass a command on, and carry it out here when the agent has."""
        if not self._words.can(told):
            return self._refuse(told, reply)

        def answered(result: Done | Refusal) -> None:
            if isinstance(result, Refusal):
                reply(Outcome(result, NOW))
            else:
                go()

        return self._link(runner).ask(told, answered)

    def _refuse(self, command: Command, reply: Reply) -> None:
        why = self._words.refusal(command) or Refusal("unsupported", "The agent cannot do that")
        self._count(why, command)
        reply(Outcome(why, NOW))

    def _count(self, why: Refusal, command: Command) -> None:
        if why.code == "unsupported":
            self._account.refused[str(type(command).__struct_config__.tag)] += 1


_OF_PROCESS: Final = (ListSessions, Plan, Doctor)

_PASSED_ON: Final[dict[type[Command], Callable[[BridgeServer, Any, Any, Reply, Any], None]]] = {
    Prompt: BridgeServer._on_prompt,
    Steer: BridgeServer._on_steer,
    SetMode: BridgeServer._on_set_mode,
    SetConfig: BridgeServer._on_set_config,
    SetModel: BridgeServer._on_set_model,
    InitHistory: BridgeServer._on_init_history,
    AddMcpServer: BridgeServer._on_add_mcp_server,
    SetHostTools: BridgeServer._on_set_host_tools,
    GetHostTools: BridgeServer._on_get_host_tools,
    ResetSession: BridgeServer._on_reset,
    ArchiveSession: BridgeServer._on_archive,
    ListSessions: BridgeServer._on_list,
    Plan: BridgeServer._on_plan,
    Doctor: BridgeServer._on_plan,
}
"""Commands that are not for our own server alone."""
