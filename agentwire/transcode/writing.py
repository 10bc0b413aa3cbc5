"""Logs into lines: what an agent of any wire would have written of what happened, as one stream of its output.

A log may hold what one stream cannot: several sessions where the wire knows one, a beginning that it does not tell.
What is changed for that is counted; all else that a wire does to a log its fidelity table says.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

import msgspec

from agentwire import events as bus
from agentwire.codec.contract import Codec
from agentwire.codec.fidelity import Declaration
from agentwire.commands import Done, Outcome, SessionState
from agentwire.log.record import Record

UNNAMED: Final = "session"
"""The id of a session that has none, on wires that need one."""

INVENTED_OPENING: Final = Declaration("session_opened", "", "invented", "the wire begins with it")
MOVED_OPENING: Final = Declaration("session_opened", "", "moved", "to the beginning, where the wire has it")
SECOND_OPENING: Final = Declaration("session_opened", "", "absent", "the wire opens one session, once")
MERGED: Final = Declaration("record", "session", "absent", "the wire knows one session: turns follow each other")
INVENTED_NAME: Final = Declaration("record", "session", "invented", "the wire wants a name for it")
RENAMED_CALL: Final = Declaration("record", "call_id", "narrowed", "another session used the same id")


class LogWriter:
    """Renders the records of one or more sessions as one stream of an agent.

    Feed it records in order; :attr:`logs` then holds what was rendered, if ``keep`` says so, and :attr:`changes` what
    differs from what was fed.
    """

    def __init__(self, codec: Codec, *, keep: bool = True) -> None:
        self._side = codec.agent()
        self._codec = codec
        self._single = codec.sessions == "one" or codec.begin is not None
        """The whole stream is one session's."""
        self._keep = keep
        self.logs: dict[str, list[Record]] = {}
        """By the session's name in the lines: the log that was rendered."""
        self.changes: Counter[Declaration] = Counter()
        self._streams: dict[str, _Stream] = {}
        self._merge = _Merge(self.changes)

    def write(self, session: str, record: Record) -> bytes:
        """Give the lines that follow from a record; ``session`` is what its log is kept under."""
        out = bytearray()
        if not self._single:
            self._pass(session, record, out)
            return bytes(out)
        for merged in self._merge.add(session, record):
            self._pass("", merged, out)
        return bytes(out)

    def close(self) -> bytes:
        """Give the lines that were still held back."""
        out = bytearray()
        for merged in self._merge.rest():
            self._pass("", merged, out)
        for stream in self._streams.values():
            self._open(stream, out)
        return bytes(out)

    def _pass(self, key: str, record: Record, out: bytearray) -> None:
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = _Stream(key)
        if stream.name is not None:
            self._render(stream, record, out)
            return
        # Nothing is written before it is known who the session is.
        stream.lobby.append(record)
        if isinstance(record.event, bus.SessionOpened | bus.TurnStarted):
            self._open(stream, out)

    def _open(self, stream: _Stream, out: bytearray) -> None:
        """Begin a session's lines with what tells who it is."""
        if stream.name is not None or not stream.lobby:
            return
        records, stream.lobby = stream.lobby, []
        opening = records[-1] if isinstance(records[-1].event, bus.SessionOpened) else None
        known = opening.event.id if opening is not None else ""  # type: ignore[union-attr]
        stream.name = stream.key or known
        if not stream.name and not self._single:
            stream.name = UNNAMED
            self.changes[INVENTED_NAME] += 1
        if self._codec.greets and records[0] is not opening:
            if opening is not None:
                self.changes[MOVED_OPENING] += 1
                records = [opening, *records[:-1]]
            else:
                self.changes[INVENTED_OPENING] += 1
                records = [Record(0, records[0].time, bus.SessionOpened(stream.name, ephemeral=True)), *records]
        for record in records:
            self._render(stream, record, out)

    def _render(self, stream: _Stream, record: Record, out: bytearray) -> None:
        event, name = record.event, stream.name or ""
        if self._codec.greets and isinstance(event, bus.SessionOpened) and not record.origin:
            if stream.opened:
                self.changes[SECOND_OPENING] += 1
                return
            stream.opened = True
            self._greet(event, out)
        stream.seq += 1
        record = Record(stream.seq, record.time, event, record.turn, record.origin)
        if self._keep:
            self.logs.setdefault(name, []).append(record)
        directive = self._side.render(name, [record], out)
        if directive is not None and not directive.consumed and directive.exit_status is None:
            # It wants to wait until a live host had time for something; here the clock never runs.
            self._side.render(name, [record], out)

    def _greet(self, opened: bus.SessionOpened, out: bytearray) -> None:
        """On wires on which a connection opens its session by itself, the first line is the answer to that."""
        if self._codec.begin is None:
            return
        state = SessionState(opened.id, opened.model, workspace=opened.workspace)
        for request in self._codec.begin(self._side):
            self._side.outcome(request, Outcome(Done(state)), out)


class _Stream:
    """One session's lines."""

    __slots__ = ("key", "lobby", "name", "opened", "seq")

    def __init__(self, key: str) -> None:
        self.key = key
        self.name: str | None = None
        self.lobby: list[Record] = []
        self.opened = False
        self.seq = 0


class _Merge:
    """Several sessions as one: while a turn of one runs, the others wait."""

    def __init__(self, changes: Counter[Declaration]) -> None:
        self._changes = changes
        self._sessions: list[str] = []
        self._running: str | None = None
        self._turns = 0
        self._waiting: deque[tuple[str, Record]] = deque()
        self._calls: dict[str, str] = {}
        """Which session uses a call's id."""
        self._renamed: dict[tuple[str, str], str] = {}

    def add(self, session: str, record: Record) -> Iterator[Record]:
        """The records that can follow now."""
        if self._running not in (None, session):
            self._waiting.append((session, record))
            return
        yield self._take(session, record)
        while self._waiting and self._running is None:
            yield from self._next()

    def rest(self) -> Iterator[Record]:
        """What still waits, in the order in which it came."""
        while self._waiting:
            yield self._take(*self._waiting.popleft())

    def _next(self) -> Iterator[Record]:
        """What waited, up to the end of the first turn in it."""
        waiting, self._waiting = self._waiting, deque()
        for session, record in waiting:
            yield from self.add(session, record)

    def _take(self, session: str, record: Record) -> Record:
        if session not in self._sessions:
            self._sessions.append(session)
            if len(self._sessions) > 1:
                self._changes[MERGED] += 1
        event = record.event
        if not record.origin and isinstance(event, bus.TurnStarted):
            self._running = session
            self._turns += 1
        elif not record.origin and isinstance(event, bus.TurnFinished):
            self._running = None
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
