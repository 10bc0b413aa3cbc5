"""Laws of both dialects over generated whole logs and arbitrary lines, with the real decoders as judges."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pagent import decode_event_line, encode_event_line
from pagentlines import CODECS, NoView, hear, logged, recorded, render, split, turn
from strategies import complete_log, json_values, logs, texts
from support.noise import json_lines, mutated
from support.whole_turns import assert_whole_turns

from agentwire import events as bus
from agentwire.codec import Codec, Framer, Heard, LineFault, Record, Request
from agentwire.commands import Done, Outcome, Refusal
from agentwire_pagent import codec, codec_v4, wire

CONTROL = {"SlashCommands", "CurrentThread", "PermitRequest", "HistoryReplay", "Error"}
"""What v4's own decoder does not know: it stands beside the nine."""

both = pytest.mark.parametrize("dialect", CODECS.values(), ids=CODECS)


@st.composite
def broken_logs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Record]:
    """Logs in which turns break off in the middle of a step or a call, and some steps go beyond the limit."""
    records: list[Record] = []
    skipping = False
    for record in draw(logs()):
        event = record.event
        if isinstance(event, bus.TurnStarted):
            skipping = False
        elif isinstance(event, bus.TurnFinished):
            if skipping:
                outcome = draw(st.sampled_from(("cancelled", "failed", "completed")))
                error = bus.ErrorInfo("provider_error", "gone") if outcome == "failed" else msgspec.UNSET
                event = msgspec.structs.replace(event, outcome=outcome, error=error)
            skipping = False
        elif isinstance(event, bus.StepStarted) and draw(st.booleans()):
            event = bus.StepStarted(event.index, event.index)
        if skipping and not (isinstance(event, bus.CallCancelled) and draw(st.booleans())):
            continue
        if isinstance(event, bus.StepFinished) and draw(st.integers(0, 4)) == 0:
            # The engine's order: why it failed, what there is of the step, the end.
            error = bus.ErrorRaised(bus.ErrorInfo("provider_error", "gone"))
            records.append(Record(len(records) + 1, record.time, error, record.turn))
        records.append(Record(len(records) + 1, record.time, event, record.turn, record.origin))
        begun = record.turn > 0 and not isinstance(event, bus.TurnFinished)
        skipping = skipping or (begun and draw(st.integers(0, 9)) == 0)
    return records


all_logs = logs() | broken_logs()


@both
def test_the_table_is_complete(dialect: Codec) -> None:
    """Every event and field of the bus has its declaration."""
    assert dialect.fidelity().problems() == []


@both
@settings(max_examples=24, deadline=None)
@given(records=all_logs)
def test_a_host_hears_what_is_declared_to_survive_and_nothing_else(dialect: Codec, records: list[Record]) -> None:
    assert hear(dialect, render(dialect, records)) == dialect.fidelity().surviving(records)


@both
def test_the_same_for_a_log_with_every_event(dialect: Codec) -> None:
    records = complete_log()
    assert hear(dialect, render(dialect, records)) == dialect.fidelity().surviving(records)
    assert sum(dialect.fidelity().losses(records).values()) > 40


@both
@settings(max_examples=12, deadline=None)
@given(records=all_logs)
def test_what_was_heard_is_written_as_it_came(dialect: Codec, records: list[Record]) -> None:
    """Once through the wire nothing more is lost: a recording can be replayed for ever.

    But for v4's lines about the session that come while a call runs: that it runs is heard with its result.
    """
    once = render(dialect, [record for record in records if not isinstance(record.event, bus.HistoryCleared)])
    assert render(dialect, logged(hear(dialect, once))) == once


# --- the real decoders ---------------------------------------------------------------------------------------


@settings(max_examples=24, deadline=None)
@given(all_logs)
def test_the_real_decoder_reads_every_line_and_writes_it_the_same(records: list[Record]) -> None:
    for line in split(render(codec, records)):
        text = line.decode() + "\n"
        assert encode_event_line(decode_event_line(text)) == text


