"""The commands of the bus: everything a host can ask, and the outcome that each gets exactly once.

A command names no wire and no connection. ``session`` is the id of the session it is for; on wires where a
connection has only one session the connection fills it in. Refusals carry a code from a small set that every
codec maps to its own wire (:data:`REFUSAL_CODES`).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire.events import HostTool, Mode, Part
from agentwire.events.base import snake

JsonId = str | int | float | None


class Command(Struct, tag=snake, omit_defaults=True, gc=False):
    """Base of every command. ``gc=False`` is sound: what a command holds does not refer back to it."""


class Prompt(Command):
    """A user input: starts a turn. ``files`` are paths the host attached."""

    text: str = ""
    ref: JsonId = None
    """The host's own id for the turn, given back on everything that belongs to it."""
    parts: list[Part] = []
    """Instead of ``text``, where a host sends content parts."""
    files: list[str] = []
    session: str = ""
    agent: str = ""
    user: str = ""
    resume: bool = False
    """Go on with a turn that was cut short; if there is none, a notice says so and the input is a turn like any."""
    approve: list[str] = []
    """Tools or categories that need no question in this turn."""
    when_busy: Literal["", "refuse", "queue", "ignore"] = ""
    """What to do if a turn runs; empty: as the policy says. A queued prompt's outcome comes when its turn starts,
    or when it is stopped before that (refused: ``cancelled``)."""
    open: bool = False
    """Open the session if this process has none of that name: from its journal if there is one, else a new one."""


class Stop(Command):
    """End the running turn now. When idle it does nothing."""

    session: str = ""
    ref: JsonId | UnsetType = UNSET
    """Only the turn, running or queued, with this ``ref``; absent: whichever runs."""
    wait: bool = False
    """The outcome follows the turn's end; else it is given at once."""


class Steer(Command):
    """Add user text to the running turn: the model reads it before its next reply."""

    text: str
    session: str = ""
    parts: list[Part] = []
    """Instead of ``text``, where a host sends content parts."""


class Approve(Command):
    """Let a call run. ``call_id`` or ``approval_id`` names the question."""

    call_id: str = ""
    approval_id: str = ""
    scope: Literal["once", "always", "tool", "category"] = "once"
    """``always``: what the policy says that covers."""
    session: str = ""


class Deny(Command):
    """Do not let a call run; the model reads the reason."""

    call_id: str = ""
    approval_id: str = ""
    reason: str = ""
    session: str = ""


class SetMode(Command):
    """Change the approval mode. Questions already asked stay open."""

    mode: Mode
    session: str = ""


class SetConfig(Command):
    """Change model settings; during a turn they are held until its end. Values are judged by the session."""

    model: str | UnsetType = UNSET
    image_input: Literal["supported", "unsupported", "unknown"] | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    thinking_budget: int | UnsetType = UNSET
    effort: str | UnsetType = UNSET
    compaction: str | UnsetType = UNSET
    session: str = ""


class InitHistory(Command):
    """Prior context, before the first prompt."""

    text: str
    session: str = ""


class AddMcpServer(Command):
    """Connect an MCP server, before the first prompt. ``transport`` is judged by the session."""

    name: str
    transport: str
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    session: str = ""


class Ping(Command):
    """Are you there? Answered at once, whatever else goes on."""


class OpenSession(Command):
    """A new session. ``id`` empty: one is made."""

    id: str = ""
    workspace: str = ""
    model: str = ""
    ephemeral: bool = False
    system_prompt: str = ""
    builtins: bool = True
    subagents: bool | UnsetType = UNSET
    """Offer the tools that start subagents; absent: as ``builtins``."""
    tools: list[HostTool] = []
    host_permissions: bool = False
    """The host itself decides about calls of its tools: nobody is asked."""
    roots: list[str] = []


class ResumeSession(Command):
    """Take up a session again; ``id`` may be ``latest``: the newest created in the workspace."""

    id: str
    workspace: str = ""
    tools: list[HostTool] = []
    host_permissions: bool = False
    """The host itself decides about calls of its tools: nobody is asked."""


