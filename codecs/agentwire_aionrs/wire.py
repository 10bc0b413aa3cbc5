"""The messages of the aionrs JSON stream protocol 0.2.0, both directions, as they are written.

Field order is key order. An absent optional key is left out; ``null`` is written in one place only, an error's
``msg_id``. What a host must put up with from a real agent is wider: see :mod:`agentwire_aionrs.reading`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from agentwire.events import Category, ImageInput, Mode

PROTOCOL_VERSION: Final = "0.2.0"

# --- events, agent to host (section 1) -----------------------------------------------------------------------


class Capabilities(Struct, gc=False):
    """What the session can do now: all eight keys, always."""

    tool_approval: bool
    image_input: ImageInput
    thinking: bool
    effort: bool
    effort_levels: tuple[str, ...]
    modes: tuple[str, ...]
    current_mode: Mode
    mcp: bool


class Ready(Struct, tag="ready", gc=False, kw_only=True):
    """Section 1.1: the first line. ``session_id`` is left out for a session without a journal."""

    version: str = PROTOCOL_VERSION
    session_id: str | UnsetType = UNSET
    capabilities: Capabilities


class StreamStart(Struct, tag="stream_start", gc=False):
    """Section 1.2: a turn began."""

    msg_id: str


class TextDelta(Struct, tag="text_delta", gc=False):
    """Section 1.3: a piece of the answer."""

    text: str
    msg_id: str


class Thinking(Struct, tag="thinking", gc=False):
    """Section 1.4: a piece of reasoning."""

    text: str
    msg_id: str


class Tool(Struct, gc=False):
    """A call as its request shows it; ``args`` is an object with sorted keys."""

    name: str
    category: Category
    args: Raw
    description: str


class ToolRequest(Struct, tag="tool_request", gc=False):
    """Section 1.5: may this call run?"""

    msg_id: str
    call_id: str
    tool: Tool


class ToolRunning(Struct, tag="tool_running", gc=False):
    """Section 1.6: it runs."""

    msg_id: str
    call_id: str
    tool_name: str


class ToolResult(Struct, tag="tool_result", gc=False):
    """Section 1.7: it ended. ``output`` is text, a unified diff or base64, as ``output_type`` says."""

    msg_id: str
    call_id: str
    tool_name: str
    status: Literal["success", "error"]
    output: str
    output_type: Literal["text", "diff", "image"]
    metadata: Raw | UnsetType = UNSET


class ToolCancelled(Struct, tag="tool_cancelled", gc=False):
    """Section 1.8: it will not run, or no longer."""

    msg_id: str
    call_id: str
    reason: str


class Usage(Struct, gc=False):
    """Tokens of the turn; ``input_tokens`` includes cached ones."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int | UnsetType = UNSET
    cache_write_tokens: int | UnsetType = UNSET


class StreamEnd(Struct, tag="stream_end", gc=False):
    """Section 1.9: the turn ended."""

    msg_id: str
    usage: Usage


class ErrorBody(Struct, gc=False):
    """What went wrong; ``code`` is one of the five of section 1.10."""

    code: str
    message: str
    retryable: bool


class Error(Struct, tag="error", gc=False, kw_only=True):
    """Section 1.10. ``msg_id`` is the turn's, null outside a turn, and left out in answers to ``add_mcp_server``."""

    msg_id: str | UnsetType | None = UNSET
    error: ErrorBody


class Info(Struct, tag="info", gc=False):
    """Section 1.11: for a person. ``msg_id`` is empty outside a turn."""

    msg_id: str
    message: str


class ConfigChanged(Struct, tag="config_changed", gc=False):
    """Section 1.12: the capabilities as they are now."""

    capabilities: Capabilities


class McpReady(Struct, tag="mcp_ready", gc=False):
    """Section 1.13: a server asked for with ``add_mcp_server`` is connected."""

    name: str
    tools: list[str]


class Pong(Struct, tag="pong", gc=False):
    """Section 1.14."""


AgentEvent = (
    Ready | StreamStart | TextDelta | Thinking | ToolRequest | ToolRunning | ToolResult | ToolCancelled | StreamEnd
    | Error | Info | ConfigChanged | McpReady | Pong
)  # fmt: skip

# --- commands, host to agent (section 2) ---------------------------------------------------------------------


class Message(Struct, tag="message", gc=False):
    """Section 2.1: a user input."""

    msg_id: str
    content: str
    files: list[str] = []


class Stop(Struct, tag="stop", gc=False):
    """Section 2.2: end the turn now."""


class ToolApprove(Struct, tag="tool_approve", gc=False):
    """Section 2.3: let a call run."""

    call_id: str
    scope: Literal["once", "always"] = "once"


class ToolDeny(Struct, tag="tool_deny", gc=False):
    """Section 2.4: do not let it run."""

    call_id: str
    reason: str = ""


class InitHistory(Struct, tag="init_history", gc=False):
    """Section 2.5: prior context, before the first message."""

    text: str


class SetMode(Struct, tag="set_mode", gc=False):
    """Section 2.6: change the approval mode."""

    mode: Mode


class SetConfig(Struct, tag="set_config", gc=False, omit_defaults=True):
    """Section 2.7: change model settings. Null is as good as absent."""

    model: str | None = None
    image_input: ImageInput | None = None
    thinking: str | None = None
    thinking_budget: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None
    effort: str | None = None
    compaction: str | None = None


class AddMcpServer(Struct, tag="add_mcp_server", gc=False, omit_defaults=True):
    """Section 2.8: connect an MCP server, before the first message. Null is as good as absent."""

    name: str
    transport: str
    command: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    url: str | None = None
    headers: dict[str, str] | None = None


class Ping(Struct, tag="ping", gc=False):
    """Section 2.9: answered with ``pong``, whatever else goes on."""


HostCommand = Message | Stop | ToolApprove | ToolDeny | InitHistory | SetMode | SetConfig | AddMcpServer | Ping
