"""The tools of one session: its agent's own, the built-in ones, its host's, and those of its MCP servers."""

from __future__ import annotations

import copy
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from agentwire.agent.host_tools import HostTools
from agentwire.events import SubagentTask, ToolSpec
from agentwire.tools.contract import ReadCache, SubagentReport, Tool, ToolContext

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

UNAVAILABLE = "Tool '{name}' is not available in this runtime. Use an available tool or answer in text."

Spawner = Callable[["Turn", list[SubagentTask]], Awaitable[list[SubagentReport]]]


class Toolbox:
    """Finds tools by the names the model knows. Later registrations never hide earlier ones."""

    __slots__ = ("_foreign", "_host", "_own", "_spawner", "cache", "watch")

    def __init__(self, tools: Iterable[Tool] = (), *, spawner: Spawner | None = None) -> None:
        self._own: dict[str, Tool] = {}
        self._foreign: dict[str, Tool] = {}
        self._host: HostTools | None = None
        self._spawner = spawner
        self.cache = ReadCache()
        self.watch: Callable[[str, Tool | None], Tool | None] | None = None
        """Told of every tool that is found for a call, and gives what is called instead; for recordings."""
        for tool in tools:
            self._own.setdefault(tool.name, tool)

    @property
    def host(self) -> HostTools:
        """The tools that the host runs; a session without any costs nothing until this is asked."""
        if self._host is None:
            self._host = HostTools()
        return self._host

    @property
    def has_host(self) -> bool:
        """Whether :attr:`host` was ever asked for: if not, there is no host tool and no request."""
        return self._host is not None

    @property
    def names(self) -> set[str]:
        """Every name in use."""
        return {tool.name for tool in self._every()}

    @property
    def own_names(self) -> set[str]:
        """The names that foreign tools must not take."""
        return {*self._own, *(self._host.tools if self._host else ())}

    def set_foreign(self, tools: Iterable[Tool]) -> None:
        """Replace the tools of MCP servers; their names were made unique by whoever registers them."""
        self._foreign = {tool.name: tool for tool in tools if tool.name not in self._own}

    def find(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        hosts = self._host.tools if self._host else {}
        found = self._own.get(name) or hosts.get(name) or self._foreign.get(name)
        return found if self.watch is None else self.watch(name, found)

    def offered(self, context: ToolContext, *, spawn: bool = True) -> list[ToolSpec]:
        """What the model is told of, in registration order. ``spawn``: with the tools that start subagents."""
        return [
            tool.spec() for tool in self._every() if tool.available(context) and (spawn or not tool.starts_subagents)
        ]

    def _every(self) -> Iterable[Tool]:
        every: dict[str, Tool] = dict(self._own)
        for more in (self._host.tools if self._host else {}, self._foreign):
            for name, tool in more.items():
                every.setdefault(name, tool)
        return every.values()

    def can_spawn(self, turn: Turn) -> bool:
        """Whether that turn may start subagents: only the main agent does."""
        return self._spawner is not None and not turn.origin

    async def spawn(self, turn: Turn, tasks: list[SubagentTask]) -> list[SubagentReport]:
        """Run subagents for a turn and wait for all of them."""
        if self._spawner is None:
            raise RuntimeError("this agent has no subagents")
        return await self._spawner(turn, tasks)


def renamed(tools: Iterable[Tool], names: Mapping[str, str]) -> list[Tool]:
    """The tools under other names, as copies; one whose other name is ``""`` is left out.

    What their descriptions say of each other follows.
    """
    return [_renamed(tool, names) if names else tool for tool in tools if names.get(tool.name, tool.name)]


def _renamed(tool: Tool, names: Mapping[str, str]) -> Tool:
    other = copy.copy(tool)
    other.name = names.get(tool.name, tool.name)
    for mentioned in tool.mentions:
        name = names.get(mentioned) or mentioned
        other.description = re.sub(rf"\b{re.escape(mentioned)}\b", name.replace("\\", r"\\"), other.description)
    return other
