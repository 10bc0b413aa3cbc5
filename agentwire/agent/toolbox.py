"""The tools of one session: its agent's own, the built-in ones, and those of its MCP servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from agentwire.events import SubagentTask, ToolSpec
from agentwire.tools.contract import ReadCache, SubagentReport, Tool, ToolContext

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

UNAVAILABLE = "Tool '{name}' is not available in this runtime. Use an available tool or answer in text."

Spawner = Callable[["Turn", list[SubagentTask]], Awaitable[list[SubagentReport]]]


class Toolbox:
    """Finds tools by the names the model knows. Later registrations never hide earlier ones."""

    __slots__ = ("_foreign", "_own", "_spawner", "cache")

    def __init__(self, tools: Iterable[Tool] = (), *, spawner: Spawner | None = None) -> None:
        self._own: dict[str, Tool] = {}
        self._foreign: dict[str, Tool] = {}
        self._spawner = spawner
        self.cache = ReadCache()
        for tool in tools:
            self._own.setdefault(tool.name, tool)

    @property
    def names(self) -> set[str]:
        """Every name in use."""
        return {*self._own, *self._foreign}

    @property
    def own_names(self) -> set[str]:
        """The names that foreign tools must not take."""
        return set(self._own)

    def set_foreign(self, tools: Iterable[Tool]) -> None:
        """Replace the tools of MCP servers; their names were made unique by whoever registers them."""
        self._foreign = {tool.name: tool for tool in tools if tool.name not in self._own}

    def find(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._own.get(name) or self._foreign.get(name)

    def offered(self, context: ToolContext, *, spawn: bool = True) -> list[ToolSpec]:
        """What the model is told of, in registration order."""
        every = [*self._own.values(), *self._foreign.values()]
        return [tool.spec() for tool in every if tool.available(context) and (spawn or tool.name not in SPAWNING)]

    def can_spawn(self, turn: Turn) -> bool:
        """Whether that turn may start subagents: only the main agent does."""
        return self._spawner is not None and not turn.origin

    async def spawn(self, turn: Turn, tasks: list[SubagentTask]) -> list[SubagentReport]:
        """Run subagents for a turn and wait for all of them."""
        if self._spawner is None:
            raise RuntimeError("this agent has no subagents")
        return await self._spawner(turn, tasks)


SPAWNING = frozenset({"Spawn"})
"""Tools that start subagents; a subagent is not offered them."""
