"""Over generated logs: what is read is in order, what is written survives, and a report says what really got lost."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from msgspec import Raw
from strategies import complete_log, logs
from test_checkers import as_an_engine
from wires import STREAMS, WIRES, Crossing, entries, faults, logs_of, rendered

from agentwire import events as bus
from agentwire.codec import Record
from agentwire.codec.fidelity import EXACT, Fidelity, tag
from agentwire.transcode import Logged, Passage, account, broken_laws
from agentwire.transcode.dialogue import Dialogue

every_wire = pytest.mark.parametrize("name", WIRES)
pairs = pytest.mark.parametrize(("source", "target"), [(a, b) for a in WIRES for b in WIRES])


@every_wire
@settings(max_examples=25, deadline=None)
@given(records=logs())
def test_a_report_says_what_got_lost(name: str, records: list[Record]) -> None:
    codec = WIRES[name]
    assert faults(codec, {"s": records}) == []


@every_wire
def test_the_same_for_every_event(name: str) -> None:
    codec = WIRES[name]
    assert faults(codec, {"s": complete_log()}) == []


@every_wire
@settings(max_examples=25, deadline=None)
@given(records=logs())
def test_whatever_an_agent_said_is_read_as_a_log_in_order(name: str, records: list[Record]) -> None:
    codec = WIRES[name]
    stream, _ = rendered(codec, {"s": records})
    for log in logs_of(codec, entries(stream)).values():
        assert broken_laws(log) == []


@pairs
@settings(max_examples=6, deadline=None)
@given(records=logs())
def test_from_any_wire_to_any_other(source: str, target: str, records: list[Record]) -> None:
    stream, _ = rendered(WIRES[source], {"s": records})
    before = logs_of(WIRES[source], entries(stream))
    assert faults(WIRES[target], before) == []


@every_wire
@settings(max_examples=10, deadline=None)
@given(records=logs(max_turns=4))
def test_an_account_in_pieces_is_the_account_of_the_whole(name: str, records: list[Record]) -> None:
    fidelity = WIRES[name].fidelity()
    lost, passages = account(fidelity, {"s": records})
    assert lost == fidelity.losses(records)
    heard = Counter(tag(type(item.event)) for item in fidelity.surviving(records, "s"))
    told = Counter(tag(type(record.event)) for record in records)
    assert passages == {kind: Passage(told[kind], heard[kind]) for kind in {*told, *heard}}


@every_wire
@settings(max_examples=8, deadline=None)
@given(records=logs(max_turns=3))
def test_what_is_spoken_keeps_the_rules_on_both_sides(name: str, records: list[Record]) -> None:
    """A host and an agent of the wire, made of a log alone: whatever the host has to say is made up."""
    codec = WIRES[name]
    assert codec.checker is not None
    checker, broken = codec.checker(), []

    def emit(who: str, line: bytes) -> None:
        found = (checker.agent if who == "agent" else checker.host)(line)
        broken.extend(violation for violation in found if violation.severity == "must")

    dialogue = Dialogue(codec, emit, single=True)
    for record in as_an_engine(records):
        dialogue.take(Logged("", record, 0))
    dialogue.finish()
    if name == "jan-stream" and not any(isinstance(record.event, bus.TurnFinished) for record in records):
        return  # there is no run, and so no end of one
    assert broken + [violation for violation in checker.close() if violation.severity == "must"] == []
    assert set(dialogue.crossing.invented) <= {"prompt", "open_session"}


# --- a table that hides something is found out ---------------------------------------------------------------


def mutants(fidelity: Fidelity) -> Iterator[tuple[tuple[str, str, str], Fidelity]]:
    """Tables that say of one thing less than is so, each with the event, field and condition that it hides."""
    for kind, rows in fidelity._rows.items():
        for at, row in enumerate(rows):
            for field, rule in row.fields.items():
                if rule.verdict != "exact":
                    hiding = msgspec.structs.replace(row, fields={**row.fields, field: EXACT})
                    yield (tag(kind), field, row.when), _with(fidelity, kind, at, hiding)
            if row.verdict == "absent":
                exact = dict.fromkeys(kind.__struct_fields__, EXACT)
                hiding = msgspec.structs.replace(row, verdict="exact", fields=exact)
                yield (tag(kind), "", row.when), _with(fidelity, kind, at, hiding)


def _with(fidelity: Fidelity, kind: type, at: int, row: object) -> Fidelity:
    other = copy.copy(fidelity)
    rows = list(fidelity._rows[kind])
    rows[at] = row  # type: ignore[call-overload]
    other._rows = {**fidelity._rows, kind: rows}
    return other


def one_call(*, asked: bool) -> list[Record]:
    """A turn with one call of which everything is known, so that nothing else can be taken for it."""
    usage = bus.Usage(1500, 320, 800, 200, 40, {"cost": 1})
    diff = bus.Diff("/w/a", "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-x\n+y", "x\n", "y\n")
    arguments = '{"b":1, "a":2}'
    question: list[bus.Event] = [
        bus.ApprovalRequested("a1", "c1", "Edit", "edit", "/w/a", "ls", diff, "write_escape", False),
        bus.ApprovalResolved("a1", "c1", "allowed", "call", "host"),
    ]
    finished = bus.CallFinished(
        "c1", "Edit", "error", "x" * 600, diff, [bus.Image("image/png", "aGk=")], {"n": 1}, Raw(b"1"), 5, retryable=True
    )
    events: list[bus.Event] = [
        bus.TurnStarted("turn-1", "m1", [bus.Text("hi"), bus.File("/w/a")], "main", "me"),
        bus.StepStarted(0, 8),
        bus.ReasoningDelta("hmm", "x"),
        bus.TextDelta("Hello", "x"),
        bus.CallReady("c1", "Edit", arguments, Raw(b'{"a":2,"b":1}'), "edit", "Edit a", [bus.Location("/w/a", 1)]),
        bus.StepFinished(
            0, "Other", "why", [bus.CallRef("c1", "Edit", arguments)], usage, "length", "script", [Raw(b"{}")]
        ),
        *(question if asked else []),
        bus.CallRunning("c1", "Edit"),
        finished,
        bus.TurnFinished("completed", "Hello there", usage, finish_reason="length", steps=3),
    ]
    opened = bus.SessionOpened("s1", "forked", "/w", "script", "m", bus.Capabilities(mcp=True), "s0", "s0", policy="p")
    return [Record(1, 7, opened), *(Record(n, 7 * n, event, 1) for n, event in enumerate(events, 2))]  # type: ignore[arg-type]


def corpus(name: str) -> list[Crossing]:
    """Logs in which nearly everything occurs."""
    made = [one_call(asked=False), one_call(asked=True), complete_log()]
    source, stream = STREAMS["v4_stdio_session"]
    recorded = logs_of(WIRES[source], entries(stream))
    return [Crossing(WIRES[name], logs) for logs in [*({"s": log} for log in made), recorded]]


@every_wire
def test_a_table_that_hides_a_loss_is_found_out(name: str) -> None:
    true = WIRES[name].fidelity()
    crossings = [(crossing, losses_of(crossing, true)) for crossing in corpus(name)]
    tested, missed = 0, []
    for hidden, false in mutants(true):
        hit = [crossing for crossing, lost in crossings if hidden in lost]
        tested += bool(hit)
        if hit and not any(crossing.faults(false) for crossing in hit):
            missed.append(hidden)
    assert missed == []
    assert tested > 20


def losses_of(crossing: Crossing, fidelity: Fidelity) -> set[tuple[str, str, str]]:
    return {(loss.event, loss.field, loss.when) for lost in crossing.losses(fidelity) for loss in lost}
