"""What must be appended to a log whose process died in the middle of a turn, so that everything begun has an end."""

from __future__ import annotations

from agentwire.events import (
    AnyEvent,
    ApprovalResolved,
    CallCancelled,
    CompactionFailed,
    ErrorInfo,
    ErrorRaised,
    HostToolCancelled,
    SubagentFinished,
    TurnFinished,
)
from agentwire.log.history import History

CRASHED = "The agent process ended in the middle of this turn"


def closing_events(history: History) -> list[tuple[AnyEvent, int, str]]:
    """Give the events, each with its turn and origin, that end what ``history`` was fed and not ended; often none.

    The order is that of a turn that is stopped: questions, calls and subagents from the inside out, then the error and
    the turn's end. Its usage is what the finished steps reported.
    """
    left = history.unfinished
    events: list[tuple[AnyEvent, int, str]] = []
    for approval_id, begun in left.approvals.items():
        resolved = ApprovalResolved(approval_id, begun.call_id, "cancelled", by="crash", reason=CRASHED)
        events.append((resolved, begun.turn, begun.origin))
    for request_id, begun in left.requests.items():
        events.append((HostToolCancelled(request_id, "stopped", begun.call_id), begun.turn, begun.origin))
    # The newest origins first: a subagent's calls end before it does, and it ends before the call that spawned it.
    origins = [*reversed(left.subagents), ""]
    orphans = [begun.origin for begun in left.calls.values() if begun.origin not in origins]
    for origin in dict.fromkeys([*orphans, *origins]):
        for call_id, begun in left.calls.items():
            if begun.origin == origin:
                events.append((CallCancelled(call_id, "crashed", CRASHED, begun.name), begun.turn, origin))
        if origin in left.subagents:
            begun = left.subagents[origin]
            events.append((SubagentFinished(origin, begun.name, CRASHED), begun.turn, begun.origin))
    if left.compaction is not None:
        failed = CompactionFailed(left.compaction.name, CRASHED)
        events.append((failed, left.compaction.turn, left.compaction.origin))
    if left.turn:
        error = ErrorInfo("internal_error", CRASHED)
        end = TurnFinished("failed", history.answer, left.usage, error, left.finish_reason, left.steps)
        events += [(ErrorRaised(error), left.turn, ""), (end, left.turn, "")]
    return events
