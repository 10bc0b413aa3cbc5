"""A session that can run turns: what a host asks of one session, carried out.

Every method that answers a command is plain code and gives its outcome at once; whatever takes time goes on in a
task of its own and shows in the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from agentwire.agent.input import input_parts
from agentwire.agent.running import run_turn
from agentwire.agent.toolbox import Toolbox
from agentwire.agent.turn import Turn
from agentwire.approvals import Decision
from agentwire.commands import (
    NOW,
    AddMcpServer,
    AnswerHostTool,
    Approve,
    Deny,
    Done,
    GetHistory,
    GetHostTools,
    InitHistory,
    Outcome,
    Prompt,
    Refusal,
    ResetSession,
    SessionState,
    SetConfig,
    SetHostTools,
    SetMode,
    SetModel,
    Steer,
    Stop,
)
from agentwire.events import (
    ContextAdded,
    ErrorInfo,
    ErrorRaised,
    HistoryCleared,
    HostTool,
    HostToolsChanged,
    Notice,
    TurnStarted,
)
from agentwire.provider.contract import ConfigError, Provider
from agentwire.server.mcp_servers import McpServers
from agentwire.session import Session
from agentwire.text import scrub
from agentwire.tools.contract import ToolContext

Run = Callable[[Turn], Awaitable[None]]
Reply = Callable[[Outcome], None]
ProviderFor = Callable[[str, Path], tuple[Provider | None, str]]
"""Finds who serves a model; raises :class:`~agentwire.provider.contract.ConfigError`."""

BUSY = "A turn is running; send the message again after its end."
LATE_HISTORY = "init_history is only accepted before the first message"
LATE_MCP = "AddMcpServer '{name}': rejected — only allowed before first Message"
NONE_APPROVED: frozenset[str] = frozenset()
CLIENT_GONE = "Client disconnected"
STOPPED_WAITING = "The message was stopped before its turn began"
NOTHING_TO_RESUME = "There was no unfinished turn to resume; this one begins anew."
READ_ONLY = "The journal of this session cannot be written, so it takes no more messages"


def refused(code: Any, message: str, *, retryable: bool = False) -> Outcome:
    """A refusal; it goes out at the next line border."""
    return Outcome(Refusal(code, message, retryable), NOW)


def describe_os(error: OSError | None) -> str:
    """What the system said."""
    return (error.strerror or str(error)) if error is not None else ""


def _same(a: object, b: object) -> bool:
    """Whether two ids are the same value of the same JSON type: 1 is 1.0, and is not "1"."""
    return a == b and isinstance(a, str) == isinstance(b, str)


class SessionRunner:
    """One session at work. Its turns run in the server's nursery, one at a time."""

    __slots__ = ("_nursery", "_provider_for", "_queue", "_run", "_turns_before", "mcp", "session", "shown", "toolbox")

    def __init__(
        self,
        session: Session,
        run: Run,
        toolbox: Toolbox,
        nursery: trio.Nursery,
        mcp: McpServers,
        provider_for: ProviderFor | None = None,
    ) -> None:
        self.session = session
        self.shown = False
        """A connection follows it, or did."""
        self._provider_for = provider_for
        self._turns_before = session.turns
        self.toolbox = toolbox
        self.mcp = mcp
        self._run = run
        self._nursery = nursery
        self._queue: list[tuple[Prompt, Reply]] = []
        session.log.on_broken = self._journal_broken

    # --- turns ---

    def prompt(self, command: Prompt, reply: Reply) -> None:
        """Start a turn, or say why not. The outcome goes out before anything of the turn."""
        session = self.session
        if session.read_only:
            return reply(refused("read_only", f"{READ_ONLY}: {describe_os(session.log.broken)}"))
        if session.closed:
            return reply(refused("not_found", f"Session '{session.id}' is closed"))
        if command.agent and command.agent not in session.settings.agents:
            return reply(refused("bad_params", f"Unknown agent: '{command.agent}'"))
        if session.active is None:
            return self._start(command, reply)
        what = command.when_busy or session.policy.when_busy
        if what == "queue":
            return self._queue.append((command, reply))
        return reply(Outcome(Done(), session.log.seq) if what == "ignore" else self.busy())

    def busy(self) -> Outcome:
        """The refusal of a prompt while a turn runs."""
        return refused("busy", BUSY, retryable=True)

    def _start(self, command: Prompt, reply: Reply) -> None:
        session = self.session
        after = session.log.seq
        session.prompted = True
        session.turns += 1
        cut_off = session.history.cut_off
        parts = input_parts(command, session.workspace, session.model.image_input)
        turn = Turn(
            session,
            self.toolbox,
            number=session.turns,
            id=str(uuid.uuid4()),
            ref=command.ref,
            input=parts,
            approved=frozenset(command.approve) if command.approve else NONE_APPROVED,
            agent=command.agent,
        )
        session.active = turn
        turn.first = turn.say(TurnStarted(turn.id, command.ref, parts, command.agent, command.user))
        if command.resume and not cut_off:
            turn.say(Notice(NOTHING_TO_RESUME, "warning"))
        session.on_idle.append(self._next)
        self._nursery.start_soon(run_turn, turn, self._run, self.mcp.settled)
        reply(Outcome(Done(turn.id), after))

    def _next(self) -> None:
        if self._queue:
            self.prompt(*self._queue.pop(0))

    def _journal_broken(self, error: OSError) -> None:
        """The disk is full or gone: what runs must not go on unrecorded, and nothing new begins."""
        told = ErrorInfo("internal_error", f"{READ_ONLY}: {describe_os(error)}")
        turn = self.session.active
        if turn is None:
            self.session.append(ErrorRaised(told))
        else:
            turn.fail(told)
            turn.stop()

    def stop(self, command: Stop, reply: Reply) -> None:
        """End the turn that is meant, running or waiting; when there is none nothing happens."""
        named = isinstance(command.ref, str | int | float)
        turn = self.session.active
        if turn is None or (named and not _same(command.ref, turn.ref)):
            return reply(Outcome(Done(named and self._forget(command.ref)), self.session.log.seq))
        turn.stop()
        if command.wait:
            self.session.on_idle.insert(0, lambda: reply(Outcome(Done(True), self.session.log.seq)))
            return None
        return reply(Outcome(Done(True), self.session.log.seq))

    def _forget(self, ref: Any) -> bool:
        """Refuse a prompt that waits for its turn. False: there is none of that name."""
        for entry in self._queue:
            if _same(ref, entry[0].ref):
                self._queue.remove(entry)
                entry[1](refused("cancelled", STOPPED_WAITING))
                return True
        return False

    def stop_all(self) -> None:
        """End the running turn and refuse the prompts that wait."""
        while self._queue:
            self._queue.pop(0)[1](refused("cancelled", STOPPED_WAITING))
        if self.session.active is not None:
            self.session.active.stop()

    def steer(self, command: Steer, by: str) -> Outcome:
        """Add user text to the running turn."""
        turn = self.session.active
        if turn is None:
            return refused("not_found", "No turn is running")
        turn.join(command.text, command.parts)
        return Outcome(Done(), self.session.log.seq)

    # --- approvals ---

    def approve(self, command: Approve, by: str) -> Outcome:
        """Let a call run, and perhaps those like it."""
        always = self.session.approvals.scope_of_always()
        scope = {"once": "call", "always": always}.get(command.scope, command.scope)
        decision = Decision(True, scope, by)  # type: ignore[arg-type]  # the command's words and the decision's agree
        return self._settle(command.approval_id, command.call_id, decision)

    def deny(self, command: Deny, by: str) -> Outcome:
        """Do not let a call run."""
        return self._settle(command.approval_id, command.call_id, Decision(False, "call", by, scrub(command.reason)))

    def _settle(self, approval_id: str, call_id: str, decision: Decision) -> Outcome:
        approvals = self.session.approvals
        found = approvals.find(approval_id=approval_id, call_id=call_id)
        named = approval_id or call_id
        if found is None:
            return refused("not_found", f"No call '{named}' was ever waiting for approval")
        after = self.session.log.seq
        if approvals.settle(found, decision) != "settled":
            return refused("not_pending", f"Call '{named}' is not waiting for approval any more")
        return Outcome(Done(), after)

    def pending(self, request: str) -> bool:
        """Whether an approval or a host tool request with that id waits for an answer."""
        asked = any(question.approval_id == request for question in self.session.approvals.open)
        return asked or (self.toolbox.has_host and self.toolbox.host.pending(request))

    def host_gone(self) -> None:
        """There is nobody left to ask: what waits for an answer, and what would, is settled as cancelled."""
        gone = Decision(False, "call", "client_gone", CLIENT_GONE, cancelled=True)
        self.session.approvals.absent = gone
        self.session.approvals.settle_all(gone)
        if self.toolbox.has_host:
            self.toolbox.host.absent = True
            self.toolbox.host.withdraw_all("client_gone")

    def host_there(self) -> None:
        """There is somebody to ask again."""
        self.session.approvals.absent = None
        if self.toolbox.has_host:
            self.toolbox.host.absent = False

    # --- host tools ---

    @property
    def host_tools(self) -> list[HostTool]:
        """The tools that the host runs."""
        return self.toolbox.host.declared if self.toolbox.has_host else []

    def declare(self, tools: Sequence[HostTool]) -> None:
        """Take the host's tools, as a fact of the session."""
        self.session.append(HostToolsChanged(list(tools)))
        self.toolbox.host.owner_is_host = self.session.settings.host_permissions
        self.toolbox.host.set(tools)

    def get_host_tools(self, command: GetHostTools, by: str) -> Outcome:
        """What the next turn offers."""
        return Outcome(Done(self.state()), self.session.log.seq)

    def set_host_tools(self, command: SetHostTools, by: str) -> Outcome:
        """Replace the host's tools, between turns."""
        if self.session.active is not None:
            return refused("busy", BUSY, retryable=True)
        after = self.session.log.seq
        self.declare(command.tools)
        return Outcome(Done(self.state()), after)

    def answer_host_tool(self, command: AnswerHostTool) -> Outcome | None:
        """Give a host tool's result to the call that waits for it. None: none of this session does."""
        after = self.session.log.seq
        if not self.toolbox.has_host:
            return None
        host = self.toolbox.host
        if host.answer(command.request_id, command.content, command.is_error, command.details) != "settled":
            return None
        return Outcome(Done(), after)

    # --- what hosts are told ---

    def state(self) -> SessionState:
        """The session as hosts are told of it."""
        session = self.session
        context = ToolContext(
            workspace=session.workspace, cache=self.toolbox.cache, image_input=session.model.image_input
        )
        offered = [spec.name for spec in self.toolbox.offered(context)]
        return SessionState(
            session.id,
            session.model.model,
            session.turns - self._turns_before,
            offered,
            [tool for tool in self.host_tools if tool.name in offered],
            workspace=str(session.workspace),
        )

    def get_history(self, command: GetHistory, by: str) -> Outcome:
        """The conversation as the model reads it."""
        return Outcome(Done(self.session.history.messages()), self.session.log.seq)

    # --- settings ---

    def set_mode(self, command: SetMode, by: str) -> Outcome:
        """Change the approval mode at once."""
        after = self.session.log.seq
        self.session.set_mode(command.mode)
        return Outcome(Done(), after)

    def set_config(self, command: SetConfig, by: str) -> Outcome:
        """Change model settings, after the running turn if there is one."""
        after = self.session.log.seq
        now = self.session.set_config(command)
        return Outcome(Done(deferred=not now), after)

    def set_model(self, command: SetModel, by: str) -> Outcome:
        """Change the model between turns, and with it perhaps the provider."""
        session = self.session
        if session.active is not None:
            return refused("busy", BUSY, retryable=True)
        if not command.model.strip():
            return refused("bad_params", "model must not be empty")
        model = command.model
        if self._provider_for is not None:
            try:
                session.provider, model = self._provider_for(command.model, session.workspace)
            except ConfigError as error:
                return Outcome(Refusal("config", str(error), data=error.kind), NOW)
        after = session.log.seq
        session.set_config(SetConfig(model=model))
        return Outcome(Done(self.state()), after)

    def init_history(self, command: InitHistory, by: str) -> Outcome:
        """Take prior context, before the first prompt."""
        if self.session.prompted:
            return refused("too_late", LATE_HISTORY)
        after = self.session.log.seq
        self.session.append(ContextAdded(scrub(command.text)))
        return Outcome(Done(), after)

    def reset(self, command: ResetSession, by: str) -> Outcome:
        """Clear what the model remembers."""
        if self.session.active is not None:
            return refused("busy", BUSY, retryable=True)
        after = self.session.log.seq
        self.session.append(HistoryCleared())
        self.toolbox.cache.forget_contents()
        return Outcome(Done(self.state()), after)

    # --- MCP ---

    def add_mcp_server(self, command: AddMcpServer, by: str) -> Outcome:
        """Connect an MCP server; the log says how that went."""
        if self.session.prompted:
            return refused("too_late", LATE_MCP.format(name=command.name))
        problem = self.mcp.add(command)
        if problem is not None:
            return refused("bad_params", problem)
        return Outcome(Done(deferred=True), self.session.log.seq)
