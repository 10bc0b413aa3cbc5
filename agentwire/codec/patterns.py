"""Patterns of lines: what a line must hold, what of it is remembered, and lines made of what was.

A pattern is a JSON value in which some places are one of these; an object may have more keys than its pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct


class Bind(Struct, frozen=True):
    """In a pattern: any value, remembered under ``name``; ``kind`` is a JSON type that it must have, if given."""

    name: str = ""
    kind: Literal["", "string", "number", "boolean", "array", "object"] = ""


class Given(Struct, frozen=True):
    """In a line or a pattern: the value that was remembered under ``name``."""

    name: str


class OneOf(Struct, frozen=True):
    """In a pattern: any of these patterns."""

    choices: tuple[Any, ...]


class Has(Struct, frozen=True):
    """In a pattern: a string that contains ``text``."""

    text: str


class Absent(Struct, frozen=True):
    """In a pattern, as the value of a key: there is no such key."""


class Holds(Struct, frozen=True):
    """In a pattern: a list that has, among others, an item for each of these patterns."""

    items: tuple[Any, ...]


class Joined(Struct, frozen=True):
    """In a line or a pattern: one text made of texts and of what was remembered."""

    parts: tuple[str | Given, ...]


ANY: Final = Bind()
"""Any value; the key must be there."""

_KINDS: Final[dict[str, tuple[type[Any], ...]]] = {
    "string": (str,), "number": (int, float), "boolean": (bool,), "array": (list,), "object": (dict,),
}  # fmt: skip


def matches(pattern: Any, value: Any, given: dict[str, Any]) -> bool:
    """Whether a JSON value fits a pattern. Objects may have more keys; lists are as long as the pattern.

    What the pattern binds is put into ``given`` if it fits.
    """
    found = dict(given)
    if not _matches(pattern, value, found):
        return False
    given.update(found)
    return True


def _matches(pattern: Any, value: Any, given: dict[str, Any]) -> bool:
    match pattern:
        case Bind(name, kind):
            if kind and (not isinstance(value, _KINDS[kind]) or (kind == "number" and isinstance(value, bool))):
                return False
            if name:
                given[name] = value
            return True
        case Given(name):
            return name in given and _same(given[name], value)
        case OneOf(choices):
            return any(matches(choice, value, given) for choice in choices)
        case Has(text):
            return isinstance(value, str) and text in value
        case Joined():
            return _same(filled(pattern, given), value)
        case Holds(items):
            return isinstance(value, list) and all(any(_matches(item, one, given) for one in value) for item in items)
        case dict():
            return isinstance(value, dict) and all(_key(key, part, value, given) for key, part in pattern.items())
        case list():
            return (
                isinstance(value, list)
                and len(value) == len(pattern)
                and all(_matches(part, item, given) for part, item in zip(pattern, value, strict=True))
            )
    return _same(pattern, value)


def _key(key: str, part: Any, value: dict[str, Any], given: dict[str, Any]) -> bool:
    if isinstance(part, Absent):
        return key not in value
    return key in value and _matches(part, value[key], given)


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def filled(line: Any, given: Mapping[str, Any]) -> Any:
    """A line with what was heard in the places of :class:`Given`. Raises ``KeyError`` for what was not."""
    match line:
        case Given(name):
            return given[name]
        case Joined(parts):
            return "".join(str(filled(part, given)) for part in parts)
        case dict():
            return {key: filled(part, given) for key, part in line.items()}
        case list():
            return [filled(part, given) for part in line]
    return line
