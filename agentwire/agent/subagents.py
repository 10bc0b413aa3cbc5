"""Subagents: the same loop over the same log, each under an origin of its own, with a history of its own."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET, UnsetType

from agentwire.agent.turn import STOPPED
from agentwire.events import SubagentFinished, SubagentStarted, SubagentTask, Text
from agentwire.tools.contract import SubagentReport

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

MAX_STEPS = 200
MAX_TOKENS = 4096

Answer = Callable[["Turn", int, "int | UnsetType"], Awaitable[None]]


async def run_subagents(turn: Turn, tasks: list[SubagentTask], answer: Answer) -> list[SubagentReport]:
    """Run ``answer`` for every task side by side; reports come in the order of the tasks."""
    reports: dict[int, SubagentReport] = {}

    async def run(index: int, task: SubagentTask) -> None:
        child = turn.child(f"sub-{task.name}-{uuid.uuid4().hex[:8]}", [Text(task.prompt)])
        turn.say(SubagentStarted(child.origin, task.name, task.prompt))
        try:
            await answer(child, MAX_STEPS, MAX_TOKENS)
        finally:
            # Also when cancelled: what was shown is closed before the parent's own call is.
            child.close_calls("stopped", STOPPED)
            error = child.error.message if child.error is not UNSET else ""
            turn.add_usage(child.usage)
            turn.say(SubagentFinished(child.origin, task.name, error, child.usage))
        reports[index] = SubagentReport(task.name, not error, child.last_text or error, child.steps, child.usage)

    async with trio.open_nursery() as nursery:
        for index, task in enumerate(tasks):
            nursery.start_soon(run, index, task)
    return [reports[index] for index in range(len(tasks))]
