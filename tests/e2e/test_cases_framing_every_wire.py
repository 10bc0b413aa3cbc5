"""Failure cases S-b on the wires that have no module of their own for them: between bytes and lines."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from case_table import on_wires
from every_wire import Peer, Starter, Talk, last_turn, said, start, tool
from support import noisy_plugin
from support.cases import CASES, lines, replies, stdin
from support.model_service import ModelService, wait_for
from support.patterns import matches
from support.replies import Bytes, Gate, JsonObject, Reply, ToolCall, sse
from support.wire_rules import compact

from agentwire.events import CallReady, TextDelta, TurnFinished

pytestmark = pytest.mark.slow

__all__ = ["start"]

ALL = ("jan", "jan-stream", "levpro")

Pattern = JsonObject
Lines = list[str | bytes | JsonObject]

PARSE: Pattern = {"id": None, "error.code": -32700}
INVALID: Pattern = {"id": None, "error.code": -32600}
PARAMS: Pattern = {"error.code": -32602, "error.data": None}
BAD_INPUT: Pattern = {"type": "input_error", "line_truncated": False}
REQUEST: Pattern = {"type": "error", "code": "invalid_request"}


def patterns(given: list[Any]) -> list[Pattern]:
    """A case's expectations that are lines; of alternatives, those that are."""
    kept = []
    for wanted in given:
        if isinstance(wanted, dict):
            choice = [one for one in wanted.get("accept", []) if isinstance(one, dict)]
            kept.append({"accept": choice} if choice else wanted)
    return kept


# --- lines that are no input -----------------------------------------------------------------------------------


def malformed(wire: str) -> tuple[Lines, list[Pattern]]:
    """S-b02."""
    case = CASES["S-b02"]
    if wire == "jan-stream":
        garbage, cut, unknown, empty, _ = case["input"]["lines"]
        return [garbage, cut, unknown, empty], [BAD_INPUT] * 4
    name = "jan-rpc" if wire == "jan" else wire
    return case["input"]["codec_variants"][name], case["expect"][name]


def line_ends(wire: str) -> tuple[Lines, list[Pattern]]:
    """S-b03: a line of blanks is nothing, but to Jan's RPC it is no JSON."""
    given, ping = stdin(CASES["S-b03"]), b'{"type":"ping"}'
    line, answer = {
        "jan": (b'{"jsonrpc":"2.0","id":"crlf","method":"session/list"}', {"id": "crlf"}),
        "jan-stream": (b'{"type":"user","text":" "}', {"message": "'user' text is empty"}),
        "levpro": (b'{"id":"crlf","method":"ping"}', {"id": "crlf", "result.status": "ok"}),
    }[wire]
    read = [answer if ping in piece else PARSE for piece in given.splitlines(keepends=True)]
    assert read == [PARSE, answer, PARSE, PARSE, PARSE, answer]
    return [given.replace(ping, line)], read if wire == "jan" else [answer, answer]


def bare_values(wire: str) -> tuple[Lines, list[Pattern]]:
    """S-b07."""
    case = CASES["S-b07"]
    if wire == "jan-stream":
        *bare, _ = case["input"]["codec_variants"]["aionrs"]
        return bare, [{**BAD_INPUT, "message": "missing string field 'type'"}] * len(bare)
    name = "jan-rpc" if wire == "jan" else wire
    given = case["input"]["lines"] if wire == "jan" else case["input"]["codec_variants"][wire]
    return given, patterns(case["expect"][name])


def not_utf8(wire: str, peer: Peer) -> tuple[Lines, list[Pattern]]:
    """S-b11: the line is refused, not mended."""
    first, second, _, _ = stdin(CASES["S-b11"]).split(b"\n")
    text = json.loads(second.decode("latin-1"))["content"]
    line = json.dumps(peer.message(text), ensure_ascii=False).encode("latin-1")
    wanted = {"jan": PARSE, "jan-stream": {"type": "input_error"}, "levpro": {"id": None, "code": "invalid_json"}}[wire]
    return [first + b"\n", line + b"\n"], [wanted, wanted]


