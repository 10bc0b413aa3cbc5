"""Lines of nobody's: arbitrary bytes, arbitrary JSON, valid lines with something changed, on both sides."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from janlines import INITIALIZE, INITIALIZED, Line, Scene, render
from jsonschema import Draft202012Validator
from strategies import complete_log
from support.noise import any_json, mutated

from agentwire import commands as bus
from agentwire import events
from agentwire.codec import Framer, Heard, Request
from agentwire.commands import Done, Outcome, Refusal, SessionState
from agentwire_jan import codec
from agentwire_jan.requests import Token

PARAMS: dict[str, Any] = {
    "session/start": {
        "cwd": "/tmp/p", "model": "m", "builtins": False, "permissions": "host",
        "tools": [{"name": "arm", "parameters": {"type": "object"}, "capability": "read"}],
    },
    "session/tools/get": {"sessionId": "S"},
    "session/tools/set": {"sessionId": "T", "tools": [{"name": "arm"}]},
    "session/model/set": {"sessionId": "T", "model": "m"},
    "session/reset": {"sessionId": "T"},
    "session/list": {},
    "session/resume": {"sessionId": "S"},
    "session/fork": {"sessionId": "T"},
    "session/archive": {"sessionId": "T"},
    "turn/start": {"sessionId": "S", "input": "hi"},
    "turn/steer": {"sessionId": "S", "input": "left"},
    "turn/interrupt": {"sessionId": "S"},
    "permission/respond": {"requestId": "perm-1", "decision": "allow_always"},
    "tool/respond": {"requestId": "host-1", "content": [{"type": "text", "text": "x"}], "details": {"f": 1}},
}  # fmt: skip
REQUESTS = tuple(
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    for method, params in PARAMS.items()
)
FRAMES = (*REQUESTS, json.dumps(INITIALIZE).encode(), json.dumps(INITIALIZED).encode())

ACTING = (
    bus.Prompt, bus.Steer, bus.Approve, bus.Deny, bus.AnswerHostTool, bus.OpenSession, bus.ForkSession, bus.SetModel,
    bus.SetHostTools, bus.ResetSession, bus.ArchiveSession, bus.Stop,
)  # fmt: skip


KEYS = ("jsonrpc", "method", "params", "id", "result", "error", "sessionId", "turnId", "event", "type", "input", "cwd")
WORDS = ("2.0", *PARAMS, "initialize", "item/token", "item/tool_call", "turn/completed", "token", "S")

json_texts = any_json(KEYS, WORDS)
frames = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(tuple(PARAMS))},
    optional={"id": json_texts, "params": json_texts},
)
junk = st.binary(max_size=80) | (json_texts | frames).map(lambda value: json.dumps(value).encode()) | mutated(FRAMES)

VALUES = (SessionState("S", "m"), [SessionState("S")], "T-1", True, None)


@settings(max_examples=100, deadline=None)
@given(line=junk, running=st.booleans())
def test_a_line_is_answered_in_form_or_ignored_in_form(line: bytes, running: bool) -> None:
    """It never raises, the next line is read, and a command comes only of a frame that asks for it."""
    scene = Scene({"S", "T"}, "S" if running else "", {"perm-1": "S", "host-1": "S"})
    side, framer = Line(scene), Framer(codec.max_line)
    assert codec.schemas is not None
    stream = line.replace(b"\n", b" ") + b'\n{"jsonrpc":"2.0","id":"after","method":"session/tools/get","params":7}\n'
    requests = [side.read(read) for read in framer.feed(stream)]
    assert len(requests) == 2
    assert isinstance(requests[1], Request)
    request = requests[0]
    if request is None:
        return
    token = request.token
    assert isinstance(token, Token)
    if request.command is None:
        assert request.refusal is not None
        answer = side.answer(request, request.refusal)
        assert answer is not None
        assert list(answer) == ["jsonrpc", "id", "error"]
        assert list(answer["error"]) == ["code", "message", "data"]
        return
    if isinstance(request.command, ACTING):
        frame = json.loads(line)
        assert frame["jsonrpc"] == "2.0"
        assert frame["method"] == token.method
        assert set(frame["params"]) <= set(PARAMS[token.method]) | {"ephemeral", "subagents", "systemPrompt", "isError"}
    refused = side.answer(request, Refusal("not_found", "no"))
    assert (refused is None) is token.silent


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(REQUESTS), st.sampled_from(VALUES))
def test_an_answer_fits_its_schema(line: bytes, value: Any) -> None:
    expected = {
        "session/list": list, "turn/start": str, "turn/interrupt": bool,
        **dict.fromkeys(("session/archive", "turn/steer", "permission/respond", "tool/respond"), type(None)),
    }  # fmt: skip
    scene = Scene({"S", "T"}, "S", {"perm-1": "S", "host-1": "S"})
    method = json.loads(line)["method"]
    if not isinstance(value, expected.get(method, SessionState)):
        return
    scene.running = "" if method == "turn/start" else "S"
    assert codec.schemas is not None
    Draft202012Validator(codec.schemas()["jan.events.json"]).validate(Line(scene).say(line, value))


# --- lines of an agent ---------------------------------------------------------------------------------------

TOLD = tuple(render(complete_log()).split(b"\n")[:-1])


@settings(max_examples=48, deadline=None)
@given(st.lists(st.sampled_from(TOLD) | mutated(TOLD) | junk, max_size=25))
def test_whatever_an_agent_writes_a_host_hears_whole_turns(stream: list[bytes]) -> None:
    """One end for each beginning and nothing of a turn outside it; every call that is open is closed in its turn."""
    host, framer = codec.host(), Framer(1_000_000)
    lines = framer.feed(b"".join(line.replace(b"\n", b" ") + b"\n" for line in stream))
    heard = [said for line in lines for said in host.receive(line)] + host.close()
    open_turns: set[Any] = set()
    ended: set[Any] = set()
    still: dict[Any, set[str]] = {}
    for said in heard:
        assert isinstance(said, Heard)  # nothing was sent, so nothing is answered
        event = said.event
        msgspec.json.encode(event)
        if said.origin:
            continue
        if isinstance(event, events.TurnStarted):
            assert event.ref not in open_turns
            open_turns.add(event.ref)
            still[event.ref] = set()
        elif isinstance(event, events.TURN_EVENTS):
            assert said.ref in open_turns
        if isinstance(event, events.CallReady):
            still[said.ref].add(event.call_id)
        elif isinstance(event, events.CallRunning):
            assert event.call_id in still[said.ref]
        elif isinstance(event, events.CallFinished | events.CallCancelled):
            still[said.ref].remove(event.call_id)
        elif isinstance(event, events.TurnFinished):
            assert not still[said.ref]
            open_turns.remove(said.ref)
            ended.add(said.ref)
    assert not open_turns


def test_outcomes_of_the_connection_s_own_commands_are_not_written() -> None:
    out = bytearray()
    assert codec.agent().outcome(Request(bus.Ping()), Outcome(Done()), out) is None
    codec.agent().fatal(Refusal("config", "no key"), out)
    assert out == b""
