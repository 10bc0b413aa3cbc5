"""Matching events against patterns: the fields that are named must be so, all others are free."""

from __future__ import annotations

from typing import Any

from .replies import JsonObject

_ABSENT = object()


def _field(event: JsonObject, path: str) -> Any:
    value: Any = event
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return _ABSENT
        value = value[name]
    return value


def matches(event: JsonObject, pattern: JsonObject) -> bool:
    """Whether ``event`` fits ``pattern``.

    A key with dots is a path; ``message_contains`` (one text or a list) looks into the error's or info's message;
    a pattern ``{"accept": [..]}`` is met by any of its alternatives; a pattern's value may be a set of values.
    """
    if "accept" in pattern:
        return any(matches(event, alternative) for alternative in pattern["accept"])
    for path, wanted in pattern.items():
        if path == "message_contains":
            message = _field(event, "message" if event["type"] == "info" else "error.message")
            if any(text not in message for text in ([wanted] if isinstance(wanted, str) else wanted)):
                return False
        elif isinstance(wanted, set | frozenset):
            if _field(event, path) not in wanted:
                return False
        elif (got := _field(event, path)) is _ABSENT or type(got) is not type(wanted) or got != wanted:
            return False
    return True


def find(events: list[JsonObject], kind: str, **fields: Any) -> list[JsonObject]:
    """The events of that kind with these fields (``error__code`` looks inside)."""
    pattern = {"type": kind, **{name.replace("__", "."): value for name, value in fields.items()}}
    return [event for event in events if matches(event, pattern)]


def said(events: list[JsonObject]) -> str:
    """The answer's text, put together."""
    return "".join(event["text"] for event in events if event["type"] == "text_delta")


def kinds(events: list[JsonObject]) -> list[str]:
    """The events' types, runs of text joined into one."""
    names = [event["type"] for event in events]
    return [name for n, name in enumerate(names) if name != "text_delta" or n == 0 or names[n - 1] != "text_delta"]