def wrong_fields(wire: str, peer: Peer) -> tuple[Lines, list[Pattern]]:
    """S-b13: the requests are each wire's own; what is wrong with them is what the case has."""
    assert "wrongly typed" in CASES["S-b13"]["title"]
    if wire == "jan-stream":
        wrong: Lines = [
            {"type": "user"}, {"type": "user", "text": 123}, {"type": "user", "content": "x"},
            {"type": "permission", "decision": "deny"}, {"type": "permission", "request_id": "c", "decision": "maybe"},
            {"type": "tool_result", "request_id": "c"}, {"type": "tool_result", "request_id": 7, "content": ""},
        ]  # fmt: skip
        return wrong, [BAD_INPUT] * len(wrong)
    if wire == "levpro":
        chats = [{"input": 123}, {"session_id": 5}, {"resume": "yes"}, {"approve_execution": 1}, {"agent": "nobody"}]
        given = [*(("chat", params) for params in chats), ("cancel", {"request_id": []}),
                 ("initialize", {"protocol_versions": "1"})]  # fmt: skip
        wrong = [{"id": n, "method": method, "params": params} for n, (method, params) in enumerate(given)]
        return wrong, [{"id": n, **REQUEST} for n in range(len(wrong))]
    session = peer.session
    requests = [
        ("turn/start", {"sessionId": session}), ("turn/start", {"sessionId": session, "input": 123}),
        ("turn/start", {"input": "no session"}), ("turn/start", {"sessionId": session, "input": "x", "files": "a"}),
        ("session/start", {}), ("session/start", {"cwd": 7}), ("permission/respond", {"decision": "allow_once"}),
        ("permission/respond", {"requestId": "c", "decision": "forever"}), ("tool/respond", {"requestId": "c"}),
        ("session/model/set", {"sessionId": session, "model": 1}), ("turn/interrupt", {"sessionId": [session]}),
    ]  # fmt: skip
    wrong = [
        {"jsonrpc": "2.0", "id": n, "method": method, "params": params} for n, (method, params) in enumerate(requests)
    ]
    return wrong, [{"id": n, **PARAMS} for n in range(len(wrong))]


@on_wires("S-b02", *ALL)
@on_wires("S-b03", *ALL)
@on_wires("S-b07", *ALL)
@on_wires("S-b11", *ALL)
@on_wires("S-b13", *ALL)
async def test_lines_that_are_no_input(wire: str, start: Starter, model: ModelService) -> None:
    """Each is answered in the wire's form, in order, and starts nothing; the agent goes on as if it had not come."""
    model.script("a\r\nb")
    peer = await start.start(wire)
    played = [malformed(wire), line_ends(wire), bare_values(wire), not_utf8(wire, peer), wrong_fields(wire, peer)]
    for given, expected in played:
        events = await peer.answers(*given)
        assert len(events) == len(expected), (given, events)
        for line, wanted in zip(events, expected, strict=True):
            assert matches(line, wanted), (line, wanted)
            assert len(json.dumps(line)) < 1000
    assert model.requests == []
    await peer.send_bytes(json.dumps(peer.message("hi")).encode() + b"\r\n")
    await peer.hear(TurnFinished, outcome="completed")
    assert said(peer.heard) == "a\r\nb"
    assert model.requests[0].texts("user") == ["hi"]
    assert b"\r" not in peer.stdout


@on_wires("S-b06", "jan", "levpro")
async def test_ids(wire: str, start: Starter) -> None:
    """They come back with the type they had; a request without one is not answered."""
    case, name = CASES["S-b06"], "jan-rpc" if wire == "jan" else wire
    given = case["input"].get("codec_variants", {}).get(name) or case["input"]["lines"]
    expected = patterns(case["expect"][name])
    assert len(given) - len(expected) == (wire == "jan")
    peer = await start.start(wire)
    events = await peer.answers(*given)
    assert len(events) == len(expected), events
    for line, wanted in zip(events, expected, strict=True):
        assert matches(line, wanted), (line, wanted)


# --- what lines hold -------------------------------------------------------------------------------------------


LIMITS = {"jan": (16 << 20) - 1, "jan-stream": (16 << 20) - 1, "levpro": 1 << 20}
"""Longest line in bytes without its line feed, which Jan counts in."""

TOO_LONG: dict[str, Pattern] = {
    "jan": {**INVALID, "error.message": "Input line exceeds max_line_bytes"},
    "jan-stream": {"type": "input_error", "message": "line is over the 16777216 byte cap", "line": ""},
    "levpro": {"id": None, **REQUEST},
}


