"""Laws over generated whole logs: what arrives is what is declared; Jan's own schema accepts every line; batches,
late followers and several sessions make no difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from janlines import hear, logged, published, published_events, render, split, turn
from jsonschema import Draft202012Validator
from msgspec import UNSET
from strategies import complete_log, json_values, logs

from agentwire import events as bus
from agentwire.codec import Record
from agentwire_jan import codec, facts

FIDELITY = codec.fidelity()


@st.composite
def engine_logs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Record]:
    """Logs in the engine's order: a step's calls are complete before it is, and some turns break off in between."""
    records: list[Record] = []
    late: bus.Event | None = None
    for record in draw(logs()):
        event: Any = record.event
        if isinstance(event, bus.StepFinished):
            late = event
            continue
        if late is not None and not isinstance(event, bus.CallReady):
            if draw(st.integers(0, 5)):
                records.append(Record(len(records) + 1, 0, late, record.turn))  # type: ignore[arg-type]
            late = None
        if isinstance(event, bus.TurnFinished) and draw(st.integers(0, 3)) == 0:
            event = msgspec.structs.replace(event, outcome="cancelled", error=UNSET)
        records.append(Record(len(records) + 1, 0, event, record.turn, record.origin))
    return records


@st.composite
def nested_logs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Record]:
    """Logs in which subagents say all that the main agent may say."""
    records: list[Record] = []
    for record in draw(logs(max_turns=1)):
        inner = isinstance(record.event, bus.TURN_EVENTS) and not isinstance(
            record.event, bus.TurnStarted | bus.TurnFinished | bus.HostToolRequested
        )
        origin = "sub-mover-0a1b2c3d" if inner and draw(st.booleans()) else record.origin
        records.append(Record(record.seq, 0, record.event, record.turn, origin))
    return records


all_logs = logs() | engine_logs() | nested_logs()


def test_the_table_is_complete() -> None:
    """Every event and field of the bus has its declaration."""
    assert FIDELITY.problems() == []


@settings(max_examples=60, deadline=None)
@given(all_logs)
def test_a_host_hears_what_is_declared_to_survive_and_nothing_else(records: list[Record]) -> None:
    assert hear(render(records)) == FIDELITY.surviving(records, "s")


def test_the_same_for_a_log_with_every_event() -> None:
    records = complete_log()
    assert hear(render(records)) == FIDELITY.surviving(records, "s")
    assert sum(FIDELITY.losses(records).values()) > 40


@settings(max_examples=16, deadline=None)
@given(all_logs)
def test_losses_can_be_counted_for_any_log(records: list[Record]) -> None:
    for declaration, count in FIDELITY.losses(records).items():
        assert declaration.verdict != "exact"
        assert count > 0


UNREAD = {"messages_updated", "request_provenance"}
"""Of these a host keeps less than they say."""


@settings(max_examples=16, deadline=None)
@given(logs() | engine_logs())
def test_what_was_heard_is_written_as_it_came(records: list[Record]) -> None:
    """Once through the wire nothing more of a completed turn is lost: a recording can be replayed for ever."""
    records = [
        Record(record.seq, 0, msgspec.structs.replace(record.event, outcome="completed", error=UNSET), record.turn)
        if isinstance(record.event, bus.TurnFinished)
        else record
        for record in records
        if not record.origin and not isinstance(record.event, bus.HostToolRequested)
    ]
    once = split(render(records))
    again = split(render(logged(hear(render(records)))))

    def of(lines: list[bytes], *, usage: bool) -> list[bytes]:
        told = [(json.loads(line)["method"].removeprefix("item/"), line) for line in lines]
        return [line for tag, line in told if tag not in UNREAD and (tag == "turn_usage") is usage]

    assert of(again, usage=False) == of(once, usage=False)
    # A usage is heard with the end of its step, which is known a little later.
    assert of(again, usage=True) == of(once, usage=True)


# --- Jan's own schema ----------------------------------------------------------------------------------------


@settings(max_examples=24, deadline=None)
@given(all_logs)
def test_every_line_fits_jans_schema_and_ours(records: list[Record]) -> None:
    document = published()
    assert codec.schemas is not None
    ours = Draft202012Validator(codec.schemas()["jan.events.json"])
    envelope, events = Draft202012Validator(document["notifications"]), published_events()
    for line in split(render(records)):
        frame = json.loads(line)
        envelope.validate(frame)
        if frame["method"] == "item/input_accepted":
            continue  # no word of ours: it is passed on as it came
        ours.validate(frame)
        if frame["method"] != "turn/completed":
            events.validate(frame["params"]["event"])
            assert frame["method"] == "item/" + frame["params"]["event"]["type"]


# --- order (section 2.2) -------------------------------------------------------------------------------------


@settings(max_examples=24, deadline=None)
@given(all_logs)
def test_each_turn_has_one_end_and_nothing_after_it(records: list[Record]) -> None:
    ids = [record.event.id for record in records if isinstance(record.event, bus.TurnStarted)]
    seen: list[str] = []
    last: dict[str, Any] = {}
    for line in split(render(records)):
        frame = json.loads(line)
        turn_id = frame["params"]["turnId"]
        assert turn_id not in seen, "a line after the turn's end"
        if frame["method"] == "turn/completed":
            seen.append(turn_id)
            reason, error = frame["params"]["stopReason"], frame["params"]["error"]
            assert (error is not None) == (reason == "error")
            tail = {"completed": "item/done", "error": "item/error"}.get(reason)
            if tail:
                assert last["method"] == tail
            if reason == "error":
                assert last["params"]["event"]["message"] == error
        last = frame
    assert seen == ids


@settings(max_examples=24, deadline=None)
@given(engine_logs())
def test_calls_are_shown_after_the_usage_and_before_their_results(records: list[Record]) -> None:
    shown: set[str] = set()
    usage_allowed = True
    for line in split(render(records)):
        event = json.loads(line)["params"].get("event", {})
        kind = event.get("type")
        if kind == "step":
            usage_allowed = True
        elif kind == "tool_call":
            shown.add(event["id"])
            usage_allowed = False
        elif kind == "turn_usage":
            assert usage_allowed, "the usage comes before the calls"
        elif kind in ("tool_output_delta", "tool_result"):
            assert event["id"] in shown


# --- batches, late followers, several sessions ---------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(records=all_logs, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_batches_do_not_matter(records: list[Record], cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    side, out = codec.agent(), bytearray()
    for a, b in pairwise(borders):
        side.render("s", records[a:b], out)
    single, ones = codec.agent(), bytearray()
    for record in records:
        single.render("s", [record], ones)
    assert bytes(out) == bytes(ones) == render(records)


@settings(max_examples=12, deadline=None)
@given(records=all_logs, at=st.integers(0, 80))
def test_a_side_that_was_fed_goes_on_where_another_would(records: list[Record], at: int) -> None:
    """Fed in silence from the session's beginning: the history that it tells is the same."""
    at = min(at, len(records))
    late, out = codec.agent(), bytearray()
    late.feed("s", records[:at])
    late.render("s", records[at:], out)
    assert render(records[:at]) + bytes(out) == render(records)


