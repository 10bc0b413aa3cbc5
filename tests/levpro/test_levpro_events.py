"""What a chat looks like on the wire, to the key: scripted records in, lines out."""

from __future__ import annotations

from typing import Any

import pytest
from levprolines import objects, render, turn
from msgspec import Raw

from agentwire import events as bus
from agentwire.codec import Record
from agentwire_levpro import codec

START = bus.TurnStarted("deadbeef", "c1", [bus.Text("2+2?")])


def event(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "event", "event": name, **fields}


def result(response: str, *warnings: str) -> dict[str, Any]:
    told = {"response": response, "session_id": "abc123", "trace_id": "deadbeef", "warnings": list(warnings)}
    return {"id": "c1", "type": "result", "result": told}


def lines(*events: bus.Event) -> list[dict[str, Any]]:
    return objects(render(turn(*events), "abc123"))


def test_scenario_8_a_chat_of_one_step() -> None:
    stream = render(
        turn(
            START, bus.StepStarted(0), bus.ReasoningDelta("hm"), bus.TextDelta("4"),
            bus.StepFinished(0, "4", "hm"), bus.TurnFinished("completed", "4", steps=1),
        ),
        "abc123",
    )  # fmt: skip
    assert stream.decode().splitlines() == [
        '{"id":"c1","type":"event","event":"run_start","user_input":"2+2?","trace_id":"deadbeef"}',
        '{"id":"c1","type":"event","event":"llm_start","step":0}',
        '{"id":"c1","type":"event","event":"llm_chunk","step":0,"delta":"4"}',
        '{"id":"c1","type":"event","event":"llm_done","step":0}',
        '{"id":"c1","type":"event","event":"final","step":0,"response":"4"}',
        '{"id":"c1","type":"result","result":{"response":"4","session_id":"abc123","trace_id":"deadbeef",'
        '"warnings":[]}}',
    ]


def tool_step(*end: bus.Event) -> list[dict[str, Any]]:
    said = lines(
        START,
        bus.StepStarted(0),
        bus.CallStarted("x", "get_weather"),
        bus.CallArgumentsDelta("x", '{"city"'),
        bus.CallReady("x", "get_weather", '{"city": "Xiamen"}', Raw(b'{"city":"Xiamen"}'), "mcp"),
        bus.StepFinished(0, "", "", [bus.CallRef("x", "get_weather", '{"city": "Xiamen"}')]),
        *end,
        bus.StepStarted(1),
        bus.StepFinished(1),
        bus.TurnFinished("completed", "done", steps=2),
    )
    return said[3:-4]


def test_scenario_9_a_tool() -> None:
    assert tool_step(
        bus.CallRunning("x", "get_weather"),
        bus.CallOutputDelta("x", "su"),
        bus.CallFinished("x", "get_weather", "ok", "sunny", duration_ms=12),
    ) == [
        event("tool_start", step=0, tool="get_weather", args={"city": "Xiamen"}),
        event("tool_done", step=0, tool="get_weather", status="ok", preview="sunny", retryable=False, ms=12),
    ]


def test_scenario_10_a_tool_that_was_not_approved() -> None:
    assert tool_step(bus.CallCancelled("x", "refused", "it needs an approval", "get_weather")) == [
        event("tool_start", step=0, tool="get_weather", args={"city": "Xiamen"}),
        event(
            "tool_done", step=0, tool="get_weather", status="denied", preview="it needs an approval", retryable=False,
            ms=0,
        ),
    ]  # fmt: skip


def test_a_preview_has_at_most_500_characters() -> None:
    long = "🙂" * 300 + "x" * 300
    done = tool_step(bus.CallRunning("x"), bus.CallFinished("x", "get_weather", "error", long, retryable=True))[1]
    assert done["preview"] == long[:500]
    assert (done["status"], done["retryable"], done["ms"]) == ("error", True, 0)


def test_a_tool_that_a_cancel_ended_and_one_that_never_began() -> None:
    said = lines(
        START,
        bus.StepStarted(0),
        bus.StepFinished(0),
        bus.CallReady("x", "t", "{}"),
        bus.CallReady("y", "t", "[1]"),
        bus.CallRunning("x", "t"),
        bus.CallCancelled("x", "stopped", "Cancelled by user"),
        bus.CallCancelled("y", "stopped", "Cancelled by user"),
        bus.TurnFinished("cancelled", "half"),
    )
    assert said[3:] == [
        event("tool_start", step=0, tool="t", args={}),
        event("tool_done", step=0, tool="t", status="error", preview="Cancelled by user", retryable=False, ms=0),
        {"id": "c1", "type": "error", "code": "cancelled", "message": "The chat was cancelled."},
    ]


