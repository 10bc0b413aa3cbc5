"""Lines into commands, and what a command's outcome says: the agent side's other half."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, DecodeError, UnsetType

from agentwire import commands as bus
from agentwire.codec.contract import Request, View
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, BadShape, LineDecoder, clip
from agentwire.commands import Command, Done, Refusal, RefusalCode
from agentwire.events import MODES
from agentwire_aionrs import texts, wire

_DECODER: Final[LineDecoder[wire.HostCommand]] = LineDecoder(wire.HostCommand)
_decode = _DECODER.decode

_STOP: Final = bus.Stop()
_PING: Final = bus.Ping()
_MODES: Final = {mode: bus.SetMode(mode) for mode in MODES}
"""Commands are never changed: of those that say no more than this, one will do."""

_TYPES: Final = frozenset(str(kind.__struct_config__.tag) for kind in wire.HostCommand.__args__)


def read(line: bytes | LineFault, view: View) -> Request | None:
    """Read one line of a host. None for a blank one, which the wire ignores.

    No check of this wire needs a look at the server first: which command may come when is for the session to say.
    """
    if type(line) is LineFault:
        return _bad("bad_line", f"Invalid JSON: {line.message}")
    try:
        command = _decode(line)
    except (DecodeError, RecursionError):
        return _read_again(line)
    return Request(_TO_BUS[type(command)](command))


def _read_again(line: bytes) -> Request | None:
    """The slow way, for a line that is not a command as it stands: accept it after all, or say what is wrong."""
    if not line.strip():
        return None
    try:
        command = _DECODER.recover(line)
    except BadJson as fault:
        return _bad("bad_line", f"Invalid JSON: {fault}")
    except BadShape as fault:
        name = fault.value.get("type") if isinstance(fault.value, dict) else None
        if not isinstance(name, str):
            return _bad("bad_request", f"Invalid command: {fault}")
        if name not in _TYPES:
            return _bad("unknown_command", f"Unknown command type: {clip(name)}")
        return _bad("bad_params", f"Invalid command '{name}': {fault}")
    return Request(_TO_BUS[type(command)](command))


def _bad(code: RefusalCode, message: str) -> Request:
    return Request(None, Refusal(code, message))


# --- wire to bus ---------------------------------------------------------------------------------------------


def _message(command: wire.Message) -> Command:
    return bus.Prompt(command.content, command.msg_id, [], command.files)


def _set_config(command: wire.SetConfig) -> Command:
    return bus.SetConfig(
        UNSET if command.model is None else command.model,
        UNSET if command.image_input is None else command.image_input,
        UNSET if command.thinking is None else command.thinking,
        UNSET if command.thinking_budget is None else command.thinking_budget,
        UNSET if command.effort is None else command.effort,
        UNSET if command.compaction is None else command.compaction,
    )


def _add_mcp_server(command: wire.AddMcpServer) -> Command:
    return bus.AddMcpServer(
        command.name,
        command.transport,
        command.command or "",
        command.args or [],
        command.env or {},
        command.url or "",
        command.headers or {},
    )


_TO_BUS: Final[dict[type[Any], Callable[[Any], Command]]] = {
    wire.Message: _message,
    wire.Stop: lambda command: _STOP,
    wire.ToolApprove: lambda command: bus.Approve(command.call_id, "", command.scope),
    wire.ToolDeny: lambda command: bus.Deny(command.call_id, "", command.reason),
    wire.InitHistory: lambda command: bus.InitHistory(command.text),
    wire.SetMode: lambda command: _MODES[command.mode],
    wire.SetConfig: _set_config,
    wire.AddMcpServer: _add_mcp_server,
    wire.Ping: lambda command: _PING,
}

# --- outcomes ------------------------------------------------------------------------------------------------

_CODES: Final[dict[RefusalCode, str]] = {
    "bad_line": "protocol_error",
    "bad_request": "protocol_error",
    "unknown_command": "protocol_error",
    "bad_params": "protocol_error",
    "busy": "protocol_error",
    "too_late": "protocol_error",
    "not_found": "protocol_error",
    "not_pending": "protocol_error",
    "unsupported": "protocol_error",
    "config": "config_error",
    "read_only": "internal_error",
    "cancelled": "protocol_error",
    "internal": "internal_error",
}
"""Section 1.10's code for each refusal: the command is at fault, the set-up, or we are."""

_SILENT: Final[frozenset[tuple[type[Command] | None, RefusalCode]]] = frozenset({
    # A second click, or a click that crossed a stop on its way.
    (bus.Approve, "not_pending"),
    (bus.Deny, "not_pending"),
    # Nothing to stop.
    (bus.Stop, "not_pending"),
    (bus.Stop, "not_found"),
})  # fmt: skip
"""Refusals that this wire does not speak of."""


def answer(command: Command | None, result: Done | Refusal) -> wire.AgentEvent | None:
    """The line that answers a command, if this wire has one; most commands are answered by what follows from them."""
    if isinstance(result, Refusal):
        return None if (type(command), result.code) in _SILENT else refused(command, result)
    if isinstance(command, bus.Ping):
        return wire.Pong()
    if isinstance(command, bus.SetConfig) and result.deferred:
        return wire.Info("", texts.QUEUED)
    return None


def refused(command: Command | None, refusal: Refusal) -> wire.Error:
    """An error for a command that was not carried out, or for a line that was none (``command`` is None)."""
    code, message = _CODES[refusal.code], _REFUSAL_TEXTS.get((type(command), refusal.code), _own_text)(command, refusal)
    body = wire.ErrorBody(code, message, refusal.retryable or refusal.code == "busy")
    return wire.Error(msg_id=_msg_id(command), error=body)


def _msg_id(command: Command | None) -> str | UnsetType | None:
    """A refused message is named; an answer to ``add_mcp_server`` has no such key at all (section 2.9's example)."""
    if isinstance(command, bus.Prompt):
        return str(command.ref)
    return UNSET if isinstance(command, bus.AddMcpServer) else None


def _own_text(command: Command | None, refusal: Refusal) -> str:
    if isinstance(command, bus.AddMcpServer) and texts.refused_server(refusal.message) != command.name:
        return f"AddMcpServer '{clip(command.name)}' failed: {refusal.message}"
    return refusal.message


_REFUSAL_TEXTS: Final[dict[tuple[type[Any], RefusalCode], Callable[[Any, Refusal], str]]] = {
    (bus.Approve, "not_found"): lambda command, refusal: texts.unknown_call("tool_approve", command.call_id),
    (bus.Deny, "not_found"): lambda command, refusal: texts.unknown_call("tool_deny", command.call_id),
    (bus.InitHistory, "too_late"): lambda command, refusal: texts.HISTORY_TOO_LATE,
    (bus.AddMcpServer, "too_late"): lambda command, refusal: texts.server_too_late(command.name),
}
"""Texts that the protocol fixes, or that a host tells answers apart by; elsewhere the refusal's own text stands."""
