"""Logs out of what a host side heard: sequence numbers, turns, and an end for everything that was begun.

A host side tells what its wire tells. A log keeps more order than that: one turn at a time, steps, a question settled
before its call runs or ends, every call that was shown closed before its turn is. What the wire leaves to be understood
is written out here, and nothing else is made up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from agentwire import events as bus
from agentwire.codec.heard import Heard
from agentwire.commands import JsonId
from agentwire.log.record import Record
from agentwire.log.unfinished import Unfinished
from agentwire.transcode.steps import At, Steps

UNTOLD: Final = "The wire does not say how it ended"
"""Why something was closed that was begun and never heard of again."""

ANOTHER: Final = "Another turn began before this one ended"

_CALL_GOES_ON: Final = (bus.CallRunning, bus.CallOutputDelta, bus.CallFinished, bus.CallCancelled)
"""Events of a call that show that nobody waits for an answer about it any more."""

_SETTLED_BY: Final[dict[str, tuple[Literal["denied", "cancelled"], str]]] = {
    "denied": ("denied", "host"),
    "refused": ("denied", "policy"),
    "stopped": ("cancelled", "stop"),
    "client_gone": ("cancelled", "client_gone"),
    "crashed": ("cancelled", "crash"),
}
"""How a question was settled whose call was cancelled, by the cause."""


class Logged(Struct):
    """A record, and where it comes from."""

    session: str
    """The session's id as the wire's lines carry it; ``""`` on wires that name none."""
    record: Record
    source: int
    """Number of the recording's entry, from 0, whose line told it; -1: that the recording ended."""


class Logbook:
    """The log of one session while it is being written. Every method gives what it wrote."""

    __slots__ = ("_ran", "_seq", "_steps", "_turns", "id", "key", "name", "open", "unfinished")

    def __init__(self, key: str) -> None:
        self.key = key
        """What the log is kept under: the session's id as lines carry it."""
        self.id = key
        """The session's own id, once it is known."""
        self.name: JsonId = None
        """The ``ref`` of the turn under way."""
        self.open = False
        """A turn is under way."""
        self.unfinished = Unfinished()
        self._seq = 0
        self._turns = 0
        self._ran: set[str] = set()
        self._steps = Steps()

    def write(self, event: bus.Event, at: At, *, in_turn: bool, origin: str = "") -> list[Logged]:
        """Append an event, after whatever has to come before it; nothing, if it is known already or held back."""
        if origin:
            return self._put(event, at, in_turn, origin)
        if isinstance(event, bus.TurnStarted):
            return self._begin(event, at)
        if isinstance(event, bus.TurnFinished):
            return self.end(event, at)
        if isinstance(event, bus.SessionOpened):
            self.id = self.id or event.id
        if not (in_turn and self.open):
            return self._put(event, at, in_turn=False)
        return self._in_turn(event, at)

    def settle(
        self,
        approval_id: str,
        call_id: str,
        decision: Literal["allowed", "denied"],
        scope: Literal["", "call", "tool", "category"],
        reason: str,
        at: At,
    ) -> list[Logged]:
        """The host answers a question; either id names it. Nothing, if no such question waits."""
        logged = self.release()
        for asked, begun in self.unfinished.approvals.items():
            if asked == approval_id or (not approval_id and begun.call_id == call_id):
                resolved = bus.ApprovalResolved(asked, begun.call_id, decision, scope, "host", reason)
                return [*logged, self._append(resolved, at, bool(begun.turn), begun.origin)]
        return logged

    def release(self) -> list[Logged]:
        """Append what is held back, for whoever cannot wait for more: questions that want an answer."""
        return [item for event, at in self._steps.release() for item in self._put(event, at)]

    def end(self, end: bus.TurnFinished, at: At) -> list[Logged]:
        """End the turn under way, if one is, after everything in it."""
        if not self.open:
            return []
        *before, (last, _) = self._steps.take(end, at)
        logged = [item for event, place in before for item in self._put(event, place)]
        logged += [self._append(event, at, origin=origin) for event, origin in self._left_open(end.outcome)]
        logged.append(self._append(last, at))
        self.open = False
        self.name = None
        return logged

    # --- one event ---

    def _begin(self, event: bus.TurnStarted, at: At) -> list[Logged]:
        before = self.end(bus.TurnFinished("failed", error=bus.ErrorInfo("internal_error", ANOTHER)), at)
        self._turns += 1
        if not event.id:  # a host may name a turn so; of a log's turns each has a name
            event = replace(event, id=f"turn-{self._turns}")
        self.open = True
        self._ran.clear()
        self._steps = Steps()
        return [*before, self._append(event, at)]

    def _in_turn(self, event: bus.Event, at: At) -> list[Logged]:
        return [item for placed, place in self._steps.take(event, at) for item in self._put(placed, place)]

    def _put(self, event: bus.Event, at: At, in_turn: bool = True, origin: str = "") -> list[Logged]:
        """Append an event, unless it is known already, after the answer to a question that it shows to be settled."""
        if isinstance(event, bus.ApprovalResolved) and event.approval_id not in self.unfinished.approvals:
            return []  # it was settled by the host's own answer
        if isinstance(event, bus.HostToolRequested) and not event.call_id:
            event = replace(event, call_id=self._call_of(event, origin))
        if isinstance(event, bus.CallRunning):
            if event.call_id in self._ran:
                return []
            self._ran.add(event.call_id)
        return [*self._before_call(event, at), self._append(event, at, in_turn, origin)]

    def _before_call(self, event: bus.Event, at: At) -> list[Logged]:
        """The answer to a question about the call that goes on."""
        if not self.unfinished.approvals or not isinstance(event, _CALL_GOES_ON):
            return []
        logged = []
        for approval_id, begun in list(self.unfinished.approvals.items()):
            if begun.call_id != event.call_id:
                continue
            settled = bus.ApprovalResolved(approval_id, event.call_id, "allowed")
            if isinstance(event, bus.CallCancelled):
                settled.decision, settled.by = _SETTLED_BY[event.cause]
                settled.reason = event.reason if settled.decision == "denied" else ""
            logged.append(self._append(settled, at, bool(begun.turn), begun.origin))
        return logged

    def _left_open(self, outcome: bus.Outcome) -> Iterator[tuple[bus.Event, str]]:
        """The ends of what was begun in the turn, from the inside out, each with its origin."""
        left = self.unfinished
        stopped = outcome == "cancelled"
        for approval_id, begun in list(left.approvals.items()):
            by = "stop" if stopped else "crash"
            yield bus.ApprovalResolved(approval_id, begun.call_id, "cancelled", by=by, reason=UNTOLD), begun.origin
        for request_id, begun in list(left.requests.items()):
            yield bus.HostToolCancelled(request_id, "stopped", begun.call_id), begun.origin
        origins = dict.fromkeys([*(begun.origin for begun in left.calls.values()), *reversed(left.subagents)])
        for origin in [*(name for name in origins if name), ""]:
            for call_id, begun in list(left.calls.items()):
                if begun.origin == origin:
                    cause: Literal["stopped", "crashed"] = "stopped" if stopped else "crashed"
                    yield bus.CallCancelled(call_id, cause, "", begun.name), origin
            if origin in left.subagents:
                begun = left.subagents[origin]
                yield bus.SubagentFinished(origin, begun.name, UNTOLD), begun.origin
        if left.compaction is not None:
            yield bus.CompactionFailed(left.compaction.name, UNTOLD), left.compaction.origin

    def _append(self, event: bus.Event, at: At, in_turn: bool = True, origin: str = "") -> Logged:
        self._seq += 1
        record = Record(self._seq, at.time, event, self._turns if in_turn and self.open else 0, origin)  # type: ignore[arg-type]
        if not isinstance(event, bus.TextDelta | bus.ReasoningDelta):
            self.unfinished.feed(record)
        return Logged(self.key, record, at.source)

    def _call_of(self, event: bus.HostToolRequested, origin: str) -> str:
        """The call that a host's tool is run for, where the wire does not say it: the first open one of that name."""
        taken = {begun.call_id for begun in self.unfinished.requests.values()}
        calls = self.unfinished.calls.items()
        fits = (i for i, begun in calls if (begun.origin, begun.name) == (origin, event.name) and i not in taken)
        return next(fits, "")


