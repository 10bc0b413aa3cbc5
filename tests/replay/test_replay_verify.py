"""A recording done again by our own server: no model, no tool, and the same lines, or the first that is not."""

from __future__ import annotations

import json
import re
import sys

import pytest
import trio
from replaying import ASKING, EVERY, RECORDINGS, asides, replay, said, serve, talk
from replaying import verified as verified_again

from agentwire import connect
from agentwire.commands import AddMcpServer
from agentwire.events import CallRunning, RetryScheduled, TextDelta, TurnFinished
from agentwire.recording import Recorder
from agentwire.recording.entries import Entry

pytestmark = pytest.mark.slow

SAME = b"our server did the same again"


def verified(path):
    done = replay("--verify", path)
    assert (done.returncode, done.stdout) == (0, b""), done.stdout.decode() + done.stderr.decode()
    assert SAME in done.stderr


@pytest.mark.parametrize("codec", EVERY)
async def test_the_same_again_on_every_wire(codec, tmp_path):
    path = tmp_path / "r"
    await talk(serve(tmp_path, codec, MARKED, "--record", str(path)), codec, tmp_path / "host")
    mark = tmp_path / "mark"
    ran = mark.exists()
    assert ran or codec not in ASKING
    mark.unlink(missing_ok=True)
    assert [bool(about["completion"]) for about in asides(path, "model")] == [True] * 3
    assert any("result" in about for about in asides(path, "tool")) is ran
    verified(path)
    assert not mark.exists(), "a tool ran"


MARKED = [
    {"text": "Look. ", "tool_calls": [{"id": "c1", "name": "ExecCommand", "arguments": {"cmd": "touch mark; echo x"}}]},
    {"text": "It is done."},
    {"text": "And again."},
]


async def test_edits_and_reads_are_asked_about_as_they_were(tmp_path):
    """What a person was shown of a change stands in the recording: the file is another by now."""
    path = tmp_path / "r"
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    call = {"name": "Edit", "arguments": {"file_path": "a.txt", "old_string": "two", "new_string": "2"}}
    play = [
        {"tool_calls": [{"id": "r", "name": "Read", "arguments": {"file_path": "a.txt"}}, {"id": "n", "name": "Nope"}]},
        {"tool_calls": [{"id": "e", **call}, {"id": "w", "name": "Read", "arguments": {"file_path": "/etc/hostname"}}]},
        {"text": "Done."},
        {"text": "More."},
    ]
    await talk(serve(tmp_path, "aionrs", play, "--record", str(path)), "aionrs", tmp_path / "host")
    assert (tmp_path / "a.txt").read_text() == "one\n2\n"
    (tmp_path / "a.txt").unlink()
    verified(path)


async def test_what_happens_in_one_instant_may_come_in_another_order(tmp_path):
    """Calls side by side end when they end; a moment later, or within one call, an order is an order."""
    path = tmp_path / "r"
    calls = [{"id": name, "name": "Read", "arguments": {"file_path": name}} for name in ("one", "two")]
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    play = [{"tool_calls": calls}, {"text": "Done."}, {"text": "More."}]
    await talk(serve(tmp_path, "aionrs", play, "--auto-approve", "--record", str(path)), "aionrs", tmp_path / "host")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    first, second = (at for at, row in enumerate(rows) if '"tool_result"' in row.get("text", ""))

    def written(apart: int) -> None:
        swapped = [*rows]
        swapped[first] = {**rows[first], "text": rows[second]["text"], "at": rows[second]["at"] - apart}
        swapped[second] = {**rows[second], "text": rows[first]["text"]}
        path.write_text("".join(json.dumps(row) + "\n" for row in swapped))

    verified(path)
    written(0)
    verified(path)
    written(60_000)
    done = replay("--verify", path)
    assert done.returncode == 1
    assert f"line {first + 1}".encode() in done.stdout
    assert b"output" in done.stdout


