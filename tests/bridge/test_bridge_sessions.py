"""Sessions that outlive a bridge: kept, listed, gone on with, by agents that remember and by those that do not."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from crossing import Agents, Ends

from agentwire.bridge.memory import Memory, as_text
from agentwire.commands import (
    ArchiveSession,
    Done,
    ForkSession,
    GetHistory,
    ListSessions,
    OpenSession,
    Prompt,
    Refusal,
    ResumeSession,
)
from agentwire.events import CallRef, ContextAdded, Image, Notice, SessionOpened, Text, TurnFinished
from agentwire.host.connect import Peer
from agentwire.messages import AssistantMessage, ToolMessage, UserMessage
from agentwire.recording import open_recording
from agentwire.store import SessionInUse, SessionStore

pytestmark = pytest.mark.slow

Play = Callable[[Ends], Awaitable[None]]


class World:
    """A data directory, and agent processes with a script for a model."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.kept = folder / "data" / "bridged"
        self.agents_own = folder / "data" / "sessions"
        monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(folder / "data"))
        (folder / "play.jsonl").write_text("".join(json.dumps({"text": f"answer {n}"}) + "\n" for n in range(4)))

    def cross(self, host: str, agent: str, play: Play, **options: Any) -> Ends:
        """Bridge once."""
        agents = Agents(agent, [], [], self.folder)
        agents.argv = [
            sys.executable, "-m", "agentwire", "serve", "--codec", agent, "--provider", "script",
            "--provider-option", f"script={self.folder / 'play.jsonl'}", "--workspace", str(self.folder),
        ]  # fmt: skip

        async def run() -> Ends:
            async with trio.open_nursery() as nursery:
                ends = Ends(nursery, host, agents, directory=options.pop("directory", str(self.kept)), **options)
                with trio.fail_after(40):
                    await play(ends)
                nursery.cancel_scope.cancel()
            return ends

        return trio.run(run)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def saying(text: str, *, session: str = "", resume: str = "") -> Play:
    """One turn, and leave."""

    async def play(ends: Ends) -> None:
        if resume:
            assert isinstance(await ends.ask(ResumeSession(resume)), Done)
        await ends.send(Prompt(text, session=session))
        await ends.turns(1)
        await ends.leave()

    return play


def said(world: World, directory: Path) -> list[list[str]]:
    """What users said, by session, as journals have it."""
    store = SessionStore(directory)
    found = []
    for info in sorted(store.list(), key=lambda info: info.created):
        text = Memory(store, info.id).text.split("\n")
        found.append([line.removeprefix("User: ") for line in text if line.startswith("User: ")])
    return found


def the_one(world: World) -> str:
    (info,) = SessionStore(world.kept).list()
    return info.id


TAKES_UP = {
    "aionrs": "taken up", "pagent-v4": "taken up", "levpro": "taken up", "jan": "forgotten", "pagent": "forgotten",
}  # fmt: skip
"""Jan takes up what its own process has; a classic pagent has no word for it, and no ids."""


@pytest.mark.parametrize(("agent", "how"), TAKES_UP.items())
@pytest.mark.parametrize("host", ["aionrs", "pagent-v4", "levpro"])
def test_a_host_goes_on_with_a_session_in_its_own_words(host: str, agent: str, how: str, world: World) -> None:
    """By the command line, by a command, or by the session's name in a prompt."""
    name = "s" if host == "levpro" else ""
    world.cross(host, agent, saying("first", session=name))
    kept = the_one(world)
    assert said(world, world.kept) == [["first"]]

    options = {"resume": "latest"} if host == "aionrs" else {}
    resume = kept if host == "pagent-v4" else ""
    ends = world.cross(host, agent, saying("second", session=name, resume=resume), **options)
    assert ends.status == 0
    mine = [texts for texts in said(world, world.kept) if "second" in texts]
    assert mine == [["first", "second"]]
    assert ends.bridge.report.resumed == {how: 1}
    # The agent's own journal says the same.
    theirs = said(world, world.agents_own)
    assert ["first", "second"] in theirs if how == "taken up" else ["first", "second"] not in theirs
    notices = [record.event for log in ends.logs.values() for record in log if isinstance(record.event, Notice)]
    assert any("does not know what was said" in event.text for event in notices) is (how == "forgotten")


def test_another_agent_is_told_what_was_said_where_its_wire_has_a_word_for_it(world: World, tmp_path: Path) -> None:
    world.cross("aionrs", "levpro", saying("first"))
    record = tmp_path / "wire.jsonl"
    ends = world.cross("aionrs", "aionrs", saying("second"), resume=the_one(world), record=str(record))
    assert ends.bridge.report.resumed == {"handed over": 1}
    sent = [entry.text for entry in open_recording(tmp_path / "wire.agent-1.jsonl") if entry.who == "host"]
    (told,) = [json.loads(line) for line in sent if "init_history" in line]
    assert told["text"] == "What was said before in this conversation:\nUser: first\nAssistant: answer 0"
    assert not [record for log in ends.logs.values() for record in log if isinstance(record.event, ContextAdded)]


def test_a_stored_session_is_listed_read_and_removed(world: World) -> None:
    world.cross("aionrs", "aionrs", saying("first"))
    kept = the_one(world)

    async def play(ends: Ends) -> None:
        listed = await ends.ask(ListSessions(stored=True))
        assert isinstance(listed, Done)
        assert kept in [state.id for state in listed.value]
        assert isinstance(await ends.ask(ResumeSession(kept)), Done)
        history = await ends.ask(GetHistory(kept))
        assert isinstance(history, Done)
        assert history.value[0] == UserMessage([Text("first")])
        await ends.ask(ArchiveSession(kept, remove=True))
        await ends.leave()

    world.cross("pagent-v4", "aionrs", play)
    assert kept not in [info.id for info in SessionStore(world.kept).list()]


