"""Lines of a host: what they ask for, what is ignored, and what is answered."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pagentlines import CODECS, NoView, Running, rows, split

from agentwire import commands
from agentwire import events as bus
from agentwire.codec import AgentSide, Codec, LineFault, Record, Request
from agentwire.commands import Command, Done, Outcome, Refusal, SessionState
from agentwire.messages import AssistantMessage, ToolMessage, UserMessage
from agentwire_pagent import codec, codec_v4
from agentwire_pagent.agent_side import PagentAgent

both = pytest.mark.parametrize("dialect", CODECS.values(), ids=CODECS)


def read(side: AgentSide, line: Any) -> Request | None:
    text = line if isinstance(line, bytes) else json.dumps(line).encode()
    return side.receive(text, NoView())


ASKED: dict[str, tuple[dict[str, Any], Command]] = {
    "user": ({"cmd": "user", "text": "Hello"}, commands.Prompt("Hello")),
    "null images": ({"cmd": "user", "text": "Hello", "images": None}, commands.Prompt("Hello")),
    "a slash is no command of ours": ({"cmd": "user", "text": "/etc?"}, commands.Prompt("/etc?")),
    "cancel": ({"cmd": "cancel"}, commands.Stop()),
    "permit": ({"cmd": "permit", "tool_call_id": "c"}, commands.Approve("c")),
    "deny": ({"cmd": "deny", "tool_call_id": "c", "reason": "no way"}, commands.Deny("c", "", "no way")),
    "deny without reason": ({"cmd": "deny", "tool_call_id": "c"}, commands.Deny("c")),
    "deny, null reason": ({"cmd": "deny", "tool_call_id": "c", "reason": None}, commands.Deny("c")),
    "reset": ({"cmd": "reset", "project_path": "/x", "backend": "local"}, commands.OpenSession()),
    "resume": ({"cmd": "resume", "thread_id": "t"}, commands.ResumeSession("t")),
    "list_threads": ({"cmd": "list_threads"}, commands.ListSessions(stored=True)),
    "delete_thread": ({"cmd": "delete_thread", "thread_id": "t"}, commands.ArchiveSession("t", remove=True)),
    "thread_meta": ({"cmd": "thread_meta", "thread_id": "t"}, commands.ListSessions(stored=True)),
    "commands": ({"cmd": "commands"}, commands.Ping()),
    "capabilities": ({"cmd": "capabilities"}, commands.GetHostTools("")),
    "get_config": ({"cmd": "get_config"}, commands.Ping()),
    "history": ({"cmd": "history"}, commands.GetHistory()),
    "keys that nobody knows": ({"x": 1, "cmd": "cancel", "y": {}}, commands.Stop()),
}


@both
@pytest.mark.parametrize("name", ASKED)
def test_what_a_line_asks_for(dialect: Codec, name: str) -> None:
    line, command = ASKED[name]
    request = read(dialect.agent(), line)
    assert request is not None
    assert (request.command, request.refusal) == (command, None)


@both
def test_an_input_after_a_cancel_waits_for_the_end_of_the_run(dialect: Codec) -> None:
    """The next one is again one during a run, and left to the engine's policy."""
    side = dialect.agent()
    lines = [{"cmd": "cancel"}, {"cmd": "user", "text": "a"}, {"cmd": "user", "text": "b"}]
    asked = [request.command for line in lines if (request := read(side, line)) is not None]
    assert asked == [commands.Stop(), commands.Prompt("a", when_busy="queue"), commands.Prompt("b")]


IGNORED: dict[str, tuple[Any, str]] = {
    "not JSON": (b"not json", "skip non-json line: "),
    "half a line": (b'{"cmd": "set_provider", "api_key": "secret-k', "skip non-json line: "),
    "too long": (LineFault("too_long", "line too long: 9 bytes", 9), "line too long: 9 bytes"),
    "an array": ([1], "skip non-object command"),
    "a number": (5, "skip non-object command"),
    "unknown": ({"cmd": "nope"}, "unknown command: 'nope'"),
    "no cmd": ({"text": "x"}, "unknown command: None"),
    "cmd of another type": ({"cmd": 5}, "unknown command: 5"),
    "a long name": ({"cmd": "x" * 1000}, "unknown command: 'xxx"),
    "a command of the peer's sandbox": ({"cmd": "sandbox_tree"}, "unknown command: 'sandbox_tree'"),
    "a command of the peer's providers": (
        {"cmd": "set_provider", "api_key": "secret-key"}, "unknown command: 'set_provider'"
    ),
    "blank text": ({"cmd": "user", "text": " \n"}, "user command missing text"),
    "no text": ({"cmd": "user"}, "user command missing text"),
    "text of another type": ({"cmd": "user", "text": 5}, "user: "),
    "permit without a call": ({"cmd": "permit"}, "permit missing tool_call_id"),
    "deny without a call": ({"cmd": "deny", "reason": "no"}, "deny missing tool_call_id"),
    "deny of something else": ({"cmd": "deny", "tool_call_id": 5}, "deny missing tool_call_id"),
    "resume without a thread": ({"cmd": "resume"}, "resume missing thread_id"),
    "delete_thread without a thread": ({"cmd": "delete_thread"}, "delete_thread missing thread_id"),
}  # fmt: skip


