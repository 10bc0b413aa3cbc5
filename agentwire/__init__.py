"""agentwire: one agent, one log, every wire.

The names below are the whole public surface for programs; codecs and providers are written against the contract
modules (``agentwire.codec``, ``agentwire.provider``, ``agentwire.tools``). Everything is imported when it is first
used: ``import agentwire`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentwire.agent.loop import Agent
    from agentwire.agent.turn import Turn
    from agentwire.asyncio_bridge import on_asyncio
    from agentwire.host.connect import Peer, connect
    from agentwire.host.local import LocalSession, open_session
    from agentwire.options import ServeOptions
    from agentwire.registry import load_codec, load_provider
    from agentwire.serving import serve
    from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult
    from agentwire.tools.function import tool

__all__ = [
    "Agent",
    "LocalSession",
    "Peer",
    "ServeOptions",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "Turn",
    "connect",
    "load_codec",
    "load_provider",
    "on_asyncio",
    "open_session",
    "serve",
    "tool",
]

_HOMES = {
    "Agent": "agentwire.agent.loop",
    "LocalSession": "agentwire.host.local",
    "Peer": "agentwire.host.connect",
    "ServeOptions": "agentwire.options",
    "Tool": "agentwire.tools.contract",
    "ToolContext": "agentwire.tools.contract",
    "ToolError": "agentwire.tools.contract",
    "ToolResult": "agentwire.tools.contract",
    "Turn": "agentwire.agent.turn",
    "connect": "agentwire.host.connect",
    "load_codec": "agentwire.registry",
    "load_provider": "agentwire.registry",
    "on_asyncio": "agentwire.asyncio_bridge",
    "open_session": "agentwire.host.local",
    "serve": "agentwire.serving",
    "tool": "agentwire.tools.function",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'agentwire' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
