"""What events are made of: usage, capabilities, parts of a prompt, diffs, and the like."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

Outcome = Literal["completed", "cancelled", "failed", "limit"]
"""How a turn ended. ``limit``: the step limit was reached."""

Category = Literal["info", "edit", "exec", "mcp"]
"""What a tool may do: look, change files, run programs, or call a foreign server."""

Mode = Literal["default", "auto_edit", "yolo"]
"""Approval modes, see :mod:`agentwire.approvals`."""

ImageInput = Literal["supported", "unsupported", "unknown"]

CancelCause = Literal["denied", "refused", "stopped", "client_gone", "crashed"]
"""Why a call that was shown will not run, or no longer."""

MODES: tuple[Mode, ...] = ("default", "auto_edit", "yolo")


class Usage(Struct, omit_defaults=True, frozen=True):
    """Tokens of one model call, or of a turn. Absent means "not reported", which is not zero."""

    input_tokens: int | UnsetType = UNSET
    """Everything sent, tokens read from or written to a cache included."""
    output_tokens: int | UnsetType = UNSET
    cache_read_tokens: int | UnsetType = UNSET
    cache_write_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET
    extra: dict[str, Any] | UnsetType = UNSET
    """The model service's own usage object, as it came."""

    def __add__(self, other: Usage) -> Usage:
        def plus(a: int | UnsetType, b: int | UnsetType) -> int | UnsetType:
            if a is UNSET:
                return b
            return a if b is UNSET else a + b

        return Usage(
            plus(self.input_tokens, other.input_tokens),
            plus(self.output_tokens, other.output_tokens),
            plus(self.cache_read_tokens, other.cache_read_tokens),
            plus(self.cache_write_tokens, other.cache_write_tokens),
            plus(self.reasoning_tokens, other.reasoning_tokens),
            other.extra if other.extra is not UNSET else self.extra,
        )


class Capabilities(Struct, frozen=True):
    """What a session can do now, as hosts ask for it."""

    image_input: ImageInput = "unknown"
    thinking: bool = False
    effort: bool = False
    effort_levels: tuple[str, ...] = ()
    modes: tuple[str, ...] = MODES
    current_mode: Mode = "default"
    mcp: bool = False
    tool_approval: bool = True


class ConfigChange(Struct, omit_defaults=True):
    """One field of a set-config command and what became of it."""

    field: str
    """``model``, ``image_input``, ``thinking``, ``thinking_budget``, ``effort`` or ``compaction``."""
    old: str = ""
    new: str = ""
    budget: int | UnsetType = UNSET
    """Thinking only: the token budget in force."""
    problem: Literal["", "invalid", "unsupported"] = ""
    """Not empty: the value was refused and nothing changed."""
    allowed: tuple[str, ...] = ()
    """The values that would have been accepted."""


class Text(Struct, tag="text", omit_defaults=True):
    """A piece of text in a prompt or a tool result.

    ``extra`` is what the host's own content part said beside it, in the words of Chat Completions and as it came, such
    as ``cache_control``. Codecs that read such parts bound it; a provider uses what its service knows.
    """

    text: str
    extra: dict[str, Any] | UnsetType = UNSET


class Image(Struct, tag="image", omit_defaults=True):
    """An image: base64 ``data``, or a ``path`` on this machine that was resolved when it was read.

    ``extra`` is as a text's; what stood beside the URL (``detail``) is in it under ``image_url``.
    """

    mime_type: str
    data: str = ""
    path: str = ""
    extra: dict[str, Any] | UnsetType = UNSET


class SentImage(Struct, omit_defaults=True):
    """An image in a model request: which it was, not what it shows."""

    sha256: str
    """In hex, over its decoded bytes."""
    mime_type: str
    size: int
    """Decoded bytes."""
    call_id: str = ""
    """The call whose result it came with; empty: the user gave it."""


class File(Struct, tag="file", omit_defaults=True):
    """A file the host named beside the prompt; only its path travels."""

    path: str
    mime_type: str = ""


Part = Text | Image | File


class Diff(Struct, tag="diff", omit_defaults=True):
    """A change of one file, for a person: the unified text, and both sides where they are known."""

    path: str
    unified: str
    old: str | UnsetType = UNSET
    new: str | UnsetType = UNSET


Display = Text | Diff | Image
"""What a person is shown of a tool's result, where it differs from what the model reads."""


class Location(Struct, omit_defaults=True):
    """A place in a file that a call touches."""

    path: str
    line: int | UnsetType = UNSET


class CallRef(Struct):
    """A call as a finished step lists it. ``arguments_text`` is what the model streamed, valid JSON or not."""

    call_id: str
    name: str
    arguments_text: str


class ApprovalOption(Struct, omit_defaults=True):
    """One answer a host may give; ``kind`` says what it does."""

    id: str
    label: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]
    scope: Literal["", "call", "tool", "category"] = ""


class ErrorInfo(Struct, omit_defaults=True):
    """An error for the person at the host. Never holds a secret or a traceback."""

    code: str
    """``provider_error``, ``tool_error``, ``config_error``, ``protocol_error`` or ``internal_error``."""
    message: str
    retryable: bool = False
    kind: str = ""
    """Of a set-up that is not in order: which part, as :class:`agentwire.provider.ConfigError` tells them apart."""


class ToolSpec(Struct, omit_defaults=True):
    """A tool as a model service is told of it: a JSON Schema for its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class HostTool(ToolSpec):
    """A tool that the host runs: ``name`` is what the model calls it."""

    declared: str = ""
    """The host's own name for it; empty: the same."""
    capability: Literal["", "read", "actuator"] = ""
    """``read``: it only looks, and nobody is asked. ``actuator``: it moves something, and somebody always is. Empty:
    asked about as any call is."""


class SubagentTask(Struct):
    """What a subagent was asked to do."""

    name: str
    prompt: str
