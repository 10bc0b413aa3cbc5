"""Tools that a host offers to an agent and runs itself."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import trio
from msgspec import UNSET, Struct

from agentwire.events import HostTool, HostToolRequested, Part, Text


class HostToolAnswer(Struct, frozen=True):
    """What a host's own tool gives back."""

    content: Sequence[Part]
    is_error: bool = False
    details: Any = None
    """For the host alone, as JSON; the model does not read it."""


HostToolFunction = Callable[[dict[str, Any]], "str | HostToolAnswer | Awaitable[str | HostToolAnswer | None] | None"]
"""Runs a tool that the host offers, given its arguments; what it raises is the model's to read. A plain function runs
in a thread. If the agent withdraws its request, an async one is cancelled, and the answer of the other not sent."""

HostTools = Mapping[HostTool, HostToolFunction] | Sequence[tuple[HostTool, HostToolFunction]]


async def run_tool(function: HostToolFunction | None, event: HostToolRequested) -> HostToolAnswer:
    """Run one of the host's tools; a plain function runs in a thread."""
    if function is None:
        return HostToolAnswer([Text(f"no host tool named '{event.name}' is declared on this session")], is_error=True)
    try:
        given = msgspec.json.decode(event.arguments) if event.arguments is not UNSET else {}
        if inspect.iscoroutinefunction(function):
            found = await function(given)
        else:
            found = await trio.to_thread.run_sync(function, given, abandon_on_cancel=True)
            found = await found if inspect.isawaitable(found) else found
    except Exception as error:  # noqa: BLE001 - the host's own tool: the model reads what went wrong
        return HostToolAnswer([Text(f"{type(error).__name__}: {error}")], is_error=True)
    if isinstance(found, HostToolAnswer):
        return found
    return HostToolAnswer([] if found is None else [Text(str(found))])


def offered(tools: HostTools) -> tuple[list[HostTool], dict[str, HostToolFunction]]:
    """What an agent is told of the host's tools, and what runs them, by declared name."""
    pairs = list(tools.items() if isinstance(tools, Mapping) else tools)
    return [tool for tool, _ in pairs], {tool.declared or tool.name: function for tool, function in pairs}
