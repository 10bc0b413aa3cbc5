"""What holds of every log, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable

from agentwire import events as bus
from agentwire.log.record import Record
from agentwire.log.unfinished import Unfinished


def broken_laws(records: Iterable[Record]) -> list[str]:
    """What is wrong with a session's log, in words; nothing for a log in order.

    Sequence numbers have no gaps; turns are numbered, one at a time, each with one end and nothing of it after that;
    questions are about calls that were shown, and settled before their call runs or ends; it runs at most once;
    what was begun in a turn is closed before its end.
    """
    laws = _Laws()
    for record in records:
        laws.check(record)
    if laws.running:
        laws.broken.append(f"turn {laws.running} has no end")
    return laws.broken


class _Laws:
    def __init__(self) -> None:
        self.broken: list[str] = []
        self.running = 0
        self._seq = 0
        self._turns = 0
        self._open = Unfinished()
        self._ran: set[str] = set()

    def check(self, record: Record) -> None:
        event = record.event
        self._seq += 1
        if record.seq != self._seq:
            self._break(record, f"stands where {self._seq} should")
            self._seq = record.seq
        if isinstance(event, bus.TurnStarted) and not record.origin:
            self._begin(record)
        elif record.turn and record.turn != self.running:
            self._break(record, f"of turn {record.turn}, now is {self.running}")
        self._check_call(record)
        self._open.feed(record)
        if isinstance(event, bus.TurnFinished) and not record.origin:
            self._end(record)

    def _begin(self, record: Record) -> None:
        if self.running:
            self._break(record, f"turn {self.running} has no end")
        self._turns += 1
        self._ran.clear()
        if record.turn != self._turns:
            self._break(record, f"is turn {record.turn}, not {self._turns}")
        self.running = record.turn

    def _check_call(self, record: Record) -> None:
        event, open_ = record.event, self._open
        if isinstance(event, bus.ApprovalRequested) and event.call_id and event.call_id not in open_.calls:
            self._break(record, "about a call that is not open")
        elif isinstance(event, bus.ApprovalResolved) and event.approval_id not in open_.approvals:
            self._break(record, "nobody asked")
        elif isinstance(event, bus.CallRunning | bus.CallFinished | bus.CallCancelled):
            if event.call_id not in open_.calls:
                self._break(record, "the call is not open")
            if any(begun.call_id == event.call_id for begun in open_.approvals.values()):
                self._break(record, "its question is open")
            if isinstance(event, bus.CallRunning):
                if event.call_id in self._ran:
                    self._break(record, "runs already")
                self._ran.add(event.call_id)

    def _end(self, record: Record) -> None:
        for what, names in (
            ("calls", self._open.calls),
            ("questions", self._open.approvals),
            ("host tools", self._open.requests),
        ):
            if names:
                self._break(record, f"{what} are open: {', '.join(names)}")
        self.running = 0

    def _break(self, record: Record, what: str) -> None:
        self.broken.append(f"record {record.seq} ({type(record.event).__struct_config__.tag}): {what}")
