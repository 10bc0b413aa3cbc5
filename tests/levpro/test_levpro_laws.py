"""Laws of the codec over generated whole logs and arbitrary lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from levprolines import ask, hear, logged, objects, render, split, tell, turn
from strategies import complete_log, json_objects, json_values, logs, refs
from support.noise import json_lines, mutated
from support.whole_turns import assert_whole_turns

from agentwire import events as bus
from agentwire.codec import Framer, Heard, LineFault, Record, Request
from agentwire.commands import Done, Refusal
from agentwire_levpro import codec
from agentwire_levpro.decisions import ENDS

FIDELITY = codec.fidelity()


@st.composite
def broken_logs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Record]:
    """Logs in which turns break off in the middle of a step or a call, some at a limit."""
    records: list[Record] = []
    skipping = False
    for record in draw(logs()):
        event = record.event
        if isinstance(event, bus.TurnStarted):
            skipping = False
        elif isinstance(event, bus.TurnFinished):
            if event.outcome == "limit":
                event = msgspec.structs.replace(event, limit=draw(st.sampled_from(("", "steps", "bad_calls"))))
            skipping = False
        if skipping and not (isinstance(event, bus.CallCancelled) and draw(st.booleans())):
            continue
        records.append(Record(len(records) + 1, record.time, event, record.turn, record.origin))
        begun = record.turn > 0 and not isinstance(event, bus.TurnFinished)
        skipping = skipping or (begun and draw(st.integers(0, 9)) == 0)
    return records


all_logs = logs() | broken_logs()


def test_the_table_is_complete() -> None:
    """Every event and field of the bus has its declaration."""
    assert FIDELITY.problems() == []


@settings(max_examples=32, deadline=None)
@given(all_logs)
def test_a_host_hears_what_is_declared_to_survive_and_nothing_else(records: list[Record]) -> None:
    assert hear(render(records)) == FIDELITY.surviving(records)


def test_the_same_for_a_log_with_every_event() -> None:
    records = complete_log()
    assert hear(render(records)) == FIDELITY.surviving(records)
    assert sum(FIDELITY.losses(records).values()) > 40


@settings(max_examples=16, deadline=None)
@given(all_logs)
def test_what_was_heard_is_written_as_it_came(records: list[Record]) -> None:
    """Once through the wire nothing more is lost: a recording can be replayed for ever."""
    once = render(records)
    assert render(logged(hear(once))) == once


@settings(max_examples=16, deadline=None)
@given(all_logs)
def test_every_line_fits_its_schema(records: list[Record]) -> None:
    assert codec.schemas is not None
    events = Draft202012Validator(codec.schemas()["levpro.events.json"])
    for line in objects(render([record for record in records if not isinstance(record.event, bus.Unknown)])):
        events.validate(line)


# --- the grammar (section 5) ---------------------------------------------------------------------------------


def check_chat(lines: list[dict[str, Any]], outcome: bus.Outcome) -> None:
    """run_start, steps, the last event, the terminal: in this order, and nothing else."""
    start = lines.pop(0)
    assert start["event"] == "run_start"
    text: list[str] = []
    step = 0
    while lines and lines[0].get("event") == "llm_start":
        step = lines.pop(0)["step"]
        text = []
        while lines[0].get("event") == "llm_chunk":
            chunk = lines.pop(0)
            assert chunk["step"] == step
            assert chunk["delta"]
            text.append(chunk["delta"])
        assert (lines[0]["event"], lines.pop(0)["step"]) == ("llm_done", step)
        while lines[0].get("event") == "tool_start":
            begin = lines.pop(0)
            assert isinstance(begin["args"], dict)
            end = lines.pop(0)
            assert (begin["step"], begin["tool"]) == (end["step"], end["tool"])
            assert end["status"] in ("ok", "error", "denied")
            assert len(end["preview"]) <= 500
            assert end["ms"] >= 0
    how = ENDS[outcome]
    if how.event:
        last = lines.pop(0)
        assert (last["event"], last["step"]) == (how.event, step)
    terminal = lines.pop(0)
    assert lines == []
    if how.code:
        assert (terminal["type"], terminal["code"]) == ("error", how.code)
        return
    assert list(terminal["result"]) == ["response", "session_id", "trace_id", "warnings"]
    assert terminal["result"]["trace_id"] == start["trace_id"]
    assert terminal["result"]["session_id"] == "the session"


@settings(max_examples=32, deadline=None)
@given(all_logs)
def test_the_stream_keeps_the_grammar_whatever_the_engine_did(records: list[Record]) -> None:
    """Also of an engine that runs calls side by side: one is shown after the other."""
    records = [record for record in records if not isinstance(record.event, bus.Unknown)]
    ends = [record.event.outcome for record in records if isinstance(record.event, bus.TurnFinished)]
    chats: list[list[dict[str, Any]]] = []
    for line in objects(render(records, "the session")):
        if line.get("event") == "run_start":
            chats.append([])
        assert list(line)[:2] == ["id", "type"]
        assert line["id"] == chats[-1][0]["id"] if chats[-1] else True
        chats[-1].append(line)
    assert len(chats) == len(ends)
    for chat, outcome in zip(chats, ends, strict=True):
        check_chat(chat, outcome)


def test_calls_side_by_side_are_shown_one_after_the_other() -> None:
    def ready(name: str) -> bus.CallReady:
        return bus.CallReady(name, "t", "{}")

    records = turn(
        bus.TurnStarted("t", "c"),
        bus.StepStarted(0),
        bus.StepFinished(0),
        ready("c1"), ready("c2"), ready("c3"), ready("c4"),
        bus.CallRunning("c2", "t"),
        bus.CallRunning("c1", "t"),
        bus.CallFinished("c1", "t", "ok", "first"),
        bus.CallCancelled("c3", "refused", "no"),
        bus.CallFinished("c2", "t", "ok", "second"),
        bus.CallCancelled("c4", "stopped"),
        bus.TurnFinished("completed"),
    )  # fmt: skip
    shown = [(line["event"], line.get("preview")) for line in objects(render(records)) if "tool" in line]
    assert shown == [
        ("tool_start", None), ("tool_done", "second"), ("tool_start", None), ("tool_done", "first"),
        ("tool_start", None), ("tool_done", "no"),
    ]  # fmt: skip


# --- batches, late followers, several sessions ---------------------------------------------------------------


@settings(max_examples=16, deadline=None)
@given(records=all_logs, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_batches_do_not_matter(records: list[Record], cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    side, out = codec.agent(), bytearray()
    for a, b in pairwise(borders):
        side.render("", records[a:b], out)
    single, ones = codec.agent(), bytearray()
    for record in records:
        single.render("", [record], ones)
    assert bytes(out) == bytes(ones) == render(records)


@settings(max_examples=16, deadline=None)
@given(records=all_logs, at=st.integers(0, 80))
def test_a_side_that_was_fed_goes_on_where_another_would(records: list[Record], at: int) -> None:
    """Fed in silence from the beginning of the turn under way, as a late connection: only warnings from before, which
    wait for a result, are not known to it."""
    records = [record for record in records if record.turn or not _warns(record.event)]
    at = min(at, len(records))
    begun = [n for n, record in enumerate(records[:at]) if isinstance(record.event, bus.TurnStarted)]
    late, out = codec.agent(), bytearray()
    late.feed("", records[begun[-1] if begun else 0 : at])
    late.render("", records[at:], out)
    assert render(records[:at]) + bytes(out) == render(records)


def _warns(event: bus.Event) -> bool:
    return isinstance(event, bus.Notice | bus.McpServerFailed | bus.ErrorRaised)


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


def test_s_b05_half_a_surrogate_pair_is_never_written() -> None:
    """Case S-b05: from a model, a tool or an error; the line is whole and nothing else is lost."""
    records = turn(
        bus.TurnStarted("t", HALF, [bus.Text(HALF)]),
        bus.StepStarted(0),
        bus.TextDelta("before"),
        bus.TextDelta(HALF),
        bus.TextDelta("after"),
        bus.StepFinished(0, HALF),
        bus.CallReady("c", HALF, "{}"),
        bus.CallRunning("c", HALF),
        bus.CallFinished("c", HALF, "ok", HALF),
        bus.Notice(HALF, "warning"),
        bus.TurnFinished("completed", HALF),
    )
    for batch in (1, 100):
        side, out = codec.agent(), bytearray()
        for at in range(0, len(records), batch):
            side.render(HALF, records[at : at + batch], out)
        lines = objects(bytes(out))
        assert [line["delta"] for line in lines if "delta" in line] == ["before", "half \ufffd pair", "after"]
        assert bytes(out).decode().count("half") == bytes(out).decode().count("half \ufffd pair") > 10


def test_a_run_of_chunks_is_written_as_each_alone_is() -> None:
    """Every character, among them those that JSON escapes, and empty pieces, which are left out."""
    pieces = [chr(n) for n in [*range(0x250), 0x2028, 0x2029, 0xFEFF, 0xFFFF, 0x1F600]] + ["", "x", ""]
    records = turn(bus.TurnStarted("t", 7), bus.StepStarted(3), *[bus.TextDelta(piece) for piece in pieces])
    assert objects(render(records))[2:] == [
        {"id": 7, "type": "event", "event": "llm_chunk", "step": 3, "delta": piece} for piece in pieces if piece
    ]


# --- lines of a host -----------------------------------------------------------------------------------------

REQUESTS = tuple(
    json.dumps(line, ensure_ascii=False).encode()
    for line in (
        {"id": "i", "method": "initialize", "params": {"protocol_versions": [1]}},
        {"id": "1", "method": "ping", "params": {}},
        {"id": 2, "method": "doctor"},
        {"id": 2.5, "method": "plan", "params": None},
        {"id": "c1", "method": "chat", "params": {"input": "2+2?", "session_id": "abc123", "resume": True}},
        {"id": "c2", "method": "chat", "params": {"approve_execution": True, "agent": "a", "user_id": "u"}},
        {"id": "k", "method": "cancel", "params": {"request_id": "c1"}},
        {"id": "k2", "method": "cancel"},
    )
)


KEYS = ("id", "method", "params", "type", "event", "result", "code", "request_id", "input", "step", "args", "ms", "x")
WORDS = ("chat", "cancel", "ping", "c1", "event", "result", "error", "llm_chunk", "tool_done", "run_start")

json_texts = json_lines(KEYS, WORDS)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=80) | json_texts | mutated(REQUESTS) | st.sampled_from(REQUESTS), max_size=6))
def test_every_line_that_is_not_blank_gets_its_one_answer(junk: list[bytes]) -> None:
    """And the next line is read; what was refused leaves no id in use, what runs does."""
    framer, side = Framer(200), codec.agent()
    stream = b"".join(line.replace(b"\n", b" ") + b"\n" for line in junk)
    in_use: list[Any] = []
    for line in framer.feed(stream):
        request = side.receive(line, None)  # type: ignore[arg-type]  # it must not look
        if isinstance(line, bytes) and not line.strip():
            assert request is None
            continue
        assert isinstance(request, Request)
        if request.refusal is not None:
            assert request.command is None
            (answer,) = tell(side, request)
            assert answer["type"] == "error"
            assert answer["code"] in ("invalid_json", "invalid_request", "unknown_method")
            continue
        said = tell(side, request, Done(_value(request)))
        if request.token.method == "chat":
            assert said == []
            in_use.append(request.token.id)
        else:
            assert [(line["type"], line["id"]) for line in said] == [("result", request.token.id)]
    for used in in_use:
        again = ask(side, {"id": used, "method": "ping"})
        assert again is not None
        assert again.refusal is not None
        assert again.refusal.message == "id is in use"
    last = ask(side, {"id": "the last one", "method": "ping"})
    assert last is not None
    assert tell(side, last) == [{"id": "the last one", "type": "result", "result": {"status": "ok"}}]


def _value(request: Request) -> Any:
    return {"doctor": [], "plan": {}, "cancel": True}.get(request.token.method)


@settings(max_examples=24, deadline=None)
@given(ref=refs.filter(lambda ref: ref is not None))
def test_an_id_comes_back_with_its_type_and_value(ref: Any) -> None:
    side = codec.agent()
    line = msgspec.json.encode({"id": ref, "method": "chat", "params": {"session_id": "s"}})
    request = ask(side, line)
    assert request is not None
    out = bytearray()
    side.render("s", turn(bus.TurnStarted("t", ref), bus.TurnFinished("completed")), out)
    for answer in objects(bytes(out)):
        assert (answer["id"], type(answer["id"])) == (ref, type(ref))


@settings(max_examples=24, deadline=None)
@given(st.text(max_size=20), json_objects, json_values)
def test_params_may_hold_more_than_we_know(text: str, more: dict[str, Any], value: Any) -> None:
    known = {"user_id", "session_id", "agent", "input", "resume", "approve_execution"}
    params = {**{key: more[key] for key in more if key not in known}, "input": text, "another": value}
    request = ask(codec.agent(), msgspec.json.encode({"id": 1, "method": "chat", "params": params, "more": value}))
    assert request is not None
    assert request.command is not None
    assert request.command.text == text  # type: ignore[attr-defined]  # it is a prompt


# --- lines of a core -----------------------------------------------------------------------------------------

SAID = (
    *split(
        render(
            turn(
                bus.TurnStarted("deadbeef", "c1", [bus.Text("hi")]),
                bus.StepStarted(0),
                bus.TextDelta("a"),
                bus.TextDelta("b"),
                bus.StepFinished(0),
                bus.CallReady("x", "t", "{}"),
                bus.CallRunning("x", "t"),
                bus.CallFinished("x", "t", "ok", "out"),
                bus.CallCancelled("y", "refused", "no", "u"),
                bus.StepStarted(1),
                bus.StepFinished(1),
                bus.Notice("careful", "warning"),
                bus.TurnFinished("limit", "", limit="steps"),
            )
        )
    ),
    b'{"id":"c1","type":"error","code":"cancelled","message":"m"}',
    b'{"id":"c1","type":"event","event":"memory_start"}',
    b'{"id":null,"type":"error","code":"invalid_json","message":"m"}',
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(SAID) | mutated(SAID) | json_texts | st.binary(max_size=20), max_size=25))
def test_whatever_a_core_writes_a_host_hears_whole_turns(stream: list[bytes]) -> None:
    """One end for each beginning and nothing of a turn outside it; every call is shown once and closed in its turn."""
    host, framer = codec.host(), Framer(1_000_000)
    heard = [said for line in framer.feed(b"".join(line + b"\n" for line in stream)) for said in host.receive(line)]
    heard += host.close()
    assert_whole_turns(heard, side_by_side=True)


def test_a_line_that_could_not_be_framed_is_told() -> None:
    (said,) = codec.host().receive(LineFault("too_long", "line too long: 9 bytes", 9))
    assert said == Heard(bus.Notice("The agent sent a line that cannot be read: line too long: 9 bytes", "warning"))


def test_a_refused_chat_frees_its_id() -> None:
    side = codec.agent()
    for _ in range(2):
        request = ask(side, {"id": "c", "method": "chat"})
        assert request is not None
        (answer,) = tell(side, request, Refusal("config", "no model", data="model_missing"))
        assert answer == {"id": "c", "type": "error", "code": "model_missing", "message": "no model"}
