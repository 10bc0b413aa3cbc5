"""What the protocol's text leaves open, and what is done about it here.

:data:`DECISIONS` lists every such point. The values of the riskiest ones stand below it and nowhere else: if a real
peer turns out to differ, this is the file to change.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

from agentwire import events as bus
from agentwire.commands import JsonId


class Decision(Struct, frozen=True):
    """One open point. ``risky``: a guess that a real peer may well prove wrong."""

    number: int
    point: str
    choice: str
    risky: bool = False


DECISIONS: Final = (
    Decision(1, "line ends, blank lines, last line", "LF or CRLF, blanks skipped, an unterminated last line counts"),
    Decision(2, "separators, escaping", "any are read; compact and raw are written"),
    Decision(3, "limit of an input line", "1 MiB; a longer one is `invalid_request` without an id"),
    Decision(4, "start without a configuration; ready line", "starts; says nothing first"),
    Decision(5, "types of id and method", "an id is a string or a number, also an empty string; methods are exact"),
    Decision(6, "`params` null, unknown keys", "null is `{}`; unknown keys are ignored"),
    Decision(7, "an id in use; when ids are equal", "refused, the first goes on; 1 is 1.0 and not \"1\"", True),
    Decision(8, "no usable id; unknown kinds of messages", "null; a host keeps and ignores them"),
    Decision(9, "what `initialize` says; how it fails", "see `initialized`; `invalid_request`", True),
    Decision(10, "`ping` while chats run", "answered at once"),
    Decision(11, "what `doctor` says", "a status and its checks"),
    Decision(12, "what `plan` says", "model, binary, args, context_size, gpu_layers, warnings"),
    Decision(13, "letters of a random session id", "8 hexadecimal digits; an empty `session_id` asks for one"),
    Decision(14, "bad params, unknown agent, empty input", "`invalid_request`, `invalid_request`, allowed"),
    Decision(15, "the model cannot be started", "an error of that chat; the next tries again; one start serves all"),
    Decision(16, "`resume` without a checkpoint", "a run like any, with a warning"),
    Decision(17, "approval is needed and not given", "the tool is refused, the model reads why, the chat goes on"),
    Decision(18, "the result of `cancel`; nothing to cancel", "see `cancel_result`; not an error", True),
    Decision(19, "the cancel's answer and the chat's end", "the answer comes first"),
    Decision(20, "the result of `shutdown` and its place", "see `SHUTDOWN_RESULT`; the last line", True),
    Decision(21, "warm-up", "no such method"),
    Decision(22, "types of fields, values of `status`, length of `preview`", "see `PREVIEW_LIMIT` and `STATUSES`"),
    Decision(23, "order of events; which `tool_done` is whose", "a tool's end follows its start at once"),
    Decision(24, "what chunks hold; reasoning", "the model's text as it streamed; reasoning is not sent"),
    Decision(25, "how a chat ends that gave up", "see `ENDS`", True),
    Decision(26, "order of checks", "JSON, object, id, method, params, method known, id in use, params fit, set-up"),
    Decision(27, "two chats of one session", "one after the other"),
    Decision(28, "a host that does not read", "nothing is dropped and nobody waits: what is due stays in the log"),
    Decision(29, "order across ids", "as things happened"),
    Decision(30, "blocking writes, broken pipe", "writes never block; what is due is thrown away and work goes on"),
    Decision(31, "grace, end of input, signals, exit status", "chats are cancelled; signals are an end of input; 0"),
)  # fmt: skip

# --- 7: ids --------------------------------------------------------------------------------------------------

ID_IN_USE: Final = "id is in use"


def usable_id(value: Any) -> bool:
    """Whether a value can be a request's id (5). Equality of ids is Python's own: by value, never across types."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


# --- 9: initialize -------------------------------------------------------------------------------------------

VERSIONS: Final = (1,)
"""Versions of the protocol that are spoken, the latest first."""

NO_COMMON_VERSION: Final = f"no common protocol version; supported: {', '.join(map(str, VERSIONS))}"

SERVER: Final = "agentwire"


def initialized(version: int, events: list[str], server_version: str) -> dict[str, Any]:
    """The result of ``initialize``. ``events``: names of the chat events that may come."""
    return {
        "protocol_version": version,
        "capabilities": {"parallel_chats": True, "targeted_cancel": True, "events": events},
        "server": {"name": SERVER, "version": server_version},
    }


# --- 18: cancel ----------------------------------------------------------------------------------------------

TARGET_NEEDED: Final = "request_id is required when several chats are active"


def cancel_result(cancelled: bool, request_id: JsonId) -> dict[str, Any]:
    """The result of ``cancel``; ``request_id`` is None if none was named and nothing runs."""
    return {"cancelled": cancelled, "request_id": request_id}


# --- 20: shutdown --------------------------------------------------------------------------------------------

SHUTDOWN_RESULT: Final = {"status": "ok"}

# --- 22: tools -----------------------------------------------------------------------------------------------

PREVIEW_LIMIT: Final = 500
"""Characters of a tool's output that ``tool_done`` shows."""

STATUSES: Final = ("ok", "error", "denied")
"""What a tool's end may say; a host takes anything else for an error."""

# --- 25: ends ------------------------------------------------------------------------------------------------


class End(Struct, frozen=True):
    """How a chat ends: its last event, and the terminal after it."""

    event: Literal["final", "loop_abort", ""]
    code: Literal["", "cancelled", "internal_error"] = ""
    """Of the error; empty: there is a result."""


ENDS: Final[dict[bus.Outcome, End]] = {
    "completed": End("final"),
    "limit": End("loop_abort"),
    "cancelled": End("", "cancelled"),
    "failed": End("loop_abort", "internal_error"),
}

ABORT_WARNING: Final = "loop_abort: "
"""What a limit's warning in the result begins with: the event before it is not what a host should rely on."""

LIMITS: Final[dict[Literal["", "steps", "bad_calls"], str]] = {
    "steps": "max_steps",
    "bad_calls": "max_parse_errors",
    "": "limit",
}
"""The reason that ``loop_abort`` gives, by the limit that was reached."""
