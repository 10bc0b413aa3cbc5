"""Both directions: what a host of the target would have asked, and an agent answered; and it can be played again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from spoken import asked_of, lines_of, played_through, record, tags
from wires import RECORDINGS, WIRES, logs_of

from agentwire import commands
from agentwire import events as bus
from agentwire.codec import Record
from agentwire.recording import Recording, open_recording
from agentwire.timeline import open_source
from agentwire.transcode import Report, as_table, broken_laws, transcode

PAIRS = [(a, b) for a in WIRES for b in WIRES if a != b]

OPENS = {"open_session"}
"""Asked beside, where hosts open sessions."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found: dict[str, Path] = {}

    async def make() -> None:
        for name in WIRES:
            found[name] = await record(name, tmp_path_factory.mktemp(name))

    trio.run(make)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), PAIRS)
async def test_a_recording_of_our_server_on_any_wire_plays_on_any_other(
    source: str, target: str, made: dict[str, Path], tmp_path: Path
) -> None:
    codec, out = WIRES[target], tmp_path / "out.jsonl"
    recording = open_recording(made[source])
    with out.open("wb") as file:
        report = transcode(recording, WIRES[source], codec, file.write)
    assert (report.violations, report.broken) == ([], 0)
    written = open_recording(out)
    assert (written.header.codec, written.header.role) == (target, "transcode")
    assert written.header.started == recording.header.started

    # What the host asks there is what it had asked, less what is listed.
    asked = tags(asked_of(written, codec))
    before = tags(asked_of(recording, WIRES[source]))
    for said in report.unsaid:
        name, _, other = said.partition(" as ")
        before = [other if other and tag == name else tag for tag in before]
    dropped = [drop.command for drop in report.dropped for _ in range(drop.count)]
    invented = [name for name, count in report.invented.items() for _ in range(count)]
    shakes_hands = codec.greets is False and codec.sessions == "many"
    assert sorted([*asked, *dropped]) == sorted([*before, *invented, *(["ping"] if shakes_hands else [])])
    assert set(invented) <= OPENS

    # It is a log in order, and can be looked at.
    for log in logs_of(codec, written).values():
        assert broken_laws(log) == []
    assert len(open_source(out, "").timeline().turns) == (1 if codec.begin is not None else report.turns)

    # And a host of the target can be served it.
    status, heard = await played_through(out, codec)
    assert status == 0
    assert len(heard) == sum(who == "agent" for who, _ in lines_of(written))


# --- what is hard about it, in small -------------------------------------------------------------------------


