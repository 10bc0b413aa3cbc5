"""What a thing is called in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import UNSET, Struct

from agentwire import commands
from agentwire import events as bus

LONGEST: Final = 160
"""Characters of a title or a note."""


def one_line(text: str, longest: int = LONGEST) -> str:
    """A text on one line, cut to a length."""
    line = " ".join(text[: 4 * longest].split())
    return line if len(line) <= longest else line[: longest - 1] + "\u2026"


def tag(thing: Struct) -> str:
    """The name of an event or a command."""
    return str(thing.__struct_config__.tag)


def of_parts(parts: Iterable[bus.Part]) -> str:
    """A prompt's parts."""
    return one_line(" ".join(_PART[type(part)](part) for part in parts))


def of_event(event: bus.Event) -> str:
    """What an event says, for events that are no part of anything longer."""
    said = _EVENT.get(type(event))
    return one_line(said(event)) if said is not None else tag(event).replace("_", " ")


def of_command(command: commands.Command | None) -> str:
    """What a host asks for."""
    if command is None:
        return "a line that is no command"
    said = _COMMAND.get(type(command))
    name = tag(command).replace("_", " ")
    return one_line(f"{name}: {said(command)}") if said is not None else name


def of_usage(usage: bus.Usage) -> str:
    """Tokens in and out; empty if none were reported."""
    parts = [
        f"{value:,} {what}"
        for value, what in (
            (usage.input_tokens, "in"),
            (usage.output_tokens, "out"),
            (usage.cache_read_tokens, "cached"),
        )
        if value is not UNSET
    ]
    return ", ".join(parts)


_PART: Final[dict[type[Any], Callable[[Any], str]]] = {
    bus.Text: lambda part: part.text,
    bus.Image: lambda part: "[image]",
    bus.File: lambda part: f"[{part.path}]",
}

_EVENT: Final[dict[type[bus.Event], Callable[[Any], str]]] = {
    bus.SessionOpened: lambda e: " ".join(filter(None, (f"session {e.kind}", e.provider, e.model))),
    bus.ConfigChanged: lambda e: (
        "configuration: " + (", ".join(f"{c.field} {c.new}" for c in e.changes) or "unchanged")
    ),
    bus.ModeChanged: lambda e: f"mode {e.mode}",
    bus.ContextAdded: lambda e: f"context: {e.text}",
    bus.UserJoined: lambda e: f"joined: {e.text or of_parts(e.parts)}",
    bus.HostToolsChanged: lambda e: (
        "host tools: " + (", ".join(tool.declared or tool.name for tool in e.tools) or "none")
    ),
    bus.McpServerReady: lambda e: f"MCP server {e.name} is ready",
    bus.McpServerFailed: lambda e: f"MCP server {e.name}: {e.error.message}",
    bus.Notice: lambda e: e.text,
    bus.ErrorRaised: lambda e: e.error.message or e.error.code,
    bus.SessionClosed: lambda e: f"session closed: {e.reason}" if e.reason else "session closed",
    bus.Unknown: lambda e: f"{e.name} ({e.wire})",
}

_COMMAND: Final[dict[type[commands.Command], Callable[[Any], str]]] = {
    commands.Prompt: lambda c: c.text or of_parts(c.parts),
    commands.Steer: lambda c: c.text or of_parts(c.parts),
    commands.Approve: lambda c: f"{c.call_id or c.approval_id} ({c.scope})",
    commands.Deny: lambda c: f"{c.call_id or c.approval_id} {c.reason}".rstrip(),
    commands.SetMode: lambda c: c.mode,
    commands.InitHistory: lambda c: c.text,
    commands.AddMcpServer: lambda c: c.name,
    commands.OpenSession: lambda c: c.id or "new",
    commands.ResumeSession: lambda c: c.id,
    commands.AnswerHostTool: lambda c: c.request_id,
    commands.SetModel: lambda c: c.model,
}
