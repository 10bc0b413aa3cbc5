"""What a connection writes: every record once and in order, every outcome once and in its place, boundedly ahead."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.codec.contract import Directive, Request
from agentwire.commands import LAST, NOW, Done, Outcome, Ping, Refusal
from agentwire.events import Notice, TextDelta
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.policy import Policy
from agentwire.server.outbox import AHEAD, OUTCOMES_LIMIT, Outbox
from agentwire.session import Session
from agentwire.settings import SessionSettings


class Numbers:
    """A side that writes a record as its number and an outcome as its token; may stop early to hold or exit."""

    def __init__(self) -> None:
        self.hold_at = self.exit_at = 0
        self.fed: list[int] = []

    def receive(self, line, view):
        raise NotImplementedError

    def outcome(self, request, outcome, out):
        out += b"<%s>\n" % request.token.encode()

    def render(self, session, records, out):
        for index, record in enumerate(records):
            text = record.event.text.encode() if isinstance(record.event, TextDelta | Notice) else b""
            out += b"%d %s\n" % (record.seq, text)
            if record.seq == self.hold_at:
                self.hold_at = 0
                return Directive(index + 1, hold_ms=20)
            if record.seq == self.exit_at:
                return Directive(index + 1, exit_status=7)
        return None

    def feed(self, session, records):
        self.fed += [record.seq for record in records]

    def fatal(self, refusal, out):
        raise NotImplementedError


def made(kind: type[Session] = Session) -> tuple[Session, Outbox, Numbers]:
    session = kind(
        "s", SessionLog(None), History(), settings=SessionSettings(workspace=str(Path.cwd())), policy=Policy()
    )
    side = Numbers()
    outbox = Outbox(side)
    outbox.follow(session, after=0)
    return session, outbox, side


def asked(token: str) -> Request:
    return Request(Ping(), token=token)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 40)),
        st.tuples(st.just("notice"), st.just(0)),
        st.tuples(st.just("outcome"), st.integers(0, 3)),
        st.tuples(st.just("now"), st.just(0)),
        st.tuples(st.just("write"), st.integers(1, 60)),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(MOVES)
def test_order_and_completeness(moves):
    session, outbox, _ = made()
    written = bytearray()
    due: list[tuple[int, str]] = []
    now: list[str] = []

    def write(count: int) -> None:
        outbox.fill()
        written.extend(outbox.out[:count])
        del outbox.out[:count]

    for move, size in moves:
        if move == "append":
            session.append(TextDelta("x" * size or "y"))
        elif move == "notice":
            session.append(Notice("n"))
        elif move == "outcome":
            token = f"o{len(due)}"
            after = max(outbox.follows["s"].position, session.log.seq - size)
            due.append((after, token))
            outbox.put(asked(token), Outcome(Done(), after), "s")
        elif move == "now":
            now.append(f"n{len(now)}")
            outbox.put(asked(now[-1]), Outcome(Refusal("busy", "m"), NOW), "s")
        else:
            write(size)
    while not outbox.drained:
        write(1000)

    lines = bytes(written).decode().splitlines()
    numbers = [int(line.split()[0]) for line in lines if line[0] != "<"]
    assert numbers == list(range(1, session.log.seq + 1))
    tokens = [line[1:-1] for line in lines if line[0] == "<"]
    assert [token for token in tokens if token[0] == "n"] == now
    assert sorted(token for token in tokens if token[0] == "o") == sorted(token for _, token in due)
    for after, token in due:
        place = lines.index(f"<{token}>")
        before = [int(line.split()[0]) for line in lines[:place] if line[0] != "<"]
        assert before == list(range(1, after + 1)), f"{token} follows {after}"


def test_rendering_stays_a_bounded_way_ahead_of_the_pipe():
    session, outbox, _ = made()
    for _ in range(1000):
        session.append(Notice("x" * 1000))
    outbox.fill()
    assert len(outbox.out) < 2 * AHEAD
    assert not outbox.drained


def test_a_late_connection_is_greeted_and_told_silently_of_the_running_turn():
    greeted = []

    class Greeting(Session):
        def opening(self) -> Record:
            greeted.append(1)
            assert self.opened is not None
            return self.opened

    session, _, _ = made(Greeting)
    session.opened = session.append(Notice("opened"))
    side = Numbers()
    outbox = Outbox(side)

    class Running:
        first = session.append(Notice("turn started"))

    session.active = Running()
    session.append(TextDelta("said before"))
    outbox.follow(session)
    assert greeted == [1]
    assert side.fed == [2, 3]
    session.append(TextDelta("said after"))
    outbox.fill()
    assert outbox.out == b"1 opened\n4 said after\n"


def test_holding_back_and_going_on():
    session, outbox, side = made()
    side.hold_at = 2
    for _ in range(4):
        session.append(Notice("n"))
    outbox.put(asked("pong"), Outcome(Done(), NOW), "s")
    outbox.fill()
    assert outbox.out == b"<pong>\n1 n\n2 n\n"
    assert outbox.follows["s"].hold_ms == 20
    outbox.fill()
    assert outbox.out.endswith(b"2 n\n")
    outbox.follows["s"].hold_ms = None
    outbox.fill()
    assert outbox.out.endswith(b"3 n\n4 n\n")


def test_an_exit_status_ends_the_stream():
    session, outbox, side = made()
    side.exit_at = 1
    session.append(Notice("n"))
    session.append(Notice("n"))
    outbox.fill()
    assert (outbox.exit_status, bytes(outbox.out)) == (7, b"1 n\n")


def test_too_many_unsent_outcomes_stop_the_reading_of_commands():
    _, outbox, _ = made()
    message = "m" * (1024 * 1024)
    for n in range(OUTCOMES_LIMIT // len(message)):
        assert not outbox.overfull
        outbox.put(asked(str(n)), Outcome(Refusal("bad_line", message), NOW))
    assert outbox.overfull
    while not outbox.drained:
        outbox.fill()
        outbox.out.clear()
    assert not outbox.overfull


def test_parking_is_refused_while_there_is_something_to_write():
    session, outbox, _ = made()
    woken: list[int] = []
    assert outbox.park(lambda: woken.append(1))
    session.append(Notice("n"))
    assert woken == [1]
    assert not outbox.park(lambda: None)
    outbox.fill()
    assert not outbox.park(lambda: None)
    outbox.out.clear()
    assert outbox.park(lambda: None)


def test_a_last_outcome_waits_for_what_is_held_back_without_a_busy_loop():
    session, outbox, side = made()
    side.hold_at = 1
    session.append(Notice("n"))
    session.append(Notice("n"))
    outbox.put(asked("bye"), Outcome(Done(), LAST), "s")
    outbox.fill()
    outbox.out.clear()
    assert outbox.park(lambda: None)
    outbox.follows["s"].hold_ms = None
    assert not outbox.park(lambda: None)
    outbox.fill()
    assert outbox.out == b"2 n\n<bye>\n"


def test_a_session_whose_log_is_closed_is_followed_to_its_end():
    session, outbox, _ = made()
    outbox.fill()
    assert outbox.park(lambda: None)
    session.append(Notice("n"))
    session.log.close()
    assert not outbox.park(lambda: None)
    outbox.fill()
    assert outbox.out == b"1 n\n"
    assert not outbox.follows
    outbox.out.clear()
    assert outbox.park(lambda: None)