def recorded(path: Path, codec: str, told: Sequence[tuple[Any, Any]]) -> Path:
    """A recording of these lines, a millisecond apart."""
    header = {"agentwire": "recording", "version": 1, "codec": codec, "started": 1000}
    lines = [header, *(as_entry(at, *line) for at, line in enumerate(told))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def as_entry(at: int, who: str, line: Any) -> dict[str, Any]:
    return {"at": at * 1000, "who": who, "text": json.dumps(line) + "\n", "wall": 1_764_468_000_000 + at}


def chat(request: Any, session: str, text: str) -> tuple[str, Any]:
    return "host", {"id": request, "method": "chat", "params": {"session_id": session, "input": text}}


def event(request: Any, name: str, **fields: Any) -> tuple[str, Any]:
    return "agent", {"id": request, "type": "event", "event": name, **fields}


def ended(request: Any, session: str, text: str) -> tuple[str, Any]:
    result = {"response": text, "session_id": session, "trace_id": f"t{request}", "warnings": []}
    return "agent", {"id": request, "type": "result", "result": result}


SIDE_BY_SIDE = [
    chat(1, "A", "one"),
    event(1, "run_start", user_input="one", trace_id="t1"),
    chat(2, "B", "two"),
    event(2, "run_start", user_input="two", trace_id="t2"),
    event(1, "llm_start", step=0),
    chat(3, "A", "three"),
    event(2, "llm_start", step=0),
    event(2, "llm_chunk", step=0, delta="b"),
    event(1, "llm_chunk", step=0, delta="a"),
    ended(2, "B", "b"),
    chat(4, "A", "four"),
    ("host", {"id": 5, "method": "cancel", "params": {"request_id": 4}}),
    ("agent", {"id": 4, "type": "error", "code": "cancelled", "message": "not begun"}),
    ("agent", {"id": 5, "type": "result", "result": {"cancelled": True, "request_id": 4}}),
    ended(1, "A", "a"),
    event(3, "run_start", user_input="three", trace_id="t3"),
    event(3, "llm_start", step=0),
    event(3, "llm_chunk", step=0, delta="c"),
    ended(3, "A", "c"),
]
"""Two sessions at once, a prompt that waits for the turn before it, and one that is taken back before it begins."""


@pytest.mark.parametrize("target", ["aionrs", "pagent", "pagent-v4", "jan", "levpro"])
def test_chats_side_by_side_are_had_one_after_the_other_where_there_is_one_at_a_time(
    target: str, tmp_path: Path
) -> None:
    written, report = cross(recorded(tmp_path / "in", "levpro", SIDE_BY_SIDE), "levpro", target, tmp_path)
    assert report.violations == []
    assert {(drop.command, drop.why) for drop in report.dropped} <= {
        ("prompt", "cancelled"), ("stop", "it was for a turn that does not run here"),
    }  # fmt: skip
    prompts = [command for command in asked_of(written, WIRES[target]) if isinstance(command, commands.Prompt)]
    assert sorted(command.text for command in prompts if command.text != "four") == ["one", "three", "two"]
    logs = logs_of(WIRES[target], written)
    assert {text_of(log) for log in logs.values()} == ({"ac", "b"} if target in ("jan", "levpro") else {"abc"})
    for log in logs.values():
        assert broken_laws(log) == []
    refs = [line.get("msg_id") for line in objects(written, "host")]
    assert target != "aionrs" or refs == ["1", "2", "3"]


def text_of(log: Sequence[Record]) -> str:
    return "".join(record.event.text for record in log if isinstance(record.event, bus.TextDelta))


def cross(path: Path, source: str, target: str, folder: Path, **how: Any) -> tuple[Recording, Report]:
    out = folder / f"to-{target}.jsonl"
    with out.open("wb") as file:
        report = transcode(open_recording(path), WIRES[source], WIRES[target], file.write, **how)
    return open_recording(out), report


def objects(recording: Recording, who: str) -> list[Any]:
    return [json.loads(line) for by, line in lines_of(recording) if by == who]


def rpc(number: int, method: str, **params: Any) -> tuple[str, Any]:
    return "host", {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def result(number: int, **value: Any) -> tuple[str, Any]:
    return "agent", {"jsonrpc": "2.0", "id": number, "result": value}


def item(tag: str, turn: str, **fields: Any) -> tuple[str, Any]:
    params = {"sessionId": "S", "turnId": turn, "event": {"type": tag, **fields}}
    return "agent", {"jsonrpc": "2.0", "method": f"item/{tag}", "params": params}


def over(turn: str, reason: str = "completed") -> tuple[str, Any]:
    params = {"sessionId": "S", "turnId": turn, "stopReason": reason, "error": None}
    return "agent", {"jsonrpc": "2.0", "method": "turn/completed", "params": params}


TOOL = {"name": "ask_host", "description": "d", "parameters": {"type": "object"}}

HOSTS_TOOL = [
    rpc(1, "initialize", protocolVersion=1, clientInfo={"name": "t", "version": "1"}),
    result(1, protocolVersion=1),
    ("host", {"jsonrpc": "2.0", "method": "initialized", "params": {}}),
    rpc(2, "session/start", cwd="/w", model="m", tools=[TOOL], builtins=False),
    result(2, tools=["ask_host"], toolSpecs=[], sessionId="S", model="m"),
    rpc(3, "turn/start", sessionId="S", input=[{"type": "text", "text": "hi"}]),
    result(3, turnId="T1"),
    item("step", "T1", index=1, max=0),
    item("tool_call", "T1", id="c", name="ask_host", args={}),
    item("tool_request", "T1", request_id="host-1", tool_name="ask_host", args={}),
    rpc(4, "tool/respond", requestId="host-1", content="blue"),
    result(4),
    item("tool_result", "T1", id="c", content="blue", is_error=False),
    rpc(5, "turn/steer", sessionId="S", input="quickly"),
    result(5),
    item("step", "T1", index=2, max=0),
    item("token", "T1", text="blue"),
    item("done", "T1", stop_reason="stop", usage=None),
    over("T1"),
    rpc(6, "session/model/set", sessionId="S", model="n"),
    result(6, model="n"),
    rpc(7, "session/reset", sessionId="S"),
    result(7, tools=["ask_host"], toolSpecs=[]),
    rpc(8, "turn/start", sessionId="none", input="x"),
    ("agent", {"jsonrpc": "2.0", "id": 8, "error": {"code": -32602, "message": "no such session", "data": None}}),
    rpc(9, "turn/start", sessionId="S", input="again"),
    result(9, turnId="T2"),
    item("step", "T2", index=1, max=0),
    rpc(10, "turn/interrupt", sessionId="S"),
    over("T2", "interrupted"),
    result(10),
]
"""A host with a tool, that steers, changes the model, forgets, errs, and stops."""


def test_the_same_wire_is_spoken_again_under_the_same_ids(tmp_path: Path) -> None:
    written, report = cross(recorded(tmp_path / "in", "jan", HOSTS_TOOL), "jan", "jan", tmp_path)
    assert (report.violations, report.invented) == ([], {})
    asked = [line["method"] for line in objects(written, "host") if "id" in line]
    assert asked == [
        "initialize", "session/list", "session/start", "turn/start", "tool/respond", "turn/steer",
        "session/model/set", "session/reset", "turn/start", "turn/start", "turn/interrupt",
    ]  # fmt: skip
    answers = {line["id"]: line for line in objects(written, "agent") if "id" in line}
    named = {line["id"]: line["method"] for line in objects(written, "host") if "id" in line}
    assert {method for number, method in named.items() if "error" in answers[number]} == {"turn/start"}
    assert answers.keys() == named.keys()
    assert [entry.at for entry in written] == sorted(entry.at for entry in written)
    assert written.header.started == 1000
    assert next(entry.wall for entry in written) == 1_764_468_000_000


def test_what_has_no_word_is_dropped_and_listed(tmp_path: Path) -> None:
    written, report = cross(recorded(tmp_path / "in", "jan", HOSTS_TOOL), "jan", "aionrs", tmp_path)
    assert report.violations == []
    assert {(drop.command, drop.why): drop.count for drop in report.dropped} == {
        ("open_session", "the wire's session is there from the start"): 1,
        ("answer_host_tool", "unsupported"): 1,
        ("steer", "unsupported"): 1,
        ("reset_session", "unsupported"): 1,
    }  # fmt: skip
    assert [line["type"] for line in objects(written, "host")] == [
        "ping", "message", "set_config", "message", "message", "stop",
    ]  # fmt: skip
    (error,) = [line for line in objects(written, "agent") if line["type"] == "error"]
    assert error["error"]["message"] == "no such session"
    assert report.commands["prompt"] == 3
    assert report.unsaid == {}
    assert "dropped: 1 steer (unsupported)" in as_table(report)


def test_what_stands_beside_the_wire_is_kept_where_it_can_be(tmp_path: Path) -> None:
    path = recorded(tmp_path / "in", "levpro", SIDE_BY_SIDE)
    with path.open("a") as file:
        file.write('{"at":99000,"who":"log","text":"a warning\\n"}\n{"at":99001,"who":"model","about":{"x":1}}\n')
    written, report = cross(path, "levpro", "aionrs", tmp_path)
    assert [entry.text for entry in written if entry.who == "log"] == ["a warning\n"]
    assert report.beside == {"model": 1}


@pytest.mark.parametrize("target", ["aionrs", "pagent", "pagent-v4", "jan", "jan-stream"])
def test_with_the_originals_kept_both_directions_come_back_byte_for_byte(target: str, tmp_path: Path) -> None:
    path = recorded(tmp_path / "in", "levpro", SIDE_BY_SIDE)
    there, report = cross(path, "levpro", target, tmp_path, keep_original=True)
    assert report.violations == []
    (tmp_path / "plain").mkdir()
    plain, _ = cross(path, "levpro", target, tmp_path / "plain")
    assert lines_of(open_recording(there.path)) == lines_of(plain)
    back, _ = cross(Path(there.path), target, "levpro", tmp_path)
    assert Path(back.path).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("wire", sorted(WIRES))
async def test_a_recording_of_the_real_peer_is_played_through(wire: str, tmp_path: Path) -> None:
    written, _ = cross(RECORDINGS / "v4_stdio_session.jsonl", "pagent-v4", wire, tmp_path)
    status, heard = await played_through(Path(written.path), WIRES[wire])
    assert status == 0
    assert heard == [line for who, line in lines_of(written) if who == "agent"]


SAME_NAMES = [
    ("agent", {"type": "ready", "version": "0.2.0", "session_id": "S", "capabilities": {}}),
    *(
        line
        for text in ("one", "two")
        for line in (
            ("host", {"type": "message", "msg_id": "m", "content": text}),
            ("agent", {"type": "stream_start", "msg_id": "m"}),
            ("agent", {"type": "text_delta", "msg_id": "m", "text": text}),
            ("agent", {"type": "stream_end", "msg_id": "m", "usage": {"input_tokens": 0, "output_tokens": 0}}),
        )
    ),
]
"""A host that calls every message the same."""


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("target", ["levpro", "jan", "pagent-v4"])
def test_turns_that_are_told_apart_by_names_have_names_of_their_own(target: str, both: bool, tmp_path: Path) -> None:
    told = SAME_NAMES if both else [line for line in SAME_NAMES if line[0] == "agent"]
    path = recorded(tmp_path / "in", "aionrs", told)
    if both:
        written, report = cross(path, "aionrs", target, tmp_path)
        assert [text_of(log) for log in logs_of(WIRES[target], written).values()] == ["onetwo"]
    else:
        report = transcode(open_recording(path), WIRES["aionrs"], WIRES[target], bytearray().extend)
    assert (report.turns, report.violations) == (2, [])


@pytest.mark.slow
def test_the_commands_take_what_was_written(tmp_path: Path) -> None:
    """A recording with both directions through ``transcode``, ``replay --serve`` and ``inspect``."""
    out = tmp_path / "out.jsonl"
    command("transcode", RECORDINGS / "v4_stdio_session.jsonl", "--to", "levpro", "-o", out)
    asked = b"".join(line + b"\n" for who, line in lines_of(open_recording(out)) if who == "host")
    heard = b"".join(line + b"\n" for who, line in lines_of(open_recording(out)) if who == "agent")
    served = command("replay", out, "--serve", "--codec", "levpro", "--instant", given=asked)
    assert served == heard
    shown = command("inspect", out).decode()
    assert "turn" in shown


def command(*words: str | Path, given: bytes = b"") -> bytes:
    argv = [sys.executable, "-m", "agentwire", *map(str, words)]
    done = subprocess.run(argv, input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
