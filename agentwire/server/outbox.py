"""What one connection still has to write: records by cursor, outcomes in their place.

Plain code without an event loop. :meth:`Outbox.fill` renders, in order and at most :data:`AHEAD` bytes ahead of the
pipe; everything unrendered stays where it is, in the log. An outcome is written after the record it follows and
before the next; one marked ``NOW`` at the next line border.

Sessions that nothing comes from cost nothing: a followed session is looked at when its log or an outcome calls for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Literal

from agentwire.codec.contract import AgentSide, Directive, Request
from agentwire.commands import LAST, NOW, Outcome
from agentwire.log.cursor import Cursor
from agentwire.log.errors import Gap
from agentwire.log.record import Record
from agentwire.session import Session

AHEAD = 64 * 1024
"""Bytes rendered ahead of the pipe."""

OUTCOMES_LIMIT = 16 * 1024 * 1024
"""Bytes of unsent outcomes above which no more commands are read."""

OUTCOME_WEIGHT = 512
"""What an unsent outcome is counted as, in bytes, beside its text."""


class Follow:
    """One session that a connection follows, and how far it has come."""

    def __init__(self, session: Session, cursor: Cursor, woken: Callable[[Follow], None]) -> None:
        self.session = session
        self.woken = partial(woken, self)
        """What the cursor is parked with."""
        self.cursor = cursor
        self.position = cursor.position
        """Sequence number of the last record rendered."""
        self.batch: list[Record] = []
        """Taken from the log and not yet rendered."""
        self.outcomes: deque[tuple[Request, Outcome]] = deque()
        self.hold_ms: int | None = None
        """Set while a codec asked to hold this session's lines back."""
        self.leaving = False
        """Followed until everything it has was rendered, and not after that."""

    @property
    def caught_up(self) -> bool:
        """Nothing of this session waits to be rendered."""
        return not self.batch and not self.outcomes and self.cursor.position >= self.session.log.seq


def _nothing() -> None:
    """Nobody waits."""


