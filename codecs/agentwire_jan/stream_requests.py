"""Lines of a host into commands, and what is wrong with those that are none (section 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, clip, parse, sorted_json
from agentwire.commands import Command
from agentwire.events import Part, Text
from agentwire_jan.declarations import _kind as kind_of
from agentwire_jan.parts import BadContent, Label, read_parts
from agentwire_jan.stream_wire import DECISIONS, INPUT_KINDS, MAX_ECHO, MAX_LINE


class Unreadable(ValueError):
    """A line that is no input of this wire; the text says why, as the wire words it."""


class Echo(Struct, frozen=True):
    """A line as it is given back: its beginning."""

    text: str
    truncated: bool = False


def echo(line: bytes) -> Echo:
    """The beginning of a line, cut between characters."""
    return Echo(line[:MAX_ECHO].decode(errors="ignore"), len(line) > MAX_ECHO)


def fault(line: LineFault) -> str:
    """What is wrong with a line that could not be framed."""
    if line.kind == "too_long":
        return f"line is over the {MAX_LINE} byte cap"
    return f"not JSON: {line.message}"


def read(line: bytes) -> Command:
    """The command of a line. Raises :class:`Unreadable`."""
    try:
        value = parse(line)
    except BadJson as error:
        raise Unreadable(f"not JSON: {error}") from None
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise Unreadable("missing string field 'type'")
    reader = _READERS.get(kind)
    if reader is None:
        raise Unreadable(f"unknown type '{clip(kind)}' ({', '.join(INPUT_KINDS)})")
    return reader(value)


# --- kinds ---------------------------------------------------------------------------------------------------

_Object = dict[str, Any]


def _user(value: _Object) -> Command:
    text, content = value.get("text"), value.get("content")
    if text is not None and content is not None:
        raise Unreadable("'user' takes 'text' or 'content', not both")
    if content is not None:
        if not isinstance(content, list):
            raise Unreadable(f"invalid type: {kind_of(content)}, expected a sequence")
        return commands.Steer("", parts=_parts(content, "user"))
    if text is None:
        raise Unreadable("'user' needs 'text' or 'content'")
    if not isinstance(text, str):
        raise Unreadable(f"invalid type: {kind_of(text)}, expected a string")
    if not text.strip():
        raise Unreadable("'user' text is empty")
    return commands.Steer(text)


def _permission(value: _Object) -> Command:
    request, decision = _string(value, "request_id"), _string(value, "decision")
    if decision not in DECISIONS:
        known = ", ".join(f"`{name}`" for name in DECISIONS)
        raise Unreadable(f"unknown variant `{clip(decision)}`, expected one of {known}")
    if decision == "deny":
        return commands.Deny(approval_id=request)
    return commands.Approve(approval_id=request, scope="once" if decision == "allow_once" else "always")


def _tool_result(value: _Object) -> Command:
    request = _string(value, "request_id")
    if "content" not in value:
        raise Unreadable("missing field `content`")
    content = value["content"]
    parts: list[Part]
    if isinstance(content, str):
        parts = [Text(content)]
    elif isinstance(content, list):
        parts = _parts(content, "tool_result")
    else:
        raise Unreadable("data did not match any variant of untagged enum ToolResultContent")
    is_error = value.get("is_error", False)
    if not isinstance(is_error, bool):
        raise Unreadable(f"invalid type: {kind_of(is_error)}, expected a boolean")
    details = value.get("details")
    if details is not None and not isinstance(details, dict):
        raise Unreadable(f"invalid type: {kind_of(details)}, expected a map")
    return commands.AnswerHostTool(request, parts, is_error, UNSET if details is None else _raw(details))


def _abort(value: _Object) -> Command:
    return commands.Stop()


_READERS: Final[dict[str, Callable[[_Object], Command]]] = {
    "user": _user,
    "abort": _abort,
    "permission": _permission,
    "tool_result": _tool_result,
}


# --- fields --------------------------------------------------------------------------------------------------


def _string(value: _Object, name: str) -> str:
    if name not in value:
        raise Unreadable(f"missing field `{name}`")
    found = value[name]
    if not isinstance(found, str):
        raise Unreadable(f"invalid type: {kind_of(found)}, expected a string")
    return found


def _parts(content: list[Any], label: Label) -> list[bus.Part]:
    try:
        return read_parts(content, label)
    except BadContent as error:
        raise Unreadable(str(error)) from None


def _raw(value: _Object) -> Raw:
    try:
        return sorted_json(value)
    except (msgspec.MsgspecError, RecursionError):
        raise Unreadable("not JSON: nested too deeply") from None
