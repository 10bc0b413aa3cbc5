"""The events of the bus: everything an agent can say, once, for every wire.

An event is a fact without a place. Its place (sequence number, turn, time, origin) is the
:class:`agentwire.log.Record` around it. Every event is a tagged msgspec struct; its tag is its name in
snake_case and stands in the journal and in ``schemas/``. A field is only ever added, with a default: journals
written by an older version must stay readable.

Units: times in milliseconds since the epoch, durations in milliseconds, sizes in bytes, counts of tokens as
the model service reported them. A string default of ``""`` means "does not apply"; ``UNSET`` means "unknown".
"""

from __future__ import annotations

from agentwire.events.base import Event
from agentwire.events.session import (
    CapabilitiesChanged,
    ConfigChanged,
    ContextAdded,
    ErrorRaised,
    HistoryCleared,
    HostToolsChanged,
    McpServerFailed,
    McpServerReady,
    ModeChanged,
    Notice,
    SessionClosed,
    SessionOpened,
    UserJoined,
)
from agentwire.events.subagents import SubagentFinished, SubagentQueued, SubagentStarted
from agentwire.events.turn import (
    ApprovalRequested,
    ApprovalResolved,
    CallArgumentsDelta,
    CallCancelled,
    CallFinished,
    CallOutputDelta,
    CallReady,
    CallRunning,
    CallStarted,
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    HostToolCancelled,
    HostToolDetails,
    HostToolRequested,
    Parked,
    ReasoningDelta,
    RequestSent,
    RetryScheduled,
    StepFinished,
    StepStarted,
    TextDelta,
    TurnFinished,
    TurnStarted,
)
from agentwire.events.unknown import Unknown
from agentwire.events.values import (
    MODES,
    ApprovalOption,
    CallRef,
    CancelCause,
    Capabilities,
    Category,
    ConfigChange,
    Diff,
    Display,
    ErrorInfo,
    File,
    HostTool,
    Image,
    ImageInput,
    Location,
    Mode,
    Outcome,
    Part,
    SentImage,
    SubagentTask,
    Text,
    ToolSpec,
    Usage,
)

__all__ = [
    "ALL_EVENTS",
    "MODES",
    "SESSION_EVENTS",
    "SUBAGENT_EVENTS",
    "TURN_EVENTS",
    "AnyEvent",
    "ApprovalOption",
    "ApprovalRequested",
    "ApprovalResolved",
    "CallArgumentsDelta",
    "CallCancelled",
    "CallFinished",
    "CallOutputDelta",
    "CallReady",
    "CallRef",
    "CallRunning",
    "CallStarted",
    "CancelCause",
    "Capabilities",
    "CapabilitiesChanged",
    "Category",
    "CompactionFailed",
    "CompactionFinished",
    "CompactionStarted",
    "ConfigChange",
    "ConfigChanged",
    "ContextAdded",
    "Diff",
    "Display",
    "ErrorInfo",
    "ErrorRaised",
    "Event",
    "File",
    "HistoryCleared",
    "HostTool",
    "HostToolCancelled",
    "HostToolDetails",
    "HostToolRequested",
    "HostToolsChanged",
    "Image",
    "ImageInput",
    "Location",
    "McpServerFailed",
    "McpServerReady",
    "Mode",
    "ModeChanged",
    "Notice",
    "Outcome",
    "Parked",
    "Part",
    "ReasoningDelta",
    "RequestSent",
    "RetryScheduled",
    "SentImage",
    "SessionClosed",
    "SessionOpened",
    "StepFinished",
    "StepStarted",
    "SubagentFinished",
    "SubagentQueued",
    "SubagentStarted",
    "SubagentTask",
    "Text",
    "TextDelta",
    "ToolSpec",
    "TurnFinished",
    "TurnStarted",
    "Unknown",
    "Usage",
    "UserJoined",
]

SESSION_EVENTS: tuple[type[Event], ...] = (
    SessionOpened, CapabilitiesChanged, ConfigChanged, ModeChanged, ContextAdded, UserJoined, HistoryCleared,
    HostToolsChanged, McpServerReady, McpServerFailed, Notice, ErrorRaised, SessionClosed,
)  # fmt: skip

TURN_EVENTS: tuple[type[Event], ...] = (
    TurnStarted, StepStarted, TextDelta, ReasoningDelta, CallStarted, CallArgumentsDelta, CallReady,
    ApprovalRequested, ApprovalResolved, CallRunning, CallOutputDelta, CallFinished, CallCancelled,
    HostToolRequested, HostToolCancelled, HostToolDetails, RetryScheduled, RequestSent, CompactionStarted,
    CompactionFinished, CompactionFailed, StepFinished, Parked, TurnFinished,
)  # fmt: skip

SUBAGENT_EVENTS: tuple[type[Event], ...] = (SubagentQueued, SubagentStarted, SubagentFinished)

ALL_EVENTS: tuple[type[Event], ...] = (*SESSION_EVENTS, *TURN_EVENTS, *SUBAGENT_EVENTS, Unknown)

AnyEvent = (
    SessionOpened | CapabilitiesChanged | ConfigChanged | ModeChanged | ContextAdded | UserJoined | HistoryCleared
    | HostToolsChanged | McpServerReady | McpServerFailed | Notice | ErrorRaised | SessionClosed
    | TurnStarted | StepStarted | TextDelta | ReasoningDelta | CallStarted | CallArgumentsDelta | CallReady
    | ApprovalRequested | ApprovalResolved | CallRunning | CallOutputDelta | CallFinished | CallCancelled
    | HostToolRequested | HostToolCancelled | HostToolDetails | RetryScheduled | RequestSent | CompactionStarted
    | CompactionFinished | CompactionFailed | StepFinished | Parked | TurnFinished
    | SubagentQueued | SubagentStarted | SubagentFinished | Unknown
)  # fmt: skip
"""The union the journal decodes: every event, told apart by its tag."""