@settings(max_examples=12, deadline=None)
@given(all_logs)
def test_sessions_do_not_touch_each_other(records: list[Record]) -> None:
    side, one, two = codec.agent(), bytearray(), bytearray()
    for record in records:
        side.render("one", [record], one)
        side.render("two", [record], two)
    assert bytes(one) == render(records, "one")
    assert bytes(two) == render(records, "two")


HALF = "half \udc00 pair"


@pytest.mark.parametrize("batch", [1, 100])
def test_s_b05_half_a_surrogate_pair_is_never_written(batch: int) -> None:
    """Case S-b05: from a model, a tool or a host; the line is whole and nothing else is lost."""
    records = turn(
        bus.TurnStarted("t", None, [bus.Text(HALF)]),
        bus.StepStarted(0),
        bus.TextDelta("before"),
        bus.TextDelta(HALF),
        bus.TextDelta("after"),
        bus.ReasoningDelta(HALF),
        bus.SubagentStarted(HALF, HALF, HALF),
        (HALF, bus.TextDelta(HALF)),
        bus.CallStarted("c", HALF),
        bus.CallArgumentsDelta("c", HALF),
        bus.StepFinished(0, HALF, "", [bus.CallRef("c", HALF, HALF)]),
        bus.CallReady("c", HALF, '{"a": "half \\udc00 pair"}'),
        bus.ApprovalRequested("c", "c", HALF, command=HALF),
        bus.CallOutputDelta("c", HALF),
        bus.CallFinished("c", HALF, "ok", HALF),
        bus.UserJoined(HALF),
        bus.StepStarted(1),
        bus.TurnFinished("failed", error=bus.ErrorInfo("provider_error", HALF)),
    )
    side, out = codec.agent(), bytearray()
    for at in range(0, len(records), batch):
        side.render(HALF, records[at : at + batch], out)
    text = bytes(out).decode()
    tokens = [json.loads(line)["params"]["event"]["text"] for line in split(bytes(out)) if b'"item/token"' in line]
    assert tokens == ["before", "half \ufffd pair", "after"]
    assert text.count("half") == text.count("half \ufffd pair") > 20


def test_a_run_of_deltas_is_written_as_each_alone_is() -> None:
    """Every character, among them those that JSON escapes, in every kind of delta, also a subagent's."""
    pieces = [chr(n) for n in [*range(0x250), 0x2028, 0x2029, 0xFEFF, 0xFFFF, 0x1F600]]
    kinds: dict[str, tuple[Callable[[str], bus.Event], str]] = {
        "token": (bus.TextDelta, "text"),
        "reasoning": (bus.ReasoningDelta, "text"),
        "tool_call_args_delta": (lambda piece: bus.CallArgumentsDelta("c", piece), "delta"),
        "tool_output_delta": (lambda piece: bus.CallOutputDelta("c", piece), "delta"),
    }
    for tag, (make, key) in kinds.items():
        for origin in ("", "run-1"):
            told = [(origin, make(piece)) for piece in pieces]
            lines = split(render(turn(bus.TurnStarted("t"), *told)))
            for line, piece in zip(lines, pieces, strict=True):
                event = {"type": tag, **({"id": "c"} if key == "delta" else {}), key: piece}
                if origin:
                    event = {"type": "subagent", "run_id": "run-1", "name": "run-1", "event": event}
                method = "item/subagent" if origin else f"item/{tag}"
                frame = {
                    "jsonrpc": "2.0", "method": method, "params": {"sessionId": "s", "turnId": "t", "event": event},
                }  # fmt: skip
                assert line == msgspec.json.encode(frame)


@settings(max_examples=24, deadline=None)
@given(json_values)
def test_arguments_are_any_json_and_null_if_they_are_none(value: Any) -> None:
    text = json.dumps(value)
    args = facts.call_args(bus.CallReady("c", "n", text))
    assert msgspec.json.decode(args) == msgspec.json.decode(text.encode())
    assert bytes(facts.call_args(bus.CallReady("c", "n", text + "}"))) == b"null"
