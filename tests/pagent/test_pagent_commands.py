"""Lines of a host: what they ask for, what is ignored, and what is answered."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pagentlines import CODECS, NoView, rows, split

from agentwire import commands
from agentwire import events as bus
from agentwire.codec import AgentSide, Codec, LineFault, Record, Request
from agentwire.commands import Command, Done, Outcome, Refusal
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
    "reset": ({"cmd": "reset", "project_path": "/x", "backend": "local"}, commands.ResetSession("")),
    "resume": ({"cmd": "resume", "thread_id": "t"}, commands.ResumeSession("t")),
    "list_threads": ({"cmd": "list_threads"}, commands.ListSessions(stored=True)),
    "delete_thread": ({"cmd": "delete_thread", "thread_id": "t"}, commands.ArchiveSession("t")),
    "thread_meta": ({"cmd": "thread_meta", "thread_id": "t"}, commands.ListSessions(stored=True)),
    "commands": ({"cmd": "commands"}, commands.Ping()),
    "capabilities": ({"cmd": "capabilities"}, commands.GetHostTools("")),
    "get_config": ({"cmd": "get_config"}, commands.Ping()),
    "keys that nobody knows": ({"x": 1, "cmd": "cancel", "y": {}}, commands.Stop()),
}


@both
@pytest.mark.parametrize("name", ASKED)
def test_what_a_line_asks_for(dialect: Codec, name: str) -> None:
    line, command = ASKED[name]
    request = read(dialect.agent(), line)
    assert request is not None
    assert (request.command, request.refusal) == (command, None)


IGNORED: dict[str, Any] = {
    "not JSON": b"not json",
    "an array": [1],
    "a number": 5,
    "unknown": {"cmd": "nope"},
    "no cmd": {"text": "x"},
    "cmd of another type": {"cmd": 5},
    "a command of the peer's sandbox": {"cmd": "sandbox_tree"},
    "a command of the peer's providers": {"cmd": "set_provider", "api_key": "secret-key"},
    "blank text": {"cmd": "user", "text": " \n"},
    "no text": {"cmd": "user"},
    "text of another type": {"cmd": "user", "text": 5},
    "permit without a call": {"cmd": "permit"},
    "history": {"cmd": "history"},
    "half a line": b'{"cmd": "user", "te',
    "too long": LineFault("too_long", "line too long: 9 bytes", 9),
}


@both
@pytest.mark.parametrize("name", IGNORED)
def test_what_is_ignored_is_logged(dialect: Codec, name: str, caplog: pytest.LogCaptureFixture) -> None:
    line = IGNORED[name]
    side = dialect.agent()
    with caplog.at_level(logging.WARNING, "agentwire.pagent"):
        told = side.receive(line, NoView()) if isinstance(line, LineFault) else read(side, line)
    assert told is None
    (record,) = caplog.records
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
    """What was written to the real peer, in order; the three that it ignored are ignored."""
    side = codec_v4.agent()
    lines = [row["line"].encode().rstrip(b"\n") for row in rows("v4_stdio_session.jsonl") if row["stream"] == "stdin"]
    asked = [request.command if (request := read(side, line)) else None for line in lines]
    assert asked == [
        commands.Ping(), None, None, None, commands.Prompt("run echo hi"), commands.Approve("call_1"),
        commands.Prompt("rm it"), commands.Deny("call_2", "", "no way"), commands.Prompt("go slow"), commands.Stop(),
        commands.Prompt("fail"), None,
    ]  # fmt: skip


# --- answers -------------------------------------------------------------------------------------------------

OPENED = bus.SessionOpened(
    "s-1", workspace="/w", provider="openai", model="m",
    capabilities=bus.Capabilities(image_input="supported", current_mode="default"),
)  # fmt: skip


class Stored:
    """A session as the server lists it."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.workspace = Path("/w")


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


def test_v4_answers() -> None:
    side = opened()
    thread = {"id": "t", "title": "", "project_path": "/w", "backend": "local"}
    tools = [bus.ToolSpec("Read", "Reads", {})]
    assert answers(side, {"cmd": "commands"}, Done()) == [{"SlashCommands": {"commands": []}}]
    assert answers(side, {"cmd": "list_threads"}, Done([Stored("t")])) == [
        {"ThreadList": {"home": "", "threads_root": "", "threads": [thread]}}
    ]
    meta = {"cmd": "thread_meta", "thread_id": "t"}
    assert answers(side, meta, Done([Stored("t")])) == [
        {"ThreadMeta": {"thread_id": "t", "meta": {"title": "", "project_path": "/w"}}}
    ]
    assert answers(side, meta, Done([])) == [{"Error": {"message": "No such thread: t", "where": "thread_meta"}}]
    assert answers(side, {"cmd": "capabilities"}, Done(tools)) == [
        {"Capabilities": {"skills": [], "tools": [{"name": "Read", "description": "Reads"}]}}
    ]
    for line in (
        {"cmd": "user", "text": "x"},
        {"cmd": "cancel"},
        {"cmd": "reset"},
        {"cmd": "resume", "thread_id": "t"},
    ):
        assert answers(side, line, Done("turn")) == []


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
    assert "ignored" in caplog.text


def test_the_classic_wire_answers_nothing() -> None:
    side = opened(codec)
    for line, _ in ASKED.values():
        assert answers(side, line, Done([] if "thread" in str(line) else None)) == []


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
