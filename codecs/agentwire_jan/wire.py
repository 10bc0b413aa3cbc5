"""The event objects that Jan's two surfaces share, as they are written (section 2.1).

In the RPC they stand in an envelope, in stream-json they are bare lines. Field order is key order. A key that is
left out where there is no value is ``UNSET``; one that is written as ``null`` has ``None``. Since a peer may write
``null`` wherever a key may be left out, those fields take both.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

Optional = str | UnsetType | None

# --- what events are made of ---------------------------------------------------------------------------------


class Usage(Struct, gc=False):
    """Tokens of one model request; all five keys, ``null`` where nothing was reported."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class ImageUrl(Struct, gc=False):
    """Where an image is: always a ``data:`` URL."""

    url: str


class TextPart(Struct, tag_field="type", tag="text", gc=False):
    """A content part that is text (section 3.6)."""

    text: str


class ImagePart(Struct, tag_field="type", tag="image_url", gc=False):
    """A content part that is an image (section 3.6)."""

    image_url: ImageUrl


ContentPart = TextPart | ImagePart


class Function(Struct, gc=False):
    """What a tool specification is about."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolSpec(Struct, gc=False, kw_only=True):
    """A host tool as the model is told of it: ``tool_specs`` and ``toolSpecs``."""

    type: str = "function"
    function: Function


class ToolDeclaration(Struct, gc=False, omit_defaults=True):
    """A host tool as a host declares it (section 3.1)."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    capability: Literal["read", "actuator"] | None = None


class InputCaps(Struct, frozen=True, gc=False):
    """What content parts may be: ``input_content_parts``."""

    mime_types: tuple[str, ...] = ("image/png", "image/jpeg", "image/gif", "image/webp")
    max_image_bytes: int = 5 * 1024 * 1024
    max_message_image_bytes: int = 10 * 1024 * 1024
    max_images: int = 8
    max_line_bytes: int = 16 * 1024 * 1024
    max_echo_bytes: int = 4096


CAPS: Final = InputCaps()

# --- events --------------------------------------------------------------------------------------------------


class _Item(Struct, tag_field="type", gc=False):
    """Base of every event."""


class Step(_Item, tag="step"):
    """A model request is about to be made; counts from 1, ``max`` 0 is no limit."""

    index: int
    max: int = 0


class Token(_Item, tag="token"):
    """A piece of the answer."""

    text: str


class Reasoning(_Item, tag="reasoning"):
    """A piece of reasoning."""

    text: str


class ToolCallStarted(_Item, tag="tool_call_started"):
    """A call's name is known; its arguments are still streaming."""

    id: str
    name: str


class ToolCallArgsDelta(_Item, tag="tool_call_args_delta"):
    """A piece of a call's arguments."""

    id: str
    delta: str


class ToolCall(_Item, tag="tool_call"):
    """A call is complete; ``args`` is ``null`` if the model did not write JSON."""

    id: str
    name: str
    args: Raw


class ToolOutputDelta(_Item, tag="tool_output_delta"):
    """A piece of a running tool's output."""

    id: str
    delta: str


class ToolResult(_Item, tag="tool_result"):
    """A tool finished."""

    id: str
    content: str
    is_error: bool = False
    diff: Optional = UNSET


class ToolDetails(_Item, tag="tool_details"):
    """What a host tool gave for the host alone."""

    id: str
    details: Raw


class PermissionRequest(_Item, tag="permission_request", kw_only=True):
    """May this call run?"""

    request_id: str
    tool_name: str
    capability: str
    path: str | None = None
    command: Optional = UNSET
    diff: Optional = UNSET
    prompt_kind: str
    offers_always: bool = True


class ToolRequest(_Item, tag="tool_request"):
    """The host shall run one of its tools."""

    request_id: str
    tool_name: str
    args: Raw
    run_id: Optional = UNSET


class ToolRequestCancelled(_Item, tag="tool_request_cancelled"):
    """The host need not answer any more."""

    request_id: str
    reason: str


class ProvenanceImage(Struct, gc=False):
    """An image in a request: its identity, not its content."""

    sha256: str = ""
    mime_type: str = ""
    bytes: int = 0
    tool_call_id: Optional = UNSET


class RequestProvenance(_Item, tag="request_provenance", kw_only=True):
    """What is about to be sent to a model service."""

    run_id: Optional = UNSET
    session_id: Optional = UNSET
    provider: Optional = UNSET
    model: str
    api_type: Optional = UNSET
    request_sha256: str
    body_bytes: int
    tools_sha256: Optional = UNSET
    images: list[ProvenanceImage] | UnsetType | None = UNSET


class TurnUsage(_Item, tag="turn_usage"):
    """Tokens of one model request."""

    usage: Usage


class MessagesUpdated(_Item, tag="messages_updated"):
    """The history to adopt, as Chat Completions messages."""

    messages: list[Any]


class Compaction(_Item, tag="compaction"):
    """The history is summarised."""

    phase: str
    reason: str
    messages: int | UnsetType | None = UNSET


class Retry(_Item, tag="retry"):
    """A request failed before anything was streamed and will be sent again."""

    attempt: int
    max_attempts: int
    delay_ms: int
    reason: str


class Notice(_Item, tag="notice"):
    """A line for a person."""

    text: str


class Parked(_Item, tag="parked"):
    """The model has answered, but subagents still work."""


class SubagentStart(_Item, tag="subagent_start"):
    """A subagent begins."""

    run_id: str
    name: str
    task: Optional = UNSET


class SubagentQueued(_Item, tag="subagent_queued", kw_only=True):
    """A subagent waits for a place; ``waiting`` 1 is the next."""

    run_id: str
    name: str
    task: Optional = UNSET
    waiting: int


class SubagentEnd(_Item, tag="subagent_end"):
    """A subagent is over."""

    run_id: str
    name: str
    error: Optional = UNSET


class Subagent(_Item, tag="subagent"):
    """What a subagent says: one event of its own."""

    run_id: str
    name: str
    event: Raw


class Finished(_Item, tag="done"):
    """The run succeeded; ``usage`` is the last request's."""

    stop_reason: str
    usage: Usage | None = None


class Failed(_Item, tag="error", kw_only=True):
    """The run failed."""

    code: str = "error"
    message: str


Item = (
    Step | Token | Reasoning | ToolCallStarted | ToolCallArgsDelta | ToolCall | ToolOutputDelta | ToolResult
    | ToolDetails | PermissionRequest | ToolRequest | ToolRequestCancelled | RequestProvenance | TurnUsage
    | MessagesUpdated | Compaction | Retry | Notice | Parked | SubagentStart | SubagentQueued | SubagentEnd
    | Subagent | Finished | Failed
)  # fmt: skip
"""Every event that the bus has a word for."""

ITEMS: Final[dict[str, type[Struct]]] = {
    str(item.__struct_config__.tag): item
    for item in (
        Step, Token, Reasoning, ToolCallStarted, ToolCallArgsDelta, ToolCall, ToolOutputDelta, ToolResult, ToolDetails,
        PermissionRequest, ToolRequest, ToolRequestCancelled, RequestProvenance, TurnUsage, MessagesUpdated,
        Compaction, Retry, Notice, Parked, SubagentStart, SubagentQueued, SubagentEnd, Subagent, Finished, Failed,
    )
}  # fmt: skip
"""The same by tag."""