async def check_limit(peer: Peer) -> None:
    """A line of the longest size is read; one that is longer is answered once, and the next is read from its start."""
    longest = LIMITS[peer.wire]
    (answer,) = await peer.answers(compact(peer.question("fits")).ljust(longest) + b"\n")
    assert peer.is_answer(answer, "fits")
    (refused,) = await peer.answers(compact(peer.question("too long")).ljust(longest + 1) + b"\n")
    assert matches(refused, TOO_LONG[peer.wire])


@on_wires("S-b01", "jan", "levpro")
async def test_long_lines(wire: str, start: Starter, model: ModelService) -> None:
    given = CASES["S-b01"]["input"]
    sizes = [size for size in given["sizes"] if size < LIMITS[wire]]
    peer = await start.start(wire)
    for number, size in enumerate(sizes, 1):
        model.script(*replies(given["provider_script"]))
        assert said(await peer.turn("x" * size)) == "ok"
        assert (await model.request(number)).texts("user")[-1] == "x" * size
    await check_limit(peer)
    assert len(model.requests) == len(sizes)


@on_wires("S-b01", "jan-stream")
async def test_long_follow_ups(wire: str, start: Starter, model: ModelService) -> None:
    """A run has one task; long lines add to it."""
    given = CASES["S-b01"]["input"]
    gate = Gate()
    model.script(Reply("first", gate), *replies(given["provider_script"]))
    peer = await start.start(wire)
    await check_limit(peer)
    await peer.prompt("go")
    await peer.hear(TextDelta)
    for size in given["sizes"]:
        await peer.send_bytes(lines(['{"type":"user","text":"{{repeat:x:SIZE}}"}'], size))
    await peer.answers()
    gate.open()
    await peer.hear(TurnFinished, outcome="completed")
    told = (await model.request(2)).texts("user")
    assert told == ["go", *("x" * size for size in given["sizes"])]


@on_wires("S-b04", *ALL)
@on_wires("S-b05", *ALL)
async def test_text_that_others_cut_or_refuse(wire: str, start: Starter, model: ModelService) -> None:
    """Separators of lines that are none on a wire, and halves of pairs, both ways."""
    separators, halves = CASES["S-b04"]["input"], CASES["S-b05"]["input"]
    for name in halves["workspace_files_bytes_names"]:
        try:
            (start.workspace / os.fsdecode(base64.b64decode(name))).touch()
        except OSError:
            pytest.skip("this file system takes no names that are not UTF-8")
    glob = ToolCall("g", tool(wire, "Glob"), {"pattern": "*.txt"})
    broken, fine = replies(halves["provider_script"])
    model.script(*replies(separators["provider_script"]), broken, Reply(glob), fine)
    talk = Talk(start, wire, "--auto-approve")

    def message(line: str, *, raw: bool) -> bytes:
        text = json.loads(line)["content"]
        return json.dumps(peer.message(text), ensure_ascii=not raw).encode()

    peer = await talk.peer()
    assert said(await talk.turn_of(message(separators["lines"][0], raw=True))) == "x\u2028y\u0085z\nnext"
    assert model.requests[0].texts("user") == ["a\u2028b\u2029c\u0085d"]
    peer = await talk.peer()
    assert said(await talk.turn_of(message(halves["lines"][0], raw=False))) == "half \ufffd pair"
    assert model.requests[1].texts("user")[-1] == "bad \ufffd end"
    peer = await talk.peer()
    events = await talk.turn_of(message(halves["lines"][1], raw=False))
    assert model.requests[2].texts("user")[-1] == "good \U0001f600"
    assert model.requests[3].results == {"g": "caf\ufffd.txt"}
    assert said(events) == "fine"
    for journal in (start.data / "sessions").rglob("*.jsonl"):
        journal.read_bytes().decode("utf-8")


# --- who else has the pipes ------------------------------------------------------------------------------------


