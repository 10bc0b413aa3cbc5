"""The host side: what it sends, and how a command's outcome is told on a wire that names none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pagentlines import CODECS, NoView, recorded, split

from agentwire import commands
from agentwire import events as bus
from agentwire.codec import Answered, Codec, Framer, Heard
from agentwire.commands import Command, Done, Refusal, SessionState
from agentwire.messages import AssistantMessage, ToolMessage, UserMessage
from agentwire_pagent import codec, codec_v4
from agentwire_pagent.replay import messages, replay

COMMANDS = Draft202012Validator((codec.schemas() if codec.schemas else {})["pagent.commands.json"])

both = pytest.mark.parametrize("dialect", CODECS.values(), ids=CODECS)


class Host:
    """A host side and the lines between it and an agent."""

    def __init__(self, dialect: Codec = codec_v4) -> None:
        self.side = dialect.host()
        self.sent: list[bytes] = []

    def send(self, command: Command) -> int | Refusal:
        out = bytearray()
        number = self.side.send(command, out)
        lines = split(bytes(out))
        assert len(lines) == isinstance(number, int)
        for line in lines:
            COMMANDS.validate(json.loads(line))
        self.sent += lines
        return number

    def hear(self, method: str, **params: Any) -> list[Heard | Answered]:
        return self.side.receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def run(self, *, call: str = "") -> None:
        """A run that has begun, perhaps up to a question about a call."""
        self.hear("RunBegin", user_input="x")
        self.hear("TurnBegin", turn=0)
        if call:
            self.hear("TurnResult", tool_calls=[{"type": "function", "id": call, "name": "t", "arguments": "{}"}])
            self.hear("ToolCallBegin", tool_call_id=call, name="t", arguments="{}")
            self.hear("PermitRequest", tool_call_id=call, name="t", summary="do it")


def told(heard: list[Heard | Answered]) -> list[Any]:
    """Outcomes by number, events by themselves."""
    return [(item.command, item.result) if isinstance(item, Answered) else item.event for item in heard]


SENT: tuple[tuple[Command, dict[str, Any]], ...] = (
    (commands.Prompt("Hi"), {"cmd": "user", "text": "Hi"}),
    (
        commands.Prompt("", None, [bus.Text("see"), bus.Image("image/png", "aGk=")]),
        {"cmd": "user", "text": "see", "images": ["data:image/png;base64,aGk="]},
    ),
    (commands.Stop(), {"cmd": "cancel"}),
    (commands.ResetSession("s"), {"cmd": "reset"}),
)
SENT_V4: tuple[tuple[Command, dict[str, Any]], ...] = (
    (commands.ResumeSession("t"), {"cmd": "resume", "thread_id": "t"}),
    (commands.ArchiveSession("t"), {"cmd": "delete_thread", "thread_id": "t"}),
    (commands.ListSessions(), {"cmd": "list_threads"}),
    (commands.GetHostTools("s"), {"cmd": "capabilities"}),
    (commands.Ping(), {"cmd": "commands"}),
    (commands.GetHistory("s"), {"cmd": "history"}),
)


@pytest.mark.parametrize(("command", "line"), [*SENT, *SENT_V4])
def test_what_is_sent(command: Command, line: dict[str, Any]) -> None:
    host = Host()
    assert host.send(command) == 1
    assert host.sent == [json.dumps(line).encode()]


@pytest.mark.parametrize(("command", "line"), SENT)
def test_classic_sends_what_needs_no_answer(command: Command, line: dict[str, Any]) -> None:
    host = Host(codec)
    assert host.send(command) == 1
    assert host.sent == [json.dumps(line).encode()]


@pytest.mark.parametrize("command", [*(command for command, _ in SENT_V4), commands.Approve("c"), commands.Deny("c")])
def test_classic_does_not_ask_what_it_cannot_hear(command: Command) -> None:
    refusal = Host(codec).send(command)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unsupported"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (commands.SetMode("yolo"), "unsupported"),
        (commands.Prompt("x", resume=True), "unsupported"),
        (commands.Prompt("x", files=["/a"]), "unsupported"),
        (commands.Prompt("", None, [bus.Image("image/png", path="/a.png")]), "unsupported"),
        (commands.Prompt(" "), "bad_params"),
        (commands.Stop(ref="other"), "not_found"),
        (commands.Approve("c"), "not_found"),
    ],
)
def test_what_the_wire_cannot_carry(command: Command, code: str) -> None:
    refusal = Host().send(command)
    assert isinstance(refusal, Refusal)
    assert refusal.code == code


@both
def test_our_agent_reads_what_is_sent(dialect: Codec) -> None:
    side = dialect.agent()
    for command, _ in SENT:
        out = bytearray()
        assert isinstance(dialect.host().send(command, out), int)
        (line,) = Framer(dialect.max_line).feed(bytes(out))
        request = side.receive(line, NoView())
        assert request is not None
        # A peer's reset begins another thread: what the model remembers of the one before is not cleared.
        wanted = commands.OpenSession if isinstance(command, commands.ResetSession) else type(command)
        assert type(request.command) is wanted


@both
def test_a_run_belongs_to_the_input_that_began_it(dialect: Codec) -> None:
    host = Host(dialect)
    assert host.send(commands.Prompt("Hi", ref=7)) == 1
    heard = host.hear("RunBegin", user_input="Hi")
    assert told(heard) == [(1, Done()), bus.TurnStarted("run-1", 7, [bus.Text("Hi")])]
    (step,) = host.hear("TurnBegin", turn=0)
    assert isinstance(step, Heard)
    assert step.ref == 7


@both
def test_one_input_at_a_time(dialect: Codec) -> None:
    """An agent ignores a second one without a word. A classic run may be over, though, and not have said so."""
    host = Host(dialect)
    host.send(commands.Prompt("one"))
    refusal = host.send(commands.Prompt("two"))
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.retryable) == ("busy", True)
    host.hear("RunBegin", user_input="one")
    assert isinstance(host.send(commands.Prompt("two")), int) == (dialect is codec)


def test_a_stop_is_carried_out_when_the_run_ends() -> None:
    host = Host()
    host.run()
    assert host.send(commands.Stop()) == 1
    assert told(host.hear("TextDelta", text="a")) == [bus.TextDelta("a")]
    host.hear("TurnEnd", turn=0, stopped=True, stop_reason="cancelled")
    end, stopped = told(host.hear("RunEnd", turn=0, stop_reason="cancelled"))
    assert (end.outcome, stopped) == ("cancelled", (1, Done()))


def test_a_classic_run_that_we_stopped_was_cancelled() -> None:
    host = Host(codec)
    host.run()
    host.send(commands.Stop())
    assert [getattr(item, "outcome", item) for item in told(host.side.close())] == ["cancelled", (1, Done())]


def test_a_stop_when_nothing_runs_is_settled_by_the_next_line() -> None:
    host = Host()
    host.send(commands.Stop())
    assert told(host.hear("SlashCommands", commands=[])) == [(1, Done())]


def test_a_question_and_its_yes() -> None:
    host = Host()
    host.run(call="c")
    assert host.send(commands.Approve("c")) == 1
    assert json.loads(host.sent[0]) == {"cmd": "permit", "tool_call_id": "c"}
    again = host.send(commands.Approve("c"))
    assert isinstance(again, Refusal)
    assert again.code == "not_pending"
    assert told(host.hear("ToolResult", tool_call_id="c", name="t", content="done", ok=True)) == [
        bus.CallRunning("c", "t"), bus.CallFinished("c", "t", "ok", "done"), (1, Done()),
    ]  # fmt: skip


def test_a_question_and_its_no() -> None:
    host = Host()
    host.run(call="c")
    assert host.send(commands.Deny("c", reason="no way")) == 1
    assert json.loads(host.sent[0]) == {"cmd": "deny", "tool_call_id": "c", "reason": "no way"}
    assert told(host.hear("ToolResult", tool_call_id="c", name="t", content="no way", ok=False)) == [
        bus.CallCancelled("c", "denied", "no way", "t"), (1, Done()),
    ]  # fmt: skip


def test_calls_that_repeat_an_id_are_told_apart() -> None:
    host = Host()
    for expected in ("c", "c-2"):
        host.hear("RunBegin", user_input="x")
        host.hear("TurnBegin", turn=0)
        host.hear("TurnResult", tool_calls=[{"type": "function", "id": "c", "name": "t", "arguments": "{}"}])
        (ready,) = told(host.hear("ToolCallBegin", tool_call_id="c", name="t", arguments="{}"))
        assert ready.call_id == expected
        host.hear("PermitRequest", tool_call_id="c", name="t", summary="s")
        assert isinstance(host.send(commands.Approve(expected)), int)
        assert json.loads(host.sent[-1]) == {"cmd": "permit", "tool_call_id": "c"}
        host.hear("ToolResult", tool_call_id="c", name="t", content="x")
        host.hear("RunEnd", turn=0, stop_reason="no_tool_calls")


ANSWERS: tuple[tuple[Command, str, dict[str, Any], Any], ...] = (
    (commands.Ping(), "SlashCommands", {"commands": []}, Done()),
    (commands.ResetSession("s"), "HistoryReplay", {}, Done(SessionState("t", workspace="/w"))),
    (commands.ResumeSession("t"), "HistoryReplay", {}, Done(SessionState("t", workspace="/w"))),
    (commands.ResumeSession("latest"), "HistoryReplay", {}, Done(SessionState("t", workspace="/w"))),
    (commands.GetHistory("s"), "HistoryReplay", {}, Done([])),
    (commands.GetHistory("s"), "Error", {"message": "no", "where": "history"}, Refusal("internal", "no")),
    (commands.Prompt("/help"), "SlashResult", {"name": "help", "text": "…", "ok": True}, Done()),
    (commands.Prompt("x"), "Error", {"message": "no", "where": "open"}, Refusal("internal", "no")),
    (commands.ResetSession("s"), "Error", {"message": "no", "where": "reset"}, Refusal("internal", "no")),
    (commands.ArchiveSession("t"), "Error", {"message": "no", "where": "delete_thread"}, Refusal("internal", "no")),
)
REPLAY = {"thread_id": "t", "title": "", "project_path": "/w", "messages": []}


@pytest.mark.parametrize(("command", "method", "params", "result"), ANSWERS)
def test_answers(command: Command, method: str, params: dict[str, Any], result: Any) -> None:
    host = Host()
    assert host.send(command) == 1
    assert told(host.hear(method, **(params or REPLAY)))[0] == (1, result)
    assert all(isinstance(item, Heard) for item in host.side.close())


def test_answers_with_a_value() -> None:
    host = Host()
    host.send(commands.ListSessions())
    host.send(commands.GetHostTools("s"))
    thread = {"id": "t", "title": "x", "project_path": "/w", "backend": "local"}
    answered, _ = told(host.hear("ThreadList", home="", threads_root="", threads=[thread]))
    assert answered == (1, Done([SessionState("t", open=False, workspace="/w")]))
    answered, _ = told(host.hear("Capabilities", skills=[], tools=[{"name": "Read", "description": "d"}]))
    assert answered == (2, Done(SessionState("s", tools=["Read"])))


def test_a_thread_that_cannot_be_taken_up() -> None:
    """The peer replays the thread that stays, and then says what was wrong."""
    host = Host()
    host.send(commands.ResumeSession("other"))
    assert not [item for item in host.hear("HistoryReplay", **REPLAY) if isinstance(item, Answered)]
    assert told(host.hear("Error", message="gone", where="resume")) == [(1, Refusal("internal", "gone"))]


def test_the_messages_that_a_real_peer_replays() -> None:
    """Each call is answered, and belongs to the reply that it was in."""
    (line,) = [line for line in split(recorded("v4_stdio_session")) if b'"HistoryReplay"' in line]
    host = Host()
    host.send(commands.GetHistory("s"))
    (number, done), kept = told(host.side.receive(line))
    assert (number, type(kept)) == (1, bus.Unknown)
    calls = {call.call_id: call.name for message in done.value for call in getattr(message, "calls", ())}
    assert calls == {"call_1": "run_command", "call_2": "run_command", "call_3": "list_dir"}
    assert {m.call_id: m.name for m in done.value if isinstance(m, ToolMessage)} == calls
    assert done.value[:3] == [
        UserMessage([bus.Text("run echo hi")]),
        AssistantMessage("I will run it.", calls=[bus.CallRef("call_1", "run_command", '{"command": "echo hi"}')]),
        ToolMessage("call_1", "run_command", json.loads(line)["params"]["messages"][3]["content"]),
    ]
    assert done.value[-1] == UserMessage([bus.Text("fail")])


def test_messages_survive_the_replay() -> None:
    call = bus.CallRef("c", "t", "{}")
    said = [
        UserMessage([bus.Text("look"), bus.Image("image/png", "aGk=")]),
        AssistantMessage("I will.", "Hm.", [call, bus.CallRef("d", "t", "")]),
        ToolMessage("c", "t", "yes"),
        ToolMessage("d", "t", "no"),
        AssistantMessage("one"),
        AssistantMessage("two"),
        AssistantMessage("", "thought", [call]),
        ToolMessage("c", "t", ""),
        UserMessage([bus.Text("bye")]),
    ]
    assert messages(replay("s", "/w", said).messages) == said
    junk = [{}, {"kind": "text", "role": "user", "text": 5}, {"kind": "image", "url": "http://x"}, {"kind": "later"}]
    assert messages(junk) == []


def test_an_error_of_nothing_that_was_sent_is_heard() -> None:
    assert told(Host().hear("Error", message="no", where="open")) == [
        bus.ErrorRaised(bus.ErrorInfo("internal_error", "no"))
    ]


def test_the_end_of_the_agent_settles_everything() -> None:
    host = Host()
    host.send(commands.Prompt("x"))
    host.run(call="c")
    host.send(commands.Approve("c"))
    host.send(commands.ListSessions())
    host.send(commands.Stop())
    heard = told(host.side.close())
    assert [type(item) for item in heard if not isinstance(item, tuple)] == [bus.CallCancelled, bus.TurnFinished]
    outcomes = dict(item for item in heard if isinstance(item, tuple))
    assert {number: type(result) for number, result in outcomes.items()} == {2: Done, 3: Refusal, 4: Done}
    assert host.side.close() == []


def test_lines_outside_a_run_are_kept() -> None:
    host = Host(codec)
    for line in split(recorded("tool_two_turns"))[1:]:
        (item,) = host.side.receive(line)
        assert isinstance(item, Heard)
        assert isinstance(item.event, bus.Unknown)


def test_a_run_whose_turns_are_not_told() -> None:
    """An old or careless agent: the steps are made up, nothing is lost."""
    host = Host(codec)
    heard = host.hear("RunBegin", user_input="x") + host.hear("TextDelta", text="a")
    heard += host.hear("ToolResult", tool_call_id="c", name="t", content="r")
    heard += host.hear("RunEnd", content="a")
    assert [type(event) for event in told(heard)] == [
        bus.TurnStarted, bus.StepStarted, bus.TextDelta, bus.CallReady, bus.CallRunning, bus.CallFinished,
        bus.TurnFinished,
    ]  # fmt: skip
