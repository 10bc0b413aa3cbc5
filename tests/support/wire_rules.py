"""What must hold of every aionrs line stream, whatever the test: checked line by line as it is read.

Rules from the aionrs protocol: the overview (one JSON object a line), section 1 (each event's keys, in that order),
section 3.2 (one start and one end per message, nothing of a turn outside of it) and what hosts rely on beside it:
lines are compact, a call's id occurs once, and every call is closed before the end.
"""

from __future__ import annotations

import json
from typing import Any

from .replies import JsonObject

_KEYS = {
    "ready": ["version", "session_id?", "capabilities"],
    "stream_start": ["msg_id"],
    "text_delta": ["text", "msg_id"],
    "thinking": ["text", "msg_id"],
    "tool_request": ["msg_id", "call_id", "tool"],
    "tool_running": ["msg_id", "call_id", "tool_name"],
    "tool_result": ["msg_id", "call_id", "tool_name", "status", "output", "output_type", "metadata?"],
    "tool_cancelled": ["msg_id", "call_id", "reason"],
    "stream_end": ["msg_id", "usage?"],
    "error": ["msg_id?", "error"],
    "info": ["msg_id", "message"],
    "config_changed": ["capabilities"],
    "mcp_ready": ["name", "tools"],
    "pong": [],
}
_CAPABILITIES = [
    "tool_approval", "image_input", "thinking", "effort", "effort_levels", "modes", "current_mode", "mcp",
]  # fmt: skip
_TOOL = ["name", "category", "args", "description"]
_USAGE = ["input_tokens", "output_tokens", "cache_read_tokens?", "cache_write_tokens?"]
_ERROR = ["code", "message", "retryable"]
_CODES = {"provider_error", "tool_error", "config_error", "protocol_error", "internal_error"}
_OF_A_TURN = {"text_delta", "thinking", "tool_request", "tool_running", "tool_result", "tool_cancelled", "stream_end"}


def compact(value: Any) -> bytes:
    """JSON as the wire writes it: no blanks, no escapes that are not needed."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class BrokenRule(AssertionError):
    """A line, or its place among the others, breaks the protocol."""


class WireRules:
    """Reads every line of one process in order; :attr:`open_turn` is the msg_id of the turn under way, :attr:`calls`
    tells of each call id what was last said of it: asked, running or closed."""

    def __init__(self) -> None:
        self.open_turn: str | None = None
        self._seen = 0
        self.calls: dict[str, str] = {}

    def read(self, line: bytes) -> JsonObject:
        """Check one line, given without its line feed, and decode it."""
        try:
            event = json.loads(line.decode("utf-8"))
        except ValueError as problem:
            raise BrokenRule(f"not JSON: {line[:300]!r}: {problem}") from None
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise BrokenRule(f"not an object with a type: {line[:300]!r}")
        if compact(event) != line:
            raise BrokenRule(f"not compact: {line[:300]!r}")
        self._shape(event)
        self._place(event)
        self._seen += 1
        return event

    def _shape(self, event: JsonObject) -> None:
        kind = event["type"]
        if kind not in _KEYS:
            raise BrokenRule(f"an event that the protocol does not have: {event}")
        _ordered(["type", *_KEYS[kind]], event, event)
        for key, order in (("capabilities", _CAPABILITIES), ("tool", _TOOL), ("usage", _USAGE), ("error", _ERROR)):
            if key in event:
                _ordered(order, event[key], event)
        if "error" in event and event["error"]["code"] not in _CODES:
            raise BrokenRule(f"unknown error code: {event}")
        if any(value is None for key, value in event.items() if (kind, key) != ("error", "msg_id")):
            raise BrokenRule(f"null where a key must be left out: {event}")
        if kind == "tool_request" and json.dumps(event["tool"]["args"]) != json.dumps(
            event["tool"]["args"], sort_keys=True
        ):
            raise BrokenRule(f"keys of args are not sorted: {event}")

    def _place(self, event: JsonObject) -> None:
        kind = event["type"]
        if self._seen == 0 and kind not in ("ready", "error"):
            raise BrokenRule(f"before ready: {event}")
        if self._seen and kind == "ready":
            raise BrokenRule("a second ready")
        if kind == "stream_start":
            if self.open_turn is not None:
                raise BrokenRule(f"a turn began inside turn {self.open_turn}: {event}")
            self.open_turn = event["msg_id"]
        elif kind in _OF_A_TURN and event["msg_id"] != self.open_turn:
            raise BrokenRule(f"outside its turn (now in {self.open_turn}): {event}")
        elif kind == "info" and event["msg_id"] not in ("", self.open_turn):
            raise BrokenRule(f"a notice of a turn that is not open: {event}")
        if kind.startswith("tool_"):
            self._call(kind, event)
        if kind == "stream_end":
            still = [call for call, state in self.calls.items() if state != "closed"]
            if still:
                raise BrokenRule(f"the turn ended with calls open: {still}")
            self.open_turn = None

    def _call(self, kind: str, event: JsonObject) -> None:
        call = event["call_id"]
        before = self.calls.get(call, "")
        allowed, after = {
            "tool_request": ({""}, "asked"),
            "tool_running": ({"", "asked"}, "running"),
            "tool_result": ({"running"}, "closed"),
            "tool_cancelled": ({"asked", "running"}, "closed"),
        }[kind]
        if before not in allowed:
            raise BrokenRule(f"call {call} is {before or 'unknown'}, yet: {event}")
        self.calls[call] = after


def _ordered(order: list[str], value: JsonObject, event: JsonObject) -> None:
    """Every key of ``order`` in that order and no other; those with a question mark may be left out."""
    names = [key.rstrip("?") for key in order]
    wanted = [name for key, name in zip(order, names, strict=True) if name in value or not key.endswith("?")]
    if list(value) != wanted:
        raise BrokenRule(f"keys {list(value)}, not {wanted}: {event}")
