"""Lines of a core into messages, as tolerant as a host must be: fields may be missing, more may come (section 5)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from agentwire.codec.jsontext import BadJson, parse
from agentwire.commands import JsonId


class Message(Struct, gc=False):
    """Any message. What it does not say, or says in another type, has its default."""

    id: JsonId = None
    type: str = ""
    event: str = ""
    step: int | UnsetType = UNSET
    delta: str = ""
    user_input: str = ""
    trace_id: str = ""
    tool: str = ""
    args: Raw = Raw(b"{}")
    status: str = ""
    preview: str = ""
    retryable: bool = False
    ms: int | float | UnsetType = UNSET
    reason: str = ""
    result: Any = None
    code: str = ""
    message: str = ""


DECODE: Final = msgspec.json.Decoder(Message).decode
"""The message on a line, the fast way; raises ``msgspec.DecodeError`` or ``RecursionError``, then turn to
:func:`recover`. What has no ``type`` is none."""

_FIELDS: Final = {field.name: field.type for field in msgspec.structs.fields(Message)}


def recover(line: bytes) -> Message | None:
    """The slow way: field by field, so that one of another type spoils nothing else. None for what is no object."""
    try:
        value = parse(line)
    except BadJson:
        return None
    if not isinstance(value, dict):
        return None
    given: dict[str, Any] = {}
    for name, kind in _FIELDS.items():
        if name not in value:
            continue
        try:
            if name == "args":
                given[name] = Raw(msgspec.json.encode(value[name]))
            else:
                given[name] = msgspec.convert(value[name], kind)
        except (msgspec.ValidationError, RecursionError):
            continue
    return Message(**given)