async def test_stops_failures_and_retries_happen_again(tmp_path):
    path = tmp_path / "r"
    play = [
        {"error": {"message": "busy", "kind": "status", "status": 503, "retryable": True}},
        {"steps": [{"text": "one "}, {"text": "two "}, {"delay_ms": 60_000}, {"text": "never"}]},
        {"text": "half", "error": {"message": "broke off", "kind": "stream", "retryable": True}},
        {"tool_calls": [{"id": "s", "name": "ExecCommand", "arguments": {"cmd": "echo begun; sleep 60"}}]},
        {"text": "Fine."},
    ]
    seen = []
    with trio.fail_after(60):
        async with connect(serve(tmp_path, "aionrs", play, "--record", str(path)), codec="aionrs") as peer:
            for stop_at in (lambda event: isinstance(event, TextDelta) and "two" in event.text, lambda event: False):
                async for event in peer.prompt("go"):
                    seen.append(event)
                    if stop_at(event):
                        await peer.stop()
            peer._own.on_approval = lambda question: True
            async for event in peer.prompt("run"):
                seen.append(event)
                if isinstance(event, CallRunning):
                    await peer.stop()
            assert await peer.ask("last") == "Fine."
    assert any(isinstance(event, RetryScheduled) for event in seen) or "503" not in str(seen)
    assert [e.outcome for e in seen if isinstance(e, TurnFinished)] == ["cancelled", "failed", "cancelled"]
    (first, *_), told = asides(path, "model"), asides(path, "model")
    assert first["error"] == {
        "message": "busy", "kind": "status", "retryable": True, "status": 503, "retry_after_ms": None,
        "config_kind": "",
    }  # fmt: skip
    assert [("completion" in about, "error" in about) for about in told] == [
        (False, True), (False, False), (False, True), (True, False), (True, False),
    ]  # fmt: skip
    verified(path)


@pytest.fixture
async def recording(tmp_path):
    path = tmp_path / "r"
    await talk(serve(tmp_path, "aionrs", MARKED, "--record", str(path)), "aionrs", tmp_path / "host")
    return path


async def test_the_first_difference_is_shown_with_its_lines(recording):
    text = recording.read_text()
    assert text.count('\\"text\\":\\" is\\"') == 1
    recording.write_text(text.replace('\\"text\\":\\" is\\"', '\\"text\\":\\" was\\"'))
    lines = recording.read_text().splitlines()
    (line,) = [number for number, line in enumerate(lines, 1) if '\\" was\\"' in line]
    nth = sum('"who":"agent"' in before for before in lines[:line])
    done = replay("--verify", recording)
    assert done.returncode == 1
    shown = done.stdout.decode().splitlines()
    assert shown[0] == f"--- {recording}, line {line}"
    assert shown[1] == f"+++ the server's line {nth}"
    assert '-  "text": " was",' in shown
    assert '+  "text": " is",' in shown


@pytest.mark.parametrize("way", ["model", "tool", "missing", "extra", "order"])
async def test_whatever_was_given_differently_shows(way, recording):
    lines = recording.read_text().splitlines(keepends=True)
    agents = [number for number, line in enumerate(lines) if '"who":"agent"' in line]
    if way in ("model", "tool"):
        old = {"model": '"text_delta","text":" is"', "tool": '"output":"Exit code: 0'}[way]
        new = {"model": '"text_delta","text":" IS"', "tool": '"output":"Exit code: 1'}[way]
        lines = [line.replace(old, new) if f'"who":"{way}"' in line else line for line in lines]
    elif way == "missing":
        lines = [line for number, line in enumerate(lines) if number != agents[-1]]
    elif way == "extra":
        lines.append(lines[agents[-1]])
    else:
        lines[agents[-1]], lines[agents[-2]] = lines[agents[-2]], lines[agents[-1]]
    assert "".join(lines) != recording.read_text()
    recording.write_text("".join(lines))
    done = replay("--verify", recording)
    assert done.returncode == 1, done.stderr
    assert re.match(rb"--- .*\n\+\+\+ ", done.stdout)
    assert {
        "missing": b"--- the recording ends",
        "extra": b"+++ the server says nothing more",
    }.get(way, b"the server's line") in done.stdout  # fmt: skip


