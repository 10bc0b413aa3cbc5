"""What joins a turn from outside while it runs: the user's further words, the reports of subagents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import trio

from agentwire.events import Part


class Joined(NamedTuple):
    """User text or parts, perhaps with a headline for the person at the host."""

    text: str
    parts: Sequence[Part] = ()
    headline: str = ""


class Mailbox:
    """Read between two requests of the turn. Few turns have any: nothing is made before something comes or waits."""

    __slots__ = ("_held", "_news")

    def __init__(self) -> None:
        self._held: list[Joined] = []
        self._news: trio.Event | None = None

    @property
    def news(self) -> trio.Event:
        """Set when something came that was not taken yet."""
        if self._news is None:
            self._news = trio.Event()
        return self._news

    def put(self, joined: Joined) -> None:
        """Something came."""
        self._held.append(joined)
        self.news.set()

    def take(self) -> list[Joined]:
        """All that came, in its order."""
        held, self._held = self._held, []
        if self._news is not None and self._news.is_set():
            self._news = None
        return held
