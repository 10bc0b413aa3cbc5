"""Logs out of recordings of both directions: what only the host's lines tell, and what no line does."""

from __future__ import annotations

from typing import Any

from wires import WIRES, entries, logs_of, two_ways

from agentwire import events as bus
from agentwire.commands import Approve, Done, Prompt, Steer, Stop
from agentwire.recording import Entry
from agentwire.transcode import Asked, Logged, Settled, broken_laws, read_all, read_log

READY = {"type": "ready", "version": "0.2.0", "session_id": "s", "capabilities": {}}
START = {"type": "stream_start", "msg_id": "m"}
END = {"type": "stream_end", "msg_id": "m", "usage": {"input_tokens": 1, "output_tokens": 2}}


def request(call_id: str) -> dict[str, Any]:
    tool = {"name": "ExecCommand", "category": "exec", "args": {"cmd": "ls"}, "description": "Execute: ls"}
    return {"type": "tool_request", "msg_id": "m", "call_id": call_id, "tool": tool}


def running(call_id: str) -> dict[str, Any]:
    return {"type": "tool_running", "msg_id": "m", "call_id": call_id, "tool_name": "ExecCommand"}


def result(call_id: str) -> dict[str, Any]:
    head = {"type": "tool_result", "msg_id": "m", "call_id": call_id, "tool_name": "ExecCommand"}
    return {**head, "status": "success", "output": "out", "output_type": "text"}