@settings(max_examples=14, deadline=None)
@given(all_logs)
def test_the_real_v4_decoder_does_too(records: list[Record]) -> None:
    from pagentv4.adapters.acp import decode_event_line as decode_v4
    from pagentv4.adapters.acp import encode_event_line as encode_v4

    for line in split(render(codec_v4, records)):
        text = line.decode() + "\n"
        message = json.loads(text)
        assert json.dumps(message, ensure_ascii=False) + "\n" == text
        if message["method"] not in CONTROL:
            assert encode_v4(decode_v4(text)) == text


@both
@settings(max_examples=12, deadline=None)
@given(records=all_logs)
def test_every_line_fits_its_schema(dialect: Codec, records: list[Record]) -> None:
    assert dialect.schemas is not None
    events = Draft202012Validator(dialect.schemas()[f"{dialect.name}.events.json"])
    for line in split(render(dialect, records)):
        events.validate(json.loads(line))


# --- the grammar (section 3) ---------------------------------------------------------------------------------


def check_run(lines: list[dict[str, Any]], *, complete: bool) -> None:
    """A classic run: RunBegin, turns, RunEnd, or a beginning of that."""
    assert lines.pop(0)["method"] == "RunBegin"
    n, last = 0, None
    while lines and lines[0]["method"] == "TurnBegin":
        assert lines.pop(0)["params"]["turn"] == n
        reasoning = ""
        while lines and lines[0]["method"] in ("TextDelta", "ReasoningDelta"):
            delta = lines.pop(0)
            assert delta["params"]["text"]
            reasoning += delta["params"]["text"] if delta["method"] == "ReasoningDelta" else ""
        if not lines:
            break
        last = lines.pop(0)
        assert last["method"] == "StepEnd"
        assert reasoning in ("", last["params"]["reasoning_content"])
        ran = check_calls(last["params"]["tool_calls"], lines)
        if not lines:
            break
        assert lines.pop(0) == {"jsonrpc": "2.0", "method": "TurnEnd", "params": {"turn": n, "stopped": not ran}}
        n += 1
    if complete:
        end = lines.pop(0)
        assert end["method"] == "RunEnd"
        assert last is None or end["params"] == last["params"]
    assert lines == []


def check_calls(listed: list[dict[str, Any]], lines: list[dict[str, Any]]) -> bool:
    """Calls begin in the order of the list, each has its result at once; those that were stopped are not there."""
    ran, wanted = False, iter(listed)
    while lines and lines[0]["method"] == "ToolCallBegin":
        begin = lines.pop(0)["params"]
        ran = True
        call = next(call for call in wanted if call["id"] == begin["tool_call_id"])
        assert call["function"] == {"name": begin["name"], "arguments": begin["arguments"]}
        if not lines or lines[0]["method"] != "ToolResult":
            break  # it was stopped while it ran
        result = lines.pop(0)["params"]
        assert (result["tool_call_id"], result["name"]) == (begin["tool_call_id"], begin["name"])
    return ran


@settings(max_examples=24, deadline=None)
@given(all_logs)
def test_the_classic_stream_keeps_the_grammar_whatever_the_engine_did(records: list[Record]) -> None:
    """Also of an engine that runs calls side by side: one begins after the other is done."""
    outcomes = [record.event.outcome for record in records if isinstance(record.event, bus.TurnFinished)]
    runs: list[list[dict[str, Any]]] = []
    for line in split(render(codec, records)):
        message = json.loads(line)
        if message["method"] == "RunBegin":
            runs.append([])
        runs[-1].append(message)
    assert len(runs) == len(outcomes)
    for run, outcome in zip(runs, outcomes, strict=True):
        check_run(run, complete=outcome in ("completed", "limit"))


