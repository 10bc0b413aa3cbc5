"""A session whose process is killed at any byte of its journal can be taken up again, and works.

The journal is one that the engine wrote: text, calls that succeed, fail, are denied and stopped, a turn that failed,
a subagent, a compacted history. It is cut after each of its bytes in turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from scripted import Bench, Call, Model, Probe, Reply, calling

from agentwire.agent.loop import Agent
from agentwire.commands import Approve, Deny, Prompt, Stop
from agentwire.events import (
    ApprovalRequested,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRunning,
    CallStarted,
    SessionOpened,
    SubagentFinished,
    SubagentStarted,
    Text,
    TurnFinished,
    TurnStarted,
)
from agentwire.log.record import Record
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.opening import fork_session, open_session
from agentwire.policy import Policy
from agentwire.provider.contract import ProviderError
from agentwire.server.runtime import make_runner
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.store import SessionStore
from agentwire.tools.spawn import Spawn

SESSION = "s"
ASKING = Policy(shows_subagents=True)


class Stored(Bench):
    """A session at work whose journal lies in a store."""

    def __init__(self, nursery: trio.Nursery, session: Session, model: Model, tools: list[Probe]) -> None:
        self.model, self.session = model, session
        self.runner = make_runner(session, Agent(tools=[*tools, Spawn()], system_prompt="Be brief."), nursery)
        self.server = Server(nursery)
        self.server.add(self.runner)
        self.cursor = session.log.cursor()
        self._unread: list[Record] = []


def settings(workspace: Path) -> SessionSettings:
    return SessionSettings(workspace=str(workspace), model="m", builtins=False, subagents=True)


def opened(store: SessionStore, workspace: Path, model: Model, **how: Any) -> Session:
    return open_session(store, settings(workspace), ASKING, model, **how)


@asynccontextmanager
async def at_work(session: Session, model: Model, *tools: Probe) -> AsyncIterator[Stored]:
    async with trio.open_nursery() as nursery:
        yield Stored(nursery, session, model, list(tools))
        nursery.cancel_scope.cancel()
    session.log.close()


async def live(store: SessionStore, workspace: Path) -> None:
    """A session's life, with a bit of everything."""
    child = [calling("look"), Reply("seen")]
    model = Model(
        Reply("Ich schaue 🙂 ", calls=[Call("look", {"was": "ö"}), Call("broken"), Call("asked", {"n": 1})]),
        Reply("done"),
        calling("waits"),
        Reply("half an answer", fails=ProviderError("it broke", kind="auth")),
        calling("Spawn", {"tasks": [{"name": "scout", "prompt": "scout it"}]}),
        Reply("the end"),
        scripts={"scout it": child},
    )
    gate = trio.Event()
    probes = Probe("look", "info"), Probe("broken", fails="no"), Probe("asked"), Probe("waits", "info", gate=gate)
    session = opened(store, workspace, model, session_id=SESSION)
    async with at_work(session, model, *probes) as stored:
        session.approvals.allow = frozenset({"info", "broken", "Spawn"})
        stored.send(Prompt("erstens", ref="m1"))
        question = await stored.until(ApprovalRequested, name="asked")
        stored.send(Deny(approval_id=question.approval_id, reason="no\nthank you"))
        await stored.server.idle()
        stored.send(Prompt("second"))
        await stored.until(CallRunning, name="waits")
        stored.send(Stop())
        await stored.server.idle()
        await stored.finish("third")
        await stored.finish("fourth")


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of the journal."""
    folder = tmp_path_factory.mktemp("life")
    store = SessionStore(folder / "sessions")
    trio.run(live, store, folder, clock=trio.testing.MockClock(autojump_threshold=0))
    return Path(store.path(SESSION)).read_bytes()


def records_of(store: SessionStore, session: str = SESSION) -> list[Record]:
    return list(store.read(session))


def check_log(records: list[Record]) -> None:
    """One end per turn, nothing open, numbers without a gap."""
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    running, shown, subagents = 0, set(), set()
    for record in records:
        match record.event:
            case TurnStarted() if not record.origin:
                assert running == 0
                running = record.turn
            case CallStarted(call_id) | CallReady(call_id):
                shown.add(call_id)
            case CallFinished(call_id) | CallCancelled(call_id):
                shown.discard(call_id)
            case SubagentStarted(run_id):
                subagents.add(run_id)
            case SubagentFinished(run_id):
                subagents.remove(run_id)
            case TurnFinished() if not record.origin:
                assert (running, shown, subagents) == (record.turn, set(), set())
                running = 0
    assert (running, shown, subagents) == (0, set(), set())


def check_history(messages: list[Message]) -> None:
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.call_id == waiting.pop(0)
            continue
        assert not waiting
        if isinstance(message, AssistantMessage):
            assert message.text or message.calls
            waiting = [call.call_id for call in message.calls]
        else:
            assert message.parts
    assert not waiting


def test_the_life_has_what_it_is_said_to_have(life: bytes) -> None:
    lines = life.splitlines()
    found = {msgspec.json.decode(line)["event"]["type"] for line in lines[1:]}
    wanted = "session_opened turn_started text_delta call_started call_ready approval_requested call_running " \
        "call_finished call_cancelled step_finished error subagent_started subagent_finished turn_finished"  # fmt: skip
    assert {word for word in wanted.split() if not any(kind.startswith(word) for kind in found)} == set()
    assert b"\xf0\x9f\x99\x82" in life


def test_s_d01_s_d02_killed_at_every_byte_it_is_taken_up_again(life: bytes, tmp_path: Path) -> None:
    """Every cut is opened and mended; where it falls between records, or just after, the session goes on."""
    store = SessionStore(tmp_path / "sessions")
    (tmp_path / "sessions").mkdir()
    path = Path(store.path(SESSION))
    lines = life.splitlines(keepends=True)
    kept = len(lines[0])
    path.write_bytes(lines[0])
    for seq, line in enumerate([*lines[1:], b"x"]):
        for torn in range(len(line)):
            with open(path, "r+b") as file:
                file.seek(kept)
                file.write(line[:torn])
            journal = store.open(SESSION)
            assert (journal.lost, journal.seq, journal.end) == (torn, seq, kept)
            journal.close()
            assert path.stat().st_size == kept
        assert path.read_bytes() == life[:kept]
        for torn in (b"", line[:-1]):
            path.write_bytes(life[:kept] + torn)
            check_session(store, tmp_path)
        kept += len(line)
        path.write_bytes(life[:kept])
    assert kept == len(life) + 1


def check_session(store: SessionStore, workspace: Path) -> None:
    """The session opens with a good history and a whole log, and takes a turn that is there when opened again."""
    messages: list[Message] | None = None
    for _ in range(2):
        session = opened(store, workspace, Model(), resume=SESSION)
        found = session.history.messages()
        check_history(found)
        assert messages is None or found == messages
        turn = session.turns + 1
        session.append(TurnStarted(f"t{turn}", None, [Text("on")]), turn)
        session.append(TurnFinished("completed", ""), turn)
        session.log.close()
        messages = [*found, UserMessage([Text("on")])]
        check_log(records_of(store))


def test_killed_before_the_first_line_was_whole_there_is_no_session(life: bytes, tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    (tmp_path / "sessions").mkdir()
    path = Path(store.path(SESSION))
    for size in range(life.index(b"\n") + 1):
        path.write_bytes(life[:size])
        session = opened(store, tmp_path, Model(), session_id=SESSION)
        session.log.close()
        assert [type(record.event) for record in records_of(store)] == [SessionOpened]


def test_cut_after_any_record_the_engine_goes_on_with_a_turn(life: bytes, tmp_path: Path) -> None:
    """The next turn's request holds the old history, and a session that is cut once more is whole once more."""
    store = SessionStore(tmp_path / "sessions")
    (tmp_path / "sessions").mkdir()
    path = Path(store.path(SESSION))
    ends = [n + 1 for n, byte in enumerate(life) if byte == 0x0A]

    async def go_on(end: int) -> None:
        path.write_bytes(life[:end] + b'{"seq":')
        model = Model(calling("asked"), Reply("fine"))
        probe = Probe("asked")
        session = opened(store, tmp_path, model, resume=SESSION)
        before = session.history.messages()
        async with at_work(session, model, probe) as stored:
            stored.send(Prompt("go on"))
            question = await stored.until(ApprovalRequested)
            stored.send(Approve(approval_id=question.approval_id))
            await stored.server.idle()
            assert len(probe.calls) == 1
            assert session.history.answer == "fine"
        # Two prompts in a row may have become one message; the text of all is there.
        asked = model.requests[0].messages
        assert asked[: len(before)] == before
        check_history(asked)
        records = records_of(store)
        check_log(records)
        grown = path.read_bytes()
        path.write_bytes(grown[: -len(grown.splitlines()[-1]) // 2])
        again = opened(store, tmp_path, model, resume=SESSION)
        check_history(again.history.messages())
        again.log.close()
        check_log(records_of(store))

    for end in ends:
        trio.run(go_on, end, clock=trio.testing.MockClock(autojump_threshold=0))


# --- forks ---


def digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


async def test_s_d04_a_fork_of_a_fork_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    """In each copy the turn under way was cut off; in its own session it goes on to its end."""
    store = SessionStore(tmp_path / "sessions")
    gate = trio.Event()
    model = Model(Reply("looking ", calls=[Call("waits", id="c1")]), Reply("seen"))
    parent = opened(store, tmp_path, model, session_id=SESSION)
    parent.approvals.mode = "yolo"
    async with at_work(parent, model, Probe("waits", "info", gate=gate)) as stored:
        stored.send(Prompt("one"))
        await stored.until(CallRunning)
        child = fork_session(store, parent, "child")
        grandchild = fork_session(store, child, "grandchild")
        before = digest(store.path("child")), digest(store.path("grandchild"))
        gate.set()
        await stored.server.idle()
        assert parent.history.answer == "seen"
    for session in (child, grandchild):
        assert session.approvals.open == []
        said, answer = session.history.messages()[1:]
        assert isinstance(said, AssistantMessage)
        assert isinstance(answer, ToolMessage)
        assert (answer.call_id, answer.is_error) == ("c1", True)
        session.log.close()
    assert (digest(store.path("child")), digest(store.path("grandchild"))) == before
    infos = {info.id: info for info in store.list()}
    assert (infos["child"].forked_from, infos["child"].root) == (SESSION, SESSION)
    assert (infos["grandchild"].forked_from, infos["grandchild"].root) == ("child", SESSION)
    for name in infos:
        check_log(records_of(store, name))
    ends = {name: [r.event.outcome for r in records_of(store, name) if isinstance(r.event, TurnFinished)]
            for name in infos}  # fmt: skip
    assert ends == {SESSION: ["completed"], "child": ["failed"], "grandchild": ["failed"]}


def test_a_fork_of_a_journal_cut_at_any_record_is_whole(life: bytes, tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    (tmp_path / "sessions").mkdir()
    path = Path(store.path(SESSION))
    ends: Iterator[int] = (n + 1 for n, byte in enumerate(life) if byte == 0x0A)
    for number, end in enumerate(ends):
        path.write_bytes(life[:end] + b'{"se')
        before = digest(store.path(SESSION))
        session = open_session(store, settings(tmp_path), ASKING, Model(), resume=SESSION, fork=True)
        session.log.close()
        assert digest(store.path(SESSION)) == before
        assert session.id != SESSION
        check_log(records_of(store, session.id))
        check_history(session.history.messages())
        assert len(store.list()) == number + 2
