"""The events of the bus: everything an agent can say, once, for every wire.

An event is a fact without a place. Its place (sequence number, turn, time, origin) is the
:class:`agentwire.log.Record` around it. Every event is a tagged msgspec struct; its tag is its name in
snake_case and stands in the journal and in ``schemas/``. A field is only ever added, with a default: journals
written by an older version must stay readable.

Units: times in milliseconds since the epoch, durations in milliseconds, sizes in bytes, counts of tokens as
the model service reported them. A string default of ``""`` means "does not apply"; ``UNSET`` means "unknown".
"""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

Outcome = Literal["completed", "cancelled", "failed", "limit"]
"""How a turn ended. ``limit``: the step limit was reached."""

Category = Literal["info", "edit", "exec", "mcp"]
"""What a tool may do: look, change files, run programs, or call a foreign server."""

Mode = Literal["default", "auto_edit", "yolo"]
"""Approval modes, see :mod:`agentwire.approvals`."""

ImageInput = Literal["supported", "unsupported", "unknown"]

MODES: tuple[Mode, ...] = ("default", "auto_edit", "yolo")


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event(Struct, tag=_tag, omit_defaults=True, kw_only=False):
    """Base of every event. Subclass it only in this module: the journal's format is the union of them."""


# --- values ------------------------------------------------------------------------------------------------


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


class Text(Struct, tag="text"):
    """A piece of text in a prompt or a tool result."""

    text: str


class Image(Struct, tag="image", omit_defaults=True):
    """An image: base64 ``data``, or a ``path`` on this machine that was resolved when it was read."""

    mime_type: str
    data: str = ""
    path: str = ""


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


class ToolSpec(Struct, omit_defaults=True):
    """A tool as a model service is told of it: a JSON Schema for its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class SubagentTask(Struct):
    """What a subagent was asked to do."""

    name: str
    prompt: str


# --- session -----------------------------------------------------------------------------------------------


class SessionOpened(Event):
    """The session is ready: new, resumed from its journal, or forked from another."""

    id: str
    kind: Literal["new", "resumed", "forked"] = "new"
    workspace: str = ""
    provider: str = ""
    model: str = ""
    capabilities: Capabilities = Capabilities()
    forked_from: str = ""
    root: str = ""
    """The first session of a line of forks."""
    ephemeral: bool = False
    """No journal: the session dies with the process and cannot be resumed."""
    policy: str = ""
    """Name of the policy in force, for people who read journals."""


class CapabilitiesChanged(Event):
    """Something beside mode and configuration changed what the session can do."""

    capabilities: Capabilities


class ConfigChanged(Event):
    """A set-config command was carried out, possibly without effect (``changes`` empty)."""

    changes: list[ConfigChange]
    capabilities: Capabilities
    deferred: bool = False
    """It came during a turn and was held until its end."""


class ModeChanged(Event):
    """The approval mode was set (possibly to what it was)."""

    mode: Mode
    old: Mode
    capabilities: Capabilities


class ContextAdded(Event):
    """Prior context from the host (init_history): part of what the model reads from now on."""

    text: str


class UserJoined(Event):
    """Text that the user added to the running turn (steer)."""

    text: str
    message_id: str = ""


class HistoryCleared(Event):
    """The model's memory of this session starts anew here. The log keeps everything."""


class HostToolsChanged(Event):
    """The set of tools that the host runs for the agent was replaced."""

    tools: list[ToolSpec]


class McpServerReady(Event):
    """An MCP server is connected. ``tools``: names as the server lists them, not as they are registered."""

    name: str
    tools: list[str]
    dynamic: bool = False
    """Asked for by the host (add_mcp_server), not by configuration."""


class McpServerFailed(Event):
    """An MCP server could not be connected, or died and was not restarted."""

    name: str
    error: ErrorInfo
    dynamic: bool = False


class Notice(Event):
    """Something a person may want to know; nothing depends on it."""

    text: str
    level: Literal["info", "warning"] = "info"


class ErrorRaised(Event):
    """Something went wrong. The turn may go on; if it ends, :class:`TurnFinished` follows and repeats it."""

    error: ErrorInfo


class SessionClosed(Event):
    """The session was closed in good order. ``reason`` is free text."""

    reason: str = ""


# --- turn --------------------------------------------------------------------------------------------------


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
    cause: Literal["denied", "refused", "stopped", "client_gone", "crashed"]
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
    arguments: Raw | UnsetType = UNSET
    run_id: str = ""


class HostToolCancelled(Event):
    """The host need not answer a request any more."""

    request_id: str
    reason: str = ""


class HostToolDetails(Event):
    """Details that a host tool gave with its result."""

    call_id: str
    details: Raw


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


# --- subagents ---------------------------------------------------------------------------------------------


class SubagentQueued(Event):
    """A subagent waits for a free place; ``waiting`` 1 means it is next."""

    run_id: str
    name: str
    task: str = ""
    waiting: int = 1


class SubagentStarted(Event):
    """A subagent begins. Its own events carry ``run_id`` as their record's origin."""

    run_id: str
    name: str
    task: str = ""


class SubagentFinished(Event):
    """A subagent ended; ``error`` is empty if it ended well."""

    run_id: str
    name: str
    error: str = ""
    usage: Usage = Usage()


# --- whatever has no word here -------------------------------------------------------------------------------


class Unknown(Event):
    """What a host side read and the bus has no word for: kept, shown, and rendered again on its own wire.

    A journal line of a newer version becomes one too (``wire="agentwire"``).
    """

    wire: str
    name: str
    raw: Raw
    """The whole message as JSON on one line."""


SESSION_EVENTS: tuple[type[Event], ...] = (
    SessionOpened, CapabilitiesChanged, ConfigChanged, ModeChanged, ContextAdded, UserJoined, HistoryCleared,
    HostToolsChanged, McpServerReady, McpServerFailed, Notice, ErrorRaised, SessionClosed,
)  # fmt: skip

TURN_EVENTS: tuple[type[Event], ...] = (
    TurnStarted, StepStarted, TextDelta, ReasoningDelta, CallStarted, CallArgumentsDelta, CallReady,
    ApprovalRequested, ApprovalResolved, CallRunning, CallOutputDelta, CallFinished, CallCancelled,
    HostToolRequested, HostToolCancelled, HostToolDetails, RetryScheduled, RequestSent, CompactionStarted,
    CompactionFinished, CompactionFailed, StepFinished, TurnFinished,
)  # fmt: skip

SUBAGENT_EVENTS: tuple[type[Event], ...] = (SubagentQueued, SubagentStarted, SubagentFinished)

ALL_EVENTS: tuple[type[Event], ...] = (*SESSION_EVENTS, *TURN_EVENTS, *SUBAGENT_EVENTS, Unknown)

AnyEvent = (
    SessionOpened | CapabilitiesChanged | ConfigChanged | ModeChanged | ContextAdded | UserJoined | HistoryCleared
    | HostToolsChanged | McpServerReady | McpServerFailed | Notice | ErrorRaised | SessionClosed
    | TurnStarted | StepStarted | TextDelta | ReasoningDelta | CallStarted | CallArgumentsDelta | CallReady
    | ApprovalRequested | ApprovalResolved | CallRunning | CallOutputDelta | CallFinished | CallCancelled
    | HostToolRequested | HostToolCancelled | HostToolDetails | RetryScheduled | RequestSent | CompactionStarted
    | CompactionFinished | CompactionFailed | StepFinished | TurnFinished
    | SubagentQueued | SubagentStarted | SubagentFinished | Unknown
)  # fmt: skip
"""The union the journal decodes: every event, told apart by its tag."""
