"""Where what a play describes is not enough: whole runs of good peers, and what bad ones do in the like.

Both tables are keyed by wire, role and requirement; the empty wire is every wire.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from described_peer import Deed, Described, write

Key = tuple[str, str, str]

READ: Deed = ("read", None)
END: list[Deed] = [("read all", None), ("exit", 0)]


def run(*deeds: Any, end: list[Deed] = END) -> Callable[[Described], list[Deed]]:
    """A good run: what is not a deed is a line that is written."""
    return lambda peer: [deed if isinstance(deed, tuple) else write(deed) for deed in deeds] + end


def last(line: Any) -> Callable[[Described], list[Deed]]:
    """A line that should not have come, before the end."""
    return lambda peer: peer.with_last(line)


def at(place: int, line: Any) -> Callable[[Described], list[Deed]]:
    """A line that should not have come there."""
    return lambda peer: peer.with_before(place, line)


def status(number: int) -> Callable[[Described], list[Deed]]:
    """Another end."""
    return lambda peer: [(what, number if what == "exit" else value) for what, value in peer.deeds]


def instead(line: Any) -> Callable[[Described], list[Deed]]:
    """Another line where the last one stood."""

    def replaced(peer: Described) -> list[Deed]:
        place = max(n for n, (what, _) in enumerate(peer.deeds) if what == "write")
        return [*peer.deeds[:place], write(line), *peer.deeds[place + 1 :]]

    return replaced


def saying(word: str, other: str) -> Callable[[Described], list[Deed]]:
    """Another word, wherever a line has it as a value."""

    def said(value: Any) -> Any:
        line = base64.b64decode(value).replace(f'"{word}"'.encode(), f'"{other}"'.encode())
        return base64.b64encode(line).decode()

    return lambda peer: [(what, said(value) if what == "write" else value) for what, value in peer.deeds]


def asking_anew(peer: Described) -> list[Deed]:
    """The second question has another id than the first."""
    lines = [base64.b64decode(value) if what == "write" else b"" for what, value in peer.deeds]
    place = max(n for n, line in enumerate(lines) if b"item/permission_request" in line)
    line = lines[place].replace(b'"request"', b'"another"')
    return [*peer.deeds[:place], write(line), *peer.deeds[place + 1 :]]


def unprepared(peer: Described) -> list[Deed]:
    """A host of Jan that begins with its turn."""
    return [write(turn_start), READ, READ, ("exit", 0)]


# --- aionrs ---

ready = {
    "type": "ready", "version": "0.2.0", "capabilities": {
        "tool_approval": True, "image_input": "unknown", "thinking": True, "effort": False, "effort_levels": [],
        "modes": ["default", "auto_edit", "yolo"], "current_mode": "default", "mcp": False,
    },
}  # fmt: skip
text_delta = {"type": "text_delta", "text": "Hello.", "msg_id": "m"}
aionrs = run(
    ready,
    READ,
    {"type": "stream_start", "msg_id": "m"},
    text_delta,
    {"type": "stream_end", "msg_id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}},
)


# --- pagent ---


def told(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


slash = told("SlashCommands", commands=[])
begins = (told("RunBegin", user_input="Say hello, and nothing else."), told("TurnBegin", turn=0))
piece, empty = told("TextDelta", text="Hello."), told("TextDelta", text="")
reply = {"content": "Hello.", "tool_calls": [], "reasoning_content": "", "usage": None}
pagent = run(
    READ, *begins, piece, told("StepEnd", **reply), told("TurnEnd", turn=0, stopped=True), told("RunEnd", **reply)
)
ended = {"turn": 0, "stop_reason": "no_tool_calls"}
v4 = run(slash, READ, *begins, piece, told("TurnResult", **reply), told("TurnEnd", stopped=True, **ended),
         told("RunEnd", **ended))  # fmt: skip


# --- Jan ---


def answer(number: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def call(number: Any, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def item(tag: str, **fields: Any) -> dict[str, Any]:
    place = {"sessionId": "s", "turnId": "t"}
    return {"jsonrpc": "2.0", "method": f"item/{tag}", "params": {**place, "event": {"type": tag, **fields}}}


token = item("token", text="Hello.")
jan = run(
    READ, answer(1, {"protocolVersion": 1}), READ,
    READ, answer("open", {"tools": [], "toolSpecs": [], "sessionId": "s", "model": "m"}),
    READ, answer("turn", {"turnId": "t"}), item("step", index=1, max=0), token,
    item("done", stop_reason="stop", usage=None),
    {"jsonrpc": "2.0", "method": "turn/completed",
     "params": {"sessionId": "s", "turnId": "t", "stopReason": "completed", "error": None}},
)  # fmt: skip
initialize = call(1, "initialize", {"protocolVersion": 1, "clientInfo": {"name": "t", "version": "1"}})
turn_start = call(2, "turn/start", {"sessionId": "s", "input": "hi"})
jan_host = run(initialize, READ, told("initialized"), turn_start, READ, READ, end=[("exit", 0)])

usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "cache_write_tokens"))
stream_result = {
    "type": "result", "protocol_version": 1, "is_error": False, "result": "Hello.", "stop_reason": "stop",
    "session_id": None, "model": "m", "num_turns": 1, "duration_ms": 1,
    "usage": {**usage, "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}  # fmt: skip
stream = run(
    {"type": "init", "protocol_version": 1, "session_id": "s", "model": "m", "cwd": None, "tools": [],
     "input_kinds": ["user", "abort", "permission", "tool_result"], "input_content_parts": None},
    READ, {"type": "step", "index": 1, "max": 0}, {"type": "token", "text": "Hello."},
    {"type": "done", "stop_reason": "stop", "usage": None}, stream_result, end=[("exit", 0)],
)  # fmt: skip

# --- LevPRO ---


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"id": "c", "type": "event", "event": kind, **fields}


chat_result = {"response": "Hello.", "session_id": "agentwire-check-c", "trace_id": "t", "warnings": []}
nameless = {"id": "c", "type": "result", "result": {**chat_result, "session_id": ""}}
levpro = run(
    READ, event("run_start", user_input="Say hello, and nothing else.", trace_id="t"), event("llm_start", step=0),
    event("llm_chunk", step=0, delta="Hello."), event("llm_done", step=0), event("final", step=0, response="Hello."),
    {"id": "c", "type": "result", "result": chat_result},
)  # fmt: skip

TALKS = {"aionrs": aionrs, "pagent": pagent, "pagent-v4": v4, "jan": jan, "jan-stream": stream, "levpro": levpro}

GOOD: dict[Key, Callable[[Described], list[Deed]]] = {
    **{(wire, "agent", name): talk for wire, talk in TALKS.items() for name in ("order", "advice")},
    ("jan-stream", "agent", "session"): instead({**stream_result, "session_id": "session"}),
    ("jan", "agent", "request-ids"): asking_anew,
    ("levpro", "host", "handshake"): lambda peer: [write({"id": "i", "method": "initialize"}), READ, *peer.deeds],
    **{("jan", "host", name): jan_host for name in ("order", "advice", "handshake")},
}

WRONG: dict[Key, Callable[[Described], list[Deed]]] = {
    ("", "agent", "only-lines"): last(b"warning: something\n"),
    ("", "host", "lines"): last(b"warning: something\n"),
    ("", "host", "leaves"): status(3),
    # a line of a turn after its end; what nobody asked for
    ("aionrs", "agent", "order"): last(text_delta),
    ("pagent", "agent", "order"): last(piece),
    ("pagent-v4", "agent", "order"): last(piece),
    ("jan", "agent", "order"): last(token),
    ("jan-stream", "agent", "order"): last({"type": "token", "text": "x"}),
    ("levpro", "agent", "order"): last(event("llm_chunk", step=0, delta="x")),
    ("aionrs", "host", "order"): last({"type": "nonsense"}),
    ("pagent", "host", "order"): last({"cmd": 5}),
    ("pagent-v4", "host", "order"): last({"cmd": 5}),
    ("jan", "host", "order"): last(call(9, "agentwire/unknown", {})),
    ("jan-stream", "host", "lines"): at(0, b"warning: something\n"),
    ("jan-stream", "host", "order"): at(0, {"type": "nonsense"}),
    ("jan-stream", "host", "advice"): at(0, {"type": "permission", "request_id": "nobody", "decision": "deny"}),
    ("levpro", "host", "order"): last({"method": "ping"}),
    # what peers cope with
    ("aionrs", "agent", "advice"): last({"type": "agentwire_unknown"}),
    ("pagent", "agent", "advice"): at(3, empty),
    ("pagent-v4", "agent", "advice"): at(4, empty),
    ("jan", "agent", "advice"): last(told("agentwire/unknown")),
    ("jan-stream", "agent", "advice"): lambda peer: [*peer.deeds[:4], *peer.deeds[5:]],
    ("levpro", "agent", "advice"): last({"id": "c", "type": "agentwire_unknown"}),
    ("aionrs", "host", "advice"): last({"type": "tool_approve", "call_id": "nobody"}),
    ("pagent", "host", "advice"): last({"cmd": "permit", "tool_call_id": "nobody"}),
    ("pagent-v4", "host", "advice"): last({"cmd": "permit", "tool_call_id": "nobody"}),
    ("jan", "host", "advice"): last(call(9, "permission/respond", {"requestId": "nobody", "decision": "deny"})),
    ("levpro", "host", "advice"): last(b'{"id":"s","method":"shutdown"}\n{"id":"p","method":"ping"}\n'),
    # what one wire asks
    ("aionrs", "agent", "ready"): at(0, {"type": "pong"}),
    ("aionrs", "agent", "fork"): saying("copy", "session"),
    ("aionrs", "host", "waits-for-ready"): at(0, {"type": "ping"}),
    ("aionrs", "host", "answers-once"): last({"type": "tool_deny", "call_id": "call-1"}),
    ("aionrs", "host", "two-requests"): last({"type": "tool_approve", "call_id": "first"}),
    ("aionrs", "host", "message-ids"): last({"type": "message", "msg_id": "m", "content": "x"}),
    ("aionrs", "host", "set-up-first"): last({"type": "init_history", "text": "x"}),
    ("pagent", "agent", "busy"): lambda peer: Described(peer.with_before(2, begins[0])).with_before(2, begins[0]),
    ("pagent-v4", "agent", "delete"): instead(told("ThreadList", threads=[{"id": "thread"}])),
    ("pagent-v4", "host", "two-permits"): last({"cmd": "deny", "tool_call_id": "call-a"}),
    ("pagent-v4", "agent", "commands"): at(0, piece),
    ("jan", "agent", "request-ids"): saying("another", "request"),
    ("jan", "agent", "fork"): saying("copy", "session"),
    ("jan", "host", "handshake"): unprepared,
    ("jan", "host", "answers-once"): last(call(9, "permission/respond", {"requestId": "perm-a", "decision": "deny"})),
    ("jan", "host", "child-questions"): saying("second", "first"),
    ("jan", "host", "ids"): last(call("turn", "session/list", {})),
    ("jan-stream", "agent", "init"): at(0, {"type": "step", "index": 1, "max": 0}),
    ("jan-stream", "agent", "session"): instead({**stream_result, "session_id": "other"}),
    ("jan-stream", "agent", "last"): last({"type": "token", "text": "x"}),
    ("levpro", "agent", "session-id"): instead(nameless),
    ("levpro", "agent", "preview"): saying("shown", "x" * 501),
    ("levpro", "agent", "no-approval"): at(1, event("tool_done", status="ok")),
    ("levpro", "host", "handshake"): at(0, {"id": "p", "method": "ping"}),
    ("levpro", "host", "ids"): last({"id": "chat", "method": "ping"}),
}  # fmt: skip
