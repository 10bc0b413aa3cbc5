"""Running one turn from its start to its one end, whatever the agent does in between."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from msgspec import UNSET

from agentwire.agent.blocking import BlockingTurn
from agentwire.agent.turn import STOPPED, Turn
from agentwire.events import ApprovalResolved, ErrorInfo, Outcome, TurnFinished
from agentwire.log.waiting import sync
from agentwire.logs import SESSION

logger = logging.getLogger("agentwire.turn")

Run = Callable[[Turn], Awaitable[None]]


def as_run(agent: Any) -> Run:
    """Any agent as an async function of a turn: an object with ``run``, an async function, or a plain one.

    A plain function runs in a thread and gets a :class:`~agentwire.agent.blocking.BlockingTurn`. Raises
    ``TypeError`` for anything else.
    """
    run = getattr(agent, "run", agent)
    if inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(getattr(run, "__call__", None)):  # noqa: B004
        return run  # type: ignore[no-any-return]  # checked just now
    if not callable(run):
        raise TypeError(f"an agent is an async function of a turn, or has one called run; got {agent!r}")

    async def in_thread(turn: Turn) -> None:
        # A limiter of its own: an agent that does not heed a stop keeps its thread, and must not keep others from one.
        limiter = trio.CapacityLimiter(1)
        await trio.to_thread.run_sync(run, BlockingTurn(turn), abandon_on_cancel=True, limiter=limiter)

    return in_thread


async def run_turn(turn: Turn, run: Run, ready: Callable[[], Awaitable[None]]) -> None:
    """Run an agent on a turn whose start is in the log already. Never raises but for a cancellation from outside.

    ``ready`` is awaited first: what must be there before the first model request.
    """
    SESSION.set(turn.session.id)  # this task's alone: it was started for the turn
    try:
        with turn.scope:
            await ready()
            turn.nursery = trio.lowlevel.current_task().parent_nursery
            try:
                await run(turn)
            except* SystemExit as left:
                raise RuntimeError("the agent called exit()") from left
            finally:
                await turn.end_helpers()
            turn.close_step()
    except Exception as error:  # whatever an agent raises ends its turn, not the server
        logger.exception("the agent failed")
        turn.fail(ErrorInfo("internal_error", f"The agent failed: {describe(error)}"))
    except BaseException:
        turn.cut_short = True  # from outside: the process or the block around the session ends
        raise
    finally:
        finish(turn)
    if not turn.session.ephemeral:
        with trio.CancelScope(shield=True):
            await sync(turn.session.log)
        if turn.session.active is None:
            turn.session.log.trim()  # at rest a session keeps no records in memory; they are in the journal


def describe(error: BaseException) -> str:
    """An exception in one line, groups by their first leaf."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def finish(turn: Turn) -> None:
    """Settle what is open and append the turn's one end. Plain code: nothing can come between."""
    session = turn.session
    try:
        _end(turn)
    except Exception:  # something that an agent left behind cannot be told: the end itself must be
        logger.exception("the end of the turn could not be told in full")
        error = ErrorInfo("internal_error", "The end of this turn could not be told in full")
        turn.say(TurnFinished("failed", error=error, steps=turn.steps))
    turn.over = True
    session.active = None
    turn.finished.set()
    session.apply_held_config()
    waiting, session.on_idle = session.on_idle, []
    for call in waiting:
        call()


def _end(turn: Turn) -> None:
    session = turn.session
    if turn.toolbox.has_host:
        turn.toolbox.host.withdraw_all("stopped")
    for question in session.approvals.open:
        session.approvals.forget(question.approval_id)
        turn.say(ApprovalResolved(question.approval_id, question.call_id, "cancelled", "", "stop", STOPPED))
    turn.close_calls("stopped", STOPPED)
    outcome: Outcome = "completed"
    if turn.limit:
        outcome = "limit"
    elif turn.error is not UNSET:
        outcome = "failed"
    elif turn.scope.cancelled_caught or turn.cut_short:
        outcome = "cancelled"
    if outcome == "failed" and turn.error is not UNSET:
        logger.warning("the turn failed: %s", turn.error.message)
    turn.say(
        TurnFinished(
            outcome,
            turn.answer,
            turn.usage,
            turn.error,
            turn.finish_reason if outcome != "cancelled" else "",
            turn.steps,
            turn.limit,
        )
    )
