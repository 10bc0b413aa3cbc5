"""Subagents: the same loop over the same log, each under an origin of its own, with a history of its own.

There are two ways to have them. Spawn runs a few side by side and waits for all (:func:`run_subagents`). Delegates
(:class:`Delegation`) work beside the turn: it goes on while they do, reads each one's report when it comes, and they
die with it.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

import trio
from msgspec import UNSET, UnsetType

from agentwire.agent.turn import STOPPED
from agentwire.events import ErrorInfo, SubagentFinished, SubagentQueued, SubagentStarted, SubagentTask, Text
from agentwire.tools.contract import SubagentReport, ToolError
from agentwire.tools.output import truncate

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

logger = logging.getLogger("agentwire.subagents")

MAX_STEPS = 200
MAX_TOKENS = 4096

MOST_AT_ONCE = 5
"""Delegates that work at the same time; more wait for a place."""
MOST_WAITING = 50
CUT_SHORT = "stopped"
"""The error of a subagent that was not let finish."""
LONGEST_REPORT = 50_000
"""Characters; the middle of a longer one is cut out."""

Answer = Callable[["Turn", int, "int | UnsetType"], Awaitable[None]]
"""The agent's loop: a turn, the most model calls (0: any number), the most tokens of a reply."""


def _run_id(name: str) -> str:
    short = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:40]
    return f"sub-{short or 'agent'}-{uuid.uuid4().hex[:8]}"


def _finish(turn: Turn, child: Turn, name: str) -> str:
    """Close whatever a subagent left open and say that it is over. Its error, if it had one. Plain code."""
    stopped = child.cancelled
    child.stop()  # nothing of it starts any more, and nobody need answer what it asked
    child.close_calls("stopped", STOPPED)
    error = child.error.message if child.error is not UNSET else ""
    if not error and stopped:
        error = CUT_SHORT
    elif not error and child.limit:
        error = f"gave up at a limit ({child.limit})"
    turn.add_usage(child.usage)
    turn.say(SubagentFinished(child.origin, name, error, child.usage))
    return error


async def run_subagents(turn: Turn, tasks: list[SubagentTask], answer: Answer) -> list[SubagentReport]:
    """Run ``answer`` for every task side by side; reports come in the order of the tasks."""
    reports: dict[int, SubagentReport] = {}

    async def run(index: int, task: SubagentTask) -> None:
        child = turn.child(_run_id(task.name), [Text(task.prompt)])
        turn.say(SubagentStarted(child.origin, task.name, task.prompt))
        error = CUT_SHORT
        try:
            await answer(child, MAX_STEPS, MAX_TOKENS)
        finally:
            # Also when cancelled: what was shown is closed before the parent's own call is.
            error = _finish(turn, child, task.name)
        reports[index] = SubagentReport(task.name, not error, child.last_text or error, child.steps, child.usage)

    async with trio.open_nursery() as nursery:
        for index, task in enumerate(tasks):
            nursery.start_soon(run, index, task)
    return [reports[index] for index in range(len(tasks))]


class _Delegate:
    """One subagent that works beside the turn."""

    __slots__ = ("child", "name", "state", "task")

    def __init__(self, child: Turn, name: str, task: str) -> None:
        self.child = child
        self.name = name
        self.task = task
        self.state: Literal["waiting", "working", "done", "failed", "stopped"] = "waiting"

    @property
    def run_id(self) -> str:
        return self.child.origin