class ForkSession(Command):
    """A new session that begins as a copy of another; the other is not touched."""

    session: str
    id: str = ""


class ArchiveSession(Command):
    """Close a session; its journal stays, unless ``remove`` says otherwise: then a stored one will do, too."""

    session: str
    remove: bool = False


class GetHistory(Command):
    """The conversation as the model reads it: a list of :class:`agentwire.messages.Message`."""

    session: str = ""


class ListSessions(Command):
    """The sessions of this process, or (``stored``) all journals."""

    stored: bool = False


class ResetSession(Command):
    """Clear what the model remembers of a session."""

    session: str


class GetHostTools(Command):
    """Which tools does the next turn offer?"""

    session: str


class SetHostTools(Command):
    """Replace the tools that the host runs."""

    session: str
    tools: list[HostTool]


class AnswerHostTool(Command):
    """The result of a host tool."""

    request_id: str
    content: list[Part]
    is_error: bool = False
    details: Raw | UnsetType = UNSET
    session: str = ""


class SetModel(Command):
    """Change the model between turns; an unusable one is refused."""

    session: str
    model: str


class Doctor(Command):
    """Check the set-up: a list of :class:`Check`. Starts nothing."""


class Plan(Command):
    """Say how a local model would be launched: an object of the provider's own. Starts nothing."""


class Shutdown(Command):
    """Stop every turn and end. The outcome is the last thing written."""


AnyCommand = (
    Prompt | Stop | Steer | Approve | Deny | SetMode | SetConfig | InitHistory | AddMcpServer | Ping | OpenSession
    | ResumeSession | ForkSession | ArchiveSession | ListSessions | ResetSession | GetHostTools | SetHostTools
    | AnswerHostTool | SetModel | Doctor | Plan | Shutdown | GetHistory
)  # fmt: skip

RefusalCode = Literal[
    "bad_line",        # not JSON, too long, not UTF-8
    "bad_request",     # JSON, but not a request of this wire
    "unknown_command",
    "bad_params",
    "busy",            # a turn runs; try again after it
    "too_late",        # only allowed earlier in the session's life
    "not_found",       # unknown session, call or approval
    "not_pending",
    "unsupported",     # this server cannot do it
    "config",          # set-up: key, model, MCP server
    "cancelled",       # stopped before it began
    "read_only",       # the journal cannot be written
    "internal",
]  # fmt: skip


class Done(Struct, tag="done", omit_defaults=True):
    """The command was carried out. ``value`` is what the caller asked for, if anything."""

    value: Any = None
    deferred: bool = False
    """Held until the running turn ends."""


class Refusal(Struct, tag="refusal", omit_defaults=True):
    """The command was not carried out, and why. Nothing else changed."""

    code: RefusalCode
    message: str
    retryable: bool = False
    data: Any = None
    """What a codec needs to tell it in full; of a ``config`` refusal its kind, see
    :class:`agentwire.provider.ConfigError`."""


class SessionState(Struct, omit_defaults=True):
    """A session as hosts are told of it: what opening, listing and changing one gives back."""

    id: str
    model: str = ""
    turns: int = 0
    """Turns since it was opened in this process."""
    tools: list[str] = []
    """The names that the next turn offers to the model, in that order."""
    host_tools: list[HostTool] = []
    """Those of them that the host runs."""
    open: bool = True
    """In this process; else it is a stored one."""
    workspace: str = ""
    created: int = 0
    """Milliseconds since the epoch; 0: not known."""
    modified: int = 0


class Check(Struct, omit_defaults=True):
    """One thing that was looked at in a set-up, and how it is."""

    name: str
    status: Literal["ok", "warn", "fail"]
    message: str = ""
    """What was found, and what to do about it."""


NOW = -1
"""``Outcome.after`` of a pong or a refusal: it goes out at the next line border, before any record still unread."""

LAST = -2
"""``Outcome.after`` of a shutdown: it goes out when everything else that is due was written."""


class Outcome(Struct):
    """The one answer to a command, and its place in the stream: after record ``after``, before the next."""

    result: Done | Refusal
    after: int = NOW
