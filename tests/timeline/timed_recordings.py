"""Recordings with times, made by hand: who wrote what, and milliseconds after the beginning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from strategies import complete_log

from agentwire.log import JournalHeader
from agentwire.recording import Entry, Header

NO_WIRES = {"decode_probes", "http_demo"}
"""What else lies there: rows of a probe, and another protocol."""

RECORDINGS = [
    path
    for path in sorted((Path(__file__).parent.parent / "pagent" / "recordings").glob("*.jsonl"))
    if path.stem not in NO_WIRES
]

STARTED = 1_764_468_000_000

Line = tuple[int, str, dict[str, Any]]


def write(path: Path, lines: list[Line], codec: str = "aionrs") -> Path:
    out = [msgspec.json.encode(Header(codec=codec, made_by="a test", started=STARTED))]
    out += [
        msgspec.json.encode(Entry(1000 * at, who, json.dumps(line) + "\n", wall=STARTED + at))  # type: ignore[arg-type]
        for at, who, line in lines
    ]
    path.write_bytes(b"\n".join(out) + b"\n")
    return path


def write_journal(path: Path, session: str) -> Path:
    """The journal of a session in which everything happened."""
    lines = [msgspec.json.encode(JournalHeader(session)), *map(msgspec.json.encode, complete_log())]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def request(call_id: str, description: str = "Execute: ls") -> dict[str, Any]:
    tool = {"name": "ExecCommand", "category": "exec", "args": {"cmd": "ls"}, "description": description}
    return {"type": "tool_request", "msg_id": "m", "call_id": call_id, "tool": tool}


def running(call_id: str) -> dict[str, Any]:
    return {"type": "tool_running", "msg_id": "m", "call_id": call_id, "tool_name": "ExecCommand"}


def result(call_id: str, status: str = "success", output: str = "out") -> dict[str, Any]:
    head = {"type": "tool_result", "msg_id": "m", "call_id": call_id, "tool_name": "ExecCommand"}
    return {**head, "status": status, "output": output, "output_type": "text"}


def text(piece: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": piece, "msg_id": "m"}


READY = {"type": "ready", "version": "0.2.0", "session_id": "s", "capabilities": {}}

EVIL = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> <!-- \u2028 &amp;"
)

CONVERSATION: list[Line] = [
    (0, "agent", READY),
    (100, "host", {"type": "message", "msg_id": "m", "content": "hello there"}),
    (110, "agent", {"type": "stream_start", "msg_id": "m"}),
    (310, "agent", text("Let me ")),
    (400, "agent", text("look.")),
    (410, "agent", request("c1")),
    (1410, "host", {"type": "tool_approve", "call_id": "c1", "scope": "once"}),
    (1420, "agent", running("c1")),
    (1920, "agent", result("c1")),
    (2020, "agent", text(EVIL)),
    (2120, "agent", request("c2", f"Execute: {EVIL}")),
    (2220, "host", {"type": "tool_deny", "call_id": "c2", "reason": "not today"}),
    (2225, "agent", {"type": "tool_cancelled", "msg_id": "m", "call_id": "c2", "reason": "not today"}),
    (2300, "agent", text("Fine.")),
    (2310, "agent", {"type": "stream_end", "msg_id": "m", "usage": {"input_tokens": 1234, "output_tokens": 56}}),
    (5000, "host", {"type": "message", "msg_id": "n", "content": "and now fail"}),
    (5010, "agent", {"type": "stream_start", "msg_id": "n"}),
    (5100, "agent", {"type": "error", "msg_id": "n", "error": {"code": "provider_error", "message": "it broke",
                                                                "retryable": False}}),
    (5110, "agent", {"type": "stream_end", "msg_id": "n"}),
]  # fmt: skip
"""A turn with an answer, a call that was allowed after a second, one that was denied; and a turn that failed."""
