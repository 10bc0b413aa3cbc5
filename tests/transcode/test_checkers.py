"""The rules of each wire: our own output keeps them whatever happened, and every rule can be broken."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from strategies import complete_log, logs
from wires import STREAMS, WIRES, rendered, split

from agentwire import events as bus
from agentwire.codec import Record, Violation
from agentwire.codec.framing import LineFault

every_wire = pytest.mark.parametrize("name", WIRES)


def as_an_engine(records: list[Record]) -> list[Record]:
    """A generated log without what no engine does: host tools that nobody called, a turn that goes on when it
    is stopped."""
    kept: list[Record] = []
    stopped: set[int] = set()
    shown: set[str] = set()
    for record in records:
        event = record.event
        if isinstance(event, bus.CallReady | bus.ApprovalRequested) and record.turn not in stopped:
            shown |= {event.call_id, getattr(event, "approval_id", "")}
        ends = isinstance(event, bus.CallFinished | bus.CallCancelled) and event.call_id in shown
        settles = isinstance(event, bus.ApprovalResolved) and event.approval_id in shown
        if record.turn in stopped and not (ends or settles or isinstance(event, bus.TurnFinished)):
            continue
        if record.turn in stopped and settles:
            event = replace(event, decision="cancelled", by="stop", scope="")
        if record.turn in stopped and isinstance(event, bus.CallFinished):
            event = bus.CallCancelled(event.call_id, "stopped", "", event.name)
        if isinstance(event, bus.HostToolRequested | bus.HostToolCancelled | bus.HostToolDetails) or record.origin:
            continue
        if isinstance(event, bus.CallCancelled) and event.cause in ("stopped", "crashed"):
            stopped.add(record.turn)
            event = replace(event, cause="stopped")
        if isinstance(event, bus.TurnFinished) and record.turn in stopped:
            event = replace(event, outcome="cancelled", error=UNSET)
        kept.append(replace(record, seq=len(kept) + 1, event=event))
    return kept


def check(name: str, stream: bytes) -> list[Violation]:
    made = WIRES[name].checker
    assert made is not None
    checker = made()
    return [found for line in split(stream) for found in checker.agent(line)] + checker.close()


def broken(name: str, stream: bytes) -> list[Violation]:
    return [found for found in check(name, stream) if found.severity == "must"]


@pytest.mark.parametrize("name", STREAMS)
def test_recordings_of_the_real_peer_keep_every_rule(name: str) -> None:
    source, stream = STREAMS[name]
    without_end = [Violation("the run has no end", "8", "should")]
    assert check(source, stream) == (without_end if name == "v4_error_mid_stream_provider" else [])


@every_wire
@settings(max_examples=20, deadline=None)
@given(records=logs())
def test_what_we_write_keeps_the_rules_whatever_happened(name: str, records: list[Record]) -> None:
    stream, _ = rendered(WIRES[name], {"s": as_an_engine(records)})
    if name == "jan-stream" and b'"result"' not in stream:
        return  # the log has no turn
    assert broken(name, stream) == []


@every_wire
def test_the_same_for_every_event(name: str) -> None:
    assert broken(name, rendered(WIRES[name], {"s": as_an_engine(complete_log())})[0]) == []


@every_wire
@settings(max_examples=20, deadline=None)
@given(lines=st.lists(st.binary(max_size=30) | st.sampled_from([b"{}", b"[]", b"1", b'{"type":"error"}', b'{"id":1}'])))
def test_anything_may_come_and_nothing_is_raised(name: str, lines: list[bytes]) -> None:
    made = WIRES[name].checker
    assert made is not None
    checker = made()
    for line in lines:
        for take in (checker.agent, checker.host):
            assert all(isinstance(found, Violation) for found in take(line))
    fault = LineFault("too_long", "line too long")
    assert checker.agent(fault)
    assert checker.host(fault)
    checker.close()