def test_what_does_not_hold_what_it_takes(tmp_path):
    done = replay("--verify", RECORDINGS / "single_turn.jsonl")
    assert done.returncode == 1
    assert b"codec" in done.stderr


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        ("text", "line 2 of the recording makes no sense: "),
        ({"options": [1]}, "line 2 of the recording makes no sense: "),
        ({"workspace": 5}, "line 2 of the recording makes no sense: "),
        ({"options": {"codec_options": {"unheard": 1}}}, "the recorded set-up cannot be read: "),
        ({"options": {"codec_options": 1}}, "the recorded set-up cannot be read: "),
    ],
)  # fmt: skip
async def test_a_set_up_that_makes_no_sense(setup, why, tmp_path):
    with Recorder(tmp_path / "r", "aionrs") as recorder:
        recorder.aside("note", {"setup": setup})
        recorder.aside("note", {"journal": "../..", "lines": ["x"]})
        recorder.host(b"x\n")
    assert (await verified_again(tmp_path / "r", "cannot")).startswith(why)


@pytest.mark.parametrize("session", ["..", "", 5])
async def test_a_journal_of_no_session(session, tmp_path):
    with Recorder(tmp_path / "r", "aionrs") as recorder:
        recorder.aside("note", {"setup": {"workspace": "/w"}})
        recorder.aside("note", {"journal": session, "lines": ["x"]})
        recorder.host(b"x\n")
    shown = await verified_again(tmp_path / "r", "cannot")
    assert "\n" not in shown


async def test_a_recording_of_another_role_says_so(tmp_path):
    await talk(serve(tmp_path, "aionrs"), "aionrs", tmp_path / "host")
    done = replay("--verify", tmp_path / "host")
    assert done.returncode == 1
    assert b"only `agentwire serve --record` keeps that" in done.stderr


async def test_no_key_and_no_header_is_recorded(tmp_path):
    """A model service with a key in its headers, and a host that sends its own."""
    path = tmp_path / "r"
    key = "sk-this-is-a-very-secret-key"
    argv = [
        sys.executable, "-m", "agentwire", "serve", "--provider", "openai", "--base-url", "http://127.0.0.1:9/v1",
        "--api-key", key, "--model", "m", "--ephemeral", "--record", str(path), "--workspace", str(tmp_path),
        "--provider-option", f"headers={json.dumps({'X-Secret': key})}",
    ]  # fmt: skip
    with trio.fail_after(60):
        async with connect(argv, codec="aionrs") as peer:
            events = [event async for event in peer.prompt("hi")]
    assert isinstance(events[-1], TurnFinished)
    text = path.read_text()
    assert key not in text
    assert "authorization" not in text.lower()
    assert any("error" in about for about in asides(path, "model")) or said(path, "agent")


async def test_mcp_servers_are_there_again_and_nothing_is_started(tmp_path):
    path, server = tmp_path / "r", tmp_path / "server.py"
    server.write_text(MCP_SERVER)
    play = [
        {"tool_calls": [{"id": "c1", "name": "mark", "arguments": {"text": "x"}}]},
        {"text": "Marked."},
    ]
    with trio.fail_after(60):
        async with connect(
            serve(tmp_path, "aionrs", play, "--record", str(path)), codec="aionrs", on_approval=lambda question: True
        ) as peer:
            await peer.send(AddMcpServer("given", "stdio", sys.executable, [str(server), str(tmp_path / "mark")]))
            await peer.send(AddMcpServer("broken", "stdio", str(tmp_path / "nowhere")))
            assert await peer.ask("go") == "Marked."
    assert b"mcp_ready" in said(path, "agent")
    assert b"AddMcpServer 'broken' failed" in said(path, "agent")
    assert (tmp_path / "mark").read_text() == "started marked "
    (tmp_path / "mark").unlink()
    verified(path)
    assert not (tmp_path / "mark").exists()


MCP_SERVER = """\
import sys
from mcp.server.mcpserver import MCPServer

def note(word):
    with open(sys.argv[1], "a") as file:
        file.write(word + " ")

note("started")
app = MCPServer("given")

@app.tool()
def mark(text: str) -> str:
    note("marked")
    return text

app.run()
"""


def test_entries_beside_the_wire_are_entries():
    assert Entry(0, "model", about={"request": 1}).data == b""


async def test_a_run_of_one_task(tmp_path):
    argv = serve(tmp_path, "jan-stream", MARKED, "--codec-option", "task=hi", "--auto-approve")
    with trio.fail_after(60):
        await trio.run_process([*argv, "--record", str(tmp_path / "r")], capture_stdout=True)
    (tmp_path / "mark").unlink()
    await verified_again(tmp_path / "r")
    assert not (tmp_path / "mark").exists(), "a tool ran"
