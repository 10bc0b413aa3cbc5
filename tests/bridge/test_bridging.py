"""What crosses a bridge beside plain turns, and what cannot."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import trio
from crossing import Agents, Ends, Reply
from test_bridge_matrix import cross

from agentwire.bridge import agent
from agentwire.commands import (
    AddMcpServer,
    AnswerHostTool,
    Approve,
    ArchiveSession,
    Done,
    ForkSession,
    GetHistory,
    InitHistory,
    ListSessions,
    OpenSession,
    Ping,
    Plan,
    Prompt,
    Refusal,
    ResetSession,
    ResumeSession,
    SetConfig,
    SetHostTools,
    SetMode,
    SetModel,
    Steer,
    Stop,
)
from agentwire.events import (
    ApprovalRequested,
    CallCancelled,
    CallFinished,
    ConfigChanged,
    ErrorRaised,
    HistoryCleared,
    HostTool,
    HostToolCancelled,
    HostToolRequested,
    ModeChanged,
    StepFinished,
    Text,
    TextDelta,
    TurnFinished,
    UserJoined,
)
from agentwire.transcode import broken_laws

pytestmark = pytest.mark.slow

TWO_CALLS = [Reply("first", ["run"]), Reply("second", ["run"]), Reply("end")]
LONG = [Reply("for ever", fails="never ends"), Reply("end")]


def told(ends: Ends, kind: type[Any]) -> list[Any]:
    """Events of the bridge's own log."""
    (records,) = ends.logs.values()
    assert broken_laws(records) == []
    return [record.event for record in records if isinstance(record.event, kind)]


