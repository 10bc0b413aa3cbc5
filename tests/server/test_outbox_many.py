"""A connection that follows many sessions: nothing of any is lost, and those that are silent are not looked at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.codec.contract import Directive, Request
from agentwire.commands import Done, Outcome, Ping
from agentwire.events import Notice
from agentwire.log.cursor import Cursor
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.policy import Policy
from agentwire.server.outbox import Outbox
from agentwire.session import Session
from agentwire.settings import SessionSettings


class Named:
    """A side that writes which record of which session it was, and holds back after the records in ``holds``."""

    def __init__(self) -> None:
        self.holds: set[str] = set()

    def receive(self, line, view):
        raise NotImplementedError

    def outcome(self, request, outcome, out):
        out += b"%s\n" % request.token.encode()

    def render(self, session, records, out):
        for index, record in enumerate(records):
            name = f"{session} {record.seq}"
            out += b"%s\n" % name.encode()
            if name in self.holds:
                self.holds.discard(name)
                return Directive(index + 1, hold_ms=20)
        return None

    def feed(self, session, records):
        raise NotImplementedError

    def fatal(self, refusal, out):
        raise NotImplementedError


def opened(name: str) -> Session:
    given = SessionSettings(workspace=str(Path.cwd()))
    return Session(name, SessionLog(None), History(), settings=given, policy=Policy())


class Writer:
    """What a connection does with its outbox: fills when it was woken, parks when there is nothing left."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.written = bytearray()
        self.parked = False

    def wake(self) -> None:
        self.parked = False

    def turn(self) -> None:
        """One round of it, if it was woken."""
        if not self.parked:
            self.outbox.fill()
            self.written += self.outbox.out
            self.outbox.out.clear()
            self.parked = self.outbox.park(self.wake)


WHICH = st.integers(0, 3)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["append", "hold", "outcome", "leave"]), WHICH),
        st.tuples(st.sampled_from(["turn", "release"]), st.just(0)),
    ),
    max_size=50,
)


@settings(max_examples=300, deadline=None)
@given(MOVES)
def test_whatever_comes_from_whichever_session_is_written(moves):
    sessions = [opened(f"s{n}") for n in range(4)]
    side = Named()
    outbox = Outbox(side)
    writer = Writer(outbox)
    for session in sessions:
        outbox.follow(session, after=0)
    due: dict[str, list[str]] = {session.id: [] for session in sessions}
    asked = 0

    for move, which in moves:
        session = sessions[which]
        followed = session.id in outbox.follows
        if move in ("append", "hold") and followed:
            record = session.append(Notice("n"))
            due[session.id].append(f"{session.id} {record.seq}")
            if move == "hold":
                side.holds.add(due[session.id][-1])
        elif move == "outcome" and followed:
            asked += 1
            token = f"{session.id} outcome {asked}"
            due[session.id].append(token)
            outbox.put(Request(Ping(), token=token), Outcome(Done(), session.log.seq), session.id)
            writer.wake()
        elif move == "leave" and followed:
            outbox.leave(session.id)
            writer.wake()
        elif move == "turn":
            writer.turn()
        elif move == "release":
            for follow in outbox.held:
                follow.hold_ms = None
            writer.wake()

    while outbox.held or not writer.parked or not outbox.drained:
        for follow in outbox.held:
            follow.hold_ms = None
        writer.wake()
        writer.turn()

    lines = bytes(writer.written).decode().splitlines()
    for session in sessions:
        assert [line for line in lines if line.startswith(f"{session.id} ")] == due[session.id]


def test_sessions_that_are_silent_are_not_looked_at(monkeypatch):
    looked: Counter[str] = Counter()
    take, park = Cursor.take, Cursor.park

    def counted_take(self, *given):
        looked["take"] += 1
        return take(self, *given)

    def counted_park(self, wake):
        looked["park"] += 1
        return park(self, wake)

    sessions = [opened(f"s{n}") for n in range(100)]
    outbox = Outbox(Named())
    writer = Writer(outbox)
    for session in sessions:
        outbox.follow(session, after=0)
    writer.turn()
    assert writer.parked
    monkeypatch.setattr(Cursor, "take", counted_take)
    monkeypatch.setattr(Cursor, "park", counted_park)
    for _ in range(10):
        sessions[7].append(Notice("n"))
        writer.turn()
    assert looked == {"take": 10, "park": 10}


def test_a_session_that_is_left_goes_once_it_is_shown_to_its_end():
    ours, theirs = opened("ours"), opened("theirs")
    outbox = Outbox(Named())
    writer = Writer(outbox)
    outbox.follow(ours, after=0)
    outbox.follow(theirs, after=0)
    writer.turn()
    theirs.append(Notice("n"))
    outbox.leave("theirs")
    assert set(outbox.follows) == {"ours", "theirs"}
    writer.turn()
    assert set(outbox.follows) == {"ours"}
    assert writer.written == b"theirs 1\n"


def test_one_that_was_being_left_can_be_kept():
    ours = opened("ours")
    outbox = Outbox(Named())
    writer = Writer(outbox)
    outbox.follow(ours, after=0)
    outbox.leave("ours")
    outbox.stay("ours")
    writer.turn()
    assert set(outbox.follows) == {"ours"}