class Delegation:
    """The subagents beside one turn; what the delegate tools work with."""

    def __init__(self, turn: Turn, nursery: trio.Nursery, answer: Answer) -> None:
        self._turn = turn
        self._nursery = nursery
        self._answer = answer
        self._delegates: dict[str, _Delegate] = {}
        self._over = False

    @property
    def working(self) -> bool:
        """Some have not ended yet."""
        return any(delegate.state in ("waiting", "working") for delegate in self._delegates.values())

    # --- what the tools do ---

    def dispatch(self, name: str, task: str) -> str:
        """Start a subagent, now or when one of the places is free."""
        waiting = self._in_state("waiting")
        if len(waiting) >= MOST_WAITING:
            raise ToolError(f"Too many subagents: {MOST_WAITING} wait for a place already")
        delegate = _Delegate(self._turn.child(_run_id(name), [Text(task)]), name, task)
        self._delegates[delegate.run_id] = delegate
        if len(self._in_state("working")) < MOST_AT_ONCE:
            self._start(delegate)
            return f"Subagent '{name}' works on it as {delegate.run_id}. You will get its report when it is done."
        self._turn.say(SubagentQueued(delegate.run_id, name, task, len(waiting) + 1))
        return (
            f"Subagent '{name}' waits for a free place as {delegate.run_id}. You will get its report when it is done."
        )

    def message(self, run_id: str, text: str) -> str:
        """Tell a subagent something; it reads it before its next model request."""
        delegate = self._alive(run_id)
        delegate.child.join(text)
        return f"Subagent '{delegate.name}' will read it before its next step."

    def stop(self, run_id: str) -> str:
        """End a subagent; it gives no report."""
        delegate = self._alive(run_id)
        if delegate.state == "working":
            delegate.child.stop()
        else:
            self._never_started(delegate)
        delegate.state = "stopped"
        return f"Subagent '{delegate.name}' was stopped."

    def listing(self) -> str:
        """Every subagent of this turn and how it is, one a line."""
        lines = [f"{each.run_id} ({each.name}): {each.state}" for each in self._delegates.values()]
        return "\n".join(lines) or "There are no subagents."

    def _alive(self, run_id: str) -> _Delegate:
        delegate = self._delegates.get(run_id)
        if delegate is None:
            raise ToolError(f"There is no subagent '{run_id}'")
        if delegate.state not in ("waiting", "working"):
            raise ToolError(f"Subagent '{run_id}' has ended already ({delegate.state})")
        return delegate

    def _in_state(self, state: str) -> list[_Delegate]:
        return [delegate for delegate in self._delegates.values() if delegate.state == state]

    # --- their lives ---

    def _start(self, delegate: _Delegate) -> None:
        delegate.state = "working"
        self._turn.say(SubagentStarted(delegate.run_id, delegate.name, delegate.task))
        self._nursery.start_soon(self._run, delegate)

    async def _run(self, delegate: _Delegate) -> None:
        child = delegate.child
        try:
            with child.scope:
                await self._answer(child, 0, UNSET)
        except Exception as error:  # one that breaks is reported like one that fails; the others go on
            logger.exception("a subagent failed")
            child.fail(ErrorInfo("internal_error", f"The subagent failed: {type(error).__name__}: {error}"))
        finally:
            self._ended(delegate, _finish(self._turn, child, delegate.name))

    def _ended(self, delegate: _Delegate, error: str) -> None:
        if delegate.state == "working":
            delegate.state = "failed" if error else "done"
            self._report(delegate, error)
        self._turn.news.set()  # whoever waits for reports looks again whether there is any to come
        for waiting in self._in_state("waiting")[:1]:
            if not self._over and not self._turn.cancelled:
                self._start(waiting)

    def _report(self, delegate: _Delegate, error: str) -> None:
        name, text = delegate.name, truncate(delegate.child.answer, LONGEST_REPORT)
        if error:
            headline, first = (
                f"Subagent '{name}' failed: {error}",
                f"Subagent '{name}' ({delegate.run_id}) failed: {error}",
            )
        else:
            headline, first = f"Subagent '{name}' is done", f"Report of subagent '{name}' ({delegate.run_id}):"
        self._turn.join(f"{first}\n{text}" if text else first, headline=headline)

    def _never_started(self, delegate: _Delegate) -> None:
        self._turn.say(SubagentFinished(delegate.run_id, delegate.name, CUT_SHORT))

    def end(self) -> None:
        """The turn needs them no more: nothing starts from here on, and those that still wait are over."""
        self._over = True
        for delegate in self._in_state("waiting"):
            delegate.state = "stopped"
            self._never_started(delegate)
        for delegate in self._in_state("working"):
            delegate.state = "stopped"
            delegate.child.stop()


@asynccontextmanager
async def delegation(turn: Turn, answer: Answer) -> AsyncIterator[None]:
    """While inside, the turn has delegates; at the end those that still work are stopped."""
    async with trio.open_nursery() as nursery:
        turn.delegates = delegates = Delegation(turn, nursery, answer)
        try:
            yield
        finally:
            delegates.end()
