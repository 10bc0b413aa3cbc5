"""A session that can run turns: what a host asks of one session, carried out.

Every method that answers a command is plain code and gives its outcome at once; whatever takes time goes on in a
task of its own and shows in the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
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
    Approve,
    Deny,
    Done,
    InitHistory,
    Outcome,
    Prompt,
    Refusal,
    ResetSession,
    SetConfig,
    SetMode,
    SetModel,
    Steer,
    Stop,
)
from agentwire.events import ContextAdded, ErrorInfo, ErrorRaised, HistoryCleared, TurnStarted
from agentwire.server.mcp_servers import McpServers
from agentwire.session import Session
from agentwire.text import scrub

Run = Callable[[Turn], Awaitable[None]]

BUSY = "A turn is running; send the message again after its end."
LATE_HISTORY = "init_history is only accepted before the first message"
LATE_MCP = "AddMcpServer '{name}': rejected — only allowed before first Message"
CLIENT_GONE = "Client disconnected"
READ_ONLY = "The journal of this session cannot be written, so it takes no more messages"


def refused(code: Any, message: str, *, retryable: bool = False) -> Outcome:
    """A refusal; it goes out at the next line border."""
    return Outcome(Refusal(code, message, retryable), NOW)


def describe_os(error: OSError | None) -> str:
    """What the system said."""
    return (error.strerror or str(error)) if error is not None else ""


class SessionRunner:
    """One session at work. Its turns run in the server's nursery, one at a time."""

    __slots__ = ("_nursery", "_queue", "_run", "mcp", "session", "toolbox")

    def __init__(self, session: Session, run: Run, toolbox: Toolbox, nursery: trio.Nursery, mcp: McpServers) -> None:
        self.session = session
        self.toolbox = toolbox
        self.mcp = mcp
        self._run = run
        self._nursery = nursery
        self._queue: list[Prompt] = []
        session.log.on_broken = self._journal_broken

    # --- turns ---

    def prompt(self, command: Prompt, by: str) -> Outcome:
        """Start a turn, or say why not. The outcome goes out before anything of the turn."""
        session = self.session
        if session.read_only:
            return refused("read_only", f"{READ_ONLY}: {describe_os(session.log.broken)}")
        if session.closed:
            return refused("not_found", f"Session '{session.id}' is closed")
        if session.active is not None:
            what = command.when_busy or session.policy.when_busy
            if what == "queue":
                self._queue.append(command)
            elif what == "refuse":
                return refused("busy", BUSY, retryable=True)
            return Outcome(Done(deferred=what == "queue"), session.log.seq)
        after = session.log.seq
        turn = self._start(command)
        return Outcome(Done(turn.id), after)

    def _start(self, command: Prompt) -> Turn:
        session = self.session
        session.prompted = True
        session.turns += 1
        parts = input_parts(command, session.workspace, session.model.image_input)
        turn = Turn(
            session,
            self.toolbox,
            number=session.turns,
            id=str(uuid.uuid4()),
            ref=command.ref,
            input=parts,
            approved=frozenset(command.approve),
        )
        session.active = turn
        turn.first = turn.say(TurnStarted(turn.id, command.ref, parts, command.agent, command.user))
        session.on_idle.append(self._next)
        self._nursery.start_soon(run_turn, turn, self._run, self.mcp.settled)
        return turn

    def _next(self) -> None:
        if self._queue and not self.session.closed and not self.session.read_only:
            self._start(self._queue.pop(0))

    def _journal_broken(self, error: OSError) -> None:
        """The disk is full or gone: what runs must not go on unrecorded, and nothing new begins."""
        told = ErrorInfo("internal_error", f"{READ_ONLY}: {describe_os(error)}")
        turn = self.session.active
        if turn is None:
            self.session.append(ErrorRaised(told))
        else:
            turn.fail(told)
            turn.stop()

    def stop(self, command: Stop, by: str) -> Outcome:
        """End the running turn; when idle nothing happens."""
        turn = self.session.active
        if turn is not None and (not isinstance(command.ref, str | int | float) or command.ref == turn.ref):
            turn.stop()
        return Outcome(Done(turn is not None), self.session.log.seq)

    def stop_all(self) -> None:
        """End the running turn and forget the queued prompts: nobody will read their answers."""
        self._queue.clear()
        if self.session.active is not None:
            self.session.active.stop()

    def steer(self, command: Steer, by: str) -> Outcome:
        """Add user text to the running turn."""
        turn = self.session.active
        if turn is None:
            return refused("not_found", "No turn is running")
        turn.join(command.text)
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

    def host_gone(self) -> None:
        """There is nobody left to ask: open questions, and those to come, are settled as cancelled."""
        gone = Decision(False, "call", "client_gone", CLIENT_GONE, cancelled=True)
        self.session.approvals.absent = gone
        self.session.approvals.settle_all(gone)

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
        """Change the model between turns."""
        if not command.model.strip():
            return refused("bad_params", "model must not be empty")
        if self.session.active is not None:
            return refused("busy", BUSY, retryable=True)
        return self.set_config(SetConfig(model=command.model), by)

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
        return Outcome(Done(), after)

    # --- MCP ---

    def add_mcp_server(self, command: AddMcpServer, by: str) -> Outcome:
        """Connect an MCP server; the log says how that went."""
        if self.session.prompted:
            return refused("too_late", LATE_MCP.format(name=command.name))
        problem = self.mcp.add(command)
        if problem is not None:
            return refused("bad_params", problem)
        return Outcome(Done(deferred=True), self.session.log.seq)
