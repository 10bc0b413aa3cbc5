"""Sessions that open by command: a real set-up, a real store, and a peer that notes what it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from support.world import Reply, World

from agentwire.agent.loop import Agent
from agentwire.commands import (
    LAST,
    NOW,
    ArchiveSession,
    Doctor,
    Done,
    ForkSession,
    GetHistory,
    ListSessions,
    OpenSession,
    Outcome,
    Plan,
    Prompt,
    Refusal,
    ResetSession,
    ResumeSession,
    SetModel,
    Shutdown,
    Stop,
)
from agentwire.events import Notice, SessionOpened, TurnFinished, TurnStarted
from agentwire.messages import UserMessage
from agentwire.options import ServeOptions
from agentwire.policy import Policy
from agentwire.server.runtime import make_runner
from agentwire.server.server import Server
from agentwire.setup import Setup

PLAY = '{"text": "one"}\n{"text": "two"}\n{"text": "three"}\n'


class Host:
    """A peer that notes which sessions it was asked to show, and from where."""

    def __init__(self) -> None:
        self.name = ""
        self.shown: dict[str, int | None] = {}
        self.ended = False

    def follows(self, session: str) -> bool:
        return session in self.shown

    def follow(self, session, after: int | None) -> None:
        self.shown[session.id] = after

    def end(self) -> None:
        self.ended = True


class Desk:
    """A server with a set-up, as a process of a wire with many sessions has it."""

    def __init__(self, nursery: trio.Nursery, workspace: Path, policy: Policy | None = None, **options) -> None:
        (workspace / "play.jsonl").write_text(PLAY)
        given = {
            "provider": "script",
            "provider_options": {"script": str(workspace / "play.jsonl"), "repeat": True},
            **options,
        }
        self.setup = Setup(ServeOptions(workspace=str(workspace), **given), policy or Policy())
        self.server = Server(
            nursery,
            lambda boot: make_runner(boot.session, Agent(), nursery, self.setup.provider_for),
            self.setup,
        )
        self.host = Host()
        self.server.attach(self.host)

    def start(self, command, session: str = "") -> list[Outcome]:
        replies: list[Outcome] = []
        self.server.dispatch(command, session, replies.append, peer=self.host)
        return replies

    def do(self, command, session: str = "") -> Outcome:
        (outcome,) = self.start(command, session)
        return outcome

    def value(self, command, session: str = ""):
        result = self.do(command, session).result
        assert isinstance(result, Done), result
        return result.value

    def refusal(self, command, session: str = "") -> Refusal:
        result = self.do(command, session).result
        assert isinstance(result, Refusal), result
        return result

    def events(self, session: str, kind: type) -> list:
        cursor = self.server.sessions.get(session).session.log.cursor(after=0)
        found = []
        while records := cursor.take():
            found += [record.event for record in records if isinstance(record.event, kind)]
        return found


@pytest.fixture
def desk(nursery: trio.Nursery, tmp_path: Path, monkeypatch) -> Desk:
    monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTWIRE_CONFIG_DIR", str(tmp_path / "config"))
    return Desk(nursery, tmp_path)


async def test_a_session_is_opened_shown_from_its_beginning_and_listed(desk, tmp_path):
    state = desk.value(OpenSession(workspace=str(tmp_path), model="m"))
    assert (state.model, state.turns, state.workspace) == ("m", 0, str(tmp_path))
    assert "Read" in state.tools
    assert desk.host.shown == {state.id: 0}
    assert desk.value(ListSessions()) == [state]
    assert [event.kind for event in desk.events(state.id, SessionOpened)] == ["new"]


async def test_what_is_wrong_with_the_set_up_is_the_answer(desk, tmp_path):
    refusal = desk.refusal(OpenSession(workspace=str(tmp_path / "nowhere")))
    assert refusal.code == "config"
    assert "nowhere" in refusal.message
    assert desk.value(ListSessions()) == []


async def test_no_provider_named_anywhere_has_a_kind_of_its_own(nursery, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTWIRE_CONFIG_DIR", str(tmp_path / "config"))
    desk = Desk(nursery, tmp_path, provider="", provider_required=True)
    refusal = desk.refusal(Prompt("hi", session="s", open=True), "s")
    assert (refusal.code, refusal.data) == ("config", "config_missing")


async def test_a_prompt_opens_its_session_and_takes_up_its_journal(desk, tmp_path, nursery):
    desk.value(Prompt("hi", session="mine", open=True), "mine")
    await desk.server.idle()
    assert desk.host.shown == {"mine": 0}
    desk.value(ArchiveSession("mine"))
    assert desk.value(ListSessions()) == []
    del desk.host.shown["mine"]
    desk.value(Prompt("again", session="mine", open=True), "mine")
    await desk.server.idle()
    assert desk.host.shown["mine"] > 0  # from where it was taken up
    texts = [part.text for message in desk.value(GetHistory(), "mine") if isinstance(message, UserMessage)
             for part in message.parts]  # fmt: skip
    assert texts == ["hi", "again"]


@pytest.mark.parametrize("policy", ["refuse", "reset"])
async def test_a_damaged_journal(policy, nursery, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(tmp_path / "data"))
    desk = Desk(nursery, tmp_path, Policy(damaged_journal=policy))
    desk.value(Prompt("hi", session="s", open=True), "s")
    await desk.server.idle()
    path = Path(desk.setup.store.path("s"))
    desk.value(ArchiveSession("s"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1] + b"\0" * 40 + b"\n" + lines[3])
    if policy == "refuse":
        assert desk.refusal(Prompt("again", session="s", open=True), "s").code == "config"
        return
    desk.value(Prompt("again", session="s", open=True), "s")
    await desk.server.idle()
    (notice,) = desk.events("s", Notice)
    assert notice.level == "warning"
    assert "put aside" in notice.text
    assert len(desk.events("s", TurnStarted)) == 1
    (aside,) = path.parent.glob("*.damaged-*")
    assert aside.read_bytes().startswith(lines[0])


@pytest.mark.parametrize("ephemeral", [True, False])
async def test_a_fork_has_the_history_and_leaves_its_source_alone(ephemeral, desk):
    source = desk.value(OpenSession(ephemeral=ephemeral)).id
    desk.value(Prompt("hi"), source)
    await desk.server.idle()
    before = desk.value(GetHistory(), source)
    fork = desk.value(ForkSession(source))
    assert fork.id != source
    assert fork.turns == 0
    assert desk.value(GetHistory(), fork.id) == before
    desk.value(Prompt("more"), fork.id)
    await desk.server.idle()
    assert desk.value(GetHistory(), source) == before
    assert len(desk.value(GetHistory(), fork.id)) == len(before) + 2
    again = desk.value(ForkSession(fork.id))
    assert len(desk.value(GetHistory(), again.id)) == len(before) + 2
    opened = desk.server.sessions.get(again.id).session.opened.event
    assert (opened.kind, opened.forked_from, opened.root) == ("forked", fork.id, source)


async def test_commands_for_one_session_while_its_turn_runs(nursery, tmp_path):
    world = World(nursery, [Reply("slow", ["look"])], Policy(), tmp_path)
    world.send(Prompt("go"))
    for command in (ForkSession("s"), ArchiveSession("s"), ResetSession("s"), SetModel("s", "m")):
        refusal = world.send(command).result
        assert (type(command), refusal.code, refusal.retryable) == (type(command), "busy", True)
    nursery.cancel_scope.cancel()


async def test_a_turn_keeps_the_process_busy_if_the_policy_says_so(nursery, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(tmp_path / "data"))
    desk = Desk(nursery, tmp_path, Policy(busy_scope="process"))
    one, two = (desk.value(OpenSession()).id for _ in range(2))
    desk.value(Prompt("hi"), one)
    assert desk.refusal(Prompt("hi"), two).code == "busy"
    assert desk.refusal(Prompt("hi"), one).code == "busy"
    await desk.server.idle()
    desk.value(Prompt("hi"), two)
    await desk.server.idle()


async def test_queued_prompts_are_answered_when_their_turn_begins_or_is_stopped(nursery, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(tmp_path / "data"))
    desk = Desk(nursery, tmp_path, Policy(when_busy="queue"))
    session = desk.value(OpenSession()).id
    desk.value(Prompt("a", ref="a"), session)
    waiting = {ref: desk.start(Prompt("x", ref=ref), session) for ref in ("1", 1, "c")}
    assert not any(waiting.values())
    assert desk.value(Stop(ref=1), session) is True
    (stopped,) = waiting[1]
    assert stopped.result.code == "cancelled"
    assert desk.value(Stop(ref="nobody"), session) is False
    await desk.server.idle()
    assert [event.ref for event in desk.events(session, TurnStarted)] == ["a", "1", "c"]
    assert all(len(waiting[ref]) == 1 and isinstance(waiting[ref][0].result, Done) for ref in ("1", "c"))
    for ref in ("1", "c"):
        started = [event for event in desk.events(session, TurnStarted) if event.ref == ref]
        assert waiting[ref][0].result.value == started[0].id


async def test_a_stop_that_waits_is_answered_after_the_end(nursery, tmp_path):
    world = World(nursery, [Reply("slow", ["change"])], Policy(), tmp_path)
    world.send(Prompt("go"))
    while not world.session.approvals.open:
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(0.01)
    assert world.send(Stop(wait=True)) is None
    await world.server.idle()
    (outcome,) = world.outcomes[-1][1]
    ends = [record.seq for record in world.records() if isinstance(record.event, TurnFinished)]
    assert outcome == Outcome(Done(True), ends[-1])


async def test_resume_gives_sessions_of_this_process_and_stored_ones(desk):
    mine = desk.value(OpenSession()).id
    assert desk.value(ResumeSession(mine)).id == mine
    desk.value(ArchiveSession(mine))
    assert [(state.id, state.open) for state in desk.value(ListSessions(stored=True))] == [(mine, False)]
    assert desk.value(ResumeSession(mine)).id == mine
    assert desk.refusal(ResumeSession("never")).code == "not_found"


async def test_models_that_nobody_serves_are_refused_and_nothing_changes(nursery, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(tmp_path / "data"))
    desk = Desk(nursery, tmp_path, model="m", models={"m": "script", "n": "script"})
    session = desk.value(OpenSession()).id
    assert desk.value(SetModel(session, "n"), session).model == "n"
    refusal = desk.refusal(SetModel(session, "other"), session)
    assert (refusal.code, refusal.data) == ("config", "model")
    assert "other" in refusal.message
    assert desk.refusal(SetModel(session, "  "), session).code == "bad_params"
    assert desk.value(ListSessions())[0].model == "n"
    assert desk.value(SetModel(session, "script/free"), session).model == "free"
    assert desk.refusal(OpenSession(model="other")).data == "model"


async def test_doctor_and_plan_are_answered_by_a_task(desk):
    doctor, plan = desk.start(Doctor()), desk.start(Plan())
    assert not doctor
    while not (doctor and plan):
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert {check.name: check.status for check in doctor[0].result.value} == {
        "config": "ok", "provider": "ok", "sessions": "ok",
    }  # fmt: skip
    assert plan[0].result.value["provider"] == "script"
    assert doctor[0].after == NOW


async def test_a_shutdown_is_answered_last(desk):
    session = desk.value(OpenSession()).id
    desk.value(Prompt("hi"), session)
    (later,) = [desk.start(Shutdown())]
    assert not later
    while not later:
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert later == [Outcome(Done(), LAST)]
    assert desk.host.ended
    assert [event.outcome for event in desk.events(session, TurnFinished)] == ["cancelled"]
    assert desk.refusal(Prompt("more"), session).code == "unsupported"


async def test_what_may_be_resumed(desk):
    session = desk.value(OpenSession()).id
    desk.value(Prompt("hi"), session)
    desk.value(Stop(), session)
    await desk.server.idle()
    desk.value(Prompt("", resume=True), session)
    await desk.server.idle()
    assert desk.events(session, Notice) == []
    desk.value(Prompt("", resume=True), session)
    await desk.server.idle()
    (notice,) = desk.events(session, Notice)
    assert notice.level == "warning"


async def test_agents_by_name(nursery, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(tmp_path / "data"))
    desk = Desk(nursery, tmp_path, agents={"planner": "Plan."})
    session = desk.value(OpenSession()).id
    assert desk.refusal(Prompt("hi", agent="nobody"), session).code == "bad_params"
    desk.value(Prompt("hi", agent="planner"), session)
    await desk.server.idle()
