"""Answers of an agent into outcomes; what an older build leaves out has its default (sections 6.3 and 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from agentwire import commands
from agentwire import events as bus
from agentwire.commands import Command, Done, Refusal, RefusalCode, SessionState
from agentwire_jan import wire
from agentwire_jan.declarations import read_spec


def text(value: Any, key: str) -> str:
    """A text in an object; ``""`` if it is not there."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _count(value: Any, key: str) -> int:
    found = value.get(key) if isinstance(value, dict) else None
    return found if type(found) is int else 0


def _tools(result: Any) -> tuple[list[str], list[bus.HostTool]]:
    """What a view says; a specification that is none is left out."""
    if not isinstance(result, dict):
        return [], []
    names = result.get("tools")
    specs = result.get("toolSpecs")
    told = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    tools = []
    for spec in specs if isinstance(specs, list) else ():
        try:
            tools.append(read_spec(msgspec.convert(spec, wire.ToolSpec)))
        except msgspec.ValidationError:
            continue
    return told, tools


def _state(session: str, result: Any) -> SessionState:
    tools, host_tools = _tools(result)
    return SessionState(session, text(result, "model"), _count(result, "turns"), tools, host_tools)


def _listed(result: Any) -> list[SessionState]:
    sessions = result.get("sessions") if isinstance(result, dict) else None
    return [
        SessionState(text(entry, "id"), text(entry, "model"), _count(entry, "turns"))
        for entry in (sessions if isinstance(sessions, list) else ())
    ]


def longest_line(result: Any) -> int:
    """How long a line may be, with its line feed, as the answer to ``initialize`` says; 0: an older build, which says
    nothing of it."""
    parts = result.get("input_content_parts") if isinstance(result, dict) else None
    return max(0, _count(parts, "max_line_bytes"))


def done(method: str, command: Command, result: Any) -> Done:
    """The outcome of a command that was carried out."""
    make = _VALUES.get(method)
    if make is None or isinstance(command, commands.Ping):
        return Done()
    return Done(make(command, result))


_VALUES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "session/start": lambda command, result: _state(text(result, "sessionId"), result),
    "session/resume": lambda command, result: _state(text(result, "sessionId") or command.id, result),
    "session/fork": lambda command, result: _state(text(result, "sessionId"), result),
    "session/tools/get": lambda command, result: _state(command.session, result),
    "session/tools/set": lambda command, result: _state(command.session, result),
    "session/reset": lambda command, result: _state(command.session, result),
    "session/model/set": lambda command, result: _state(command.session, result),
    "session/list": lambda command, result: _listed(result),
    "turn/start": lambda command, result: text(result, "turnId") or None,
    "turn/interrupt": lambda command, result: True,
}


def opened(method: str, command: Command, result: Any) -> bus.SessionOpened | None:
    """The session that an answer opens, if it does."""
    session = text(result, "sessionId")
    if isinstance(command, commands.OpenSession):
        return bus.SessionOpened(
            session, workspace=command.workspace, model=text(result, "model"), ephemeral=command.ephemeral
        )
    if isinstance(command, commands.ResumeSession):
        return bus.SessionOpened(session or command.id, "resumed", model=text(result, "model"))
    if isinstance(command, commands.ForkSession):
        return bus.SessionOpened(session, "forked", forked_from=command.session)
    return None


# --- errors --------------------------------------------------------------------------------------------------

_CODES: Final[dict[int, RefusalCode]] = {
    -32700: "bad_line",
    -32600: "bad_request",
    -32601: "unknown_command",
    -32001: "busy",
    -32002: "bad_request",
}
_KINDS: Final[dict[str, RefusalCode]] = {"not_pending": "not_pending", "invalid_tools": "bad_params"}
_METHODS: Final[dict[str, RefusalCode]] = {
    "turn/steer": "not_found",
    "turn/interrupt": "not_found",
    "permission/respond": "not_pending",
    "session/model/set": "config",
}
"""What is meant by an error of parameters that has no kind. We send none that are malformed."""


def refusal(method: str, error: Any) -> Refusal:
    """The outcome of a command that was refused: told by code and kind, never by the text."""
    given = error if isinstance(error, dict) else {}
    data = given.get("data")
    kind = text(data, "kind")
    code = given.get("code")
    meant: RefusalCode = "internal"
    if code == -32602:
        meant = _KINDS.get(kind) or _METHODS.get(method, "bad_params")
    elif type(code) is int:
        meant = _CODES.get(code, "internal")
    retryable = isinstance(data, dict) and data.get("retryable") is True
    return Refusal(meant, text(given, "message") or "the agent refused without a reason", retryable, data)
