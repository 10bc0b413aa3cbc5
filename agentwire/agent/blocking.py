"""The turn for agents that are plain functions: the same words, each waiting in its own thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn
    from agentwire.tools.contract import ToolResult


class BlockingTurn:
    """A :class:`~agentwire.agent.turn.Turn` for use in a thread: ``call`` blocks, the rest is the same."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._turn, name)

    def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """Call a tool and wait for its result."""
        return self._turn.call_blocking(name, arguments)
