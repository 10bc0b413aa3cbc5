"""A log whose process died is closed when it is taken up again: everything begun gets its one end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from log_events import session_logs

from agentwire.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRef,
    CallStarted,
    CompactionFailed,
    CompactionStarted,
    ErrorInfo,
    ErrorRaised,
    HostToolCancelled,
    HostToolRequested,
    StepFinished,
    StepStarted,
    SubagentFinished,
    SubagentQueued,
    SubagentStarted,
    Text,
    TextDelta,
    TurnFinished,
    TurnStarted,
    Usage,
)
from agentwire.log import Record
from agentwire.log.history import History
from agentwire.log.repair import CRASHED, closing_events
from agentwire.messages import ToolMessage

START = TurnStarted("t", input=[Text("go")])


def fold(*events: AnyEvent | tuple[AnyEvent, str], turn: int = 3) -> History:
    history = History()
    for seq, event in enumerate(events, 1):
        said, origin = event if isinstance(event, tuple) else (event, "")
        history.feed(Record(seq, seq, said, turn, origin))
    return history


def test_a_log_that_ended_well_needs_nothing() -> None:
    assert closing_events(History()) == []
    assert closing_events(fold(START, StepStarted(0), StepFinished(0, "a"), TurnFinished("completed"))) == []


def test_a_turn_cut_off_while_calls_run() -> None:
    calls = [CallRef("c1", "ExecCommand", "{}"), CallRef("c2", "Read", "{}"), CallRef("c3", "Read", "{}")]
    history = fold(
        START,
        StepStarted(0),
        StepFinished(0, "Running.", calls=calls, usage=Usage(10, 5), finish_reason="tool_calls"),
        CallReady("c1", "ExecCommand"),
        CallReady("c2", "Read"),
        CallReady("c3", "Read"),
        CallFinished("c2", "Read", "ok", "x"),
        ApprovalRequested("a3", "c3", "Read"),
    )
    error = ErrorInfo("internal_error", CRASHED)
    closing = closing_events(history)
    assert closing == [
        (ApprovalResolved("a3", "c3", "cancelled", by="crash", reason=CRASHED), 3, ""),
        (CallCancelled("c1", "crashed", CRASHED, "ExecCommand"), 3, ""),
        (CallCancelled("c3", "crashed", CRASHED, "Read"), 3, ""),
        (ErrorRaised(error), 3, ""),
        (TurnFinished("failed", "Running.", Usage(10, 5), error, "tool_calls", 1), 3, ""),
    ]
    for event, turn, origin in closing:
        history.feed(Record(9, 9, event, turn, origin))
    answers = history.messages()[2:]
    assert [(m.call_id, m.is_error) for m in answers if isinstance(m, ToolMessage)] == [
        ("c1", True),
        ("c2", False),
        ("c3", True),
    ]
    assert history.usage == Usage(10, 5)
    assert closing_events(history) == []


def test_a_turn_cut_off_while_it_streams_keeps_its_text() -> None:
    history = fold(START, StepStarted(0), TextDelta("half an ans"), CallStarted("c1", "Read"))
    closing = closing_events(history)
    assert closing[0] == (CallCancelled("c1", "crashed", CRASHED, "Read"), 3, "")
    assert isinstance(closing[-1][0], TurnFinished)
    assert (closing[-1][0].text, closing[-1][0].steps, closing[-1][0].usage) == ("half an ans", 1, Usage())


def test_subagents_end_before_the_call_that_spawned_them() -> None:
    history = fold(
        START,
        CallReady("spawn", "Spawn"),
        SubagentStarted("r1", "one"),
        SubagentQueued("r2", "two"),
        SubagentStarted("r2", "two"),
        SubagentStarted("r3", "three"),
        (CallReady("s1", "Read"), "r1"),
        (StepFinished(0, "sub", usage=Usage(1, 1)), "r1"),
        (ApprovalRequested("a1", "s1", "Read"), "r1"),
        (CallReady("s2", "Read"), "r2"),
        SubagentFinished("r3", "three"),
    )
    closing = closing_events(history)
    assert [
        (type(event), getattr(event, "call_id", ""), getattr(event, "run_id", ""), origin)
        for event, _, origin in closing
    ] == [
        (ApprovalResolved, "s1", "", "r1"),
        (CallCancelled, "s2", "", "r2"),
        (SubagentFinished, "", "r2", ""),
        (CallCancelled, "s1", "", "r1"),
        (SubagentFinished, "", "r1", ""),
        (CallCancelled, "spawn", "", ""),
        (ErrorRaised, "", "", ""),
        (TurnFinished, "", "", ""),
    ]
    assert closing[-1][0].usage == Usage(1, 1)  # type: ignore[union-attr]


def test_questions_to_the_host_and_a_compaction_are_withdrawn() -> None:
    history = fold(
        START,
        CompactionStarted("full"),
        CallReady("c1", "host__x"),
        HostToolRequested("q1", "c1", "host__x"),
        HostToolRequested("q2", "c2", "host__x"),
        HostToolCancelled("q2"),
    )
    events = [event for event, _, _ in closing_events(history)]
    assert events[:3] == [
        HostToolCancelled("q1", "stopped", "c1"),
        CallCancelled("c1", "crashed", CRASHED, "host__x"),
        CompactionFailed("full", CRASHED),
    ]


@settings(max_examples=60, deadline=None)
@given(session_logs(), st.data())
def test_cut_off_anywhere_the_turn_gets_exactly_one_end_and_every_call_shown_is_closed(
    records: list[Record], data: st.DataObject
) -> None:
    records = records[: data.draw(st.integers(0, len(records)))]
    history = History()
    history.feed_all(records)
    for event, turn, origin in closing_events(history):
        records.append(Record(len(records) + 1, 0, event, turn, origin))
        history.feed(records[-1])
    events = [record.event for record in records]
    starts = [record.turn for record in records if isinstance(record.event, TurnStarted)]
    assert [record.turn for record in records if isinstance(record.event, TurnFinished)] == starts
    shown = {event.call_id for event in events if isinstance(event, CallStarted | CallReady)}
    closed = [event.call_id for event in events if isinstance(event, CallFinished | CallCancelled)]
    assert len(closed) == len(set(closed))
    assert shown <= set(closed)
    assert closing_events(history) == []
    assert history.open_calls == []
