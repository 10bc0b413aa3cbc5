"""The texts that this wire puts into ``info`` and ``error``, and what a host reads out of them.

On this wire some facts exist as text only: a mode that was set, a retry, a queued command. So the texts are part of
the protocol, both sides keep them here, and no notice may look like one of them (:func:`plain`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, cast

from msgspec import UNSET, Struct

from agentwire.codec.jsontext import clip
from agentwire.events import (
    CallCancelled,
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    ConfigChange,
    ConfigChanged,
    McpServerFailed,
    Mode,
    RetryScheduled,
)

QUEUED: Final = "set_config: queued, will apply after current response"
NO_CHANGES: Final = "set_config: no changes"
DEFAULT_THINKING_BUDGET: Final = 10_000

# --- set_config and set_mode (sections 2.6 and 2.7) ----------------------------------------------------------


def mode_updated(mode: str) -> str:
    """Acknowledges ``set_mode``."""
    return f"mode updated: {mode}"


def config_updated(event: ConfigChanged) -> str:
    """Acknowledges ``set_config``; empty for a held one that changed nothing."""
    if not event.changes:
        return "" if event.deferred else NO_CHANGES
    changes = ", ".join([_CHANGE_TEXTS.get(change.field, _other)(change) for change in event.changes])
    return f"config {'applied' if event.deferred else 'updated'}: {changes}"


def _model(change: ConfigChange) -> str:
    return f"model: {clip(change.old)} → {clip(change.new)}"


def _image_input(change: ConfigChange) -> str:
    return f"image input: {change.old.capitalize()} → {change.new.capitalize()}"


def _thinking(change: ConfigChange) -> str:
    if change.problem:
        return f'thinking: ignored invalid value "{clip(change.new)}"'
    if change.new != "enabled":
        return f"thinking: {change.new}"
    budget = DEFAULT_THINKING_BUDGET if change.budget is UNSET else change.budget
    return f"thinking: enabled (budget: {budget})"


def _thinking_budget(change: ConfigChange) -> str:
    return f"thinking budget: {change.new if change.budget is UNSET else change.budget}"


def _effort(change: ConfigChange) -> str:
    if change.problem == "unsupported":
        return "effort: not supported by current provider"
    if change.problem:
        return f'effort: invalid level "{clip(change.new)}" (valid: {", ".join(change.allowed)})'
    return f"effort: {change.old or 'none'} → {change.new}" if change.new else "effort: cleared"


def _compaction(change: ConfigChange) -> str:
    if change.problem:
        expected = ", ".join(change.allowed or ("off", "safe", "full"))
        return f"compaction: invalid (unknown compaction level: '{clip(change.new)}' (expected: {expected}))"
    return f"compaction: {change.old} → {change.new}"


def _other(change: ConfigChange) -> str:
    if change.problem:
        return f'{change.field}: {change.problem} value "{clip(change.new)}"'
    return f"{change.field}: {clip(change.old)} → {clip(change.new)}"


_CHANGE_TEXTS: Final[dict[str, Callable[[ConfigChange], str]]] = {
    "model": _model,
    "image_input": _image_input,
    "thinking": _thinking,
    "thinking_budget": _thinking_budget,
    "effort": _effort,
    "compaction": _compaction,
}

# --- notices of a turn ---------------------------------------------------------------------------------------


def retrying(event: RetryScheduled) -> str:
    """Says that a model request is sent again (section 1.11 shows the first form)."""
    if event.stream:
        return f"Stream interrupted, retrying... ({event.attempt}/{event.of})"
    seconds, ms = divmod(event.delay_ms, 1000)
    delay = f"{seconds}.{ms:03d}".rstrip("0") if ms else seconds
    return f"Request failed ({event.reason}), retrying in {delay}s... ({event.attempt}/{event.of})"


def _ms(seconds: str) -> int:
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 1000 + int(fraction.ljust(3, "0") or "0")


def compaction(event: CompactionStarted | CompactionFinished | CompactionFailed) -> str:
    """What became of the history."""
    # The class itself, not isinstance: msgspec makes that slow where the answer is no.
    if type(event) is CompactionFinished:
        count = "the messages so far" if event.messages is UNSET else f"{event.messages} messages"
        return f"Autocompact: summarized {count}"
    if type(event) is CompactionFailed:
        return f"Autocompact failed: {event.error or event.reason}"
    return f"Autocompact: started ({event.reason})"


# --- MCP servers ---------------------------------------------------------------------------------------------


def mcp_failed(event: McpServerFailed) -> str:
    """Answers ``add_mcp_server`` for a server that could not be connected, or tells of a configured one."""
    message = event.error.message
    if not event.dynamic:
        return plain(message) if event.name in message else f"MCP server '{event.name}' failed: {message}"
    if message.startswith("AddMcpServer") and failed_server(message) == event.name:
        return message
    return f"AddMcpServer '{event.name}' failed: {message}"


def failed_server(message: str) -> str | None:
    """The server whose connecting failed, from the error's text; None for any other text."""
    found = _ADD_FAILED.match(message)
    return found[1] if found else None


