"""Reading a call's arguments, which a model wrote and which may be anything."""

from __future__ import annotations

from typing import Any

from agentwire.tools.contract import ToolError


def required(arguments: dict[str, Any], name: str) -> str:
    """The string argument ``name``; a :class:`ToolError` if it is missing or no string."""
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ToolError(f"Missing required parameter: {name}")
    return value


def text(arguments: dict[str, Any], name: str, default: str) -> str:
    """The string argument ``name``, or ``default`` if it is missing or no string."""
    value = arguments.get(name)
    return value if isinstance(value, str) else default


def count(arguments: dict[str, Any], name: str) -> int | None:
    """The argument ``name`` if it is an integer and not negative, else None."""
    value = arguments.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def flag(arguments: dict[str, Any], name: str) -> bool:
    """Whether the argument ``name`` is true."""
    return arguments.get(name) is True


def schema(required: list[str], **properties: tuple[str, str] | dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema for arguments; a property is a type and a description, or a schema of its own."""
    return {
        "type": "object",
        "properties": {
            name: kind if isinstance(kind, dict) else {"type": kind[0], "description": kind[1]}
            for name, kind in properties.items()
        },
        "required": required,
    }
