"""Laws of the codec over generated whole logs and arbitrary bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import complete_log, logs, texts
from support.noise import json_lines, mutated
from support.whole_turns import assert_whole_turns

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.contract import Answered, Heard, Request
from agentwire.codec.framing import Framer, LineFault
from agentwire.commands import Outcome
from agentwire.log.record import Record
from agentwire_aionrs import codec, wire

FIDELITY = codec.fidelity()
EVENTS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(wire.AgentEvent)


class NoView:
    """Nothing is open, nothing runs: this wire must not need to look."""

    def has_session(self, session: str) -> bool:
        raise AssertionError

    def turn_active(self, session: str = "") -> bool:
        raise AssertionError

    def pending(self, request: str, session: str = "") -> bool:
        raise AssertionError

    def is_directory(self, path: str) -> bool:
        raise AssertionError


VIEW = NoView()


def render(records: Sequence[Record]) -> bytes:
    out = bytearray()
    assert codec.agent().render("s", records, out) is None
    return bytes(out)


def split(stream: bytes) -> list[bytes]:
    assert stream == b"" or stream.endswith(b"\n")
    return stream.split(b"\n")[:-1]


def hear(stream: bytes) -> list[Heard | Answered]:
    host = codec.host()
    return [said for line in split(stream) for said in host.receive(line)]


# --- logs ----------------------------------------------------------------------------------------------------


def test_the_table_is_complete() -> None:
    """Every event and field of the bus has its declaration."""
    assert FIDELITY.problems() == []


@settings(max_examples=24, deadline=None)
@given(logs())
def test_a_host_hears_what_is_declared_to_survive_and_nothing_else(records: list[Record]) -> None:
    assert hear(render(records)) == FIDELITY.surviving(records)


def test_the_same_for_a_log_with_every_event() -> None:
    records = complete_log()
    heard = hear(render(records))
    assert heard == FIDELITY.surviving(records)
    declared = {type(said.event) for said in heard if isinstance(said, Heard)}
    marks = FIDELITY.matrix()
    assert {event for event in bus.ALL_EVENTS if marks[str(event.__struct_config__.tag)] != "–"} - declared == {
        bus.CompactionStarted, bus.CompactionFinished, bus.CompactionFailed,
    }  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(logs(), st.lists(st.integers(0, 60), max_size=6))
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
@given(logs(), st.integers(0, 80))
def test_a_side_that_was_fed_goes_on_where_another_would(records: list[Record], at: int) -> None:
    """Fed in silence from the beginning of the turn under way, as a late connection is."""
    at = min(at, len(records))
    begun = [n for n, record in enumerate(records[:at]) if isinstance(record.event, bus.TurnStarted)]
    late, out = codec.agent(), bytearray()
    late.feed("s", records[begun[-1] if begun else 0 : at])
    late.render("s", records[at:], out)
    assert render(records[:at]) + bytes(out) == render(records)


@settings(max_examples=12, deadline=None)
@given(logs())
def test_sessions_do_not_touch_each_other(records: list[Record]) -> None:
    side, one, two = codec.agent(), bytearray(), bytearray()
    for record in records:
        side.render("one", [record], one)
        side.render("two", [record], two)
    assert bytes(one) == bytes(two) == render(records)


@settings(max_examples=16, deadline=None)
@given(logs())
def test_every_line_is_one_message_in_the_protocols_own_key_order(records: list[Record]) -> None:
    for line in split(render(records)):
        line.decode()
        if line.startswith(b'{"type":"input_accepted"'):
            continue  # unknown to the bus: written as it came
        assert msgspec.json.encode(EVENTS.decode(line)) == line  # strict: no key more, none less, none elsewhere
        message = json.loads(line)
        assert [key for key, value in message.items() if value is None] == (
            ["msg_id"] if message["type"] == "error" and message.get("msg_id", "") is None else []
        )
        if message["type"] == "tool_request":
            assert _sorted(message["tool"]["args"])
        if "metadata" in message:
            assert message["metadata"]
            assert _sorted(message["metadata"])


def _sorted(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_sorted, value))
    return not isinstance(value, dict) or (list(value) == sorted(value) and all(map(_sorted, value.values())))


@settings(max_examples=16, deadline=None)
@given(logs())
def test_the_stream_keeps_the_protocols_order(records: list[Record]) -> None:
    """One start and one end for each turn, nothing of it outside, every call shown is closed, no other is seen."""
    turn: str | None = None
    calls: dict[str, str] = {}
    for line in split(render(records)):
        event = json.loads(line)
        kind = event["type"]
        if kind == "stream_start":
            assert turn is None
            turn = event["msg_id"]
        elif kind == "stream_end":
            assert event["msg_id"] == turn
            assert set(calls.values()) <= {"closed"}
            turn = None
        elif kind in ("text_delta", "thinking") or kind.startswith("tool_"):
            assert event["msg_id"] == turn
        elif kind == "info":
            assert event["msg_id"] in ("", turn)
        if kind.startswith("tool_"):
            before, after = {
                "tool_request": (("",), "asked"),
                "tool_running": (("", "asked"), "running"),
                "tool_result": (("running",), "closed"),
                "tool_cancelled": (("asked", "running"), "closed"),
            }[kind]
            assert calls.get(event["call_id"], "") in before
            calls[event["call_id"]] = after


HALF = "half \udc00 pair"


@pytest.mark.parametrize("batch", [1, 100])
def test_s_b05_half_a_surrogate_pair_is_never_written(batch: int) -> None:
    """Case S-b05: from a model, a tool, a file name or a driver's id; the line is whole and nothing else is lost."""
    events: list[bus.Event] = [
        bus.SessionOpened(HALF),
        bus.Notice(HALF),
        bus.TurnStarted("t", HALF),
        bus.TextDelta("before"),
        bus.TextDelta(HALF),
        bus.TextDelta("after"),
        bus.ReasoningDelta(HALF),
        bus.CallReady("c", HALF, "{}", msgspec.Raw(b"{}"), "info", HALF),
        bus.ApprovalRequested("c", "c", HALF),
        bus.CallRunning("c", HALF),
        bus.CallFinished("c", HALF, "ok", HALF, metadata={HALF: [HALF]}),
        bus.ErrorRaised(bus.ErrorInfo("tool_error", HALF)),
        bus.TurnFinished("completed"),
    ]
    records = [Record(n, 0, event, 1) for n, event in enumerate(events, 1)]  # type: ignore[arg-type]
    side, out = codec.agent(), bytearray()
    for at in range(0, len(records), batch):
        side.render("s", records[at : at + batch], out)
    stream = bytes(out)
    assert b"\xed\xb0\x80" not in stream
    decoded = [json.loads(line.decode()) for line in split(stream)]
    assert len(decoded) == len(events) - 1  # the call's readiness has no line
    assert [event["text"] for event in decoded if event["type"] == "text_delta"] == [
        "before", "half \ufffd pair", "after",
    ]  # fmt: skip
    assert stream.decode().count("half") == stream.decode().count("half \ufffd pair") == 22


