"""What a timeline says of recordings, journals and any log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from strategies import complete_log, logs
from timed_recordings import CONVERSATION, RECORDINGS, write, write_journal

from agentwire import events as bus
from agentwire.log.record import Record
from agentwire.timeline import Builder, Item, JournalSource, RecordingSource, Timeline, open_source, timeline_of
from agentwire.timeline.waiting import shares, union


def of(path: Path, *, keep: bool = False) -> Timeline:
    return timeline_of(open_source(path), keep=keep)


def kinds(timeline: Timeline, *wanted: str) -> list[Item]:
    return [item for item in timeline.items if item.kind in wanted]


def built(records: list[Record]) -> Timeline:
    builder = Builder(Timeline("log", "", started=records[0].time), keep=True)
    for number, record in enumerate(records):
        at = 1000 * (record.time - records[0].time)
        builder.passed("log", at)
        builder.record("s", record, at, number)
    return builder.close()


def test_where_the_time_of_a_turn_went(tmp_path: Path) -> None:
    timeline = of(write(tmp_path / "r", CONVERSATION))
    first, second = timeline.turns
    assert (first.outcome, second.outcome) == ("completed", "failed")
    assert first.item.title == "hello there"
    assert first.item.took == 2_200_000
    assert first.waits == {"person": 1_100_000, "tools": 500_000, "model": 600_000}
    assert sum(first.waits.values()) == first.item.took
    totals = timeline.totals
    assert totals.turns == {"completed": 1, "failed": 1}
    assert totals.calls == {"ok": 1, "denied": 1}
    assert totals.questions == {"allowed": 1, "denied": 1}
    assert totals.errors == 1
    assert (totals.usage.input_tokens, totals.usage.output_tokens) == (1234, 56)
    assert totals.duration == 5_110_000
    assert totals.idle == 5_110_000 - 2_200_000 - 100_000
    assert totals.lines == {"agent": 15, "host": 4}
    assert timeline.timed


def test_a_question_begins_when_it_was_asked_not_when_it_was_understood(tmp_path: Path) -> None:
    timeline = of(write(tmp_path / "r", CONVERSATION))
    allowed, denied = kinds(timeline, "approval")
    assert (allowed.start, allowed.end) == (410_000, 1_410_000)
    assert (denied.start, denied.end, denied.status) == (2_120_000, 2_220_000, "denied")
    ran, refused = kinds(timeline, "call")
    assert (ran.start, ran.end, ran.status) == (1_420_000, 1_920_000, "")
    assert (refused.took, refused.status, refused.note) == (0, "denied", "not today")
    assert [item.first for item in timeline.items] == sorted(item.first for item in timeline.items)


def test_a_step_that_the_wire_does_not_tell_begins_when_the_model_could(tmp_path: Path) -> None:
    first, second, *_ = kinds(of(write(tmp_path / "r", CONVERSATION)), "step")
    assert (first.start, second.start) == (110_000, 1_920_000)
    assert first.note.startswith("first piece after 0.20 s")


def test_deltas_are_one_item_that_knows_its_lines(tmp_path: Path) -> None:
    timeline = of(write(tmp_path / "r", CONVERSATION), keep=True)
    item = kinds(timeline, "text")[0]
    assert (item.title, item.pieces, item.sources) == ("Let me look.", 2, [3, 4])
    (fact,) = item.facts
    assert (fact.joined, fact.pieces) == (2, ["Let me ", "look."])


def test_of_many_deltas_only_the_first_and_the_last_lines_are_remembered(tmp_path: Path) -> None:
    from timed_recordings import READY, text

    lines = [(0, "agent", READY), (1, "agent", {"type": "stream_start", "msg_id": "m"})]
    lines += [(2 + number, "agent", text("x")) for number in range(500)]
    (item,) = kinds(of(write(tmp_path / "r", lines)), "text")
    assert item.pieces == 500
    assert item.sources == [*range(2, 10), 501]


def test_commands_stand_in_the_hosts_lane_with_what_became_of_them(tmp_path: Path) -> None:
    lines = [*CONVERSATION[:3], (120, "host", {"type": "no_such_command"})]
    *_, command = kinds(of(write(tmp_path / "r", lines)), "command")
    assert (command.lane, command.status) == ("host", "refused")
    assert command.note


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recordings_without_times_have_an_order(path: Path) -> None:
    timeline = of(path, keep=True)
    assert not timeline.timed
    assert timeline.totals.waits == {}
    assert timeline.items
    for turn in timeline.turns:
        assert turn.outcome
        for item in turn.items:
            assert turn.item.first <= item.first <= item.last <= turn.item.last


@pytest.mark.parametrize(
    ("name", "turns", "steps", "calls"),
    [
        ("tool_two_turns", {"completed": 1}, 2, {"ok": 1}),
        ("tool_failures", {"completed": 1}, 2, {"error": 5}),
        ("v4_stdio_session", {"completed": 2, "cancelled": 1, "failed": 1}, 5, {"ok": 1, "denied": 1, "stopped": 1}),
        ("two_runs_one_session", {"completed": 2}, 2, {}),
        ("error_mid_stream_provider", {"failed": 1}, 0, {}),
    ],
)
def test_totals_of_recordings(name: str, turns: dict[str, int], steps: int, calls: dict[str, int]) -> None:
    totals = of(RECORDINGS[0].with_name(f"{name}.jsonl")).totals
    assert (totals.turns, totals.steps, totals.calls) == (turns, steps, calls)


def test_a_journal_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    write_journal(path, "s1")
    source = open_source(path)
    assert isinstance(source, JournalSource)
    timeline = timeline_of(source)
    assert timeline.sessions == ["s1"]
    assert timeline.totals.turns == {"failed": 1}
    assert timeline.totals.retries == 2
    assert timeline.totals.subagents == 1
    inner = next(item for item in timeline.items if item.origin == "run-1" and item.kind == "text")
    assert (inner.lane, inner.title) == ("subagents", "from below")


def test_every_event_is_somewhere() -> None:
    records = complete_log()
    told = {number for item in built(records).items for number in item.sources}
    assert told == set(range(len(records)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs())
def test_any_log_has_a_timeline(records: list[Record]) -> None:
    timeline = built(records)
    told = {number for item in timeline.items for number in item.sources}
    joined = {fact.source for item in timeline.items for fact in item.facts if fact.pieces}
    assert told | joined or not records
    for item in timeline.items:
        assert item.start <= item.end
        assert item.first <= item.last
        assert "\n" not in item.title
    for turn in timeline.turns:
        assert sum(turn.waits.values()) == turn.item.took
        assert all(part.turn == turn.item.turn for part in turn.items)
    assert sum(timeline.totals.turns.values()) == len(timeline.turns)


def test_a_call_whose_start_is_not_told_runs_from_the_answer_on() -> None:
    told: list[bus.AnyEvent] = [
        bus.TurnStarted("t"),
        bus.CallReady("c1", "Edit"),
        bus.CallReady("c2", "Edit"),
        bus.ApprovalRequested("c1", "c1", "Edit"),
        bus.ApprovalRequested("c2", "c2", "Edit"),
        bus.ApprovalResolved("c1", "c1", "allowed"),
        bus.CallFinished("c1", "Edit", "ok", "done"),
        bus.CallCancelled("c2", "stopped"),
        bus.TurnFinished("cancelled"),
    ]
    timeline = built([Record(seq, 10 * seq, event, 1) for seq, event in enumerate(told, 1)])
    ran, stopped = kinds(timeline, "call")
    assert (ran.start, ran.end, ran.status) == (50_000, 60_000, "")
    assert (stopped.took, stopped.status) == (0, "stopped")
    *_, unanswered = kinds(timeline, "approval")
    assert (unanswered.start, unanswered.end, unanswered.status) == (40_000, 70_000, "cancelled")
    assert timeline.totals.questions == {"allowed": 1, "cancelled": 1}
    assert timeline.turns[0].waits == {"person": 40_000, "model": 40_000}


def test_subagents_and_what_they_say_are_one_block() -> None:
    told: list[tuple[bus.AnyEvent, str]] = [
        (bus.TurnStarted("t"), ""),
        (bus.Parked(), ""),
        (bus.SubagentQueued("r1", "alpha", "count"), ""),
        (bus.SubagentStarted("r1", "alpha", "count"), ""),
        (bus.StepStarted(0), "r1"),
        (bus.TextDelta("one"), "r1"),
        (bus.TextDelta(" two"), "r1"),
        (bus.StepFinished(0, "one two"), "r1"),
        (bus.SubagentFinished("r1", "alpha", usage=bus.Usage(3, 4)), ""),
        (bus.StepStarted(0), ""),
        (bus.StepFinished(0, "all"), ""),
        (bus.TurnFinished("completed"), ""),
    ]
    timeline = built([Record(seq, 10 * seq, event, 1, origin) for seq, (event, origin) in enumerate(told, 1)])
    inside = [(item.kind, item.title, item.start, item.end) for item in timeline.items if item.lane == "subagents"]
    assert inside == [
        ("subagent", "alpha: count", 20_000, 80_000),
        ("step", "step 1", 40_000, 70_000),
        ("text", "one two", 50_000, 60_000),
    ]
    assert {item.origin for item in timeline.items if item.lane == "subagents"} == {"r1"}
    assert timeline.totals.steps == 1
    assert timeline.turns[0].waits == {"subagents": 80_000, "model": 30_000}


def test_every_moment_counts_once() -> None:
    busy = {"person": [(0, 10), (5, 20)], "tools": [(15, 30), (90, 200)], "retry": [(25, 35)]}
    assert shares(0, 100, busy) == {"person": 20, "tools": 20, "retry": 5, "model": 55}
    assert union([(3, 4), (1, 3), (9, 9), (6, 7)]) == [(1, 4), (6, 7)]


def test_a_source_knows_its_lines(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "r", CONVERSATION))
    assert isinstance(source, RecordingSource)
    found = dict(source.lines({0, 3, 10**6}))
    assert sorted(found) == [0, 3]
    assert (found[3].who, found[3].at) == ("agent", 310_000)
    assert b"Let me " in found[3].data