class Outbox:
    """The bytes that are due on one connection."""

    def __init__(self, side: AgentSide, *, feeds: Literal["turn", "session"] = "turn") -> None:
        self.side = side
        self._feeds = feeds
        self.out = bytearray()
        self.follows: dict[str, Follow] = {}
        self._awake: dict[str, Follow] = {}
        """Those that may have something due; the cursors of the others are parked."""
        self._wake: Callable[[], None] = _nothing
        self.exit_status: int | None = None
        self.outcomes_written = 0
        """Grows with every outcome rendered; holds are counted from the last one."""
        self._now: deque[tuple[Request, Outcome]] = deque()
        self._last: deque[tuple[Request, Outcome]] = deque()
        """Outcomes that go out when nothing else is due."""
        self._unsent = 0

    # --- what goes in ---

    def follow(self, session: Session, *, after: int | None = None) -> Follow:
        """Follow a session: from after record ``after``, or (None) from its head, told of the running turn."""
        head = session.log.seq
        if after is None:
            self.side.render(session.id, [session.opening()], self.out)
            turn = session.active
            if self._feeds == "session":
                self._feed(session, 0, head)
            elif turn is not None:
                self._feed(session, turn.first.seq - 1, head, turn.first)
        elif after and self._feeds == "session":
            self._feed(session, 0, after)
        follow = Follow(session, session.log.cursor(after=after), self._woken)
        self.follows[session.id] = self._awake[session.id] = follow
        return follow

    def _feed(self, session: Session, after: int, until: int, first: Record | None = None) -> None:
        """Tell the side silently what the session holds between two records, of which ``first`` is the first."""
        try:
            cursor = session.log.cursor(after=after)
        except Gap as gap:
            # An ephemeral log that has forgotten the beginning: the rest is still to be had.
            if first is not None:
                self.side.feed(session.id, [first])
            cursor = session.log.cursor(after=gap.oldest - 1)
        while cursor.position < until and (records := cursor.take()):
            self.side.feed(session.id, [record for record in records if record.seq <= until])
        cursor.close()

    def leave(self, session: str) -> None:
        """Follow a session until everything it has was rendered, and not after that."""
        follow = self._awake[session] = self.follows[session]
        follow.leaving = True

    def stay(self, session: str) -> None:
        """Follow a session that was being left."""
        self.follows[session].leaving = False

    def unfollow(self, session: str) -> None:
        """Stop following a session; what was not rendered is not written."""
        follow = self.follows.pop(session, None)
        self._awake.pop(session, None)
        if follow is not None:
            follow.cursor.close()

    def put(self, request: Request, outcome: Outcome, session: str = "") -> None:
        """Queue an outcome at its place."""
        self._unsent += self._weight(outcome)
        if outcome.after == LAST:
            self._last.append((request, outcome))
            return
        follow = self.follows.get(session)
        if follow is None or outcome.after == NOW:
            self._now.append((request, outcome))
            return
        place = len(follow.outcomes)
        while place and follow.outcomes[place - 1][1].after > outcome.after:
            place -= 1
        follow.outcomes.insert(place, (request, outcome))
        self._awake[session] = follow

    @property
    def overfull(self) -> bool:
        """Too many outcomes are unsent: read no more commands for now."""
        return self._unsent > OUTCOMES_LIMIT

    def park(self, wake: Callable[[], None]) -> bool:
        """Have ``wake`` called at the next append to any followed session. False: there is something to write now."""
        if self._now or self.out or self.exit_status is not None or (self._last and not self.held):
            return False
        self._wake = wake
        for name, follow in list(self._awake.items()):
            if follow.hold_ms is None:
                if follow.batch or follow.outcomes or not follow.cursor.park(follow.woken):
                    return False
                del self._awake[name]
        return True

    def _woken(self, follow: Follow) -> None:
        self._awake[follow.session.id] = follow
        self._wake()

    @property
    def held(self) -> list[Follow]:
        """Those whose lines a codec asked to hold back for now."""
        return [follow for follow in self._awake.values() if follow.hold_ms is not None]

    @property
    def drained(self) -> bool:
        """Everything that is due was rendered and taken away."""
        due = self.out or self._now or self._last
        return not due and all(follow.caught_up for follow in self.follows.values())

    # --- what comes out ---

    def fill(self) -> None:
        """Render what is due into :attr:`out`, up to the bound."""
        while self._now and len(self.out) < AHEAD:
            self._write_outcome(*self._now.popleft())
        for follow in list(self._awake.values()):
            self._fill_from(follow)
            if (follow.leaving or follow.session.log.closed) and follow.caught_up:
                self.unfollow(follow.session.id)
        if self._last and all(follow.caught_up for follow in self.follows.values()):
            self._write_outcome(*self._last.popleft())

    def _fill_from(self, follow: Follow) -> None:
        while len(self.out) < AHEAD and follow.hold_ms is None and self.exit_status is None:
            due = follow.outcomes[0][1].after if follow.outcomes else None
            if due is not None and follow.position >= due:
                self._write_outcome(*follow.outcomes.popleft())
                continue
            if not follow.batch:
                follow.batch = follow.cursor.take(AHEAD - len(self.out))
                if not follow.batch:
                    return
            self._render(follow, due)
            if follow.caught_up:
                return

    def _render(self, follow: Follow, due: int | None) -> None:
        batch = follow.batch
        if due is not None and batch[-1].seq > due:
            cut = next((i for i, record in enumerate(batch) if record.seq > due), len(batch))
            if cut == 0:
                follow.position = due
                return
            batch, rest = batch[:cut], batch[cut:]
        else:
            rest = []
        directive = self.side.render(follow.session.id, batch, self.out)
        if directive is None:
            follow.batch, follow.position = rest, batch[-1].seq
            return
        if directive.consumed < len(batch):
            rest = batch[directive.consumed :] + rest
            batch = batch[: directive.consumed]
        follow.batch = rest
        if batch:
            follow.position = batch[-1].seq
        self._obey(directive, follow)

    def _write_outcome(self, request: Request, outcome: Outcome) -> None:
        self._unsent -= self._weight(outcome)
        self._obey(self.side.outcome(request, outcome, self.out), None)
        self.outcomes_written += 1

    def _obey(self, directive: Directive | None, follow: Follow | None) -> None:
        if directive is None:
            return
        if directive.exit_status is not None:
            self.exit_status = directive.exit_status
        if directive.hold_ms is not None and follow is not None:
            follow.hold_ms = directive.hold_ms

    @staticmethod
    def _weight(outcome: Outcome) -> int:
        message = getattr(outcome.result, "message", "")
        value = getattr(outcome.result, "value", None)
        return OUTCOME_WEIGHT + len(message) + (len(value) if isinstance(value, str | bytes) else 0)