def test_nothing_is_kept_that_is_ephemeral(world: World) -> None:
    async def play(ends: Ends) -> None:
        answer = await ends.ask(OpenSession(workspace=str(world.folder), ephemeral=True))
        assert isinstance(answer, Done)
        await saying("first")(ends)

    world.cross("jan", "aionrs", play)
    world.cross("aionrs", "aionrs", saying("first"), ephemeral=True)
    assert not SessionStore(world.kept).list()


async def gone(ends: Ends) -> None:
    await ends.until(lambda: ends.ended.is_set())


def test_what_is_not_there_cannot_be_gone_on_with(world: World) -> None:
    ends = world.cross("aionrs", "aionrs", gone, resume="none")
    assert ends.status == 1

    async def play(ends: Ends) -> None:
        assert isinstance(await ends.ask(ResumeSession("none")), Refusal)
        await ends.leave()

    world.cross("pagent-v4", "levpro", play)


def test_a_session_that_another_process_has_is_not_taken_away(world: World) -> None:
    world.cross("aionrs", "aionrs", saying("first"))
    kept = the_one(world)
    with_it = SessionStore(world.kept).open(kept)
    try:
        record = str(world.folder / "wire.jsonl")
        ends = world.cross("aionrs", "aionrs", gone, resume="latest", record=record)
        assert not list(world.folder.glob("wire.agent*"))  # nor is an agent started on its half

        async def play(ends: Ends) -> None:
            answer = await ends.ask(ResumeSession(kept))
            assert isinstance(answer, Refusal)
            assert "in use" in answer.message
            await ends.leave()

        world.cross("pagent-v4", "aionrs", play, record=record)
    finally:
        with_it.close()
    assert ends.status == 1
    assert [path.name for path in world.folder.glob("wire.agent*")] == ["wire.agent-1.jsonl"]  # of its own session
    assert [texts for texts in said(world, world.kept) if texts] == [["first"]]


def test_a_run_goes_on_with_a_session_that_its_option_names(world: World) -> None:
    world.cross("aionrs", "aionrs", saying("first"))
    options = {"resume": the_one(world)}
    ends = world.cross("jan-stream", "aionrs", saying("second"), codec_options=options)
    assert ends.bridge.report.resumed == {"taken up": 1}
    assert said(world, world.kept) == [["first", "second"]]


def test_an_agent_without_a_name_for_the_session_is_not_taken_for_the_one_before(world: World) -> None:
    """The turns that another agent has had are not in the first one's half."""
    world.cross("aionrs", "aionrs", saying("first"))
    world.cross("aionrs", "pagent", saying("second"), resume="latest")
    ends = world.cross("aionrs", "aionrs", saying("third"), resume="latest")
    assert ends.bridge.report.resumed == {"handed over": 1}
    assert said(world, world.kept) == [["first", "second", "third"]]


def test_a_copy_goes_on_apart_from_what_it_was_made_of(world: World) -> None:
    async def fork(ends: Ends) -> None:
        await ends.open()
        await ends.send(Prompt("first"))
        await ends.turns(1)
        state = await ends.ask(ListSessions())
        assert isinstance(state, Done)
        assert isinstance(await ends.ask(ForkSession(state.value[0].id)), Done)
        await ends.send(Prompt("second"))
        await ends.turns(2)
        await ends.leave()

    world.cross("jan", "jan", fork)
    assert sorted(said(world, world.kept)) == [["first"], ["first", "second"]]


def test_a_prompts_session_named_latest_is_a_name_like_any(world: World) -> None:
    """Only the command line and a command's resuming mean the newest one by it."""
    world.cross("aionrs", "aionrs", saying("first"))
    ends = world.cross("levpro", "aionrs", saying("second", session="latest"))
    assert ends.bridge.report.resumed == {}
    assert said(world, world.kept) == [["first"], ["second"]]


def test_a_session_is_not_free_before_its_agent_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes it up in between would find the agent's half in use."""
    real = Peer.close
    held: list[bool] = []

    async def close(peer: Peer) -> None:
        try:
            SessionStore(world.kept).open(the_one(world)).close()
        except SessionInUse:
            held.append(True)
        await real(peer)

    monkeypatch.setattr(Peer, "close", close)
    world.cross("aionrs", "aionrs", saying("first"))
    assert held == [True]
    SessionStore(world.kept).open(the_one(world)).close()


def test_an_agent_that_has_lost_its_half_is_told(world: World) -> None:
    world.cross("aionrs", "aionrs", saying("first"))
    for path in world.agents_own.iterdir():
        path.unlink()
    ends = world.cross("aionrs", "aionrs", saying("second"), resume="latest")
    assert ends.bridge.report.resumed == {"handed over": 1}
    assert said(world, world.kept) == [["first", "second"]]


def test_a_session_begins_once_for_its_host(world: World) -> None:
    world.cross("aionrs", "aionrs", saying("first"))
    ends = world.cross("aionrs", "aionrs", saying("second"), resume="latest")
    (opened,) = ends.events(SessionOpened)
    assert opened.id == the_one(world)
    assert [event.outcome for event in ends.events(TurnFinished)] == ["completed"]


def test_a_conversation_in_words() -> None:
    messages: list[Any] = [
        UserMessage([Text("look at"), Image("image/png", "aGk=")]),
        AssistantMessage("I will", calls=[CallRef("c", "Read", '{"a":1}')]),
        ToolMessage("c", "Read", "x"),
    ]
    assert as_text(messages).split("\n")[1:] == [
        "User: look at (an image)", "Assistant: I will", 'Assistant called Read with {"a":1}', "Result of Read: x",
    ]  # fmt: skip
    assert as_text([]) == ""