def text(piece: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": piece, "msg_id": "m"}


def only(logs: dict[str, list[Any]]) -> list[bus.Event]:
    (records,) = logs.values()
    assert broken_laws(records) == []
    return [record.event for record in records]


def test_a_host_tells_the_prompt_and_who_was_answered() -> None:
    recorded = two_ways([
        ("agent", READY),
        ("host", {"type": "message", "msg_id": "m", "content": "hello", "files": ["/f"]}),
        ("agent", START), ("agent", request("c1")), ("agent", request("c2")),
        ("host", {"type": "tool_approve", "call_id": "c1", "scope": "always"}),
        ("agent", running("c1")), ("agent", result("c1")),
        ("host", {"type": "tool_deny", "call_id": "c2", "reason": "no"}),
        ("agent", {"type": "tool_cancelled", "msg_id": "m", "call_id": "c2", "reason": "no"}),
        ("agent", text("done")), ("agent", END),
    ])  # fmt: skip
    read = list(read_all(recorded, WIRES["aionrs"]))
    events = [item.record.event for item in read if isinstance(item, Logged)]
    assert bus.TurnStarted("m", "m", [bus.Text("hello"), bus.File("/f")]) in events
    assert bus.ApprovalResolved("c1", "c1", "allowed", "category", "host") in events
    assert bus.ApprovalResolved("c2", "c2", "denied", "", "host", "no") in events
    asked = [item for item in read if isinstance(item, Asked)]
    assert [type(item.command) for item in asked[:2]] == [Prompt, Approve]
    settled = [item for item in read if isinstance(item, Settled)]
    assert settled[0] == Settled(asked[0].command, asked[0].number, Done(), 2)
    resolved = next(
        item for item in read if isinstance(item, Logged) and isinstance(item.record.event, bus.ApprovalResolved)
    )
    assert (resolved.source, resolved.record.time) == (5, 1_764_468_000_005)


def test_steps_that_the_wire_does_not_tell_are_worked_out() -> None:
    """A reply and its calls, all asked at once; then the reply that follows their results."""
    events = only(logs_of(WIRES["aionrs"], two_ways([
        ("agent", READY), ("agent", START), ("agent", text("let ")), ("agent", text("me")),
        ("agent", request("c1")), ("agent", request("c2")), ("agent", running("c1")), ("agent", running("c2")),
        ("agent", result("c2")), ("agent", result("c1")), ("agent", request("c3")), ("agent", running("c3")),
        ("agent", result("c3")), ("agent", text("so")), ("agent", END),
    ])))  # fmt: skip
    kinds = [type(event).__name__ for event in events]
    assert kinds == [
        "SessionOpened", "TurnStarted", "StepStarted", "TextDelta", "TextDelta", "CallReady", "CallReady",
        "StepFinished", "ApprovalRequested", "ApprovalRequested", "ApprovalResolved", "CallRunning",
        "ApprovalResolved", "CallRunning", "CallFinished", "CallFinished",
        "StepStarted", "CallReady", "StepFinished", "ApprovalRequested", "ApprovalResolved", "CallRunning",
        "CallFinished", "StepStarted", "TextDelta", "StepFinished", "TurnFinished",
    ]  # fmt: skip
    steps = [event for event in events if isinstance(event, bus.StepFinished)]
    assert [(step.index, step.text, [call.call_id for call in step.calls]) for step in steps] == [
        (0, "let me", ["c1", "c2"]), (1, "", ["c3"]), (2, "so", []),
    ]  # fmt: skip
    assert events[-1].steps == 3  # type: ignore[union-attr]


def test_what_is_open_when_the_recording_ends_is_closed() -> None:
    events = only(logs_of(WIRES["aionrs"], two_ways([("agent", READY), ("agent", START), ("agent", request("c1"))])))
    assert events[-3:-1] == [
        bus.ApprovalResolved("c1", "c1", "cancelled", by="crash"),
        bus.CallCancelled("c1", "crashed", "", "ExecCommand"),
    ]
    end = events[-1]
    assert isinstance(end, bus.TurnFinished)
    assert end.outcome == "failed"


def test_a_stop_of_the_host_makes_the_end_a_cancelled_one() -> None:
    recorded = two_ways([("agent", READY), ("agent", START), ("host", {"type": "stop"}), ("agent", END)])
    assert only(logs_of(WIRES["aionrs"], recorded))[-1].outcome == "cancelled"  # type: ignore[union-attr]
    without = [entry for entry in recorded if entry.who == "agent"]
    assert only(logs_of(WIRES["aionrs"], without))[-1].outcome == "completed"  # type: ignore[union-attr]


# --- wires with ids ------------------------------------------------------------------------------------------


def rpc(method: str, params: Any, asked: Any = None) -> dict[str, Any]:
    frame = {"jsonrpc": "2.0", "method": method, "params": params}
    return frame if asked is None else {**frame, "id": asked}


def answer(asked: Any, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": asked, "result": value}


def item(event: dict[str, Any]) -> dict[str, Any]:
    return rpc(f"item/{event['type']}", {"sessionId": "S", "turnId": "T", "event": event})


JAN = [
    ("host", rpc("initialize", {"protocolVersion": 1, "clientInfo": {"name": "h", "version": "1"}}, "hello")),
    ("agent", answer("hello", {"protocolVersion": 1})),
    ("host", rpc("initialized", {})),
    ("host", rpc("session/start", {"cwd": "/p"}, 1)),
    ("agent", answer(1, {"tools": ["read"], "toolSpecs": [], "sessionId": "S", "model": "m"})),
    ("host", rpc("turn/start", {"sessionId": "S", "input": "look"}, 2)),
    ("agent", answer(2, {"turnId": "T"})),
    ("agent", item({"type": "step", "index": 1, "max": 0})),
    ("host", rpc("turn/steer", {"sessionId": "S", "input": "and there"}, {"odd": 3})),
    ("agent", answer({"odd": 3}, {})),
    ("agent", item({"type": "token", "text": "ok"})),
    ("agent", item({"type": "done", "stop_reason": "stop", "usage": None})),
    ("agent", rpc("turn/completed", {"sessionId": "S", "turnId": "T", "stopReason": "completed", "error": None})),
]


def test_answers_belong_to_requests_whatever_ids_the_host_chose() -> None:
    read = list(read_all(two_ways(JAN), WIRES["jan"]))
    logs: dict[str, list[Any]] = {}
    for found in read:
        if isinstance(found, Logged):
            logs.setdefault(found.session, []).append(found.record)
    events = only(logs)
    assert list(logs) == ["S"]
    assert events[0] == bus.SessionOpened("S", workspace="/p", model="m")
    assert events[1] == bus.TurnStarted("T", "T", [bus.Text("look")])
    assert bus.UserJoined("and there") in events
    assert [type(found.command).__name__ for found in read if isinstance(found, Settled)] == [
        "Ping", "OpenSession", "Prompt", "Steer",
    ]  # fmt: skip
    assert Steer in [type(found.command) for found in read if isinstance(found, Asked)]


def test_chats_side_by_side_are_told_apart() -> None:
    def event(chat: Any, name: str, **fields: Any) -> dict[str, Any]:
        return {"id": chat, "type": "event", "event": name, **fields}

    def ended(chat: Any, session: str) -> dict[str, Any]:
        told = {"response": "x", "session_id": session, "trace_id": f"t{chat}", "warnings": []}
        return {"id": chat, "type": "result", "result": told}

    agent = [
        event(1, "run_start", user_input="one", trace_id="t1"),
        event("1", "run_start", user_input="two", trace_id="t2"),
        event(1, "llm_start", step=0), event("1", "llm_start", step=0), event("1", "llm_chunk", step=0, delta="b"),
        event(1, "llm_chunk", step=0, delta="a"), ended(1, "A"), ended("1", "B"),
    ]  # fmt: skip
    host = [
        {"id": 1, "method": "chat", "params": {"session_id": "A", "input": "one"}},
        {"id": "1", "method": "chat", "params": {"session_id": "B", "input": "two"}},
    ]
    told = two_ways([*(("host", line) for line in host), *(("agent", line) for line in agent)])
    for recorded, names in ((told, ["A", "B"]), ([entry for entry in told if entry.who == "agent"], ["", "t2"])):
        logs = logs_of(WIRES["levpro"], recorded)
        assert list(logs) == names
        for records, text_ in zip(logs.values(), "ab", strict=True):
            assert broken_laws(records) == []
            assert bus.TextDelta(text_) in [record.event for record in records]


def test_a_request_that_is_refused_is_told_with_the_reason() -> None:
    recorded = two_ways([("agent", READY), ("agent", START), ("host", b"{"), ("host", {"type": "message"})])
    asked = [found for found in read_all(recorded, WIRES["aionrs"]) if isinstance(found, Asked)]
    assert [(found.command, found.refusal is not None) for found in asked] == [(None, True), (None, True)]


def test_a_line_may_come_in_pieces_and_without_its_end() -> None:
    whole = b'{"type":"ready","capabilities":{}}\r\n{"type":"stream_start","msg_id":"m"}'
    pieces = [Entry(n, "agent", whole[n : n + 7].decode()) for n in range(0, len(whole), 7)]
    assert [type(logged.record.event) for logged in read_log(pieces, WIRES["aionrs"])] == [
        bus.SessionOpened, bus.TurnStarted, bus.TurnFinished,
    ]  # fmt: skip


def test_times_are_those_of_the_entries() -> None:
    plain = list(read_log(entries(b'{"type":"ready","capabilities":{}}\n'), WIRES["aionrs"]))
    assert plain[0].record.time == 0
    late = [Entry(2_500_000, "agent", '{"type":"ready","capabilities":{}}\n')]
    assert next(read_log(late, WIRES["aionrs"], started=1000)).record.time == 3500


def test_stop_names_are_commands_too() -> None:
    recorded = two_ways([("agent", READY), ("host", {"type": "stop"})])
    assert [found.command for found in read_all(recorded, WIRES["aionrs"]) if isinstance(found, Asked)] == [Stop()]
