"""Commands into requests of the RPC: the host side's one half (section 1.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType, to_builtins

from agentwire import commands as bus
from agentwire.commands import Command, Refusal
from agentwire.events import File, Part, Text
from agentwire_jan import messages, rpc
from agentwire_jan.declarations import declaration

Made = tuple[str, Struct | dict[str, Any]] | Refusal
"""Method and parameters, or why the wire cannot carry the command."""

_HERE: Final = "."
"""The directory that the agent was started in."""


def request(command: Command, session: str) -> Made:
    """The request for a command; ``session`` is the one it is for."""
    make = _SENDERS.get(type(command))
    if make is None:
        return Refusal("unsupported", f"jan has no word for {type(command).__struct_config__.tag}")
    if not session and type(command) not in _WITHOUT_SESSION:
        return Refusal("not_found", "no session is open: open one first")
    return make(command, session)


def _open(command: bus.OpenSession, session: str) -> Made:
    if command.id or command.roots:
        return Refusal("unsupported", "a Jan session's id and roots are not the host's to choose")
    return "session/start", rpc.SessionStart(
        cwd=command.workspace or _HERE,
        model=command.model or None,
        ephemeral=command.ephemeral,
        tools=[to_builtins(declaration(tool)) for tool in command.tools],
        builtins=command.builtins,
        subagents=None if isinstance(command.subagents, UnsetType) else command.subagents,
        system_prompt=command.system_prompt or None,
        permissions="host" if command.host_permissions else "jan",
    )


def _resume(command: bus.ResumeSession, session: str) -> Made:
    return "session/resume", rpc.SessionId(command.id)


def _list(command: bus.ListSessions, session: str) -> Made:
    if command.stored:
        return Refusal("unsupported", "jan lists the sessions of its process alone")
    return "session/list", {}


def _set_tools(command: bus.SetHostTools, session: str) -> Made:
    return "session/tools/set", rpc.ToolsSet(session, [to_builtins(declaration(tool)) for tool in command.tools])


def _set_config(command: bus.SetConfig, session: str) -> Made:
    rest = (command.image_input, command.thinking, command.thinking_budget, command.effort, command.compaction)
    if isinstance(command.model, UnsetType) or any(setting is not UNSET for setting in rest):
        return Refusal("unsupported", "jan can change a session's model and nothing else")
    return "session/model/set", rpc.ModelSet(session, command.model)


def _prompt(command: bus.Prompt, session: str) -> Made:
    if command.resume or command.files or command.approve or command.open:
        return Refusal("unsupported", "jan cannot go on with a turn, attach files, or approve and open with a prompt")
    if command.when_busy in ("queue", "ignore"):
        return Refusal("unsupported", "jan refuses a prompt while a turn runs")
    given = _input(command.text, command.parts)
    return given if isinstance(given, Refusal) else ("turn/start", rpc.TurnStart(session, given))


def _steer(command: bus.Steer, session: str) -> Made:
    text = command.text
    if command.parts:
        if not all(isinstance(part, Text) for part in command.parts):
            return Refusal("unsupported", "jan steers with text alone")
        text = "\n".join(part.text for part in command.parts if isinstance(part, Text))
    if not text.strip():
        return Refusal("bad_params", "jan refuses a blank input")
    return "turn/steer", rpc.TurnSteer(session, text)


def _answer(command: bus.AnswerHostTool, session: str) -> Made:
    content = _content(command.content)
    if isinstance(content, Refusal):
        return content
    params: dict[str, Any] = {"requestId": command.request_id, "content": content}
    if command.is_error:
        params["isError"] = True
    if not isinstance(command.details, UnsetType):
        params["details"] = _object(command.details)
    return "tool/respond", params


def _object(details: Raw) -> Any:
    """An agent refuses details that are no object, and the request would stay open."""
    return details if bytes(details).lstrip()[:1] in (b"{", b"n") else {"value": details}


def _input(text: str, parts: Sequence[Part]) -> str | list[Any] | Refusal:
    if not parts:
        return text if text.strip() else Refusal("bad_params", "jan refuses a blank input")
    return _parts(parts)


def _content(parts: Sequence[Part]) -> str | list[Any] | Refusal:
    if not parts:
        return ""
    text = messages.plain_text(parts)
    return _parts(parts) if text is None else text


def _parts(parts: Sequence[Part]) -> list[Any] | Refusal:
    for part in parts:
        if isinstance(part, File) or (not isinstance(part, Text) and not part.data):
            return Refusal("unsupported", "jan carries files and images by content, not by path")
    return messages.parts_to_wire(parts)


def _of_session(method: str) -> Callable[[Any, str], Made]:
    return lambda command, session: (method, rpc.SessionId(session))


_SENDERS: Final[dict[type[Command], Callable[[Any, str], Made]]] = {
    bus.OpenSession: _open,
    bus.ResumeSession: _resume,
    bus.ForkSession: _of_session("session/fork"),
    bus.ArchiveSession: _of_session("session/archive"),
    bus.ListSessions: _list,
    bus.ResetSession: _of_session("session/reset"),
    bus.GetHostTools: _of_session("session/tools/get"),
    bus.SetHostTools: _set_tools,
    bus.SetModel: lambda command, session: ("session/model/set", rpc.ModelSet(session, command.model)),
    bus.SetConfig: _set_config,
    bus.Prompt: _prompt,
    bus.Steer: _steer,
    bus.Stop: _of_session("turn/interrupt"),
    bus.Approve: lambda command, session: (
        "permission/respond",
        rpc.PermissionRespond(command.approval_id, "allow_once" if command.scope == "once" else "allow_always"),
    ),
    bus.Deny: lambda command, session: ("permission/respond", rpc.PermissionRespond(command.approval_id, "deny")),
    bus.AnswerHostTool: _answer,
    bus.Ping: lambda command, session: ("session/list", {}),
}
"""Commands not listed have no word on this wire. A ping is the one request that is always answered."""

_WITHOUT_SESSION: Final = frozenset({
    bus.OpenSession, bus.ResumeSession, bus.ListSessions, bus.Ping, bus.AnswerHostTool, bus.Approve, bus.Deny,
})  # fmt: skip
