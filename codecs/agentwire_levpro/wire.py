"""The messages of the wire, both directions (sections 2 to 5).

Field order is key order. A chat event is written as ``{"id": …, "type": "event", "event": NAME, …}``: the structs of
events hold what comes after ``type``, see :mod:`agentwire_levpro.envelope`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire.commands import JsonId

NAME: Final = "levpro"
"""The codec's name."""

Id = str | int | float

# --- core to host: chat events (section 5) -------------------------------------------------------------------


class _Event(Struct, tag_field="event", gc=False):
    """What an event says after its ``id`` and ``type``."""


class RunStart(_Event, tag="run_start"):
    """First event of a chat; ``trace_id`` is the result's."""

    user_input: str
    trace_id: str


class MemoryStart(_Event, tag="memory_start"):
    """The memory is asked. Never written here, for there is none."""


class LlmStart(_Event, tag="llm_start"):
    """A model call begins."""

    step: int


class LlmChunk(_Event, tag="llm_chunk"):
    """A piece of the model's text."""

    step: int
    delta: str


class LlmDone(_Event, tag="llm_done"):
    """The model call is over."""

    step: int


class ToolStart(_Event, tag="tool_start"):
    """A tool of that step begins."""

    step: int
    tool: str
    args: Raw


class ToolDone(_Event, tag="tool_done"):
    """The tool that began last is over."""

    step: int
    tool: str
    status: str
    preview: str
    retryable: bool
    ms: int | float


class FinalAnswer(_Event, tag="final"):
    """Last event of a run that has an answer."""

    step: int
    response: str


class LoopAbort(_Event, tag="loop_abort"):
    """Last event of a run that gives up."""

    step: int
    reason: str


EVENTS: Final[tuple[type[Struct], ...]] = (
    RunStart, MemoryStart, LlmStart, LlmChunk, LlmDone, ToolStart, ToolDone, FinalAnswer, LoopAbort,
)  # fmt: skip
"""Every chat event, in the order of the protocol's table."""

EVENT_NAMES: Final = tuple(str(event.__struct_config__.tag) for event in EVENTS)

# --- core to host: terminals (section 3) ---------------------------------------------------------------------


class ChatResult(Struct, gc=False):
    """What a chat's result holds; every key is always there."""

    response: str
    session_id: str
    trace_id: str
    warnings: list[str]


Code = Literal[
    "config_missing", "binary_missing", "model_missing", "model_plan_error", "unknown_method", "invalid_json",
    "invalid_request", "cancelled", "internal_error",
]  # fmt: skip


class Result(Struct, gc=False):
    """The answer to a request."""

    id: JsonId
    type: Literal["result"]
    result: Any


class Error(Struct, gc=False):
    """A request was not carried out, or failed. ``id`` is null if its line had no usable one."""

    id: JsonId
    type: Literal["error"]
    code: Code
    message: str


class CheckResult(Struct, gc=False):
    """One check of ``doctor``."""

    name: str
    status: Literal["ok", "warn", "fail"]
    message: str


class DoctorResult(Struct, gc=False):
    """The result of ``doctor``: the worst status, and every check."""

    status: Literal["ok", "warn", "fail"]
    checks: list[CheckResult]


class PlanResult(Struct, gc=False):
    """The result of ``plan``."""

    model: str = ""
    binary: str = ""
    args: list[str] = []
    context_size: int = 0
    gpu_layers: int = -1
    warnings: list[str] = []


# --- host to core (sections 2 and 4) -------------------------------------------------------------------------


class Nothing(Struct):
    """Parameters of a method that has none."""


class Initialize(Struct):
    """Which versions the host speaks; what it says of itself is for the log."""

    protocol_versions: list[int] | UnsetType = UNSET
    capabilities: dict[str, Any] | None = None
    client: dict[str, Any] | None = None


class Chat(Struct, omit_defaults=True):
    """One agent turn."""

    user_id: str = "default_user"
    session_id: str = ""
    agent: str = ""
    input: str = ""
    resume: bool = False
    approve_execution: bool = False


class Cancel(Struct):
    """Which chat to cancel; may be left out if there is only one."""

    request_id: Id | UnsetType = UNSET


PARAMS: Final[dict[str, type[Struct]]] = {
    "initialize": Initialize,
    "ping": Nothing,
    "doctor": Nothing,
    "plan": Nothing,
    "chat": Chat,
    "cancel": Cancel,
    "shutdown": Nothing,
}
"""Every method of version 1, and its parameters."""


class Request(Struct, omit_defaults=True):
    """A line that a host writes."""

    id: Id
    method: str
    params: Any = {}
