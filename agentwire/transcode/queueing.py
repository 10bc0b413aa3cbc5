"""Turns one after the other, where a wire has no more than one at a time: while one runs, other sessions wait."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from agentwire import events as bus
from agentwire.codec.fidelity import Declaration
from agentwire.log.record import Record

MERGED: Final = Declaration("record", "session", "absent", "the wire knows one session: turns follow each other")
RENAMED_CALL: Final = Declaration("record", "call_id", "narrowed", "another session used the same id")

Item = Record | Callable[[], None]
"""A record, or something that is to be done at its place among them."""


class Queue:
    """Puts what happens in several sessions into an order in which no two turns run at once."""

    def __init__(self) -> None:
        self._running: str | None = None
        self._waiting: deque[tuple[str, Item]] = deque()

    def add(self, session: str, item: Item) -> Iterator[tuple[str, Item]]:
        """What can follow now, each with its session."""
        if self._running not in (None, session):
            self._waiting.append((session, item))
            return
        yield session, self._take(session, item)
        while self._waiting and self._running is None:
            yield from self._next()

    def rest(self) -> Iterator[tuple[str, Item]]:
        """What still waits, in the order in which it came."""
        while self._waiting:
            session, item = self._waiting.popleft()
            yield session, self._take(session, item)

    def own_call(self, session: str, call_id: str) -> str:
        """What a call of a session is called behind the queue."""
        return call_id

    def _next(self) -> Iterator[tuple[str, Item]]:
        """What waited, up to the end of the first turn in it."""
        waiting, self._waiting = self._waiting, deque()
        for session, item in waiting:
            yield from self.add(session, item)

    def _take(self, session: str, item: Item) -> Item:
        if isinstance(item, Record) and not item.origin:
            if isinstance(item.event, bus.TurnStarted):
                self._running = session
            elif isinstance(item.event, bus.TurnFinished):
                self._running = None
        return item


class Merge(Queue):
    """Several sessions as one: their turns are numbered together, and their calls keep apart."""

    def __init__(self, changes: Counter[Declaration]) -> None:
        super().__init__()
        self._changes = changes
        self._sessions: list[str] = []
        self._turns = 0
        self._calls: dict[str, str] = {}
        """Which session uses a call's id."""
        self._renamed: dict[tuple[str, str], str] = {}

    def own_call(self, session: str, call_id: str) -> str:
        """What a call of a session is called behind the queue."""
        return self._renamed.get((session, call_id), call_id)

    def _take(self, session: str, item: Item) -> Item:
        if not isinstance(super()._take(session, item), Record):
            return item
        record: Record = item  # type: ignore[assignment]  # it was just looked at
        if session not in self._sessions:
            self._sessions.append(session)
            if len(self._sessions) > 1:
                self._changes[MERGED] += 1
        event = record.event
        self._turns += isinstance(event, bus.TurnStarted) and not record.origin
        if len(self._sessions) > 1 or self._renamed:
            event = self._own_calls(session, event)
        elif call_id := getattr(event, "call_id", ""):
            self._calls.setdefault(call_id, session)
        return Record(record.seq, record.time, event, self._turns if record.turn else 0, record.origin)

    def _own_calls(self, session: str, event: bus.AnyEvent) -> bus.AnyEvent:
        """The event with ids of calls that no other session used."""
        if isinstance(event, bus.StepFinished):
            calls = [msgspec.structs.replace(call, call_id=self._id(session, call.call_id)) for call in event.calls]
            return msgspec.structs.replace(event, calls=calls)
        call_id = getattr(event, "call_id", "")
        if not call_id or (own := self._id(session, call_id)) == call_id:
            return event
        return msgspec.structs.replace(event, call_id=own)

    def _id(self, session: str, call_id: str) -> str:
        known = self._renamed.get((session, call_id))
        if known is not None:
            return known
        own, n = call_id, 1
        while self._calls.setdefault(own, session) != session:
            n += 1
            own = f"{call_id}-{n}"
        if own != call_id:
            self._renamed[session, call_id] = own
            self._changes[RENAMED_CALL] += 1
        return own