def test_scenario_11_a_badly_written_call() -> None:
    """It is not shown; the engine's warning about it is in the result."""
    said = lines(
        START,
        bus.StepStarted(0),
        bus.CallReady("x", "", "{", barred=True),
        bus.StepFinished(0),
        bus.Notice("put back", "warning"),
        bus.CallFinished("x", "", "error", "malformed"),
        bus.StepStarted(1),
        bus.StepFinished(1),
        bus.TurnFinished("completed", "ok", steps=2),
    )
    assert [line.get("event") for line in said] == [
        "run_start", "llm_start", "llm_done", "llm_start", "llm_done", "final", None,
    ]  # fmt: skip
    assert said[-1] == result("ok", "put back")


@pytest.mark.parametrize(
    ("limit", "reason"), [("bad_calls", "max_parse_errors"), ("steps", "max_steps"), ("", "limit")]
)
def test_a_limit_is_an_abort_a_result_and_a_warning(limit: Any, reason: str) -> None:
    said = lines(START, bus.StepStarted(2), bus.StepFinished(2), bus.TurnFinished("limit", "so far", limit=limit))
    assert said[3:] == [event("loop_abort", step=2, reason=reason), result("so far", f"loop_abort: {reason}")]


def test_a_failure_is_an_abort_and_an_error() -> None:
    """Also in the middle of a step, whose model call is over then."""
    error = bus.ErrorInfo("provider_error", "out of order", retryable=True)
    said = lines(
        START,
        bus.StepStarted(0),
        bus.TextDelta("Half"),
        bus.ErrorRaised(error),
        bus.TurnFinished("failed", error=error),
    )
    assert said[3:] == [
        event("llm_done", step=0),
        event("loop_abort", step=0, reason="provider_error"),
        {"id": "c1", "type": "error", "code": "internal_error", "message": "out of order"},
    ]
    said = lines(START, bus.TurnFinished("failed"))
    assert said[1:] == [
        event("loop_abort", step=0, reason="internal_error"),
        {"id": "c1", "type": "error", "code": "internal_error", "message": "The chat failed."},
    ]


def test_warnings() -> None:
    """Of the session's opening and of this chat; those of a chat that had no result are not the next one's."""
    failed = bus.McpServerFailed("s", bus.ErrorInfo("config_error", "gone"))
    events: list[tuple[int, bus.Event]] = [
        (0, bus.SessionOpened("abc123")),
        (0, bus.Notice("history was reset", "warning")),
        (0, bus.Notice("only so", "info")),
        (0, failed),
        (1, START),
        (1, bus.Notice("lost", "warning")),
        (1, bus.TurnFinished("cancelled")),
        (2, START),
        (2, bus.Notice("mine", "warning")),
        (2, bus.Notice("", "info")),
        (2, bus.ErrorRaised(bus.ErrorInfo("tool_error", "it went on"))),
        (2, bus.TurnFinished("completed", "x")),
        (3, START),
        (3, bus.TurnFinished("completed", "y")),
    ]
    records = [Record(n, 0, event, number) for n, (number, event) in enumerate(events, 1)]  # type: ignore[arg-type]
    told = [line["result"] for line in objects(render(records, "abc123")) if line["type"] == "result"]
    assert [result["warnings"] for result in told] == [
        ["history was reset", "MCP server 's' failed: gone", "mine", "it went on"], [],
    ]  # fmt: skip


def test_the_rest_of_a_turn_that_a_killed_process_left_open_is_nobodys() -> None:
    """Taking up a session closes it; the request that began it was another process's."""
    records = turn(bus.CallCancelled("x", "crashed"), bus.TurnFinished("failed"), number=3)
    assert render([*records, Record(9, 0, bus.SessionOpened("abc123", "resumed"))]) == b""


def test_what_comes_from_this_wire_is_written_as_it_came() -> None:
    memory = b'{"id":"c1","type":"event","event":"memory_start"}'
    for raw, expected in (
        (memory, memory + b"\n"),
        (b'{"type":"progress","n":1}', b'{"type":"progress","n":1}\n'),
        (b'{"id":"c1","type":"result","result":{}}', b""),
        (b'{"id":"c1","type":"event","event":"final","step":0}', b""),
        (b"[1]", b""),
        (b"{", b""),
    ):
        name = "memory_start" if raw == memory else "progress"
        assert render(turn(bus.Unknown("levpro", name, Raw(raw)))) == expected
    assert render(turn(bus.Unknown("jan", "memory_start", Raw(memory)))) == b""


def test_a_side_remembers_nothing_of_sessions_at_rest() -> None:
    side, out = codec.agent(), bytearray()
    for n in range(1000):
        side.render(f"s{n}", turn(bus.TurnStarted("t", n), bus.TurnFinished("completed")), out)
    assert side._sessions == {}  # type: ignore[attr-defined]