def test_calls_side_by_side_are_shown_one_after_the_other() -> None:
    def ready(name: str) -> bus.CallReady:
        return bus.CallReady(name, "t", "{}")

    records = turn(
        bus.TurnStarted("t"),
        bus.StepStarted(0),
        ready("c1"), ready("c2"), ready("c3"),
        bus.StepFinished(0, "", "", [bus.CallRef(name, "t", "{}") for name in ("c1", "c2", "c3")]),
        bus.ApprovalRequested("c1", "c1", "t", command="one"),
        bus.ApprovalRequested("c2", "c2", "t", command="two"),
        bus.ApprovalRequested("c3", "c3", "t", command="three"),
        bus.ApprovalResolved("c2", "c2", "allowed"),
        bus.CallRunning("c2", "t"),
        bus.CallFinished("c2", "t", "ok", "second"),
        bus.CallRunning("c1", "t"),
        bus.CallFinished("c1", "t", "ok", "first"),
        bus.CallCancelled("c3", "denied", "no"),
        bus.TurnFinished("completed"),
    )  # fmt: skip
    for dialect, asked in ((codec, []), (codec_v4, ["one", "three"])):
        lines = [json.loads(line) for line in split(render(dialect, records))]
        calls = [(line["method"], line["params"]["tool_call_id"]) for line in lines if "tool_call_id" in line["params"]]
        assert [call for call in calls if call[0] != "PermitRequest"] == [
            ("ToolCallBegin", "c1"), ("ToolResult", "c1"), ("ToolCallBegin", "c2"), ("ToolResult", "c2"),
            ("ToolCallBegin", "c3"), ("ToolResult", "c3"),
        ]  # fmt: skip
        # The second question was answered before its turn came; the third waits for the two before it.
        assert [line["params"]["summary"] for line in lines if line["method"] == "PermitRequest"] == asked
        for at, (method, call_id) in enumerate(calls):
            if method == "PermitRequest":
                assert calls[at - 1] == ("ToolCallBegin", call_id)


def test_a_call_that_began_is_not_overtaken() -> None:
    """Not even by one that the step lists before it and that nothing was known of."""
    records = turn(
        bus.TurnStarted("t"), bus.StepStarted(0),
        bus.StepFinished(0, "", "", [bus.CallRef("c1", "t", "{}"), bus.CallRef("c2", "t", "{}")]),
        bus.CallRunning("c2", "t"), bus.CallRunning("c1", "t"), bus.CallFinished("c1", "t", "ok", "first"),
        bus.CallFinished("c2", "t", "ok", "second"), bus.TurnFinished("completed"),
    )  # fmt: skip
    for dialect in (codec, codec_v4):
        lines = [json.loads(line)["params"] for line in split(render(dialect, records))]
        assert [params["tool_call_id"] for params in lines if "tool_call_id" in params] == ["c2", "c2", "c1", "c1"]


# --- batches, late followers, several sessions ---------------------------------------------------------------


