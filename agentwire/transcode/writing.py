"""Logs into lines: what an agent of any wire would have written of what happened, as one stream of its output.

A log may hold what one stream cannot: several sessions where the wire knows one, a beginning that it does not tell.
What is changed for that is counted; all else that a wire does to a log its fidelity table says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from agentwire import events as bus
from agentwire.codec.contract import Codec
from agentwire.codec.fidelity import Declaration
from agentwire.commands import Done, JsonId, Outcome, SessionState
from agentwire.log.record import Record
from agentwire.transcode.queueing import Item, Merge, Queue

UNNAMED: Final = "session"
"""The id of a session that has none, on wires that need one."""

INVENTED_OPENING: Final = Declaration("session_opened", "", "invented", "the wire begins with it")
MOVED_OPENING: Final = Declaration("session_opened", "", "moved", "to the beginning, where the wire has it")
SECOND_OPENING: Final = Declaration("session_opened", "", "absent", "the wire opens one session, once")
INVENTED_NAME: Final = Declaration("record", "session", "invented", "the wire wants a name for it")

ANOTHERS: Final = "it names another turn here"

Told = Callable[[str, Record], object]
"""Told of every record that was rendered, with its session's name in the lines."""


class Stream:
    """One session's lines."""

    __slots__ = ("key", "lobby", "name", "opened", "seq")

    def __init__(self, key: str) -> None:
        self.key = key
        self.name: str | None = None
        """The session's name in the lines; None: not known yet."""
        self.lobby: list[Item] = []
        """What waits until it is known."""
        self.opened = False
        self.seq = 0


class LogWriter:
    """Renders the records of one or more sessions as one stream of an agent.

    Feed it records in order; :attr:`changes` then counts what differs from what was fed. What was rendered is in
    :attr:`logs`, unless ``keep`` is False, and ``told`` is told of it.
    """

    def __init__(self, codec: Codec, *, keep: bool = True, told: Told | None = None) -> None:
        self._side = codec.agent()
        self._codec = codec
        self._single = codec.sessions == "one" or codec.begin is not None
        """The whole stream is one session's."""
        self._keep = keep
        self._told = told
        self.logs: dict[str, list[Record]] = {}
        """By the session's name in the lines: the log that was rendered."""
        self.changes: Counter[Declaration] = Counter()
        self._streams: dict[str, Stream] = {}
        self._ids: set[str] = set()
        self._refs: set[JsonId] = set()
        """Names of turns, where turns are told apart by them."""
        self._queue = self._made_queue()

    def _made_queue(self) -> Queue | None:
        if self._single:
            return Merge(self.changes)
        return Queue() if self._codec.policy.busy_scope == "process" else None

    def write(self, session: str, record: Record) -> bytes:
        """Give the lines that follow from a record; ``session`` is what its log is kept under."""
        out = bytearray()
        self._take(session, record, out)
        return bytes(out)

    def close(self) -> bytes:
        """Give the lines that were still held back."""
        out = bytearray()
        self._rest(out)
        return bytes(out)

    # --- in order ---

    def _take(self, session: str, item: Item, out: bytearray) -> None:
        self._pass_all([(session, item)] if self._queue is None else self._queue.add(session, item), out)

    def _rest(self, out: bytearray) -> None:
        if self._queue is not None:
            self._pass_all(self._queue.rest(), out)
        for stream in list(self._streams.values()):
            self._open(stream, out)

    def _pass_all(self, items: Iterable[tuple[str, Item]], out: bytearray) -> None:
        for session, item in items:
            self._pass("" if self._single else session, item, out)

    def _pass(self, key: str, item: Item, out: bytearray) -> None:
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = Stream(key)
        if stream.name is not None:
            self._do(stream, item, out)
            return
        # Nothing is written before it is known who the session is.
        stream.lobby.append(item)
        if isinstance(item, Record) and isinstance(item.event, bus.SessionOpened | bus.TurnStarted):
            self._open(stream, out)

    def _do(self, stream: Stream, item: Item, out: bytearray) -> None:
        if not isinstance(item, Record):
            item()
            return
        event = item.event
        if isinstance(event, bus.TurnStarted) and not item.origin and not self._single:
            item = Record(item.seq, item.time, self._named(event), item.turn)
        self._render(stream, item, out)

    def _open(self, stream: Stream, out: bytearray) -> None:
        """Begin a session's lines with what tells who it is."""
        if stream.name is not None or not stream.lobby:
            return
        items, stream.lobby = stream.lobby, []
        records = [item for item in items if isinstance(item, Record)]
        last = records[-1] if records else None
        opening = last if last is not None and isinstance(last.event, bus.SessionOpened) else None
        event = opening.event if opening is not None else bus.SessionOpened("")
        stream.name = stream.key or event.id  # type: ignore[union-attr]  # it is the opening
        if not stream.name and not self._single:
            stream.name = UNNAMED
            self.changes[INVENTED_NAME] += 1
        if self._codec.greets and (opening is None or records[0] is not opening or items[0] is not opening):
            if opening is not None:
                if records[0] is not opening:
                    self.changes[MOVED_OPENING] += 1
                items = [opening, *(item for item in items if item is not opening)]
            else:
                self.changes[INVENTED_OPENING] += 1
                time = records[0].time if records else 0
                items = [Record(0, time, bus.SessionOpened(stream.name, ephemeral=True)), *items]
        if records or self._single:
            self._begin(stream, event)  # type: ignore[arg-type]  # it is the opening
        for item in items:
            self._do(stream, item, out)

    # --- rendering ---

    def _begin(self, stream: Stream, opened: bus.SessionOpened) -> None:
        """A session's lines begin."""

    def _render(self, stream: Stream, record: Record, out: bytearray) -> None:
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
        if self._told is not None:
            self._told(name, record)
        directive = self._side.render(name, [record], out)
        if directive is not None and not directive.consumed and directive.exit_status is None:
            # It wants to wait until a live host had time for something; here the clock never runs.
            self._side.render(name, [record], out)

    def _named(self, turn: bus.TurnStarted) -> bus.TurnStarted:
        """The turn under names that no other has."""
        names: dict[str, Any] = {"id": turn.id, "ref": turn.ref}
        for field, used in (("id", self._ids), ("ref", self._refs)):
            if names[field] in used:
                self.changes[Declaration("turn_started", field, "narrowed", ANOTHERS)] += 1
                names[field] = f"{names[field]}-{len(self._ids)}"
            if names[field] is not None:
                used.add(names[field])
        return replace(turn, **names)

    def _greet(self, opened: bus.SessionOpened, out: bytearray) -> None:
        """On wires on which a connection opens its session by itself, the first line is the answer to that."""
        if self._codec.begin is None:
            return
        state = SessionState(opened.id, opened.model, workspace=opened.workspace)
        for request in self._codec.begin(self._side):
            self._side.outcome(request, Outcome(Done(state)), out)