@on_wires("S-b08", *ALL)
async def test_noise_on_stdout(wire: str, start: Starter) -> None:
    """A provider of somebody else's that writes to standard output in every way; each line is read by our rules."""
    environ = noisy_plugin.install(start.home, CASES["S-b08"]["input"]["python"])
    arguments = ("serve", "--codec", wire, "--provider", "noisy", "--workspace", str(start.workspace))
    peer = await start.run(wire, *arguments, environ=environ)
    assert said(await peer.turn()) == noisy_plugin.SAYS
    await start.close(peer)
    for word in ("loading model", "raw bytes", "careful", "from child"):
        assert word in peer.errors


@on_wires("S-b09", *ALL)
async def test_children_and_the_protocol_input(wire: str, start: Starter, model: ModelService) -> None:
    """What a tool runs reads nothing of the host's: neither lines nor an end that does not come."""
    case = CASES["S-b09"]
    asks, answer = case["input"]["provider_script"]
    (call,) = asks["tool_calls"]
    shell = tool(wire, call["name"])
    prompting = ToolCall("t2", shell, {"cmd": f"{sys.executable} -c 'input()'"})
    model.script(Reply(ToolCall("t1", shell, call["arguments"]), prompting), *replies([answer]))
    peer = await start.start(wire, "--auto-approve")
    await peer.prompt()
    await peer.hear(CallReady)
    with trio.fail_after(case["expect"]["within_s"]):
        await peer.answers()
        await peer.hear(TurnFinished, outcome="completed")
    results = model.requests[1].results
    assert "done" in results["t1"]
    assert "fence" not in results["t1"]
    assert "EOFError" in results["t2"]
    assert said(last_turn(peer.heard)) == answer["text"]


@on_wires("S-b10", *ALL)
@pytest.mark.parametrize("variant", ["complete", "cut"])
async def test_the_last_line_without_an_end(variant: str, wire: str, start: Starter, model: ModelService) -> None:
    """A whole one counts, and half of one is answered like any line that is no JSON. A run goes on to its end."""
    given = CASES["S-b10"]["input"]["variants"][variant].encode()
    peer = await start.start(wire)
    line = peer.question("last") if wire != "jan-stream" else peer.message("last")
    if wire == "jan-stream":
        model.script("well")
    await peer.send_bytes(given.replace(b'{"type":"ping"}', json.dumps(line).encode()))
    await peer.close_stdin()
    assert await peer.wait_exit() == CASES["S-b10"]["expect"][variant]["exit_code"]
    refused = {"jan": PARSE, "jan-stream": {"type": "input_error"}, "levpro": {"id": None, "code": "invalid_json"}}
    cut = [event for event in peer.events if matches(event, refused[wire])]
    assert len(cut) == (variant == "cut")
    if wire == "jan-stream":
        assert peer.events[-1]["result"] == "well"
    else:
        answer, *others = peer.rest()
        assert peer.is_answer(answer, "last")
        assert others == cut


PIECES, SIZE = 20_000, 200


def packed(count: int) -> Iterator[Bytes]:
    """Numbered pieces, fifty events in each write: they show if one is lost or out of order."""
    for first in range(0, count, 50):
        texts = (f"{n:08}".ljust(SIZE - 1, ".") + "\n" for n in range(first, first + 50))
        yield Bytes(b"".join(sse({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in texts))


@on_wires("S-b12", "jan", "jan-stream")
async def test_a_host_that_does_not_read_loses_nothing_and_may_stop(
    wire: str, start: Starter, model: ModelService
) -> None:
    """The model is not held up, memory stays bounded, a stop is heard at once, and all that was said comes."""
    assert "The host reads nothing" in CASES["S-b12"]["input"]["text"]
    end = Gate()
    model.script(Reply("first", *packed(PIECES), end))
    peer = await start.start(wire)
    await peer.prompt()
    await peer.hear(TextDelta)
    before = peer.memory()
    peer.hold_reading()
    await wait_for(end.reached, "the model's stream is taken while nobody reads", within=30)
    growth = peer.memory() - before
    await peer.stop()
    await wait_for(model.requests[0].disconnected, "the stop takes effect", within=1)
    peer.resume_reading()
    await peer.hear(TurnFinished, outcome="cancelled")
    whole = "".join(f"{n:08}".ljust(SIZE - 1, ".") + "\n" for n in range(PIECES))
    assert growth < 64 << 20
    told = said(peer.heard)
    assert f"first{whole}".startswith(told)
    assert len(told) > len(whole) // 2, "what was taken before the stop is not lost"
