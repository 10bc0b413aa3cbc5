"""A record: an event and its place in a session's log."""

from __future__ import annotations

from msgspec import Struct

from agentwire.events import AnyEvent


class Record(Struct, omit_defaults=True, gc=False):
    """An event plus its place. The session is the log's own; whoever holds a record knows the log it came from.

    ``gc=False`` is sound: records and events form no cycles, and a log holds very many of them.
    """

    seq: int
    """Gap-free from 1 for the life of the session, restarts included."""
    time: int
    """Milliseconds since the epoch."""
    event: AnyEvent
    turn: int = 0
    """Counts a session's turns from 1; 0 is outside any turn."""
    origin: str = ""
    """Run id of the subagent that said it; empty for the main agent."""
