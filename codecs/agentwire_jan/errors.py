"""Errors: the codes, the kinds and the texts of the RPC (sections 1.2, 1.5 and 1.6)."""

from __future__ import annotations

from typing import Final

from agentwire.codec.jsontext import clip
from agentwire.commands import Refusal
from agentwire_jan.rpc import Error

PARSE: Final = Error(-32700, "Parse error")
INVALID: Final = Error(-32600, "Invalid Request")
TOO_LONG: Final = Error(-32600, "Input line exceeds max_line_bytes")
NO_METHOD: Final = Error(-32601, "Method not found")
NOT_READY: Final = Error(-32002, "Server not initialized")

PARAMS: Final = -32602
BUSY: Final = -32001

RETRY: Final = {"retryable": True}
TURN_ACTIVE: Final = Error(
    BUSY, "this session has an active turn; retry after turn/completed", {**RETRY, "kind": "turn_active"}
)
SESSION_BUSY: Final = Error(BUSY, "session busy", RETRY)
ANOTHER_TURN: Final = Error(BUSY, "another turn is active; retry after turn/completed", RETRY)

UNKNOWN_SESSION: Final = "unknown sessionId"
ELSEWHERE: Final = "unknown sessionId (RPC sessions belong to their process)"

MALFORMED: Final = {
    "initialize": "Unsupported protocol version or malformed clientInfo",
    "session/start": "session/start requires cwd and supported options",
    "session/tools/get": "session/tools/get requires sessionId",
    "session/tools/set": "session/tools/set requires sessionId and tools",
    "session/model/set": "session/model/set requires sessionId and model",
    "session/reset": "session/reset requires sessionId",
    "session/list": "session/list takes no params",
    "session/resume": "session/resume requires sessionId",
    "session/fork": UNKNOWN_SESSION,
    "session/archive": UNKNOWN_SESSION,
    "turn/start": "turn/start requires sessionId and input",
    "turn/steer": "turn/steer requires an active session and nonempty input",
    "turn/interrupt": "no active turn for sessionId",
    "permission/respond": "permission/respond requires an active turn and requestId",
    "tool/respond": "tool/respond requires requestId and content (a string or content parts)",
}
"""By method: what is said of parameters that are not as they should be."""

_NOT_FOUND: Final = {
    **dict.fromkeys(MALFORMED, UNKNOWN_SESSION),
    "session/resume": ELSEWHERE,
    "turn/steer": MALFORMED["turn/steer"],
    "turn/interrupt": MALFORMED["turn/interrupt"],
}
_BUSY: Final = {
    "turn/start": ANOTHER_TURN,
    "session/fork": SESSION_BUSY,
    "session/archive": SESSION_BUSY,
}


class Refused(Exception):
    """A request cannot be carried out; ``error`` is the answer."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


def bad(message: str, kind: str = "") -> Error:
    """An error of parameters."""
    return Error(PARAMS, message, {"kind": kind} if kind else None)


def malformed(method: str) -> Error:
    """Parameters are not what the method takes."""
    return bad(MALFORMED[method])


def unknown_session(method: str) -> Error:
    """There is no such session, or none that the method could be about."""
    return bad(_NOT_FOUND[method])


def not_pending(method: str, request_id: str) -> Error:
    """Nothing waits under that id."""
    what = "host tool" if method == "tool/respond" else "permission"
    text = f"no {what} request '{clip(request_id)}' is pending (answered, cancelled, or never issued)"
    return bad(text, "not_pending")


def busy(method: str) -> Error:
    """A turn is in the way."""
    return _BUSY.get(method, TURN_ACTIVE)


def from_refusal(refusal: Refusal, method: str, request_id: str) -> Error:
    """What the engine refused, in the words of the method."""
    if refusal.code == "busy":
        return busy(method)
    if method in ("permission/respond", "tool/respond") and refusal.code in ("not_pending", "not_found"):
        return not_pending(method, request_id)
    if refusal.code == "not_found":
        return unknown_session(method)
    return bad(refusal.message)