# --- permissions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["aionrs", "pagent-v4", "jan"])
@pytest.mark.parametrize("host", ["aionrs", "jan"])
def test_always_is_asked_once_whatever_the_agent_can_say(host, agent, tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.open()
        await ends.send(Prompt("go"))
        await ends.until(lambda: ends.events(ApprovalRequested))
        (question,) = ends.events(ApprovalRequested)
        await ends.send(Approve(question.call_id, question.approval_id if host == "jan" else "", "always"))
        await ends.turns(1)
        await ends.leave()

    ends = cross(host, agent, tmp_path, monkeypatch, play, TWO_CALLS)
    assert len(told(ends, ApprovalRequested)) == 1
    assert len(told(ends, CallFinished)) == 2


def test_a_narrower_always_is_not_widened(tmp_path, monkeypatch):
    """What frees one tool on the host's wire would free a category on the agent's."""

    async def play(ends: Ends) -> None:
        await ends.open()
        await ends.send(Prompt("go"))
        for number in (1, 2):
            await ends.until(lambda: len(ends.events(ApprovalRequested)) == number)  # noqa: B023
            question = ends.events(ApprovalRequested)[-1]
            await ends.send(Approve(question.call_id, question.approval_id, "always"))
        await ends.turns(1)
        await ends.leave()

    replies = [Reply("first", ["run"]), Reply("second", ["run"]), Reply("third", ["change"]), Reply("end")]
    ends = cross("jan", "aionrs", tmp_path, monkeypatch, play, replies)
    assert [event.name for event in told(ends, ApprovalRequested)] == ["run", "change"]
    (server,) = ends.agents.servers
    (runner,) = server.sessions
    assert not runner.session.approvals.always_categories
    assert ends.bridge.report.decided == {"allowed": 1}


@pytest.mark.parametrize(("agent", "asked"), [("aionrs", 2), ("jan", 0)])
def test_a_freed_category_frees_no_path_that_nobody_told(agent, asked, tmp_path, monkeypatch):
    """The agent asks though its category is free: who knows whether the call leaves the workspace?"""

    async def play(ends: Ends) -> None:
        await ends.open()
        await ends.send(Prompt("go"))
        for number in range(1, asked + 1):
            await ends.until(lambda: len(ends.events(ApprovalRequested)) == number)  # noqa: B023
            question = ends.events(ApprovalRequested)[-1]
            await ends.send(Approve(question.call_id, question.approval_id))
        await ends.turns(1)
        await ends.leave()

    replies = [Reply("first", ["change"]), Reply("second", ["change"]), Reply("end")]
    ends = cross("aionrs", agent, tmp_path, monkeypatch, play, replies, allow=("edit",))
    assert len(told(ends, ApprovalRequested)) == asked
    assert len(told(ends, CallFinished)) == 2
    assert ends.bridge.report.decided == ({} if asked else {"allowed": 2})


async def just_ask(ends: Ends, **prompt: Any) -> None:
    await ends.open()
    session = "s" if ends.codec.name == "levpro" else ""
    await ends.send(Prompt("go", session=session, **prompt))
    await ends.turns(1)
    await ends.leave()


def test_a_mode_of_the_host_becomes_a_word_on_the_prompt(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        assert isinstance(await ends.ask(SetMode("yolo")), Done)
        await just_ask(ends)

    ends = cross("aionrs", "levpro", tmp_path, monkeypatch, play, TWO_CALLS)
    assert len(told(ends, CallFinished)) == 2
    assert ends.bridge.report.approved_ahead == 1
    assert [event.mode for event in told(ends, ModeChanged)] == ["yolo"]


def test_half_a_permission_is_not_told_as_a_whole_one(tmp_path, monkeypatch):
    ends = cross("aionrs", "levpro", tmp_path, monkeypatch, just_ask, TWO_CALLS, allow=("exec",))
    assert not told(ends, CallFinished)
    assert ends.bridge.report.approved_ahead == 0


@pytest.mark.parametrize(("approve", "decided"), [([], {"denied": 2}), (["exec", "edit", "mcp"], {"allowed": 2})])
def test_a_host_that_cannot_be_asked_says_it_with_the_prompt(approve, decided, tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await just_ask(ends, approve=approve)

    ends = cross("levpro", "aionrs", tmp_path, monkeypatch, play, TWO_CALLS)
    assert ends.bridge.report.decided == decided
    assert not told(ends, ApprovalRequested)
    causes = [event.cause for event in told(ends, CallCancelled)]
    assert causes == (["refused", "refused"] if not approve else [])


def test_a_stop_settles_the_question_that_is_open(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.send(Prompt("go"))
        await ends.until(lambda: ends.events(ApprovalRequested))
        await ends.send(Stop())
        await ends.turns(1)
        await ends.leave()

    ends = cross("aionrs", "jan", tmp_path, monkeypatch, play, TWO_CALLS)
    assert [event.cause for event in told(ends, CallCancelled)] == ["stopped"]
    assert [event.outcome for event in told(ends, TurnFinished)] == ["cancelled"]


def test_a_host_that_leaves_cannot_be_asked_any_more(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.send(Prompt("go"))
        await ends.until(lambda: ends.events(ApprovalRequested))
        await ends.leave()

    ends = cross("aionrs", "pagent-v4", tmp_path, monkeypatch, play, [Reply("first", ["run"]), Reply("end")])
    assert [event.cause for event in told(ends, CallCancelled)] == ["client_gone"]
    assert [event.outcome for event in told(ends, TurnFinished)] == ["completed"]


# --- commands ---------------------------------------------------------------------------------------------------

REFUSED = [
    ("jan", "aionrs", Steer("more"), "steer"),
    ("jan", "pagent-v4", SetHostTools("", []), "set_host_tools"),
    ("jan", "levpro", ResetSession(""), "reset_session"),
    ("jan", "aionrs", ForkSession(""), "fork_session"),
    ("jan", "pagent", SetModel("", "m2"), "set_config"),
    ("aionrs", "jan", InitHistory("before"), "init_history"),
    ("aionrs", "jan", SetConfig(effort="low"), "set_config"),
    ("aionrs", "pagent-v4", AddMcpServer("m", "stdio", "true"), "add_mcp_server"),
    ("aionrs", "pagent", SetMode("yolo"), "set_mode"),
    ("levpro", "jan", Plan(), "plan"),
    ("pagent-v4", "levpro", ResumeSession("x"), "resume_session"),
]


@pytest.mark.parametrize(("host", "agent", "command", "name"), REFUSED)
def test_what_the_agent_has_no_word_for_is_refused(host, agent, command, name, tmp_path, monkeypatch):
    answers: list[Any] = []

    async def play(ends: Ends) -> None:
        await ends.open()
        if name == "steer":
            await ends.send(Prompt("go"))
            await ends.until(lambda: ends.events(TextDelta))
        number = await ends.send(command)
        if host == "aionrs":  # not every refusal names what it refuses there
            await ends.until(lambda: ends.events(ErrorRaised) or number in ends.results)
        else:
            await ends.until(lambda: number in ends.results)
            answers.append(ends.results[number])
        if name == "steer":
            await ends.send(Stop())
            await ends.turns(1)
        await ends.leave()

    ends = cross(host, agent, tmp_path, monkeypatch, play, LONG)
    assert ends.bridge.report.refused == {name: 1}
    assert all(isinstance(answer, Refusal) for answer in answers)


def test_text_for_the_running_turn(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.open()
        await ends.send(Prompt("go"))
        await ends.until(lambda: ends.events(TextDelta))
        assert isinstance(await ends.ask(Steer("and more")), Done)
        await ends.turns(1)
        await ends.leave()

    ends = cross("jan", "jan", tmp_path, monkeypatch, play, [Reply("a|b|c|d|e|f|g|h"), Reply("end")])
    assert [event.text for event in told(ends, UserJoined)] == ["and more"]
    assert [event.text for event in told(ends, StepFinished)] == ["abcdefgh", "end"]


def test_settings_cross_where_both_know_them(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        assert isinstance(await ends.ask(SetConfig(model="other", effort="low")), Done)
        assert isinstance(await ends.ask(SetMode("auto_edit")), Done)
        assert isinstance(await ends.ask(Ping()), Done)
        await just_ask(ends)

    ends = cross("aionrs", "aionrs", tmp_path, monkeypatch, play, [Reply("end")])
    (server,) = ends.agents.servers
    (runner,) = server.sessions
    assert (runner.session.model.model, runner.session.approvals.mode) == ("other", "auto_edit")
    assert len(told(ends, ConfigChanged)) == len(told(ends, ModeChanged)) == 1


def test_a_model_and_a_new_beginning(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.open()
        assert isinstance(await ends.ask(SetModel("", "other")), Done)
        await ends.send(Prompt("go"))
        await ends.turns(1)
        assert isinstance(await ends.ask(ResetSession("")), Done)
        await ends.leave()

    ends = cross("jan", "jan", tmp_path, monkeypatch, play, [Reply("end")])
    (server,) = ends.agents.servers
    (runner,) = server.sessions
    assert runner.session.model.model == "other"
    assert not runner.session.history.messages()
    assert len(told(ends, HistoryCleared)) == 1


def test_sessions_have_agents_of_their_own_and_copies_share_one(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        states = []
        for _ in range(2):
            answer = await ends.ask(OpenSession(workspace=str(tmp_path)))
            assert isinstance(answer, Done)
            states.append(answer.value)
        fork = await ends.ask(ForkSession(states[1].id))
        assert isinstance(fork, Done)
        states.append(fork.value)
        for number, state in enumerate(states, 1):
            await ends.send(Prompt("go", session=state.id))
            await ends.turns(number)
        listed = await ends.ask(ListSessions())
        assert isinstance(listed, Done)
        assert {state.id for state in listed.value} == {state.id for state in states}
        await ends.leave()

    ends = cross("jan", "jan", tmp_path, monkeypatch, play, [Reply("one"), Reply("two")])
    assert len(ends.agents.started) == 2
    assert ends.bridge.report.sessions == 3
    assert [event.text for event in ends.events(TurnFinished)] == ["one", "one", "two"]


def test_a_session_that_is_closed_takes_its_agent_with_it(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.open()
        await ends.send(Prompt("go"))
        await ends.turns(1)
        (state,) = (await ends.ask(ListSessions())).value
        assert isinstance(await ends.ask(ArchiveSession(state.id)), Done)
        await ends.until(lambda: ends.agents.started[0].returncode is not None)
        assert ends.agents.started[0].returncode == 0
        assert not (await ends.ask(ListSessions())).value
        await ends.leave()

    ends = cross("jan", "aionrs", tmp_path, monkeypatch, play, [Reply("end")])
    assert ends.bridge.report.turns == 1


# --- host tools -------------------------------------------------------------------------------------------------

LAMP = HostTool("lamp", "Switches a lamp.", {"type": "object", "properties": {}}, capability="read")


def test_the_hosts_tools_are_the_agents(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.open(tools=[LAMP])
        await ends.send(Prompt("go"))
        await ends.until(lambda: ends.events(HostToolRequested))
        (request,) = ends.events(HostToolRequested)
        await ends.send(AnswerHostTool(request.request_id, [Text("it is on")]))
        await ends.until(lambda: len(ends.events(HostToolRequested)) == 2)
        await ends.send(Stop())
        await ends.turns(1)
        await ends.leave()

    replies = [Reply("one", ["host__lamp"]), Reply("two", ["host__lamp"])]
    ends = cross("jan", "jan", tmp_path, monkeypatch, play, replies)
    assert [event.output for event in told(ends, CallFinished)] == ["it is on"]
    assert [event.reason for event in told(ends, HostToolCancelled)] == ["stopped"]
    assert len(told(ends, HostToolRequested)) == 2


def test_tools_that_the_agent_cannot_be_told_of_are_counted(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        answer = await ends.ask(OpenSession(workspace=str(tmp_path), tools=[LAMP], system_prompt="Be kind."))
        assert isinstance(answer, Done)
        assert not answer.value.host_tools
        await ends.leave()

    ends = cross("jan", "aionrs", tmp_path, monkeypatch, play, [Reply("end")])
    assert ends.bridge.report.unsaid == {"open_session.system_prompt": 1, "open_session.tools": 1}


# --- agents that do not behave ------------------------------------------------------------------------------------

BEGIN = b'{"jsonrpc":"2.0","method":"RunBegin","params":{"user_input":"go"}}\n'


def speaking(agents: Agents, *says: bytes, ends: bool = False) -> None:
    """An agent that says something to every line it reads, and perhaps leaves after that."""

    async def serve(end: socket.socket) -> None:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(end.dup()))
        said = iter(says)
        async for _ in stream:
            await stream.send_all(next(said, b""))
            if ends:
                break
        await stream.aclose()

    agents.serve = serve


def misbehaves(host, says, tmp_path, monkeypatch, play, ends=False, **options: Any) -> Ends:
    real = Agents.__init__

    def init(self: Agents, *given: Any) -> None:
        real(self, *given)
        speaking(self, *says, ends=ends)

    monkeypatch.setattr(Agents, "__init__", init)
    return cross(host, "pagent", tmp_path, monkeypatch, play, [], **options)


def test_an_agent_that_leaves_without_a_word(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.send(Prompt("go"))
        await ends.turns(1)
        await ends.send(Prompt("again"))
        await ends.turns(2)
        await ends.leave()

    ends = misbehaves("aionrs", [BEGIN], tmp_path, monkeypatch, play, ends=True)
    assert [event.outcome for event in told(ends, TurnFinished)] == ["failed", "failed"]


def test_an_agent_that_falls_silent(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.send(Prompt("go"))
        await ends.turns(1)
        await ends.leave()

    ends = misbehaves("aionrs", [BEGIN], tmp_path, monkeypatch, play, silence=0.1)
    assert [event.error.message for event in told(ends, TurnFinished)] == ["The agent said nothing for 0.1 seconds"]


def test_a_refusal_that_comes_after_the_turn_is_told_to_nobody(tmp_path, monkeypatch):
    """The agent heeds no stop, and takes back only later what it never began."""
    monkeypatch.setattr(agent, "STOP_SECONDS", 0.05)

    async def play(ends: Ends) -> None:
        await ends.send(Prompt("go"))
        await ends.until(lambda: ends.agents.started)
        await trio.sleep(0.05)
        await ends.send(Stop())
        await ends.turns(1)
        ends.agents.started[0].kill()
        await ends.send(Prompt("again"))
        await ends.turns(2)
        await ends.leave()

    ends = misbehaves("aionrs", [], tmp_path, monkeypatch, play)
    assert [event.outcome for event in told(ends, TurnFinished)] == ["cancelled", "failed"]
    assert len(told(ends, ErrorRaised)) == 1
    assert ends.status == 0


def test_an_agent_that_begins_anew_instead_of_ending(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.send(Prompt("go"))
        await ends.turns(1)
        await ends.leave()

    ends = misbehaves("aionrs", [BEGIN + BEGIN], tmp_path, monkeypatch, play)
    assert [event.outcome for event in told(ends, TurnFinished)] == ["failed"]
    assert ends.bridge.report.unasked["turn_started"] == 1


def test_history_is_the_bridges_own(tmp_path, monkeypatch):
    async def play(ends: Ends) -> None:
        await ends.send(Prompt("go"))
        await ends.turns(1)
        answer = await ends.ask(GetHistory())
        assert isinstance(answer, Done)
        assert [type(message).__name__ for message in answer.value] == ["UserMessage", "AssistantMessage"]
        await ends.leave()

    cross("pagent-v4", "aionrs", tmp_path, monkeypatch, play, [Reply("end")])