def test_free_form_json_cannot_break_a_line() -> None:
    """A plugin's own arguments may be spread over lines; the wire's line is one."""
    spread = msgspec.Raw(b'{\n  "b": 1,\n  "a": "x"\n}')
    broken = msgspec.Raw(b"{\n")
    records = [
        Record(1, 0, bus.TurnStarted("t", "m1"), 1),
        Record(2, 0, bus.CallReady("c1", "Read", "", spread), 1),
        Record(3, 0, bus.ApprovalRequested("c1", "c1", "Read"), 1),
        Record(4, 0, bus.CallReady("c2", "Read", "", broken), 1),
        Record(5, 0, bus.ApprovalRequested("c2", "c2", "Read"), 1),
        Record(6, 0, bus.Unknown("aionrs", "x", msgspec.Raw(b'{"type":\n"x"}')), 1),
    ]
    lines = [json.loads(line) for line in split(render(records))]
    assert [line["tool"]["args"] for line in lines[1:]] == [{"a": "x", "b": 1}, {}]


# --- lines of a host -----------------------------------------------------------------------------------------

COMMANDS = (
    b'{"type":"message","msg_id":"m1","content":"Hello","files":["/a.png"]}',
    b'{"type":"stop"}',
    b'{"type":"tool_approve","call_id":"t1","scope":"always"}',
    b'{"type":"tool_deny","call_id":"t1","reason":"no"}',
    b'{"type":"init_history","text":"before"}',
    b'{"type":"set_mode","mode":"yolo"}',
    b'{"type":"set_config","model":"m","thinking_budget":16000,"effort":null}',
    b'{"type":"add_mcp_server","name":"n","transport":"stdio","command":"x","args":["a"],"env":{"A":"b"}}',
    b'{"type":"ping"}',
)


json_texts = json_lines(("type", "msg_id", "content", "call_id", "mode", "x"), ("ping", "message", "stop"))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80) | json_texts | mutated(COMMANDS))
def test_no_line_raises_and_each_bad_one_has_one_answer(junk: bytes) -> None:
    """Whatever a host writes, the ping after it is understood and every line is answered at most once."""
    framer, side = Framer(200), codec.agent()
    stream = junk + b'\n{"type":"ping"}\n'
    requests = [side.receive(line, VIEW) for line in framer.feed(stream)]
    last = requests[-1]
    assert isinstance(last, Request)
    assert last.command == commands.Ping()
    for request in requests:
        if request is None:
            continue
        assert (request.command is None) == (request.refusal is not None)
        if request.refusal is not None:
            out = bytearray()
            side.outcome(request, Outcome(request.refusal), out)
            (line,) = split(bytes(out))
            told = EVENTS.decode(line)
            assert isinstance(told, wire.Error)
            assert (told.msg_id, told.error.code, told.error.retryable) == (None, "protocol_error", False)
            assert len(told.error.message) < 450


