"""Laws of stream-json over whole logs and over anything that may arrive: grammar, schema, fidelity, robustness."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jancommand import PUBLISHED, PUBLISHED_INPUT
from strategies import complete_log, json_values, logs, texts
from support.noise import json_lines, mutated

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.contract import Directive, Request
from agentwire.codec.framing import Framer, LineFault
from agentwire.codec.heard import Answered, Heard
from agentwire.commands import Done, Outcome, Refusal, SessionState
from agentwire.log.record import Record
from agentwire_jan.stream import codec_stream as codec
from agentwire_jan.stream_agent import JanStreamAgent


def well_begun(records: list[Record]) -> list[Record]:
    """The log without what subagents say before there is a step that could have started one."""
    steps = (at for at, record in enumerate(records) if isinstance(record.event, bus.StepStarted))
    first = next(steps, len(records))
    return [record for at, record in enumerate(records) if at > first or not record.origin]


all_logs = logs(max_turns=2).map(well_begun)


class AnyView:
    """A view for a wire that must not look."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


VIEW: Any = AnyView()


def opened(records: Sequence[Record], side: JanStreamAgent | None = None) -> tuple[JanStreamAgent, bytearray]:
    """A side whose session is open, and what it wrote so far."""
    side = side or JanStreamAgent("go")
    event = records[0].event
    assert isinstance(event, bus.SessionOpened)
    out = bytearray()
    state = SessionState(event.id, event.model, workspace=event.workspace)
    side.outcome(side.opening()[0], Outcome(Done(state)), out)
    return side, out


def render(records: Sequence[Record]) -> tuple[bytes, Directive | None]:
    side, out = opened(records)
    directive = side.render("s", records, out)
    return bytes(out), directive


def split(stream: bytes) -> list[bytes]:
    assert stream.endswith(b"\n")
    return stream.split(b"\n")[:-1]


def first_run(records: Sequence[Record]) -> Sequence[Record]:
    ends = [
        at
        for at, record in enumerate(records)
        if isinstance(record.event, bus.TurnFinished) and not record.origin
    ]  # fmt: skip
    return records[: ends[0] + 1] if ends else records


# --- whole logs ----------------------------------------------------------------------------------------------


def check_law(records: Sequence[Record]) -> None:
    stream, _ = render(records)
    host = codec.host()
    heard = [said for line in split(stream) for said in host.receive(line)]
    event = records[0].event
    assert isinstance(event, bus.SessionOpened)
    assert heard == codec.fidelity().surviving(records, event.id)


@settings(max_examples=48, deadline=None)
@given(all_logs)
def test_what_arrives_is_the_log_less_what_is_declared(records: list[Record]) -> None:
    check_law(records)


def test_what_arrives_of_every_event() -> None:
    check_law(complete_log())


def test_the_table_is_complete() -> None:
    assert codec.fidelity().problems() == []


@settings(max_examples=32, deadline=None)
@given(all_logs)
def test_the_grammar_of_a_run(records: list[Record]) -> None:
    """First line, events, last line; every line as it was published; nothing after the run's end."""
    stream, directive = render(records)
    lines = [json.loads(line) for line in split(stream)]
    for line in lines:
        if not line["type"].startswith("input_accepted"):
            PUBLISHED.validate(line)
    run = first_run(records)
    assert lines[0]["type"] == "init"
    assert [line["type"] for line in lines].count("result") == (lines[-1]["type"] == "result")
    last = run[-1].event
    if not isinstance(last, bus.TurnFinished):
        assert directive is None
        return
    assert directive is not None
    assert directive.consumed == len(run)
    result = lines[-1]
    assert result["type"] == "result"
    assert lines[-2]["type"] == ("done" if last.outcome in ("completed", "cancelled") else "error")
    assert result["is_error"] is (last.outcome in ("failed", "limit"))
    assert directive.exit_status == {"completed": 0, "cancelled": 0, "failed": 1, "limit": 53}[last.outcome]
    assert result["duration_ms"] == run[-1].time - run[0].time
    assert ("error" in result) is result["is_error"]


@settings(max_examples=16, deadline=None)
@given(all_logs, st.lists(st.integers(0, 60), max_size=6))
def test_batches_do_not_matter(records: list[Record], cuts: list[int]) -> None:
    whole, _ = render(records)
    borders = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    side, out = opened(records)
    for a, b in pairwise(borders):
        side.render("s", records[a:b], out)
    single, ones = opened(records)
    for record in records:
        single.render("s", [record], ones)
    assert bytes(out) == bytes(ones) == whole


