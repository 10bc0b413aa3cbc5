"""Subagents: their begin and end. What they say themselves are ordinary events under their origin."""

from __future__ import annotations

from agentwire.events.base import Event
from agentwire.events.values import Usage


class SubagentQueued(Event):
    """A subagent waits for a free place; ``waiting`` 1 means it is next."""

    run_id: str
    name: str
    task: str = ""
    waiting: int = 1


class SubagentStarted(Event):
    """A subagent begins. Its own events carry ``run_id`` as their record's origin."""

    run_id: str
    name: str
    task: str = ""


class SubagentFinished(Event):
    """A subagent ended; ``error`` is empty if it ended well."""

    run_id: str
    name: str
    error: str = ""
    usage: Usage = Usage()
