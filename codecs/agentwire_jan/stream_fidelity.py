"""What stream-json does to every event and field, as data: as the RPC, but for what surrounds a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from agentwire import events as bus
from agentwire.codec.fidelity import EXACT, Fidelity, Row, Rule, absent, invented, narrowed
from agentwire.commands import JsonId
from agentwire.events import Event
from agentwire.log.record import Record
from agentwire_jan import fidelity
from agentwire_jan.events_out import Items
from agentwire_jan.story import Reduce, Story
from agentwire_jan.stream_agent import decided
from agentwire_jan.stream_host import DECISIONS, RUN, told_end
from agentwire_jan.stream_report import Report
from agentwire_jan.surface import STREAM


class StreamStory(Story):
    """What a host hears at each record of a log: its first run, which begins with the first line that tells of it."""

    def __init__(self, records: Sequence[Record], reduce: Reduce) -> None:
        self.over = False
        """The run has ended: nothing comes after it."""
        self._items = Items(STREAM)
        self._report = Report()
        self._begun = False
        self._asked: dict[str, str] = {}
        super().__init__(records, STREAM, reduce)

    def go_on(self, records: Sequence[Record]) -> None:
        """Go through what comes next beforehand."""
        over = self.over
        super().go_on(records)
        self.over = over

    def advance(self, record: Record) -> None:
        """Go on to the next record."""
        super().advance(record)
        if isinstance(record.event, bus.TurnFinished) and not record.origin:
            self.over = True

    def _hear(self, record: Record) -> list[Event]:
        event = record.event
        if self.over:
            return []
        if isinstance(event, bus.SessionOpened):
            return [self._reduce(event, self)]
        self._report.feed(record)
        shown = bool(self._items.made(record))
        if isinstance(event, bus.ApprovalResolved):
            return self._settled(event)
        heard = super()._hear(record)
        if isinstance(event, bus.TurnStarted) and not record.origin:
            return []
        if isinstance(event, bus.TurnFinished) and heard:
            heard = self._completed(event, heard)
        for said in heard:
            if isinstance(said, bus.ApprovalRequested):
                self._asked[said.approval_id] = said.call_id
        if shown and not self._begun:
            self._begun = True
            return [bus.TurnStarted(RUN, RUN), *heard]
        return heard

    def _settled(self, event: bus.ApprovalResolved) -> list[Event]:
        told = decided(event)
        if not told or not self.turn_id:
            return []
        decision, scope = DECISIONS[told]
        if decision == "denied":
            self._follower.deny(event.approval_id, "")
        call_id = self._asked.pop(event.approval_id, "")
        return [bus.ApprovalResolved(event.approval_id, call_id, decision, scope, "host")]

    def _completed(self, event: bus.TurnFinished, heard: list[Event]) -> list[Event]:
        """What the last line says of the end beside what the events before it do."""
        *before, finished = heard
        return [*before, told_end(finished, self._report.result(event, 0))]


# --- the table -----------------------------------------------------------------------------------------------


def _after(record: Record, story: StreamStory) -> bool:
    return story.over


def _outside(record: Record, story: StreamStory) -> bool:
    event = record.event
    if isinstance(event, bus.SessionOpened) or story.over:
        return False
    return not record.turn or not (story.turn_id or isinstance(event, bus.TurnStarted))


def _unsettled(record: Record, story: StreamStory) -> bool:
    return isinstance(record.event, bus.ApprovalResolved) and not story.heard()


def _heard(event: Event, story: Story) -> Sequence[Event]:
    return story.heard()


def _resolved(name: str) -> Callable[[Any, StreamStory], Any]:
    return fidelity._as_heard(bus.ApprovalResolved, name)


_end = fidelity._end

_END_FIELDS: Final = {
    "text": narrowed("of a run that did not end well: what the last step streamed", _end("text")),
    "usage": narrowed("counts alone; what was not reported counts nothing", _end("usage")),
    "error": narrowed("of four codes", _end("error")),
    "finish_reason": narrowed("of a success alone", _end("finish_reason")),
    "steps": narrowed("as many as were begun", _end("steps")),
    "limit": narrowed("read from the message", _end("limit")),
}

_MINE: Final = (
    Row(bus.SessionOpened, "narrowed", "`init`", {
        "id": EXACT, "workspace": EXACT, "model": EXACT,
        **fidelity._absent("kind", "provider", "capabilities", "forked_from", "root", "ephemeral", "policy"),
    }),
    Row(bus.TurnStarted, "absent", "of a subagent", when="of a subagent"),
    Row(bus.TurnStarted, "invented", "at the first line of the run", {
        "id": invented("there is one run, without an id", lambda event, story: RUN),
        "ref": invented("the same", lambda event, story: RUN),
        **fidelity._absent("input", "agent", "user"),
    }, becomes=_heard),
    Row(bus.ApprovalResolved, "absent", "it fell with the run", when="of a stopped run"),
    Row(bus.ApprovalResolved, "narrowed", "`permission_decision`", {
        "approval_id": EXACT,
        "call_id": narrowed("as the question was heard", _resolved("call_id")),
        "decision": narrowed("a host that is gone has denied", _resolved("decision")),
        "scope": narrowed("the call or the tool", _resolved("scope")),
        "by": invented("the host", lambda event, story: "host"),
        "reason": absent(),
    }, becomes=_heard),
    Row(bus.TurnFinished, "absent", "told by `subagent_end`", when="of a subagent"),
    Row(bus.TurnFinished, "narrowed", "`done` or `error`, then `result`", {
        "outcome": narrowed("too many bad calls are a failure", _end("outcome")), **_END_FIELDS,
    }, becomes=_heard),
)  # fmt: skip

_OVERRIDDEN: Final = frozenset(row.event for row in _MINE)


def _table() -> Fidelity:
    rows = [*_MINE, *(row for row in fidelity._rows(STREAM) if row.event not in _OVERRIDDEN)]
    plain = {row.event: row for row in rows}
    shared = {row.when for row in rows}

    def reduce(event: Event, story: Story) -> Event:
        return plain[type(event)].reduce(event, story)

    return Fidelity(
        rows,
        place={
            "seq": absent("lines are in order, without numbers"),
            "time": absent("but for `duration_ms`"),
            "turn": invented("there is one", _ref),
            "origin": Rule("exact", "`subagent`; of a host tool request `run_id` alone"),
        },
        story=lambda records: StreamStory(records, reduce),
        ref=_ref,
        conditions={
            **{name: holds for name, holds in fidelity.table(STREAM)._conditions.items() if name in shared},
            "after the run": _after,
            "outside a turn": _outside,
            "of a stopped run": _unsettled,
        },
        hidden={"after the run": "there is one run a process", "outside a turn": "the stream tells of the run alone"},
    )


def _ref(record: Record, story: Any) -> JsonId:
    return None if isinstance(record.event, bus.SessionOpened) else RUN


FIDELITY: Final = _table()
