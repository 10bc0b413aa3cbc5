"""Every rule of every wire can be broken, and the checker says which and where it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wires import WIRES

Line = tuple[str, Any]


def note(method: str, **params: Any) -> Line:
    return "agent", {"jsonrpc": "2.0", "method": method, "params": params}


def told(kind: str, **fields: Any) -> Line:
    return "agent", {"type": kind, **fields}


def asks(**fields: Any) -> Line:
    return "host", fields


def item(tag: str, turn: str = "T", **fields: Any) -> Line:
    return note(f"item/{tag}", sessionId="S", turnId=turn, event={"type": tag, **fields})


def completed(reason: str = "completed", error: Any = None) -> Line:
    return note("turn/completed", sessionId="S", turnId="T", stopReason=reason, error=error)


def event(name: str, chat: Any = 1, **fields: Any) -> Line:
    return "agent", {"id": chat, "type": "event", "event": name, **fields}


CAPABILITIES = {
    "tool_approval": True, "image_input": "unknown", "thinking": False, "effort": False, "effort_levels": [],
    "modes": ["default"], "current_mode": "default", "mcp": False,
}  # fmt: skip
READY = told("ready", version="0.2.0", capabilities=CAPABILITIES)
START = told("stream_start", msg_id="m")
END = told("stream_end", msg_id="m", usage={"input_tokens": 0, "output_tokens": 0})
TOOL = {"name": "Read", "category": "info", "args": {}, "description": ""}
REQUEST = told("tool_request", msg_id="m", call_id="c", tool=TOOL)
RUNNING = told("tool_running", msg_id="m", call_id="c", tool_name="Read")
CANCELLED = told("tool_cancelled", msg_id="m", call_id="c", reason="")
MESSAGE = asks(type="message", msg_id="m", content="hi")

RUN = note("RunBegin", user_input="hi")
TURN = note("TurnBegin", turn=0)
CALLS = [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]
STEP = note("StepEnd", content="", tool_calls=[], reasoning_content="", usage=None)
CALLING = note("StepEnd", content="", tool_calls=CALLS, reasoning_content="", usage=None)
BEGIN = note("ToolCallBegin", tool_call_id="c", name="t", arguments="{}")
RESULT = note("ToolResult", tool_call_id="c", name="t", content="", ok=True)
TURN_END = note("TurnEnd", turn=0, stopped=True)
V4_STEP = note("TurnResult", content="", tool_calls=[], reasoning_content="", usage=None)
V4_END = note("TurnEnd", turn=0, stopped=True, stop_reason="no_tool_calls")

STEP_1 = item("step", index=1, max=0)
CALL = item("tool_call", id="c", name="t", args={})
CALL_RESULT = item("tool_result", id="c", content="", is_error=False)
DONE = item("done", stop_reason="stop", usage=None)
ASKED = item(
    "permission_request", request_id="p", tool_name="t", capability="exec", path=None, prompt_kind="exec",
    offers_always=True,
)  # fmt: skip
HELLO = [
    asks(jsonrpc="2.0", id=1, method="initialize", params={"protocolVersion": 1}),
    ("agent", {"jsonrpc": "2.0", "id": 1, "result": {}}),
    asks(jsonrpc="2.0", method="initialized", params={}),
]

INIT = told("init", protocol_version=1, session_id="s", model="m")
USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
OK = told("result", protocol_version=1, is_error=False, result="", stop_reason="stop", usage=USAGE)
STREAM_DONE = told("done", stop_reason="stop", usage=None)

RUN_START = event("run_start", user_input="", trace_id="t")
CHAT = {"response": "", "session_id": "s", "trace_id": "t", "warnings": []}
ANSWER = ("agent", {"id": 1, "type": "result", "result": CHAT})

BROKEN: dict[str, tuple[str, list[Line], str, str]] = {
    # name: wire, lines of which the last breaks a rule, its section, a part of what is said
    "aionrs not JSON": ("aionrs", [("agent", b"{")], "1", "not JSON"),
    "aionrs wrong shape": ("aionrs", [READY, told("stream_start", msg_id=1)], "1", "msg_id"),
    "aionrs unknown type": ("aionrs", [READY, told("sparkle")], "1", "unknown type"),
    "aionrs first line": ("aionrs", [START], "1.1", "neither ready"),
    "aionrs two readys": ("aionrs", [READY, READY], "1.1", "second ready"),
    "aionrs turn in turn": ("aionrs", [READY, START, told("stream_start", msg_id="n")], "3.2", "inside turn"),
    "aionrs turn of nobody": ("aionrs", [asks(type="ping"), READY, START], "1.2", "no message"),
    "aionrs outside": ("aionrs", [READY, told("text_delta", text="x", msg_id="m")], "3.2", "no turn"),
    "aionrs call again": ("aionrs", [READY, START, REQUEST, REQUEST], "3.2", "which is asked"),
    "aionrs call id again": ("aionrs", [READY, START, REQUEST, CANCELLED, REQUEST], "1.5", "used before"),
    "aionrs result first": ("aionrs", [READY, START, REQUEST, RUNNING, CANCELLED, CANCELLED], "3.2", "is closed"),
    "aionrs open calls": ("aionrs", [READY, START, REQUEST, END], "3.2", "calls open: c"),
    "aionrs unsorted": (
        "aionrs",
        [READY, START, told("tool_request", msg_id="m", call_id="c", tool={**TOOL, "args": {"b": 1, "a": 2}})],
        "1.5", "sorted keys",
    ),
    "aionrs code": (
        "aionrs", [READY, told("error", msg_id=None, error={"code": "x", "message": "", "retryable": False})],
        "1.10", "unknown error code",
    ),
    "aionrs info": ("aionrs", [READY, told("info", msg_id="z", message="")], "1.11", "not under way"),
    "aionrs pong": ("aionrs", [MESSAGE, READY, told("pong")], "1.14", "no ping"),
    "aionrs busy": ("aionrs", [READY, MESSAGE, START, asks(type="message", msg_id="n", content="")], "2.1", "refused"),
    "aionrs nobody asked": ("aionrs", [READY, asks(type="tool_approve", call_id="z")], "2.3", "never asked"),
    "aionrs late history": ("aionrs", [READY, MESSAGE, asks(type="init_history", text="")], "2.5", "after the first"),
    "aionrs bad command": ("aionrs", [READY, asks(type="set_mode", mode="x")], "2", "mode"),
    "aionrs no end": ("aionrs", [READY, START, ("close", None)], "3.2", "no end"),
    "pagent envelope": ("pagent", [("agent", {"method": "RunBegin"})], "1", "jsonrpc"),
    "pagent unknown": ("pagent", [note("Sparkle")], "6", "unknown method"),
    "pagent missing": ("pagent", [note("RunBegin")], "2", "without user_input"),
    "pagent type": ("pagent", [note("TurnBegin", turn="0")], "2", "turn"),
    "pagent outside": ("pagent", [TURN], "3", "outside of a run"),
    "pagent turn number": ("pagent", [RUN, note("TurnBegin", turn=1)], "3", "where turn 0"),
    "pagent delta outside": ("pagent", [RUN, note("TextDelta", text="x")], "3", "outside of a turn"),
    "pagent empty delta": ("pagent", [RUN, TURN, note("TextDelta", text="")], "2", "empty"),
    "pagent other text": ("pagent", [RUN, TURN, note("TextDelta", text="x"), STEP], "3", "its pieces"),
    "pagent call before reply": ("pagent", [RUN, TURN, BEGIN], "3", "before the reply"),
    "pagent call not listed": ("pagent", [RUN, TURN, STEP, BEGIN], "3", "not the next"),
    "pagent result of none": ("pagent", [RUN, TURN, CALLING, RESULT], "3", "not open"),
    "pagent no result": (
        "pagent", [RUN, TURN, CALLING, BEGIN, note("TurnEnd", turn=0, stopped=False)],
        "3", "no result",
    ),
    "pagent stopped": ("pagent", [RUN, TURN, CALLING, BEGIN, RESULT, TURN_END], "3", "a tool ran"),
    "pagent run end": (
        "pagent", [RUN, TURN, STEP, TURN_END, note("RunEnd", content="y", tool_calls=[], reasoning_content="")],
        "3", "does not repeat",
    ),
    "pagent error": ("pagent", [RUN, note("Error", message="", where="turn")], "5", "no errors"),
    "pagent command": ("pagent", [asks(cmd="fly")], "8", "fly"),
    "v4 turn end": (
        "pagent-v4", [RUN, TURN, V4_STEP, note("TurnEnd", turn=0, stopped=True, stop_reason="continuing")],
        "8", "stopped",
    ),
    "v4 run end": (
        "pagent-v4", [RUN, TURN, V4_STEP, V4_END, note("RunEnd", turn=0, stop_reason="max_turns")],
        "8", "its last turn",
    ),
    "v4 run in run": ("pagent-v4", [RUN, RUN], "8", "before the last one"),
    "v4 question": (
        "pagent-v4", [RUN, TURN, note("PermitRequest", tool_call_id="c", name="t", summary="")],
        "8", "begin",
    ),
    "v4 busy": ("pagent-v4", [RUN, asks(cmd="user", text="x")], "8", "ignored"),
    "v4 nobody asked": ("pagent-v4", [RUN, asks(cmd="permit", tool_call_id="c")], "8", "nobody asked"),
    "jan frame": ("jan", [("agent", {"id": 1})], "1.2", "JSON-RPC"),
    "jan answer": ("jan", [("agent", {"jsonrpc": "2.0", "id": 1, "result": 1, "error": {}})], "1.2", "either"),
    "jan not asked": ("jan", [*HELLO, ("agent", {"jsonrpc": "2.0", "id": 9, "result": {}})], "1.2", "not asked"),
    "jan error": ("jan", [("agent", {"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}})], "1.5", "integer code"),
    "jan tag": (
        "jan", [note("item/token", sessionId="S", turnId="T", event={"type": "step", "index": 1, "max": 0})],
        "1.7", "holds",
    ),
    "jan item": ("jan", [item("token", text=1)], "2.1", "text"),
    "jan step": ("jan", [item("step", index=0, max=0)], "2.1", "where step 1"),
    "jan other turn": ("jan", [STEP_1, item("step", "U", index=1, max=0)], "1.1", "while one runs"),
    "jan after end": ("jan", [STEP_1, DONE, completed(), STEP_1], "2.2", "after the end"),
    "jan after done": ("jan", [STEP_1, DONE, item("token", text="x")], "2.2", "after done"),
    "jan result of none": ("jan", [STEP_1, CALL_RESULT], "2.2", "not open"),
    "jan late call": ("jan", [STEP_1, CALL, CALL_RESULT, CALL], "2.2", "after the first result"),
    "jan asked twice": ("jan", [STEP_1, ASKED, ASKED], "2.1", "asked twice"),
    "jan withdrawn": ("jan", [STEP_1, item("tool_request_cancelled", request_id="h", reason="x")], "3.5", "not open"),
    "jan nested": (
        "jan", [STEP_1, item("subagent", run_id="r", name="n", event=STREAM_DONE[1])],
        "2.3", "subagent_end",
    ),
    "jan stop reason": ("jan", [STEP_1, completed("tired")], "1.7", "unknown stopReason"),
    "jan no outcome": ("jan", [STEP_1, completed()], "1.7", "neither"),
    "jan completed error": ("jan", [STEP_1, DONE, completed(error="x")], "1.7", "exactly when"),
    "jan handshake": ("jan", [asks(jsonrpc="2.0", id=1, method="session/list")], "1.3", "before the handshake"),
    "jan method": ("jan", [*HELLO, asks(jsonrpc="2.0", id=2, method="fly")], "1.6", "unknown method"),
    "jan busy": ("jan", [*HELLO, STEP_1, asks(jsonrpc="2.0", id=2, method="turn/start")], "1.6", "refused"),
    "jan pending": (
        "jan", [*HELLO, asks(jsonrpc="2.0", id=2, method="permission/respond", params={"requestId": "p"})],
        "1.6", "pending",
    ),
    "jan no end": ("jan", [STEP_1, ("close", None)], "1.7", "no end"),
    "jan no answer": (
        "jan", [*HELLO, asks(jsonrpc="2.0", id=2, method="session/list"), ("close", None)],
        "1.2", "without",
    ),
    "stream first": ("jan-stream", [told("step", index=1, max=0)], "4.1", "not init"),
    "stream two inits": ("jan-stream", [INIT, INIT], "4.1", "second init"),
    "stream shape": ("jan-stream", [told("init", session_id="s")], "4.1", "protocol_version"),
    "stream after": ("jan-stream", [INIT, STREAM_DONE, OK, STREAM_DONE], "4.1", "after the result"),
    "stream decision": (
        "jan-stream", [INIT, told("permission_decision", request_id="p", decision="deny")],
        "4.1", "not open",
    ),
    "stream result": ("jan-stream", [INIT, OK], "4.1", "neither done"),
    "stream is_error": (
        "jan-stream", [told("result", protocol_version=1, is_error=True, stop_reason="error", usage=USAGE)],
        "4.1", "exactly",
    ),
    "stream no result": ("jan-stream", [INIT, ("close", None)], "4.1", "no result"),
    "stream input": ("jan-stream", [INIT, asks(type="user")], "4.2", "'text' or 'content'"),
    "stream pending": (
        "jan-stream", [INIT, asks(type="permission", request_id="p", decision="deny")],
        "4.2", "not pending",
    ),
    "stream abort": ("jan-stream", [INIT, asks(type="abort"), asks(type="user", text="x")], "4.2", "after abort"),
    "levpro id": ("levpro", [("agent", {"type": "event", "event": "final", "id": True})], "3", "without the id"),
    "levpro code": ("levpro", [("agent", {"id": 1, "type": "error", "code": "x", "message": ""})], "6", "unknown code"),
    "levpro place": ("levpro", [event("final", step=0, response=""), RUN_START], "5", "out of its place"),
    "levpro twice": ("levpro", [RUN_START, RUN_START], "5", "out of its place"),
    "levpro step": ("levpro", [event("llm_start", step=1), event("llm_start", step=0)], "5", "after step 1"),
    "levpro part": ("levpro", [event("llm_done", step=0), event("llm_chunk", step=0, delta="")], "5", "in step 0"),
    "levpro tools": (
        "levpro", [event("tool_start", step=0, tool="a", args={}), event("tool_start", step=0, tool="b", args={})],
        "5", "before 'a'",
    ),
    "levpro field": ("levpro", [event("llm_start", step="0")], "5", "step"),
    "levpro after": ("levpro", [RUN_START, ANSWER, event("final", step=0, response="")], "3", "after the end"),
    "levpro second": ("levpro", [RUN_START, ANSWER, ANSWER], "3", "a second result"),
    "levpro trace": ("levpro", [event("run_start", user_input="", trace_id="u"), ANSWER], "5", "trace_id"),
    "levpro not asked": ("levpro", [asks(id=2, method="ping"), RUN_START], "5", "not asked for"),
    "levpro in use": ("levpro", [asks(id=1, method="chat"), asks(id=1, method="ping")], "2", "in use"),
    "levpro method": ("levpro", [asks(id=1, method="fly")], "4", "unknown method"),
    "levpro params": ("levpro", [asks(id=1, method="chat", params={"input": 1})], "4", "input"),
    "levpro shutdown": ("levpro", [asks(id=1, method="shutdown"), asks(id=2, method="ping")], "9", "after shutdown"),
    "levpro no end": ("levpro", [asks(id=1, method="chat"), ("close", None)], "3", "without a result"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_that_is_broken_is_said(name: str) -> None:
    wire, lines, section, part = BROKEN[name]
    made = WIRES[wire].checker
    assert made is not None
    checker = made()
    found = []
    for who, line in lines:
        assert found == [], "only the last line is wrong"
        data = line if isinstance(line, bytes) else json.dumps(line, separators=(",", ":")).encode()
        found = checker.close() if who == "close" else checker.agent(data) if who == "agent" else checker.host(data)
    assert [violation.section for violation in found if part in violation.message] == [section], found
