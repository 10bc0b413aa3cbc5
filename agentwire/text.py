"""Text that may go anywhere: into UTF-8, onto a wire, into a journal."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs


def scrub(text: str) -> str:
    """``text`` without lone surrogates, each of which becomes U+FFFD.

    Python strings can hold half of a surrogate pair (from ``\\ud83d`` in JSON, from undecodable file names), UTF-8
    cannot. Two halves that stand side by side become the character they mean. Text without any comes back as it is.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def scrub_value(value: Any) -> Any:
    """Scrub every string inside ``value``: structs that are not frozen in place, all else as a new value.

    Goes through structs, lists, tuples, sets and dicts (keys too) and leaves other objects as they are.
    """
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Struct):
        return _scrub_struct(value)
    if isinstance(value, dict):
        return {scrub_value(key): scrub_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(scrub_value(item) for item in value)
    return value


def _scrub_struct(value: Struct) -> Struct:
    changes = {}
    for name in value.__struct_fields__:
        old = getattr(value, name)
        new = scrub_value(old)
        if new is not old:
            changes[name] = new
    if value.__struct_config__.frozen:
        return structs.replace(value, **changes) if changes else value
    for name, new in changes.items():
        setattr(value, name, new)
    return value