class Logbooks:
    """The logs of every session that a host side tells of."""

    def __init__(self) -> None:
        self._books: dict[str, Logbook] = {}

    def hear(self, heard: Heard, at: At) -> list[Logged]:
        """Write what was heard into the log it belongs to."""
        book = self._book(heard)
        in_turn = heard.ref is not None and book.open and book.name == heard.ref
        logged = book.write(heard.event, at, in_turn=in_turn, origin=heard.origin)
        if isinstance(heard.event, bus.TurnStarted) and not heard.origin:
            book.name = heard.ref
        return logged

    def close(self, at: At) -> list[Logged]:
        """Nothing more will be heard: turns without an end have failed."""
        return [item for book in self._books.values() for item in book.end(bus.TurnFinished("failed"), at)]

    def of(self, session: str) -> Sequence[Logbook]:
        """The log of a session; of all, if none is named."""
        return [book for book in self._books.values() if not session or session in (book.key, book.id)]

    def _book(self, heard: Heard) -> Logbook:
        """The log of a session; of a turn whose session is not told, the one it began in."""
        book = self._books.get(heard.session)
        begins = isinstance(heard.event, bus.TurnStarted) and not heard.origin
        if heard.ref is not None and not begins and (book is None or book.name != heard.ref or not book.open):
            for other in self._books.values():
                if other.open and other.name == heard.ref:
                    return other
        key = heard.session
        if begins and not key and book is not None and book.open and book.name != heard.ref:
            # A wire of many sessions, of which this turn's is not known: it gets a log of its own.
            key = heard.event.id  # type: ignore[attr-defined]  # a turn's start
            book = self._books.get(key)
        if book is None:
            book = self._books[key] = Logbook(key)
        return book
