"""What the wire makes of single values: facts that both sides and the fidelity table share."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from agentwire import events as bus
from agentwire.codec.jsontext import BadJson, canonical_object, parse, sorted_json
from agentwire.events import Category
from agentwire.log.history import cancelled_text
from agentwire_jan import wire

ERROR: Final = "ERROR: "
"""What stands before the text of a result that is an error."""

NO_OUTCOME: Final = "the run ended without an outcome"
"""Why a run failed that did not say so (section 1.7)."""

_NULL: Final = Raw(b"null")

# --- calls ---------------------------------------------------------------------------------------------------


def call_args(event: bus.CallReady) -> Raw:
    """A call's arguments as the wire has them: any JSON value, ``null`` if the model did not write JSON."""
    if not isinstance(event.arguments, UnsetType):
        return one_line(event.arguments)
    try:
        return sorted_json(parse(event.arguments_text.encode("utf-8", "replace")))
    except (BadJson, RecursionError):
        return _NULL


def one_line(value: Raw) -> Raw:
    """JSON that may stand inside a line. The engine's may; anyone else's is encoded again."""
    if b"\n" not in bytes(value):
        return value
    try:
        return sorted_json(parse(bytes(value)))
    except (BadJson, RecursionError):
        return _NULL


def host_args(event: bus.HostToolRequested) -> Raw:
    """The arguments of a host tool request."""
    return _NULL if isinstance(event.arguments, UnsetType) else one_line(event.arguments)


def read_args(args: Raw) -> Raw | UnsetType:
    """Arguments as the bus keeps them: an object, or absent."""
    return canonical_object(bytes(args)) or UNSET


def args_text(args: Raw) -> str:
    """Arguments as text, where it was not streamed."""
    text = bytes(args).decode()
    return "" if text == "null" else text


def result_text(content: str, is_error: bool) -> str:
    """The content of a result."""
    return ERROR + content if is_error else content


def read_result(content: str, is_error: bool) -> str:
    """What a result says, without the mark of an error."""
    return content.removeprefix(ERROR) if is_error else content


def cancelled_result(event: bus.CallCancelled, name: str, host_tool: str) -> str:
    """The content of the result of a call that was cancelled (sections 1.6, 3.3, 3.5), without the mark of an error.

    ``host_tool``: the tool that a host was asked to run for it, as it declared it; ``""``: none.
    """
    if event.cause == "denied":
        return f"tool '{event.name or name}' denied by user"
    if event.cause == "client_gone":
        if host_tool:
            return f"host tool '{host_tool}' was not answered: the client is gone"
        return f"tool '{event.name or name}' denied by user"
    if event.cause == "stopped" and host_tool:
        return f"host tool '{host_tool}' was cancelled before it answered"
    return cancelled_text(event)


def diff_text(event: bus.CallFinished) -> str | UnsetType:
    """The change that a person is shown, if there is one."""
    return event.display.unified if isinstance(event.display, bus.Diff) else UNSET


# --- questions -----------------------------------------------------------------------------------------------

_CAPABILITIES: Final = {
    "read": "read", "read_escape": "read", "write": "write", "write_escape": "write", "exec": "exec", "mcp": "run",
    "monitor": "run",
}  # fmt: skip
"""The capability that goes with each kind of question."""

_CATEGORIES: Final[dict[str, Category]] = {"read": "info", "write": "edit", "exec": "exec", "run": "mcp"}
_KINDS: Final[dict[str, Any]] = {"read": "read", "write": "write", "exec": "exec", "run": "mcp"}


def capability(prompt_kind: str) -> str:
    """The capability that a question is about."""
    return _CAPABILITIES[prompt_kind]


def category(capability: str) -> Category:
    """What a tool of that capability may do."""
    return _CATEGORIES.get(capability, "exec")


def prompt_kind(kind: str, capability: str) -> Any:
    """The kind of a question; one that the bus has no word for is told by the capability."""
    return kind if kind in _CAPABILITIES else _KINDS.get(capability, "exec")


# --- beside the calls ----------------------------------------------------------------------------------------

_REASONS: Final = {
    "preflight": "preflight",
    "threshold": "preflight",
    "context_overflow": "context_overflow",
    "overflow": "context_overflow",
    "context": "context_overflow",
    "session_budget": "session_budget",
}


def compaction_reason(reason: str) -> str:
    """One of the wire's three reasons to summarise."""
    return _REASONS.get(reason, "preflight")


_API_TYPES: Final = {"": None, "chat": None, "messages": "anthropic", "responses": "openai-responses"}
_APIS: Final = {"anthropic": "messages", "openai-responses": "responses"}


def api_type(api: str) -> str | UnsetType:
    """The name of a request's form; Chat Completions has none."""
    return _API_TYPES.get(api, api) or UNSET


def read_api(api_type: str) -> str:
    """The form that a name stands for."""
    return _APIS.get(api_type, api_type)


def failure(event: bus.TurnFinished) -> str:
    """Why a run that is not a success ended."""
    if event.outcome == "limit":
        if event.limit == "bad_calls":
            return "the model kept calling tools badly"
        return f"reached the {event.steps}-turn limit while the model was still calling tools"
    return NO_OUTCOME if isinstance(event.error, UnsetType) else event.error.message


def stop_reason(event: bus.TurnFinished) -> str:
    """Why the model stopped."""
    return event.finish_reason or "stop"


_OWN: Final = frozenset(wire.ITEMS)


def own_item(event: bus.Unknown) -> Raw | None:
    """The event object of an event without a word on the bus, if it came from this wire."""
    if event.wire != "jan" or not event.name or event.name in _OWN:
        return None
    try:
        value = parse(bytes(event.raw))
    except BadJson:
        return None
    if not isinstance(value, dict) or value.get("type") != event.name:
        return None
    return event.raw if b"\n" not in bytes(event.raw) else Raw(msgspec.json.encode(value))
