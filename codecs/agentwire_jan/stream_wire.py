"""The lines that only stream-json has: its first, its last, and what a host may write (section 4).

Names are in snake_case throughout. Field order is key order.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from agentwire_jan.wire import InputCaps, ToolSpec

PROTOCOL_VERSION: Final = 1

INPUT_KINDS: Final = ("user", "abort", "permission", "tool_result")
DECISIONS: Final = ("allow_once", "allow_always", "deny")

MAX_LINE: Final = 16 * 1024 * 1024
"""Longest line in bytes, its line feed included."""

MAX_ECHO: Final = 4096
"""Most bytes of a bad line that are given back."""


class Init(Struct, tag_field="type", tag="init"):
    """The first line of a run that could be set up."""

    protocol_version: int
    session_id: str
    model: str
    cwd: str | None = None
    tools: list[str] = []
    tool_specs: list[ToolSpec] | UnsetType = UNSET
    input_kinds: tuple[str, ...] = ()
    input_content_parts: InputCaps | None = None


class PermissionDecision(Struct, tag_field="type", tag="permission_decision"):
    """How a question was settled: a host's answer given back, or that nobody is there to answer."""

    request_id: str
    decision: str


class InputError(Struct, tag_field="type", tag="input_error"):
    """A line of the host that was not carried out. It never ends the run."""

    message: str
    line: str
    line_truncated: bool


class RunError(Struct):
    """Why a run failed."""

    code: str
    message: str


class ReportUsage(Struct):
    """Tokens of all requests, children's included; of the last two ``null`` is "never reported"."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class Result(Struct, tag_field="type", tag="result", kw_only=True):
    """The last line, whatever happened."""

    protocol_version: int = PROTOCOL_VERSION
    is_error: bool
    result: str = ""
    stop_reason: str
    error: RunError | UnsetType | None = UNSET
    session_id: str | None = None
    model: str = ""
    num_turns: int = 0
    duration_ms: int = 0
    usage: ReportUsage


Frame = Init | PermissionDecision | InputError | Result
"""Every line of an agent that is no event."""


# --- what a host writes --------------------------------------------------------------------------------------


class User(Struct, tag_field="type", tag="user", omit_defaults=True):
    """Text or parts that join at the next boundary; exactly one of the two."""

    text: str | None = None
    content: list[Any] | None = None


class Permission(Struct, tag_field="type", tag="permission"):
    """The answer to a ``permission_request``."""

    request_id: str
    decision: str


class ToolAnswer(Struct, tag_field="type", tag="tool_result", omit_defaults=True):
    """The answer to a ``tool_request``."""

    request_id: str
    content: str | list[Any]
    is_error: bool = False
    details: Any = None


class Abort(Struct, tag_field="type", tag="abort"):
    """Stop the run. Nothing after it is read."""


InputLine = User | Permission | ToolAnswer | Abort
