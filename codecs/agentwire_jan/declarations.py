"""Host tools as a host declares them: names, mapping, refusals (sections 3.1 and 3.2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from agentwire.codec.jsontext import clip
from agentwire.events import HostTool
from agentwire_jan import wire

PREFIX: Final = "host__"
MAX_NAME: Final = 64
"""Longest name that a model is told."""

MAX_TOOLS: Final = 128
DELEGATES: Final = ("dispatch_subagent", "message_subagent", "stop_subagent", "list_subagents")
BUILTINS: Final = ("read", "write", "edit", "shell", "glob", "grep")
RESERVED: Final = frozenset({*BUILTINS, *DELEGATES, "monitor", "ask", "todo"})

_FIELDS: Final = ("name", "description", "parameters", "capability")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9-]+")
_DIGEST: Final = 8
_CAPABILITIES: Final = ("read", "actuator")


class BadTools(ValueError):
    """The declarations cannot be accepted; the text says why."""


def read_tools(given: list[Any]) -> list[HostTool]:
    """Check a set of declarations and give the tools. Raises :class:`BadTools` for the first problem."""
    if len(given) > MAX_TOOLS:
        raise BadTools(f"{len(given)} host tools declared, more than the {MAX_TOOLS} a run accepts")
    tools: dict[str, HostTool] = {}
    advertised: set[str] = set()
    for index, entry in enumerate(given):
        tool = _read(index, entry)
        if tool.declared in tools or tool.name in advertised:
            raise BadTools(f"host tool name '{clip(tool.declared)}' is declared twice")
        tools[tool.declared] = tool
        advertised.add(tool.name)
    return list(tools.values())


def advertise(name: str) -> str:
    """What a model is told that a host's tool is called."""
    room = MAX_NAME - len(PREFIX)
    if _PLAIN(name) is not None and "__" not in name and len(name) <= room:
        return PREFIX + name
    mapped = re.sub("_+", "_", _FOREIGN.sub("_", name)).strip("_") or "tool"
    mapped = mapped[: room - _DIGEST - 1].rstrip("_")
    digest = sha256(name.encode("utf-8", "replace")).hexdigest()[:_DIGEST]
    return f"{PREFIX}{mapped}_{digest}"


def tool_specs(tools: list[HostTool]) -> list[wire.ToolSpec]:
    """The tools as the model is told of them."""
    return [wire.ToolSpec(function=wire.Function(tool.name, tool.description, tool.parameters)) for tool in tools]


def read_spec(spec: wire.ToolSpec) -> HostTool:
    """A tool as a host hears of it. What it declared is told by the name alone, if that was not mapped."""
    function = spec.function
    return HostTool(
        function.name, function.description, function.parameters, declared=function.name.removeprefix(PREFIX)
    )


def declaration(tool: HostTool) -> wire.ToolDeclaration:
    """A tool as a host declares it."""
    name = tool.declared or tool.name.removeprefix(PREFIX)
    return wire.ToolDeclaration(name, tool.description, tool.parameters, tool.capability or None)


def _read(index: int, entry: Any) -> HostTool:
    if not isinstance(entry, dict):
        raise BadTools(f"tools[{index}]: invalid type: {_kind(entry)}, expected struct HostToolDecl")
    for field, check in _CHECKS.items():
        if field in entry and (problem := check(entry[field])):
            raise BadTools(f"tools[{index}]: {problem}")
    if "name" not in entry:
        raise BadTools(f"tools[{index}]: missing field `name`")
    name: str = entry["name"].strip()
    if not name:
        raise BadTools("a host tool has an empty name")
    if name in RESERVED:
        raise BadTools(f"host tool name '{name}' is reserved by a built-in tool")
    parameters = entry.get("parameters")
    if parameters is None:
        parameters = {"type": "object", "properties": {}}
    elif not isinstance(parameters, dict):
        raise BadTools(f"host tool '{clip(name)}' parameters must be a JSON Schema object")
    for key in entry:
        if key not in _FIELDS:
            expected = ", ".join(_FIELDS)
            raise BadTools(f"host tool '{clip(name)}' has an unknown field '{clip(key)}' (expected {expected})")
    return HostTool(
        advertise(name), entry.get("description", "").strip(), parameters, name, entry.get("capability") or ""
    )


def _kind(value: Any) -> str:
    """A value as an error names it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int):
        return f"integer `{clip(str(value))}`"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return f'string "{clip(value)}"'
    return "sequence" if isinstance(value, list) else "map"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else f"invalid type: {_kind(value)}, expected a string"


def _capability(value: Any) -> str:
    if value is None or value in _CAPABILITIES:
        return ""
    if isinstance(value, str):
        return f"unknown variant `{clip(value)}`, expected `read` or `actuator`"
    return f"invalid type: {_kind(value)}, expected string or map"


_CHECKS: Final[dict[str, Callable[[Any], str]]] = {"name": _text, "description": _text, "capability": _capability}
"""What is wrong with the shape of a field; ``""``: nothing."""
