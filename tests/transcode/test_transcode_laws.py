"""Over generated logs: what is read is in order, what is written survives, and a report says what really got lost."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from strategies import complete_log, logs
from wires import STREAMS, WIRES, Logs, entries, faults, logs_of, rendered

from agentwire.codec import Record
from agentwire.codec.fidelity import EXACT, Fidelity, tag
from agentwire.transcode import broken_laws

every_wire = pytest.mark.parametrize("name", WIRES)
pairs = pytest.mark.parametrize(("source", "target"), [(a, b) for a in WIRES for b in WIRES])


@every_wire
@settings(max_examples=40, deadline=None)
@given(records=logs())
def test_a_report_says_what_got_lost(name: str, records: list[Record]) -> None:
    codec = WIRES[name]
    assert faults(codec, codec.fidelity(), {"s": records}) == []


@every_wire
def test_the_same_for_every_event(name: str) -> None:
    codec = WIRES[name]
    assert faults(codec, codec.fidelity(), {"s": complete_log()}) == []


@every_wire
@settings(max_examples=40, deadline=None)
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
    assert faults(WIRES[target], WIRES[target].fidelity(), before) == []


# --- a table that hides something is found out ---------------------------------------------------------------


def mutants(fidelity: Fidelity) -> Iterator[tuple[str, Fidelity]]:
    """Tables that say of one thing less than is so, each with what it hides."""
    for kind, rows in fidelity._rows.items():
        for at, row in enumerate(rows):
            for field, rule in row.fields.items():
                if rule.verdict != "exact":
                    hiding = msgspec.structs.replace(row, fields={**row.fields, field: EXACT})
                    yield f"{tag(kind)}.{field} {row.when}".strip(), _with(fidelity, kind, at, hiding)
            if row.verdict == "absent":
                exact = dict.fromkeys(kind.__struct_fields__, EXACT)
                hiding = msgspec.structs.replace(row, verdict="exact", fields=exact)
                yield f"{tag(kind)} {row.when}".strip(), _with(fidelity, kind, at, hiding)


def _with(fidelity: Fidelity, kind: type, at: int, row: object) -> Fidelity:
    other = copy.copy(fidelity)
    rows = list(fidelity._rows[kind])
    rows[at] = row  # type: ignore[call-overload]
    other._rows = {**fidelity._rows, kind: rows}
    return other


def corpus(name: str) -> list[Logs]:
    recorded = [logs_of(WIRES[source], entries(stream)) for source, stream in list(STREAMS.values())[::5]]
    return [{"s": complete_log()}, *recorded]


@every_wire
def test_a_table_that_hides_a_loss_is_found_out(name: str) -> None:
    codec = WIRES[name]
    tested, missed = 0, []
    for hidden, fidelity in mutants(codec.fidelity()):
        loses = [
            logs
            for logs in corpus(name)
            if hides_something(codec.fidelity(), fidelity, logs, name)
        ]
        if not loses:
            continue
        tested += 1
        if not any(faults(codec, fidelity, logs) for logs in loses):
            missed.append(hidden)
    assert missed == []
    assert tested > 20


def hides_something(true: Fidelity, false: Fidelity, logs: Logs, name: str) -> bool:
    _, writer = rendered(WIRES[name], logs)
    return any(true.losses(records) != false.losses(records) for records in writer.logs.values())
