"""What a log has begun and not ended: the turn, its calls, and the questions to the host.

Kept beside the history by the same fold, over all origins, for :mod:`agentwire.log.repair`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from agentwire.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallCancelled,
    CallFinished,
    CallReady,
    CallStarted,
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    HostToolCancelled,
    HostToolRequested,
    StepFinished,
    StepStarted,
    SubagentFinished,
    SubagentQueued,
    SubagentStarted,
    TurnFinished,
    TurnStarted,
    Usage,
)
from agentwire.log.record import Record

NOTHING_USED: Final = Usage()
"""Most sessions of a process are at rest: they share one."""


class Begun(NamedTuple):
    """Something that was begun: a call (``name``), a question about a call, a subagent (``name``)."""

    turn: int
    origin: str
    name: str = ""
    call_id: str = ""


class Unfinished:
    """Everything begun and not ended, in the order in which it was begun. Feed it every record but deltas."""

    __slots__ = ("approvals", "calls", "compaction", "finish_reason", "requests", "steps", "subagents", "turn", "usage")

    def __init__(self) -> None:
        self.turn = 0
        """Number of the main agent's turn under way; 0: none."""
        self.steps = 0
        """Steps that it has begun, subagents' not counted."""
        self.finish_reason = ""
        """Of its last step that is finished."""
        self.usage = NOTHING_USED
        """Tokens of all its finished steps, subagents' included."""
        self.calls: dict[str, Begun] = {}
        """By call id: shown, and neither finished nor cancelled."""
        self.approvals: dict[str, Begun] = {}
        """By approval id."""
        self.requests: dict[str, Begun] = {}
        """By request id: calls of host tools that wait for the host."""
        self.subagents: dict[str, Begun] = {}
        """By run id."""
        self.compaction: Begun | None = None

    def feed(self, record: Record) -> None:
        """Take the next record."""
        handler = _HANDLERS.get(type(record.event))
        if handler is not None:
            handler(self, record.event, record)

    def _turn_started(self, event: TurnStarted, record: Record) -> None:
        if not record.origin:
            self.turn = record.turn
            self.steps = 0
            self.finish_reason = ""
            self.usage = NOTHING_USED

    def _turn_finished(self, event: TurnFinished, record: Record) -> None:
        if not record.origin:
            self.turn = 0
            self.usage = NOTHING_USED

    def _step_started(self, event: StepStarted, record: Record) -> None:
        if not record.origin:
            self.steps += 1

    def _step_finished(self, event: StepFinished, record: Record) -> None:
        if not record.origin:
            self.finish_reason = event.finish_reason
        if event.usage is not UNSET:
            self.usage = event.usage if self.usage is NOTHING_USED else self.usage + event.usage

    def _call_shown(self, event: CallStarted | CallReady, record: Record) -> None:
        self.calls.setdefault(event.call_id, Begun(record.turn, record.origin, event.name, event.call_id))

    def _call_closed(self, event: CallFinished | CallCancelled, record: Record) -> None:
        self.calls.pop(event.call_id, None)
        for waiting in (self.approvals, self.requests):
            for key in [key for key, begun in waiting.items() if begun.call_id == event.call_id]:
                del waiting[key]

    def _asked(self, event: ApprovalRequested, record: Record) -> None:
        self.approvals[event.approval_id] = Begun(record.turn, record.origin, event.name, event.call_id)

    def _answered(self, event: ApprovalResolved, record: Record) -> None:
        self.approvals.pop(event.approval_id, None)

    def _requested(self, event: HostToolRequested, record: Record) -> None:
        self.requests[event.request_id] = Begun(record.turn, record.origin, event.name, event.call_id)

    def _withdrawn(self, event: HostToolCancelled, record: Record) -> None:
        self.requests.pop(event.request_id, None)

    def _subagent_begun(self, event: SubagentQueued | SubagentStarted, record: Record) -> None:
        self.subagents.setdefault(event.run_id, Begun(record.turn, record.origin, event.name))

    def _subagent_ended(self, event: SubagentFinished, record: Record) -> None:
        self.subagents.pop(event.run_id, None)

    def _compacting(self, event: CompactionStarted, record: Record) -> None:
        self.compaction = Begun(record.turn, record.origin, event.reason)

    def _compacted(self, event: CompactionFinished | CompactionFailed, record: Record) -> None:
        self.compaction = None


_HANDLERS: dict[type, Callable[[Unfinished, Any, Record], None]] = {
    TurnStarted: Unfinished._turn_started,
    TurnFinished: Unfinished._turn_finished,
    StepStarted: Unfinished._step_started,
    StepFinished: Unfinished._step_finished,
    CallStarted: Unfinished._call_shown,
    CallReady: Unfinished._call_shown,
    CallFinished: Unfinished._call_closed,
    CallCancelled: Unfinished._call_closed,
    ApprovalRequested: Unfinished._asked,
    ApprovalResolved: Unfinished._answered,
    HostToolRequested: Unfinished._requested,
    HostToolCancelled: Unfinished._withdrawn,
    SubagentQueued: Unfinished._subagent_begun,
    SubagentStarted: Unfinished._subagent_begun,
    SubagentFinished: Unfinished._subagent_ended,
    CompactionStarted: Unfinished._compacting,
    CompactionFinished: Unfinished._compacted,
    CompactionFailed: Unfinished._compacted,
}
