"""What happens to a session as a whole."""

from __future__ import annotations

from typing import Literal

from agentwire.events.base import Event
from agentwire.events.values import Capabilities, ConfigChange, ErrorInfo, HostTool, Mode, Part


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
    """Text that the user added to the running turn (steer), or that a subagent's end added for the model."""

    text: str
    message_id: str = ""
    parts: list[Part] = []
    """Instead of ``text``, where there are images."""


class HistoryCleared(Event):
    """The model's memory of this session starts anew here. The log keeps everything."""


class HostToolsChanged(Event):
    """The set of tools that the host runs for the agent was replaced."""

    tools: list[HostTool]


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