@settings(max_examples=12, deadline=None)
@given(all_logs, st.integers(0, 80))
def test_a_side_that_was_fed_goes_on_where_another_would(records: list[Record], at: int) -> None:
    records = list(first_run(records))
    at = min(at, len(records) - 1)
    early, early_out = opened(records)
    early.render("s", records[:at], early_out)
    late, late_out = opened(records)
    init = len(late_out)
    late.feed("s", records[:at])
    late.render("s", records[at:], late_out)
    assert bytes(early_out) + bytes(late_out)[init:] == render(records)[0]


@settings(max_examples=12, deadline=None)
@given(all_logs)
def test_the_other_output_formats_are_the_result_alone(records: list[Record]) -> None:
    stream, _ = render(records)
    last = json.loads(split(stream)[-1])
    reports: list[Any] = []
    for output in ("json", "text"):
        side, out = opened(records, JanStreamAgent("go", output_format=output, report=reports.append))  # type: ignore[arg-type]
        side.render("s", records, out)
        if last["type"] != "result":
            assert (bytes(out), reports) == (b"", [])
        elif output == "json":
            assert json.loads(out) == last
        else:
            said = "" if last["is_error"] else last["result"].rstrip("\n")
            assert out.decode() == (said and said + "\n")
            assert json.loads(msgspec.json.encode(reports[-1])) == last


HALF = "half \udc00 pair"


def test_half_a_surrogate_pair_is_never_written() -> None:
    events: list[bus.Event] = [
        bus.SessionOpened(HALF, model=HALF, workspace=HALF),
        bus.TurnStarted("t"),
        bus.StepStarted(0),
        bus.TextDelta(HALF),
        bus.ReasoningDelta(HALF),
        bus.CallReady("c", HALF, HALF),
        bus.ApprovalRequested(HALF, "c", HALF, command=HALF),
        bus.ApprovalResolved(HALF, "c", "allowed", "tool", HALF),
        bus.CallFinished("c", HALF, "ok", HALF),
        bus.TurnFinished("failed", HALF, error=bus.ErrorInfo("provider_error", HALF)),
    ]
    records = [Record(n + 1, n, event, int(n > 0)) for n, event in enumerate(events)]  # type: ignore[arg-type]
    stream, _ = render(records)
    assert stream.decode().count("half") == stream.decode().count("half \ufffd pair") > 10


# --- lines of a host -----------------------------------------------------------------------------------------

INPUTS = tuple(
    json.dumps(line, ensure_ascii=False).encode()
    for line in (
        {"type": "user", "text": "é你好"},
        {"type": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "type": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}],
        },
        {"type": "permission", "request_id": "perm-1", "decision": "allow_once"},
        {"type": "tool_result", "request_id": "host-1", "content": "ok", "is_error": True, "details": {"a": [1]}},
        {"type": "tool_result", "request_id": "host-1", "content": [{"type": "text", "text": "x"}], "details": None},
        {"type": "abort"},
    )
)


KEYS = ("type", "text", "content", "request_id", "decision", "is_error", "details", "image_url", "url", "x")
WORDS = ("user", "abort", "permission", "tool_result", "allow_once", "text", "image_url", "init", "result", "done")

json_texts = json_lines(KEYS, WORDS)

COMMANDS = (commands.Steer, commands.Approve, commands.Deny, commands.AnswerHostTool, commands.Stop)


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=80) | json_texts | mutated(INPUTS))
def test_no_line_raises_and_the_next_is_read(junk: bytes) -> None:
    """What is no input gets one ``input_error``, which gives it back, and never ends the run."""
    side, _ = opened(complete_log())
    framer = Framer(200)
    requests = [
        side.receive(line, VIEW)
        for line in framer.feed(
            junk.replace(b"\n", b" ") + b'\n{"type":"permission","request_id":"p","decision":"deny"}\n'
        )
    ]
    assert len(requests) == 2
    first, second = requests
    if first is not None and isinstance(first.command, commands.Stop):
        assert second is None
        return
    assert second is not None
    assert second.command == commands.Deny(approval_id="p")
    if first is None:
        return
    out = bytearray()
    if first.refusal is not None:
        assert first.command is None
        assert side.outcome(first, Outcome(first.refusal), out) is None
        [line] = split(bytes(out))
        error = json.loads(line)
        PUBLISHED.validate(error)
        assert error["type"] == "input_error"
        assert (
            junk.replace(b"\n", b" ")
            .removeprefix(b"\xef\xbb\xbf")
            .removesuffix(b"\r")
            .startswith(error["line"].encode())
            or error["line_truncated"]
        )
    else:
        assert isinstance(first.command, COMMANDS)
        msgspec.json.encode(first.command)
        assert side.outcome(first, Outcome(Done()), out) is None
        assert out == b""


