"""A session in this process: the same server, log and approvals, without a wire."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import trio

from agentwire.commands import Approve, Deny, Outcome, Prompt, Refusal, Stop
from agentwire.events import AnyEvent, ApprovalRequested, Part, TurnFinished
from agentwire.host.conversation import Conversation, OnApproval, decide
from agentwire.host.groups import one_error
from agentwire.host.refused import Refused
from agentwire.log.waiting import next_records
from agentwire.options import ServeOptions
from agentwire.policy import Policy
from agentwire.server.runner import SessionRunner
from agentwire.server.runtime import close_provider, make_runner
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.setup import Setup


class LocalSession(Conversation):
    """A conversation with an agent in this process. Made by :func:`open_session`."""

    def __init__(self, runner: SessionRunner, on_approval: OnApproval | None) -> None:
        self._runner = runner
        self._on_approval = on_approval

    @property
    def session(self) -> Session:
        """The session itself: log, history, settings."""
        return self._runner.session

    async def prompt(
        self, text: str, *, files: Sequence[str] = (), parts: Sequence[Part] = (), timeout: float = float("inf")
    ) -> AsyncGenerator[AnyEvent, None]:
        """Send a user input and yield the events of its turn, its end included.

        Leaving the loop early stops the turn: at once if the iterator is closed (``contextlib.aclosing``); so does
        ``timeout`` (seconds), which then raises :class:`trio.TooSlowError`. Raises :class:`Refused` if a turn runs
        already. Questions go to ``on_approval``; without it, answer them with
        :meth:`approve` and :meth:`deny` while iterating.
        """
        deadline = trio.current_time() + timeout
        cursor = self.session.log.cursor()
        turn = None
        try:
            self._runner.prompt(Prompt(text, files=list(files), parts=list(parts)), _check)
            turn = self.session.active
            while True:
                with trio.fail_at(deadline):
                    records = await next_records(cursor)
                for record in records:
                    if record.turn != turn.number:
                        continue
                    yield record.event
                    if isinstance(record.event, TurnFinished) and not record.origin:
                        return
                    if isinstance(record.event, ApprovalRequested) and self._on_approval is not None:
                        await self._answer(record.event, self._on_approval)
        finally:
            cursor.close()
            if turn is not None and not turn.over:
                turn.stop()
                with trio.CancelScope(shield=True):
                    await turn.finished.wait()  # so that the next prompt finds nobody before it

    def approve(self, call_id: str, scope: Literal["once", "always"] = "once") -> None:
        """Let a call run."""
        _check(self._runner.approve(Approve(call_id, scope=scope), "local"))

    def deny(self, call_id: str, reason: str = "") -> None:
        """Do not let a call run."""
        _check(self._runner.deny(Deny(call_id, reason=reason), "local"))

    def stop(self) -> None:
        """End the running turn."""
        self._runner.stop(Stop(), _check)

    async def _answer(self, question: ApprovalRequested, on_approval: OnApproval) -> None:
        allowed = await decide(question, on_approval)
        if self.session.approvals.find(call_id=question.call_id) is None:
            return
        if allowed:
            self._runner.approve(Approve(question.call_id), "local")
        else:
            self._runner.deny(Deny(question.call_id, reason="Not allowed"), "local")


def _check(outcome: Outcome) -> None:
    if isinstance(outcome.result, Refusal):
        raise Refused(outcome.result)


@asynccontextmanager
async def open_session(
    agent: Any = None,
    *,
    on_approval: OnApproval | None = None,
    policy: Policy | None = None,
    ephemeral: bool = True,
    **options: Any,
) -> AsyncIterator[LocalSession]:
    """Open a session with ``agent`` (None: the built-in one) in this process.

    Keywords are the fields of :class:`agentwire.ServeOptions` (``provider``, ``model``, ``workspace``, ``allow``,
    ...). Leaving the block stops a running turn. Raises
    :class:`~agentwire.provider.contract.ConfigError` or :class:`~agentwire.store.StoreError`.
    """
    from agentwire.agent.loop import Agent

    chosen = Agent() if agent is None else agent
    workspace = options.pop("workspace", os.getcwd())
    setup = Setup(ServeOptions(ephemeral=ephemeral, workspace=workspace, **options), policy or Policy(), chosen)
    boot = setup.at_start()
    session = boot.session
    try:
        with one_error():
            async with trio.open_nursery() as nursery:
                server = Server(nursery)
                runner = make_runner(session, chosen, nursery, setup.provider_for)
                server.add(runner)
                runner.mcp.configure(boot.mcp_specs)
                try:
                    yield LocalSession(runner, on_approval)
                finally:
                    nursery.cancel_scope.cancel()
    finally:
        session.log.close()
        for provider in setup.models.made.values():
            await close_provider(provider)