@both
@pytest.mark.parametrize("name", IGNORED)
def test_what_is_ignored_is_logged_in_the_peers_words(
    dialect: Codec, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    line, said = IGNORED[name]
    side = dialect.agent()
    with caplog.at_level(logging.WARNING, "agentwire.pagent"):
        told = side.receive(line, NoView()) if isinstance(line, LineFault) else read(side, line)
    assert told is None
    (record,) = caplog.records
    assert record.getMessage().startswith(f"[wire] {said}")
    assert "secret" not in record.getMessage()
    assert len(record.getMessage()) < 400


@both
def test_blank_lines_are_nothing(dialect: Codec, caplog: pytest.LogCaptureFixture) -> None:
    for line in (b"", b"  ", b"\t"):
        assert read(dialect.agent(), line) is None
    assert caplog.records == []


def test_images_come_as_data_urls(caplog: pytest.LogCaptureFixture) -> None:
    data = "data:image/png;base64,aGk="
    given = [data, {"original_url": "data:image/jpeg;base64,eA==", "model_url": data}, "http://x/a.png", 5]
    request = read(codec_v4.agent(), {"cmd": "user", "text": "look", "images": given})
    assert request is not None
    image = bus.Image("image/png", "aGk=")
    assert request.command == commands.Prompt("", None, [bus.Text("look"), image, image])
    assert len(caplog.records) == 2
    request = read(codec_v4.agent(), {"cmd": "user", "images": [data]})
    assert request is not None
    assert request.command == commands.Prompt("", None, [image])


def test_the_lines_of_a_real_host() -> None:
    """What was written to the real peer, in order; the three that it ignored are ignored.

    The input after the cancel waits for the end of the run, if that is still under way.
    """
    side = codec_v4.agent()
    lines = [row["line"].encode().rstrip(b"\n") for row in rows("v4_stdio_session.jsonl") if row["stream"] == "stdin"]
    asked = [request.command if (request := read(side, line)) else None for line in lines]
    assert asked == [
        commands.Ping(), None, None, None, commands.Prompt("run echo hi"), commands.Approve("call_1"),
        commands.Prompt("rm it"), commands.Deny("call_2", "", "no way"), commands.Prompt("go slow"), commands.Stop(),
        commands.Prompt("fail", when_busy="queue"), commands.GetHistory(),
    ]  # fmt: skip


# --- answers -------------------------------------------------------------------------------------------------

OPENED = bus.SessionOpened(
    "s-1", workspace="/w", provider="openai", model="m",
    capabilities=bus.Capabilities(image_input="supported", current_mode="default"),
)  # fmt: skip


def answers(side: AgentSide, line: Any, result: Done | Refusal) -> list[dict[str, Any]]:
    request = read(side, line)
    assert request is not None
    out = bytearray()
    assert side.outcome(request, Outcome(result), out) is None
    told = [json.loads(line) for line in split(bytes(out))]
    assert all(message["jsonrpc"] == "2.0" for message in told)
    return [{message["method"]: message["params"]} for message in told]


def opened(dialect: Codec = codec_v4, *later: bus.Event) -> AgentSide:
    side = dialect.agent()
    records = [Record(n, 0, event) for n, event in enumerate((OPENED, *later), 1)]  # type: ignore[arg-type]
    side.render("s-1", records, bytearray())
    return side


STORED = SessionState("t", workspace="/w", open=False, created=1764460800000, modified=1764460801999)


def test_v4_answers() -> None:
    side = opened()
    thread = {"id": "t", "title": "", "project_path": "/w", "backend": "local"}
    host_tool = bus.HostTool("pick", "Picks", {}, "pick", "read")
    tools = SessionState("s-1", tools=["Read", "pick"], host_tools=[host_tool])
    assert answers(side, {"cmd": "commands"}, Done()) == [{"SlashCommands": {"commands": []}}]
    assert answers(side, {"cmd": "list_threads"}, Done([STORED])) == [
        {"ThreadList": {"home": "", "threads_root": "", "threads": [thread]}}
    ]
    meta = {"cmd": "thread_meta", "thread_id": "t"}
    times = {"created_at": "2025-11-30T00:00:00+00:00", "updated_at": "2025-11-30T00:00:01+00:00"}
    assert answers(side, meta, Done([STORED])) == [
        {"ThreadMeta": {"thread_id": "t", "meta": {"title": "", "project_path": "/w", **times}}}
    ]
    assert answers(side, meta, Done([SessionState("t")])) == [
        {"ThreadMeta": {"thread_id": "t", "meta": {"title": "", "project_path": ""}}}
    ]
    assert answers(side, meta, Done([])) == [{"Error": {"message": "No such thread: t", "where": "thread_meta"}}]
    assert answers(side, {"cmd": "capabilities"}, Done(tools)) == [
        {
            "Capabilities": {
                "skills": [],
                "tools": [{"name": "Read", "description": ""}, {"name": "pick", "description": "Picks"}],
            }
        }
    ]
    for line in ({"cmd": "user", "text": "x"}, {"cmd": "cancel"}, {"cmd": "reset"}):
        assert answers(side, line, Done("turn")) == []


def test_v4_what_is_left_when_a_thread_was_deleted() -> None:
    """The deleted one is not in it; if it is the one that is shown, the screen is cleared first."""
    side = opened()
    left = [SessionState("s-1", workspace="/w"), STORED]
    shown = {"id": "s-1", "title": "", "project_path": "/w", "backend": "local"}
    other = {**shown, "id": "t"}
    assert answers(side, {"cmd": "delete_thread", "thread_id": "t"}, Done(left)) == [
        {"ThreadList": {"home": "", "threads_root": "", "threads": [shown]}}
    ]
    assert answers(side, {"cmd": "delete_thread", "thread_id": "s-1"}, Done(left)) == [
        {"HistoryReplay": {"thread_id": "", "title": "", "project_path": "", "messages": []}},
        {"ThreadList": {"home": "", "threads_root": "", "threads": [other]}},
    ]


# --- messages ------------------------------------------------------------------------------------------------

CALL = bus.CallRef("call_1", "run_command", '{"command": "ls"}')
MESSAGES = [
    UserMessage([bus.Text("look"), bus.Image("image/png", "aGk="), bus.Image("image/png", path="/not/read.png")]),
    AssistantMessage("I will.", "Hm.", [CALL]),
    ToolMessage("call_1", "run_command", "a.txt"),
    AssistantMessage("There is one."),
]
ITEMS = [
    {"kind": "text", "role": "user", "text": "look"},
    {"kind": "image", "role": "user", "url": "data:image/png;base64,aGk="},
    {"kind": "thinking", "role": "assistant", "text": "Hm."},
    {"kind": "text", "role": "assistant", "text": "I will."},
    {"kind": "tool_call", "tool_call_id": "call_1", "name": "run_command", "arguments": '{"command": "ls"}'},
    {"kind": "tool_result", "tool_call_id": "call_1", "content": "a.txt"},
    {"kind": "text", "role": "assistant", "text": "There is one."},
]
REPLAY = {"thread_id": "s-1", "title": "", "project_path": "/w", "messages": ITEMS}


def test_v4_the_history_as_the_peer_shows_it() -> None:
    assert answers(opened(), {"cmd": "history"}, Done(MESSAGES)) == [{"HistoryReplay": REPLAY}]
    (recorded,) = [
        json.loads(row["line"])["params"]["messages"]
        for row in rows("v4_stdio_session.jsonl") if row["stream"] == "stdout" and "HistoryReplay" in row["line"]
    ]  # fmt: skip
    shapes = {tuple(item) for item in recorded}
    assert {tuple(item) for item in ITEMS if item["kind"] in ("text", "tool_call", "tool_result")} == shapes


def test_v4_the_history_tells_what_the_last_model_call_used() -> None:
    step = bus.StepFinished(0, "x", usage=bus.Usage(100, 20, 30, reasoning_tokens=4))
    side = opened(codec_v4, bus.TurnStarted("t"), bus.StepStarted(0), step, bus.TurnFinished("completed", "x"))
    ((told,),) = [message.values() for message in answers(side, {"cmd": "history"}, Done([]))]
    assert told["usage"] == {
        "prompt_tokens": 100, "cached_tokens": 30, "cache_write_tokens": 0, "completion_tokens": 20,
        "reasoning_tokens": 4, "updated_at": "",
    }  # fmt: skip
    assert "context_limit" not in told  # nothing tells how much this model can read


TALK: tuple[bus.Event, ...] = (
    bus.TurnStarted("t", None, [bus.Text("hi")]),
    bus.StepStarted(0),
    bus.TextDelta("hello"),
    bus.StepFinished(0, "hello", usage=bus.Usage(5, 2)),
    bus.TurnFinished("completed", "hello"),
)


def talk(session: str) -> list[Record]:
    return [Record(n, 0, event) for n, event in enumerate((bus.SessionOpened(session, workspace="/b"), *TALK), 1)]  # type: ignore[arg-type]


def kinds(out: bytearray) -> list[str]:
    return [json.loads(line)["method"] for line in split(bytes(out))]


def test_v4_a_stored_thread_that_is_taken_up_is_told() -> None:
    """The outcome comes first, with what was fed; then the session is shown. SlashCommands come once a connection."""
    side, out = opened(), bytearray()
    request = read(side, {"cmd": "resume", "thread_id": "b"})
    assert request is not None
    assert request.command == commands.ResumeSession("b")
    records = talk("b")
    side.feed("b", records)
    side.outcome(request, Outcome(Done(SessionState("b", workspace="/b"))), out)
    side.render("b", [Record(7, 0, bus.SessionOpened("b", "resumed", "/b"))], out)
    replay, thread = [json.loads(line) for line in split(bytes(out))]
    assert (replay["method"], thread["method"]) == ("HistoryReplay", "CurrentThread")
    assert replay["params"]["thread_id"] == thread["params"]["thread_id"] == "b"
    assert [(item["role"], item["text"]) for item in replay["params"]["messages"]] == [
        ("user", "hi"), ("assistant", "hello"),
    ]  # fmt: skip
    assert replay["params"]["usage"]["prompt_tokens"] == 5


def test_v4_a_thread_of_this_process_that_is_taken_up_is_told() -> None:
    """It is shown first, then fed, then the outcome comes."""
    side, out = opened(), bytearray()
    request = read(side, {"cmd": "resume", "thread_id": "b"})
    assert request is not None
    records = talk("b")
    side.render("b", records[:1], out)
    side.feed("b", records)
    side.outcome(request, Outcome(Done(SessionState("b", workspace="/b"))), out)
    assert kinds(out) == ["CurrentThread", "HistoryReplay"]


def test_v4_a_process_that_begins_with_a_stored_thread_tells_it() -> None:
    side, out = codec_v4.agent(), bytearray()
    side.feed("b", talk("b"))
    side.render("b", [Record(7, 0, bus.SessionOpened("b", "resumed", "/b"))], out)
    assert kinds(out) == ["SlashCommands", "CurrentThread", "HistoryReplay"]
    assert json.loads(split(bytes(out))[-1])["params"]["project_path"] == "/b"


def test_v4_the_thread_that_is_shown_is_told_again() -> None:
    side = opened()
    request = read(side, {"cmd": "resume", "thread_id": "s-1"})
    assert request is not None
    assert request.command == commands.GetHistory("s-1")
    assert answers(side, {"cmd": "resume", "thread_id": "s-1"}, Done(MESSAGES)) == [{"HistoryReplay": REPLAY}]


def test_v4_threads_taken_up_without_waiting() -> None:
    """There and back again: the first one is taken up anew, for commands mean the other one by then."""
    side = opened()
    lines = [{"cmd": "resume", "thread_id": name} for name in ("b", "b", "s-1")]
    asked = [request.command for line in lines if (request := read(side, line)) is not None]
    assert asked == [commands.ResumeSession("b"), commands.GetHistory("b"), commands.ResumeSession("s-1")]
    back = Done(SessionState("s-1", workspace="/w"))
    request = Request(commands.ResumeSession("s-1"), None, None)
    assert side.receive(json.dumps(lines[2]).encode(), NoView()) is not None
    out = bytearray()
    read_again = side.receive(json.dumps(lines[2]).encode(), NoView())
    assert read_again is not None
    assert read_again.command == commands.GetHistory("s-1")
    side.outcome(Request(request.command, None, read_again.token), Outcome(back), out)
    assert kinds(out) == ["CurrentThread"]


@both
def test_no_other_thread_is_shown_while_a_run_is_under_way(dialect: Codec) -> None:
    for line in (b'{"cmd": "resume", "thread_id": "t"}', b'{"cmd": "reset"}'):
        request = dialect.agent().receive(line, Running())
        assert request is not None
        assert request.command is None
        assert request.refusal is not None
        assert (request.refusal.code, request.refusal.retryable) == ("busy", True)


# --- the set-up ----------------------------------------------------------------------------------------------


def test_v4_the_set_up_as_it_is_now() -> None:
    """A model or a mode that changed is told; a key and an address never are."""
    now = bus.Capabilities(image_input="unsupported", current_mode="yolo")
    changes = [bus.ConfigChange("model", "m", "m2"), bus.ConfigChange("effort", "", "high")]
    side = opened(codec_v4, bus.ConfigChanged(changes, now), bus.ModeChanged("yolo", "default", now))
    provider = {
        "name": "openai", "kind": "openai", "model": "m2", "base_url": "", "vision": False, "api_key_masked": "",
        "api_key_configured": True, "api_key_required": False,
    }  # fmt: skip
    ((told),) = answers(side, {"cmd": "get_config"}, Done())
    assert told == {
        "ConfigSnapshot": {
            "provider": provider,
            "providers": [provider],
            "sandbox": {"backend": "local", "image": "", "command_policy": ""},
            "runner": {"location": "local", "max_turns": None},
            "permission": {"mode": "auto"},
            "project": {"path": "/w"},
        }
    }


REFUSED = (
    ({"cmd": "user", "text": "x"}, "read_only", "user"),
    ({"cmd": "reset"}, "busy", "reset"),
    ({"cmd": "resume", "thread_id": "t"}, "unsupported", "resume"),
    ({"cmd": "delete_thread", "thread_id": "t"}, "not_found", "delete_thread"),
)
SILENT = (
    ({"cmd": "permit", "tool_call_id": "c"}, "not_pending"),
    ({"cmd": "deny", "tool_call_id": "c"}, "not_found"),
    ({"cmd": "cancel"}, "not_found"),
    ({"cmd": "capabilities"}, "unsupported"),
)


@pytest.mark.parametrize(("line", "code", "where"), REFUSED)
def test_a_refusal_names_its_command(line: Any, code: Any, where: str) -> None:
    error = [{"Error": {"message": "why not", "where": where}}]
    refusal = Refusal(code, "why not")
    assert answers(codec_v4.agent(), line, refusal) == error
    assert answers(PagentAgent(errors=True), line, refusal) == error
    assert answers(codec.agent(), line, refusal) == []  # a strict classic decoder would choke on it


@pytest.mark.parametrize(("line", "code"), SILENT)
def test_refusals_that_are_only_logged(line: Any, code: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "agentwire.pagent"):
        assert answers(codec_v4.agent(), line, Refusal(code, "why not")) == []
    assert "why not" in caplog.text


def test_an_input_during_a_run_is_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "agentwire.pagent"):
        assert answers(codec_v4.agent(), {"cmd": "user", "text": "second"}, Done()) == []
    assert "[wire] a run is under way: a second input is ignored" in caplog.text