@pytest.mark.parametrize("line", INPUTS)
def test_the_inputs_are_as_published(line: bytes) -> None:
    PUBLISHED_INPUT.validate(json.loads(line))
    side, _ = opened(complete_log())
    request = side.receive(line, VIEW)
    assert request is not None
    assert isinstance(request.command, COMMANDS)


# --- lines of an agent ---------------------------------------------------------------------------------------

LINES = tuple(split(render(complete_log())[0]))


@settings(max_examples=48, deadline=None)
@given(st.lists(st.sampled_from(LINES) | mutated(LINES) | json_texts | st.binary(max_size=20), max_size=25))
def test_whatever_an_agent_writes_a_host_hears_at_most_one_whole_run(stream: list[bytes]) -> None:
    host, framer = codec.host(), Framer(1_000_000)
    heard = [
        said
        for line in framer.feed(b"".join(line.replace(b"\n", b" ") + b"\n" for line in stream))
        for said in host.receive(line)
    ]
    heard += host.close()
    state = "before"
    still: set[str] = set()
    for said in heard:
        assert isinstance(said, Heard)
        event = said.event
        msgspec.json.encode(event)
        if isinstance(event, bus.TurnStarted):
            assert state == "before"
            state = "running"
        elif isinstance(event, bus.TURN_EVENTS) and not isinstance(event, bus.ApprovalResolved):
            assert state == "running"
        if isinstance(event, bus.CallReady) and not said.origin:
            still.add(event.call_id)
        elif isinstance(event, bus.CallFinished | bus.CallCancelled) and not said.origin:
            still.discard(event.call_id)
        elif isinstance(event, bus.TurnFinished):
            assert not still
            state = "over"
    assert state in ("before", "over")


@settings(max_examples=24, deadline=None)
@given(json_values, texts)
def test_answers_of_a_host_come_back_as_they_were(value: Any, text: str) -> None:
    """Host side to agent side: every command that the wire carries."""
    details = msgspec.Raw(msgspec.json.encode({"v": value}, order="sorted"))
    host = codec.host()
    for command in (
        commands.Steer(text or "x" if text.strip() else "x"),
        commands.Steer("", parts=[bus.Text("a"), bus.Image("image/png", "iVBORw0KGgo=")]),
        commands.AnswerHostTool("host-1", [bus.Text(text)], is_error=True, details=details),
        commands.AnswerHostTool("host-1", [bus.Text("a"), bus.Image("image/png", "iVBORw0KGgo=")]),
        commands.Stop(),
    ):
        out = bytearray()
        number = host.send(command, out)
        assert isinstance(number, int)
        [line] = split(bytes(out))
        PUBLISHED_INPUT.validate(json.loads(line))
        side, _ = opened(complete_log())
        request = side.receive(line, VIEW)
        assert isinstance(request, Request)
        assert request.command == command
    assert [said.command for said in host.close() if isinstance(said, Answered)] == [1, 2, 3, 4, 5]


def test_a_line_that_could_not_be_framed_is_told() -> None:
    (said,) = codec.host().receive(LineFault("too_long", "line too long: 9 bytes", 9))
    assert said == Heard(bus.Notice("The agent sent a line that cannot be read: line too long: 9 bytes", "warning"))


def test_a_refusal_is_no_outcome_of_the_run() -> None:
    """A question that is not open gets an ``input_error``; the run goes on."""
    side, out = opened(complete_log())
    request = side.receive(INPUTS[3], VIEW)
    assert request is not None
    del out[:]
    assert side.outcome(request, Outcome(Refusal("not_pending", "x")), out) is None
    assert json.loads(out)["message"] == "no permission request 'perm-1' is pending"
