"""The requests that were read and not answered yet: which ids are in use, and which chat runs in which session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from agentwire import events as bus
from agentwire.commands import JsonId


class Asked(Struct):
    """A request, as its answer needs it; the token of :class:`agentwire.codec.Request`."""

    id: JsonId
    method: str = ""
    session: str = ""
    """Of a chat."""
    value: Any = None
    """What the answer says, where it is known already: a protocol version, a chat that is not there."""


class InFlight:
    """Requests by id. Python tells ids apart as the protocol does: by value, but never a string from a number."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[JsonId, Asked] = {}

    def __contains__(self, request: JsonId) -> bool:
        return request in self._asked

    def add(self, asked: Asked) -> None:
        """A request was read."""
        self._asked[asked.id] = asked

    def remove(self, asked: Asked) -> None:
        """That very request was answered; another with its id is not disturbed."""
        if self._asked.get(asked.id) is asked:
            del self._asked[asked.id]

    def chat(self, request: JsonId) -> Asked | None:
        """The chat with that id that has not ended."""
        asked = self._asked.get(request)
        return asked if asked is not None and asked.method == "chat" else None

    def chats(self) -> Iterator[Asked]:
        """Every chat that has not ended, as far as the host can know."""
        return (asked for asked in self._asked.values() if asked.method == "chat")

    def answered(self, request: JsonId, session: str) -> None:
        """The chat of that id in that session has its result or error."""
        asked = self.chat(request)
        if asked is not None and asked.session == session:
            self.remove(asked)

    def name_of(self, turn: bus.TurnStarted, session: str) -> JsonId:
        """The id under which a turn is shown: its driver's, or its own if there is none or a request here has it."""
        asked = self._asked.get(turn.ref)
        if turn.ref is None or (asked is not None and asked.session != session):
            return turn.id
        return turn.ref
