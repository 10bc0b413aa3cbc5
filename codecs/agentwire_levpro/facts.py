"""What the wire makes of single events: facts that the agent side and the fidelity table share."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw, UnsetType

from agentwire import events as bus
from agentwire.codec.jsontext import BadJson, parse
from agentwire.commands import JsonId
from agentwire.log.record import Record
from agentwire_levpro import wire
from agentwire_levpro.calls import Call
from agentwire_levpro.decisions import LIMITS, PREVIEW_LIMIT

T = TypeVar("T")

ERROR_CODES: Final = ("provider_error", "tool_error", "config_error", "protocol_error", "internal_error")
"""Kinds of failures that the bus tells apart."""

SETUP_CODES: Final[tuple[wire.Code, ...]] = ("config_missing", "binary_missing", "model_missing", "model_plan_error")
"""Codes for a set-up that is not in order (section "Error codes"), which the bus tells apart by kind."""

FAILED: Final = bus.ErrorInfo("internal_error", "The chat failed.")
"""Why a turn failed that does not say so."""


def user_input(event: bus.TurnStarted) -> str:
    """The text of an input; the wire has no word for its images and files."""
    return "\n".join(part.text for part in event.input if isinstance(part, bus.Text))


def failure(event: bus.TurnFinished) -> bus.ErrorInfo:
    """Why a turn failed."""
    return FAILED if isinstance(event.error, UnsetType) else event.error


def told_error(code: str, message: str) -> bus.ErrorInfo:
    """The failure that an error's code stands for."""
    if code in SETUP_CODES:
        return bus.ErrorInfo("config_error", message, kind=code)
    return bus.ErrorInfo(code if code in ERROR_CODES else "internal_error", message)


def abort_reason(event: bus.TurnFinished) -> str:
    """Why a run gave up: the limit it reached, or the kind of its failure."""
    return LIMITS[event.limit] if event.outcome == "limit" else failure(event).code


# --- tools ---------------------------------------------------------------------------------------------------

_WORDS: Final = {
    "denied": "The call was denied.",
    "refused": "The call was refused.",
    "client_gone": "Nobody is there to be asked.",
    "stopped": "The chat was cancelled.",
    "crashed": "The agent ended while the call ran.",
}
"""For a call that was cancelled without a word."""


def preview(call: Call) -> str:
    """What is shown of a call's end: what the model reads, but of a refusal its reason."""
    end = call.end
    if isinstance(end, bus.CallFinished):
        return end.output[:PREVIEW_LIMIT]
    return "" if end is None else (end.reason or end.output or _WORDS[end.cause])[:PREVIEW_LIMIT]


def duration(call: Call) -> int:
    """How long a call took, in milliseconds; 0 if that is not known."""
    end = call.end
    known = isinstance(end, bus.CallFinished) and not isinstance(end.duration_ms, UnsetType)
    return end.duration_ms if known else 0  # type: ignore[union-attr,return-value]  # both were asked just now


def retryable(call: Call) -> bool:
    """Whether the same call may go well another time."""
    return isinstance(call.end, bus.CallFinished) and call.end.retryable


# --- warnings ------------------------------------------------------------------------------------------------


def warning(event: bus.Event) -> str | None:
    """What a result's ``warnings`` say of an event: the wire has no other place for it."""
    if isinstance(event, bus.Notice):
        return event.text if event.level == "warning" else None
    if isinstance(event, bus.McpServerFailed):
        why = event.error.message
        return why if event.name in why else f"MCP server '{event.name}' failed: {why}"
    if isinstance(event, bus.ErrorRaised):
        return event.error.message
    return None


class Warnings(Generic[T]):
    """What the next result will warn of. What was said outside any turn waits for the first result there is."""

    __slots__ = ("_of_session", "_of_turn")

    def __init__(self) -> None:
        self._of_session: list[T] = []
        self._of_turn: list[T] = []

    def __bool__(self) -> bool:
        return bool(self._of_session or self._of_turn)

    def add(self, what: T, record: Record) -> None:
        """Take a warning."""
        (self._of_turn if record.turn else self._of_session).append(what)

    def take(self) -> list[T]:
        """A result tells them: the session's first."""
        told = self._of_session + self._of_turn
        self._of_session, self._of_turn = [], []
        return told

    def end_turn(self) -> None:
        """The turn ends without a result: what it would have warned of is lost."""
        self._of_turn = []


# --- messages that the bus has no word for -------------------------------------------------------------------


def kept(line: bytes) -> bus.Unknown:
    """A line kept as it is: compact JSON, or its text as a JSON string."""
    try:
        value = parse(line)
        raw = msgspec.json.encode(value) if b"\\u" in line else msgspec.json.format(line, indent=-1)
    except (BadJson, RecursionError):
        return bus.Unknown(wire.NAME, "line", Raw(msgspec.json.encode(line.decode(errors="replace"))))
    return bus.Unknown(wire.NAME, name_of(value), Raw(raw))


def name_of(value: Any) -> str:
    """What a message calls itself: its event, else its type."""
    if not isinstance(value, dict):
        return "line"
    name = value.get("event") if value.get("type") == "event" else value.get("type")
    return name if isinstance(name, str) and name else "line"


def own_line(event: bus.Unknown) -> bytes | None:
    """The line of an event without a word on the bus, if it came from this wire and can be taken for nothing else."""
    value = _own(event)
    if value is None or value.get("type") in ("result", "error"):
        return None
    if value.get("type") == "event" and value.get("event") in _UNDERSTOOD:
        return None
    line = kept(bytes(event.raw))
    return bytes(line.raw) + b"\n" if line == event else None


def own_id(event: bus.Unknown) -> JsonId:
    """The request that such a message names, if it does."""
    value = _own(event)
    request = None if value is None else value.get("id")
    return request if isinstance(request, str | int | float) and not isinstance(request, bool) else None


def _own(event: bus.Unknown) -> dict[str, Any] | None:
    if event.wire != wire.NAME:
        return None
    try:
        value = parse(bytes(event.raw))
    except BadJson:
        return None
    return value if isinstance(value, dict) else None


_UNDERSTOOD: Final = frozenset(wire.EVENT_NAMES) - {"memory_start"}
"""Chat events that the bus has a word for."""