sendable = st.one_of(
    st.builds(commands.Prompt, texts, texts, st.just([]), st.lists(texts, max_size=2)),
    st.just(commands.Stop()),
    st.builds(commands.InitHistory, texts),
    st.builds(commands.SetMode, st.sampled_from(bus.MODES)),
    st.builds(
        commands.SetConfig,
        st.just(msgspec.UNSET) | texts,
        st.just(msgspec.UNSET) | st.sampled_from(("supported", "unsupported", "unknown")),
        st.just(msgspec.UNSET) | texts,
        st.just(msgspec.UNSET) | st.integers(0, 2**32 - 1),
        st.just(msgspec.UNSET) | texts,
        st.just(msgspec.UNSET) | texts,
    ),
    st.builds(
        commands.AddMcpServer,
        texts, texts, texts, st.lists(texts, max_size=2), st.dictionaries(texts, texts, max_size=2), texts,
        st.dictionaries(texts, texts, max_size=2),
    ),
    st.just(commands.Ping()),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(sendable, max_size=6))
def test_an_agent_reads_what_a_host_sends(sent: list[commands.Command]) -> None:
    host, out = codec.host(), bytearray()
    assert [host.send(command, out) for command in sent] == list(range(1, len(sent) + 1))
    side, framer = codec.agent(), Framer(codec.max_line)
    requests = [side.receive(line, VIEW) for line in framer.feed(bytes(out))]
    assert [request.command if request else None for request in requests] == sent


# --- lines of an agent ---------------------------------------------------------------------------------------

AGENT_LINES = tuple(
    json.dumps(line, ensure_ascii=False).encode()
    for msg_id in ("m1", "m2")
    for line in (
        {"type": "stream_start", "msg_id": msg_id},
        {"type": "text_delta", "text": "x", "msg_id": msg_id},
        {"type": "thinking", "text": "x"},
        {"type": "tool_request", "msg_id": msg_id, "call_id": "c1", "tool": {"name": "A", "args": {"cmd": "x"}}},
        {"type": "tool_request", "msg_id": msg_id, "call_id": "c2", "tool": {"name": "B", "category": "odd"}},
        {"type": "tool_running", "msg_id": msg_id, "call_id": "c1", "tool_name": "A"},
        {"type": "tool_running", "msg_id": None, "call_id": "c3"},
        {"type": "tool_result", "msg_id": msg_id, "call_id": "c1", "tool_name": "A", "output": "x"},
        {"type": "tool_cancelled", "msg_id": msg_id, "call_id": "c2", "reason": None},
        {"type": "stream_end", "msg_id": msg_id},
        {"type": "stream_end", "usage": {"input_tokens": 1.5}},
        {"type": "error", "msg_id": msg_id, "error": {"code": "provider_error", "message": "x"}},
        {"type": "error", "error": {"code": "engine_error", "message": "x"}},
        {"type": "info", "msg_id": "", "message": "mode updated: yolo"},
        {"type": "info", "message": "config applied: x"},
        {"type": "info", "msg_id": msg_id, "message": "Stream interrupted, retrying... (1/2)"},
        {"type": "config_changed", "capabilities": {"current_mode": "force"}},
        {"type": "mcp_ready", "name": "x", "tools": []},
        {"type": "pong"},
        {"type": "ready", "version": "0.2.10"},
        {"type": "provider_retry", "x": 1},
    )
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(AGENT_LINES) | mutated(AGENT_LINES) | json_texts | st.binary(max_size=20), max_size=25))
def test_whatever_an_agent_writes_a_host_hears_whole_turns(stream: list[bytes]) -> None:
    """One end for each beginning and nothing of a turn outside it; every call is shown once and closed in its turn."""
    host, framer = codec.host(), Framer(1000)
    heard: list[Heard | Answered] = []
    for line in framer.feed(b"".join(line + b"\n" for line in stream)):
        heard += host.receive(line)
    heard += host.close()
    assert_whole_turns(heard)


def test_a_line_that_could_not_be_framed_is_told() -> None:
    host = codec.host()
    (said,) = host.receive(LineFault("too_long", "line too long: 9 bytes", 9))
    assert said == Heard(bus.Notice("The agent sent a line that cannot be read: line too long: 9 bytes", "warning"))
