"""Which tools a session's agent works with."""

from __future__ import annotations

from functools import cache

from msgspec import UNSET

from agentwire.agent.toolbox import Toolbox, renamed
from agentwire.session import Session
from agentwire.tools import Tool, builtin_tools, delegate_tools


@cache
def _builtins() -> tuple[Tool, ...]:
    """The built-in tools hold no state of their own: one set serves every session."""
    return tuple(builtin_tools())


def toolbox_for(agent: object, session: Session) -> Toolbox:
    """The tools an agent brings, then the built-in ones; of two of one name the first counts.

    The built-in ones are left out if agent or session do without, and called as the session's policy says.
    """
    settings, policy = session.settings, session.policy
    own = list(getattr(agent, "tools", ()))
    builtins = settings.builtins and getattr(agent, "builtins", True)
    subagents = builtins if settings.subagents is UNSET else settings.subagents
    tools = [*own, *(renamed(_builtins(), policy.tool_names) if builtins else ())]
    if policy.delegates and subagents and hasattr(agent, "spawn"):
        tools += delegate_tools()
    return Toolbox(tools, spawner=getattr(agent, "spawn", None))
