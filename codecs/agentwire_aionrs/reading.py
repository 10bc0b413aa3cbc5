"""The agent's messages as a host must be ready to read them.

Wider than :mod:`agentwire_aionrs.wire`: real agents and their forks leave out turn ids, send null, add keys, modes and
events. What even this cannot hold becomes an :class:`agentwire.events.Unknown`, and only that one line is lost; so
the end of a turn, on which everything waits, is typed loosest.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire import events as bus
from agentwire.codec.jsontext import LineDecoder


class Capabilities(Struct):
    """Section 1.1, with every key optional."""

    tool_approval: bool = True
    image_input: str = "unknown"
    thinking: bool = False
    effort: bool = False
    effort_levels: list[str] | None = None
    modes: list[str] | None = None
    current_mode: str = "default"
    mcp: bool = False


class Ready(Struct, tag="ready"):
    """Section 1.1."""

    version: str = ""
    session_id: str | None = None
    capabilities: Capabilities | None = None


class StreamStart(Struct, tag="stream_start", gc=False):
    """Section 1.2."""

    msg_id: str | None = None


class TextDelta(Struct, tag="text_delta", gc=False):
    """Section 1.3."""

    text: str
    msg_id: str | None = None


class Thinking(Struct, tag="thinking", gc=False):
    """Section 1.4."""

    text: str
    msg_id: str | None = None


class Tool(Struct):
    """Section 1.5."""

    name: str
    category: str = ""
    args: Raw = Raw(b"{}")
    description: str | None = None


class ToolRequest(Struct, tag="tool_request"):
    """Section 1.5."""

    call_id: str
    tool: Tool
    msg_id: str | None = None


class ToolRunning(Struct, tag="tool_running", gc=False):
    """Section 1.6."""

    call_id: str
    tool_name: str = ""
    msg_id: str | None = None


class ToolResult(Struct, tag="tool_result"):
    """Section 1.7."""

    call_id: str
    tool_name: str = ""
    status: str = "success"
    output: str = ""
    output_type: str = "text"
    metadata: dict[str, Any] | None = None
    msg_id: str | None = None


class ToolCancelled(Struct, tag="tool_cancelled", gc=False):
    """Section 1.8."""

    call_id: str
    reason: str | None = None
    msg_id: str | None = None


class StreamEnd(Struct, tag="stream_end"):
    """Section 1.9."""

    msg_id: Any = None
    usage: Any = None


class Error(Struct, tag="error"):
    """Section 1.10."""

    error: Any = None
    msg_id: Any = None


class Info(Struct, tag="info", gc=False):
    """Section 1.11."""

    message: str = ""
    msg_id: str | None = None


class ConfigChanged(Struct, tag="config_changed"):
    """Section 1.12."""

    capabilities: Capabilities


class McpReady(Struct, tag="mcp_ready"):
    """Section 1.13."""

    name: str = ""
    tools: list[str] | None = None


class Pong(Struct, tag="pong", gc=False):
    """Section 1.14."""


AgentEvent = (
    Ready | StreamStart | TextDelta | Thinking | ToolRequest | ToolRunning | ToolResult | ToolCancelled | StreamEnd
    | Error | Info | ConfigChanged | McpReady | Pong
)  # fmt: skip

DECODER: Final[LineDecoder[AgentEvent]] = LineDecoder(AgentEvent)

_IMAGE_INPUT: Final[dict[str, bus.ImageInput]] = {"supported": "supported", "unsupported": "unsupported"}
_CATEGORIES: Final[dict[str, bus.Category]] = {"info": "info", "edit": "edit", "exec": "exec", "mcp": "mcp"}
_MODES: Final[dict[str, bus.Mode]] = {
    "default": "default",
    "auto_edit": "auto_edit",
    "yolo": "yolo",
    "force": "yolo",  # a fork's word for it
}


def capabilities(seen: Capabilities | None) -> bus.Capabilities:
    """What a session can do, in the words of the bus; what has none there is the careful choice."""
    if seen is None:
        return bus.Capabilities()
    return bus.Capabilities(
        image_input=_IMAGE_INPUT.get(seen.image_input, "unknown"),
        thinking=seen.thinking,
        effort=seen.effort,
        effort_levels=tuple(seen.effort_levels or ()),
        modes=bus.MODES if seen.modes is None else tuple(seen.modes),
        current_mode=_MODES.get(seen.current_mode, "default"),
        mcp=seen.mcp,
        tool_approval=seen.tool_approval,
    )


def category(seen: str) -> bus.Category:
    """A tool's category; one that the bus does not know may do anything."""
    return _CATEGORIES.get(seen, "exec")


def usage(seen: Any) -> bus.Usage:
    """Tokens as reported; what is no count is not reported."""
    counts = seen if isinstance(seen, dict) else {}
    return bus.Usage(
        _count(counts.get("input_tokens")),
        _count(counts.get("output_tokens")),
        _count(counts.get("cache_read_tokens")),
        _count(counts.get("cache_write_tokens")),
    )


def _count(value: Any) -> int | UnsetType:
    return value if type(value) is int and value >= 0 else UNSET


def error(seen: Any) -> bus.ErrorInfo:
    """An error, whatever shape it has."""
    if not isinstance(seen, dict):
        return bus.ErrorInfo("internal_error", seen if isinstance(seen, str) else "")
    code, message = seen.get("code"), seen.get("message")
    return bus.ErrorInfo(
        code if isinstance(code, str) and code else "internal_error",
        message if isinstance(message, str) else "",
        seen.get("retryable") is True,
    )


def result(seen: ToolResult, call_id: str, name: str) -> bus.CallFinished:
    """A finished call (section 1.7). What the model read is known for text only."""
    metadata = seen.metadata if seen.metadata is not None else UNSET
    given = seen.metadata or {}
    display: bus.Display | UnsetType = UNSET
    output = seen.output
    if seen.output_type == "diff":
        path = given.get("file_path")
        display = bus.Diff(path if isinstance(path, str) else "", seen.output)
    elif seen.output_type == "image":
        mime_type = given.get("mime_type")
        display = bus.Image(mime_type if isinstance(mime_type, str) else "image/png", seen.output)
        output = f"[image: {display.mime_type}]"
    return bus.CallFinished(call_id, name, "ok" if seen.status == "success" else "error", output, display, [], metadata)


def question(call_id: str, name: str, kind: bus.Category, arguments: dict[str, Any]) -> bus.ApprovalRequested:
    """A question about a call. What it touches is read from the arguments of the built-in tools."""
    path, command = arguments.get("file_path"), arguments.get("cmd")
    return bus.ApprovalRequested(
        call_id,
        call_id,
        name,
        kind,
        path if isinstance(path, str) and kind in ("info", "edit") else "",
        command if isinstance(command, str) and kind == "exec" else "",
        prompt_kind=_PROMPT_KINDS[kind],
    )


_PROMPT_KINDS: Final[dict[bus.Category, Any]] = {"info": "read", "edit": "write", "exec": "exec", "mcp": "mcp"}
