"""What the bus has no word for."""

from __future__ import annotations

from msgspec import Raw

from agentwire.events.base import Event


class Unknown(Event):
    """What a host side read and the bus has no word for: kept, shown, and rendered again on its own wire.

    A journal line of a newer version becomes one too (``wire="agentwire"``).
    """

    wire: str
    name: str
    raw: Raw
    """The whole message as JSON on one line."""