@both
@settings(max_examples=12, deadline=None)
@given(records=all_logs, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_batches_do_not_matter(dialect: Codec, records: list[Record], cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    side, out = dialect.agent(), bytearray()
    for a, b in pairwise(borders):
        side.render("s", records[a:b], out)
    single, ones = dialect.agent(), bytearray()
    for record in records:
        single.render("s", [record], ones)
    assert bytes(out) == bytes(ones) == render(dialect, records)


@both
@settings(max_examples=12, deadline=None)
@given(records=all_logs, at=st.integers(0, 80))
def test_a_side_that_was_fed_goes_on_where_another_would(dialect: Codec, records: list[Record], at: int) -> None:
    """Fed in silence from the beginning of the turn under way, after the session's opening, as a late connection."""
    at = min(at, len(records))
    begun = [n for n, record in enumerate(records[:at]) if isinstance(record.event, bus.TurnStarted)]
    late, out = dialect.agent(), bytearray()
    if at:
        late.render("s", records[:1], bytearray())
    late.feed("s", records[begun[-1] if begun else 0 : at])
    late.render("s", records[at:], out)
    assert render(dialect, records[:at]) + bytes(out) == render(dialect, records)


@both
@settings(max_examples=12, deadline=None)
@given(records=all_logs)
def test_sessions_do_not_touch_each_other(dialect: Codec, records: list[Record]) -> None:
    side, one, two = dialect.agent(), bytearray(), bytearray()
    for record in records:
        side.render("one", [record], one)
        side.render("two", [record], two)
    assert bytes(one) == render(dialect, records)
    # What is said once a connection is not said again.
    assert split(bytes(two)) == [line for line in split(bytes(one)) if b'"SlashCommands"' not in line]


HALF = "half \udc00 pair"


@both
@pytest.mark.parametrize("batch", [1, 100])
def test_s_b05_half_a_surrogate_pair_is_never_written(dialect: Codec, batch: int) -> None:
    """Case S-b05: from a model, a tool or a service's usage; the line is whole and nothing else is lost."""
    records = turn(
        bus.SessionOpened(HALF, workspace=HALF),
        bus.TurnStarted("t", None, [bus.Text(HALF)]),
        bus.StepStarted(0),
        bus.TextDelta("before"),
        bus.TextDelta(HALF),
        bus.TextDelta("after"),
        bus.ReasoningDelta(HALF),
        bus.StepFinished(0, HALF, "", [bus.CallRef("c", HALF, HALF)], bus.Usage(extra={"total_tokens": 1, HALF: HALF})),
        bus.CallReady("c", HALF, HALF),
        bus.ApprovalRequested("c", "c", HALF, command=HALF),
        bus.CallRunning("c", HALF),
        bus.CallFinished("c", HALF, "ok", HALF),
        bus.TurnFinished("failed", error=bus.ErrorInfo("provider_error", HALF)),
    )
    side, out = dialect.agent(), bytearray()
    for at in range(0, len(records), batch):
        side.render("s", records[at : at + batch], out)
    decoded = [json.loads(line.decode()) for line in split(bytes(out))]
    assert [event["params"]["text"] for event in decoded if event["method"] == "TextDelta"] == [
        "before", "half \ufffd pair", "after",
    ]  # fmt: skip
    assert bytes(out).decode().count("half") == bytes(out).decode().count("half \ufffd pair") > 10


@settings(max_examples=36, deadline=None)
@given(texts, json_values)
def test_json_is_written_as_the_peer_writes_it(text: str, value: Any) -> None:
    """Separators, escapes, raw characters, exponents, integers of any size."""
    usage = {"total_tokens": 1, "x": value, "cost": 1e-05}
    records = turn(bus.TurnStarted("t"), bus.StepStarted(0), bus.StepFinished(0, text, "", [], bus.Usage(extra=usage)))
    line = split(render(codec, records))[-1]
    params = {"content": text, "tool_calls": [], "reasoning_content": "", "usage": usage}
    message = {"jsonrpc": "2.0", "method": "StepEnd", "params": params}
    assert line.decode() == json.dumps(message, ensure_ascii=False)


def test_a_run_of_deltas_is_written_as_each_alone_is() -> None:
    """Every character, among them those that JSON escapes, and empty pieces, which are left out."""
    pieces = [chr(n) for n in [*range(0x250), 0x2028, 0x2029, 0xFEFF, 0xFFFF, 0x1F600]] + ["", "x", ""]
    for kind in (bus.TextDelta, bus.ReasoningDelta):
        records = turn(bus.TurnStarted("t"), bus.StepStarted(0), *[kind(piece) for piece in pieces])
        lines = split(render(codec, records))[2:]
        assert [line.decode() for line in lines] == [
            json.dumps({"jsonrpc": "2.0", "method": kind.__name__, "params": {"text": piece}}, ensure_ascii=False)
            for piece in pieces if piece
        ]  # fmt: skip


# --- lines of a host -----------------------------------------------------------------------------------------

COMMANDS = tuple(
    json.dumps(line, ensure_ascii=False).encode()
    for line in (
        {"cmd": "user", "text": "Hello"},
        {"cmd": "user", "text": "", "images": ["data:image/png;base64,aGk="]},
        {"cmd": "cancel"},
        {"cmd": "permit", "tool_call_id": "c1"},
        {"cmd": "deny", "tool_call_id": "c1", "reason": "no"},
        {"cmd": "reset", "project_path": "/w"},
        {"cmd": "resume", "thread_id": "t"},
        {"cmd": "history"},
        {"cmd": "list_threads"},
        {"cmd": "delete_thread", "thread_id": "t"},
        {"cmd": "thread_meta", "thread_id": "t"},
        {"cmd": "commands"},
        {"cmd": "capabilities"},
        {"cmd": "get_config"},
    )
)


KEYS = ("cmd", "text", "tool_call_id", "jsonrpc", "method", "params", "id", "turn", "content", "usage", "x")
WORDS = ("user", "cancel", "2.0", "TextDelta", "RunBegin", "RunEnd", "StepEnd", "Error")

json_texts = json_lines(KEYS, WORDS)


@both
@settings(max_examples=36, deadline=None)
@given(junk=st.binary(max_size=80) | json_texts | mutated(COMMANDS))
def test_no_line_raises_and_the_next_is_read(dialect: Codec, junk: bytes) -> None:
    """What is no command is ignored, what is one gets at most one line."""
    framer, side = Framer(200), dialect.agent()
    stream = junk.replace(b"\n", b" ") + b'\n{"cmd": "cancel"}\n'
    requests = [side.receive(line, NoView()) for line in framer.feed(stream)]
    assert len(requests) == 2
    assert isinstance(requests[1], Request)
    for request in requests:
        if request is None:
            continue
        assert request.command is not None
        assert request.refusal is None
        for result in (Refusal("not_found", "no"), Done()):
            out = bytearray()
            side.outcome(request, Outcome(result), out)
            assert len(split(bytes(out))) <= (dialect is codec_v4)


# --- lines of an agent ---------------------------------------------------------------------------------------

RECORDED = {
    codec.name: tuple(split(recorded("reasoning_tool_reasoning") + recorded("tool_failures"))),
    codec_v4.name: tuple(split(recorded("v4_stdio_session") + recorded("v4_max_turns_synthesis"))),
}


@both
@settings(max_examples=28, deadline=None)
@given(data=st.data())
def test_whatever_an_agent_writes_a_host_hears_whole_turns(dialect: Codec, data: st.DataObject) -> None:
    """One end for each beginning and nothing of a turn outside it; every call is shown once and closed in its turn."""
    lines = RECORDED[dialect.name]
    stream = data.draw(
        st.lists(st.sampled_from(lines) | mutated(lines) | json_texts | st.binary(max_size=20), max_size=25)
    )
    host, framer = dialect.host(), Framer(1_000_000)
    heard = [said for line in framer.feed(b"".join(line + b"\n" for line in stream)) for said in host.receive(line)]
    heard += host.close()
    assert_whole_turns(heard)


@both
def test_a_line_that_could_not_be_framed_is_told(dialect: Codec) -> None:
    (said,) = dialect.host().receive(LineFault("too_long", "line too long: 9 bytes", 9))
    assert said == Heard(bus.Notice("The agent sent a line that cannot be read: line too long: 9 bytes", "warning"))


def test_the_wire_module_names_every_method_once() -> None:
    assert len(wire.EVENTS["classic"]) == len(wire.EVENTS["v4"]) == 9
    assert not set(wire.CONTROL) & (set(wire.EVENTS["classic"]) | set(wire.EVENTS["v4"]))