@pytest.mark.parametrize(("stopped", "said"), [(True, "the run is told to stop"), (False, "no run is under way")])
def test_a_cancel_is_logged(stopped: bool, said: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "agentwire.pagent"):
        assert answers(codec_v4.agent(), {"cmd": "cancel"}, Done(stopped)) == []
    assert f"[wire] cancel: {said}" in caplog.text


@both
@pytest.mark.parametrize(("level", "said"), [(logging.WARNING, 1), (logging.ERROR, 0)])
def test_that_commands_are_read_is_told_once_where_warnings_go(
    dialect: Codec, level: int, said: int, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("agentwire.pagent")
    logger.setLevel(level)
    try:
        side = opened(dialect)
        side.render("b", talk("b"), bytearray())
    finally:
        logger.setLevel(logging.NOTSET)
    assert [record.getMessage() for record in caplog.records] == ["[wire] ready"] * said
    assert {record.levelname for record in caplog.records} <= {"INFO"}


def test_the_classic_wire_answers_nothing() -> None:
    side = opened(codec)
    for line, _ in ASKED.values():
        value = {"capabilities": SessionState("s"), "resume": SessionState("t")}.get(line["cmd"], [])
        assert answers(side, line, Done(value)) == []


def test_a_process_that_cannot_start() -> None:
    refusal = Refusal("config", "No key")
    for side, told in (
        (codec.agent(), b""),
        (
            codec_v4.agent(),
            b'{"jsonrpc": "2.0", "method": "Error", "params": {"message": "No key", "where": "open"}}\n',
        ),
    ):
        out = bytearray()
        side.fatal(refusal, out)
        assert bytes(out) == told