def refused_server(message: str) -> str | None:
    """The server that any answer to an ``add_mcp_server`` names; None for any other text."""
    found = _ADD_ANSWER.match(message)
    return found[1] if found else None


def no_tools(name: str) -> str:
    """A warning: real agents announce a server that failed as one without tools."""
    return f"MCP server '{name}' offers no tools; it may have failed to start."


_ADD_FAILED: Final = re.compile(r"AddMcpServer '(.*?)' failed: ", re.DOTALL)
_ADD_ANSWER: Final = re.compile(r"AddMcpServer '(.*?)'(?: failed: |: unknown transport: |: rejected — )", re.DOTALL)

# --- refusals ------------------------------------------------------------------------------------------------

HISTORY_TOO_LATE: Final = "init_history: rejected — only allowed before first Message"


def unknown_call(command: str, call_id: str) -> str:
    """Answers an approval or denial of a call that was never asked about."""
    return f"{command}: no pending call '{clip(call_id)}'"


def server_too_late(name: str) -> str:
    """Answers an ``add_mcp_server`` after the first message (section 2.9)."""
    return f"AddMcpServer '{clip(name)}': rejected — only allowed before first Message"


# --- reasons of a cancelled call -----------------------------------------------------------------------------

_REASONS: Final[dict[str, str]] = {
    "stopped": "Cancelled by user",
    "client_gone": "Client disconnected",
    "crashed": "Interrupted",
}
_CAUSES: Final = {reason: cause for cause, reason in _REASONS.items()}


def cancel_reason(event: CallCancelled) -> str:
    """The reason as given; the wire's own words where none was given. A denial without a reason has none."""
    return event.reason or _REASONS.get(event.cause, "")


def cancel_cause(reason: str) -> Literal["denied", "stopped", "client_gone", "crashed"]:
    """Why a call was cancelled, as far as the reason tells."""
    return cast("Literal['denied', 'stopped', 'client_gone', 'crashed']", _CAUSES.get(reason, "denied"))


# --- reading an info -----------------------------------------------------------------------------------------


class Told(Struct, frozen=True):
    """What an ``info`` says beyond its text."""

    kind: Literal["mode", "config", "queued", "retry", "legacy"]
    mode: Mode = "default"
    deferred: bool = False
    retry: RetryScheduled | None = None


def read_info(message: str) -> Told | None:
    """What the text of an ``info`` stands for; None for a notice."""
    if not message.startswith(_BEGINNINGS):
        return None
    for form, told in _FORMS:
        if found := form.fullmatch(message):
            return told(found)
    return None


def plain(notice: str) -> str:
    """A notice's text so that no host takes it for one of the wire's own."""
    if notice[:1] not in _INITIALS or read_info(notice) is None:
        return notice
    return f"note: {notice}"


def _stream_retry(found: re.Match[str]) -> Told:
    return Told("retry", retry=RetryScheduled(int(found[1]), int(found[2]), 0, "", stream=True))


def _request_retry(found: re.Match[str]) -> Told:
    return Told("retry", retry=RetryScheduled(int(found[3]), int(found[4]), _ms(found[2]), found[1]))


_BEGINNINGS: Final = ("mode ", "config ", "set_config", "Stream ", "Request ", "Tool call", "[")
"""How every one of :data:`_FORMS` begins: few notices do, and none of those is worth a pattern."""

_INITIALS: Final = frozenset(beginning[0] for beginning in _BEGINNINGS)

_FORMS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Told]], ...]] = (
    (re.compile(r"mode updated: (default|auto_edit|yolo)"), lambda found: Told("mode", mode=cast("Mode", found[1]))),
    (re.compile(r"config updated: .*|set_config: no changes", re.DOTALL), lambda found: Told("config")),
    (re.compile(r"config applied: .*", re.DOTALL), lambda found: Told("config", deferred=True)),
    (re.compile(re.escape(QUEUED)), lambda found: Told("queued")),
    (re.compile(r"Stream interrupted, retrying\.\.\. \((\d{1,9})/(\d{1,9})\)", re.ASCII), _stream_retry),
    (
        re.compile(
            r"Request failed \((.*)\), retrying in (\d{1,9}(?:\.\d{1,3})?)s\.\.\. \((\d{1,9})/(\d{1,9})\)",
            re.ASCII | re.DOTALL,
        ),
        _request_retry,
    ),
    # Old agents repeat every call and result in words as well.
    (re.compile(r"Tool call: .*|\[[^\]]+ (?:success|error)\] .*", re.DOTALL), lambda found: Told("legacy")),
)
