"""What happens in a turn: its steps, its calls, its questions, its end."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType

from agentwire.events.base import Event
from agentwire.events.values import (
    ApprovalOption,
    CallRef,
    CancelCause,
    Category,
    Diff,
    Display,
    ErrorInfo,
    Image,
    Location,
    Outcome,
    Part,
    SentImage,
    Usage,
)


class TurnStarted(Event):
    """A user input was accepted. ``ref`` is the driver's own id for it, with its JSON type."""

    id: str
    """A random UUID, unique over all sessions."""
    ref: str | int | float | None = None
    input: list[Part] = []
    agent: str = ""
    user: str = ""


class StepStarted(Event):
    """A model call begins. ``index`` counts from 0 within the turn; ``max`` 0 means no limit."""

    index: int
    max: int = 0


class TextDelta(Event, gc=False):
    """A piece of the answer, never empty, never cut inside a character."""

    text: str
    message_id: str = ""


class ReasoningDelta(Event, gc=False):
    """A piece of the model's reasoning, for display."""

    text: str
    message_id: str = ""


class CallStarted(Event, gc=False):
    """The model began to write a tool call; its arguments are still streaming. ``call_id`` is unique in the session."""

    call_id: str
    name: str


class CallArgumentsDelta(Event, gc=False):
    """A piece of the arguments' JSON text, verbatim."""

    call_id: str
    delta: str


class CallReady(Event):
    """A call is complete and about to be judged (approval) and run."""

    call_id: str
    name: str
    arguments_text: str = ""
    """As the model streamed it; may be empty or not JSON."""
    arguments: Raw | UnsetType = UNSET
    """The same as compact JSON with sorted keys, on one line; absent if it is not an object."""
    category: Category = "exec"
    description: str = ""
    """One line for a person; ``""`` for an unknown tool."""
    locations: list[Location] = []
    barred: bool = False
    """Never judged nor run: the model wrote it badly, or the tool is not to be had in this session. The model
    reads why; hosts are not shown the call."""


class ApprovalRequested(Event):
    """The host is asked whether a call may run."""

    approval_id: str
    call_id: str
    name: str
    category: Category = "exec"
    path: str = ""
    """The file that would be touched, resolved."""
    command: str = ""
    diff: Diff | UnsetType = UNSET
    prompt_kind: Literal["read", "read_escape", "write", "write_escape", "exec", "mcp", "monitor"] = "exec"
    """``*_escape``: the path resolves outside the workspace."""
    offers_always: bool = True
    options: list[ApprovalOption] = []
    """Empty: the usual three (this call, always, no)."""


class ApprovalResolved(Event):
    """The question is settled; every connection learns by whom."""

    approval_id: str
    call_id: str
    decision: Literal["allowed", "denied", "cancelled"]
    scope: Literal["", "call", "tool", "category"] = ""
    by: str = ""
    """``host`` or the name of a connection; ``stop``, ``client_gone``, ``policy``."""
    reason: str = ""


class CallRunning(Event, gc=False):
    """The tool was started."""

    call_id: str
    name: str = ""


class CallOutputDelta(Event, gc=False):
    """Live output of a running tool. At most 1 MiB per call, then one notice."""

    call_id: str
    delta: str
    stream: str = ""
    """``stdout``, ``stderr`` or ``""``."""


class CallFinished(Event):
    """The tool ended, well or badly, and the model reads ``output``."""

    call_id: str
    name: str
    status: Literal["ok", "error"]
    output: str
    display: Display | UnsetType = UNSET
    """What a person is shown; absent: the same as ``output``."""
    images: list[Image] = []
    """Images that the model sees beside ``output``."""
    metadata: dict[str, Any] | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    """A host tool's own details, for the host alone."""
    duration_ms: int | UnsetType = UNSET
    retryable: bool = False


class CallCancelled(Event):
    """The call will not (or no longer) run. The model reads ``output`` as an error."""

    call_id: str
    cause: CancelCause
    reason: str = ""
    """For the host: what the denier said, or why."""
    name: str = ""
    output: str = ""
    """For the model; empty: made from the cause and the reason."""


class HostToolRequested(Event):
    """The host is asked to run one of its own tools."""

    request_id: str
    call_id: str
    name: str
    """As the host declared it."""
    arguments: Raw | UnsetType = UNSET
    run_id: str = ""
    """The subagent that calls it."""


class HostToolCancelled(Event):
    """The host need not answer a request any more."""

    request_id: str
    reason: Literal["stopped", "client_gone"] = "stopped"
    call_id: str = ""


class HostToolDetails(Event):
    """Details that a host tool gave with its result."""

    call_id: str
    details: Raw


class Parked(Event, gc=False):
    """The model has answered, but its subagents still work: the turn goes on when one of them ends."""


class RetryScheduled(Event):
    """A model request failed and will be sent again. Reasoning shown in this step so far is void."""

    attempt: int
    of: int
    delay_ms: int
    reason: str
    stream: bool = False
    """The stream broke off after it had begun, rather than the request being refused."""


class RequestSent(Event):
    """Provenance of a model request. Hashes are SHA-256 in hex over canonical JSON (keys sorted at every level)."""

    provider: str
    model: str
    api: str = ""
    request_sha256: str = ""
    body_bytes: int = 0
    tools_sha256: str = ""
    images: list[SentImage] = []
    """Every image in the body, in order."""


class CompactionStarted(Event):
    """The history is about to be summarised."""

    reason: str


class CompactionFinished(Event):
    """``summary`` stands for everything before the last ``kept`` messages from here on."""

    reason: str
    summary: str
    kept: int = 0
    messages: int | UnsetType = UNSET


class CompactionFailed(Event):
    """The history stays as it was."""

    reason: str
    error: str = ""


class StepFinished(Event):
    """The model's reply is complete; its calls run after this. The text is the truth, deltas were its streaming."""

    index: int
    text: str = ""
    reasoning: str = ""
    calls: list[CallRef] = []
    usage: Usage | UnsetType = UNSET
    finish_reason: str = ""
    """``stop``, ``tool_calls``, ``length``, ``refusal``, ``content_filter``, or the service's own word."""
    provider: str = ""
    """Who made ``items``: only the same provider gets them back."""
    items: list[Raw] = []
    """The reply's blocks as the service sent them, in order, signatures included."""


class TurnFinished(Event):
    """The end of the turn: exactly one, and nothing of the turn after it."""

    outcome: Outcome
    text: str = ""
    usage: Usage = Usage()
    """Sum over all model calls of this turn, whatever the outcome."""
    error: ErrorInfo | UnsetType = UNSET
    finish_reason: str = ""
    """Of the last step; ``refusal`` and ``length`` survive here."""
    steps: int = 0
    limit: Literal["", "steps", "bad_calls"] = ""
    """Which limit an outcome ``limit`` ran into: model calls, or calls that the model wrote badly."""
