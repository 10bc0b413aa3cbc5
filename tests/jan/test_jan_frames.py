"""Lines before they are requests: framing, envelope, ids, the handshake and its gate (sections 1.1 to 1.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from janlines import INITIALIZE, INITIALIZED, Line, Scene, error
from support.cases import CASES

from agentwire.codec import Framer, LineFault
from agentwire.commands import Done, Outcome, Stop
from agentwire_jan import codec

PARSE = error(-32700, "Parse error")
INVALID = error(-32600, "Invalid Request")
NOT_READY = error(-32002, "Server not initialized")
NO_METHOD = error(-32601, "Method not found")
REFUSED = error(-32602, "Unsupported protocol version or malformed clientInfo")


def envelope(answer: dict[str, Any], id: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, **answer}


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"{not json", envelope(PARSE)),
        (b"", envelope(PARSE)),
        (b"  \t", envelope(PARSE)),
        (b"[" * 20_000, envelope(PARSE)),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"x"}', envelope(PARSE)),
        (LineFault("not_utf8", "x"), envelope(PARSE)),
        (LineFault("too_long", "x", 1), envelope(error(-32600, "Input line exceeds max_line_bytes"))),
        ([], envelope(INVALID)),
        ([{"jsonrpc": "2.0", "id": 1, "method": "session/list"}], envelope(INVALID)),
        (7, envelope(INVALID)),
        ("x", envelope(INVALID)),
        (None, envelope(INVALID)),
        ({"id": 5, "method": "session/list"}, envelope(INVALID, 5)),
        ({"jsonrpc": "1.0", "id": 5, "method": "session/list"}, envelope(INVALID, 5)),
        ({"jsonrpc": 2.0, "id": 5, "method": "session/list"}, envelope(INVALID, 5)),
        ({"jsonrpc": "2.0", "id": [1]}, envelope(INVALID, [1])),
        ({"jsonrpc": "2.0", "id": "a", "method": ""}, envelope(INVALID, "a")),
        ({"jsonrpc": "2.0", "id": "a", "method": 7}, envelope(INVALID, "a")),
        ({"jsonrpc": "2.0", "method": None}, envelope(INVALID)),
        ({"jsonrpc": "2.0", "id": 1, "method": "no/such"}, envelope(NO_METHOD, 1)),
        ({"jsonrpc": "2.0", "id": 1, "method": "initialized"}, envelope(NO_METHOD, 1)),
        ({"jsonrpc": "2.0", "method": "no/such"}, None),
        ({"jsonrpc": "2.0", "method": "session/list"}, None),
    ],
)
def test_the_frame_rules(line: Any, answer: dict[str, Any] | None) -> None:
    assert Line().say(line, []) == answer


@pytest.mark.parametrize(
    "id", [0, 1, -1, 2**53, 2**70, 1.5, 1.0, -0.0, "", "0", "\u2028 é", None, True, [], {"a": [1]}, {}]
)
def test_an_id_comes_back_as_it_was(id: Any) -> None:
    frame = {"jsonrpc": "2.0", "id": id, "method": "session/list"}
    line = Line()
    request = line.read(frame)
    out = bytearray()
    assert request is not None
    line.side.outcome(request, Outcome(Done([])), out)
    expected = json.dumps(id, ensure_ascii=False, separators=(",", ":"))
    assert bytes(out).decode() == f'{{"jsonrpc":"2.0","id":{expected},"result":{{"sessions":[]}}}}\n'


def test_what_has_no_id_is_carried_out_without_an_answer() -> None:
    line = Line(Scene({"S"}, running="S"))
    request = line.read({"jsonrpc": "2.0", "method": "turn/interrupt", "params": {"sessionId": "S"}})
    assert request is not None
    assert request.command == Stop("S", wait=True)
    assert line.answer(request, Done(True)) is None


# --- the handshake -------------------------------------------------------------------------------------------


def test_the_handshake_opens_the_gate() -> None:
    line = Line(ready=False)
    listing = {"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}}
    assert line.say(listing) == envelope(NOT_READY, 1)
    assert line.say(INITIALIZED) == envelope(NOT_READY)
    assert line.say({"jsonrpc": "2.0", "method": "no/such"}) == envelope(NOT_READY)
    assert line.say(INITIALIZE) == envelope(
        {
            "result": {
                "protocolVersion": 1,
                "serverInfo": {"name": "jan", "version": "0.8.4"},
                "capabilities": {"session": True, "turn": True},
                "input_content_parts": {
                    "mime_types": ["image/png", "image/jpeg", "image/gif", "image/webp"],
                    "max_image_bytes": 5242880,
                    "max_message_image_bytes": 10485760,
                    "max_images": 8,
                    "max_line_bytes": 16777216,
                    "max_echo_bytes": 4096,
                },
            }
        },
        "hello",
    )
    assert line.say(listing) == envelope(NOT_READY, 1)
    assert line.say({**INITIALIZED, "id": 2}) == envelope(NOT_READY, 2)
    assert line.say(INITIALIZED) is None
    assert line.say(listing, []) == envelope({"result": {"sessions": []}}, 1)


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {},
        {"protocolVersion": 2, "clientInfo": {"name": "t", "version": "1"}},
        {"protocolVersion": 0, "clientInfo": {"name": "t", "version": "1"}},
        {"protocolVersion": "1", "clientInfo": {"name": "t", "version": "1"}},
        {"protocolVersion": 1.0, "clientInfo": {"name": "t", "version": "1"}},
        {"protocolVersion": True, "clientInfo": {"name": "t", "version": "1"}},
        {"protocolVersion": 1, "clientInfo": {"name": "", "version": "1"}},
        {"protocolVersion": 1, "clientInfo": {"name": "t", "version": ""}},
        {"protocolVersion": 1, "clientInfo": {"name": "t"}},
        {"protocolVersion": 1, "clientInfo": {"name": "t", "version": "1", "x": 1}},
        {"protocolVersion": 1, "clientInfo": {"name": "t", "version": "1"}, "x": 1},
        {"protocolVersion": 1},
    ],
)
def test_a_refused_handshake_takes_the_old_one_away(params: Any) -> None:
    line = Line()
    assert line.say({"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": params}) == envelope(REFUSED, 4)
    assert line.say(INITIALIZED) == envelope(NOT_READY)
    assert line.say({"jsonrpc": "2.0", "id": 5, "method": "session/list"}) == envelope(NOT_READY, 5)
    line.say(INITIALIZE)
    assert line.say(INITIALIZED) is None
    assert line.say({"jsonrpc": "2.0", "id": 6, "method": "session/list"}, []) == envelope(
        {"result": {"sessions": []}}, 6
    )


def test_initialize_is_always_answered() -> None:
    line = Line(ready=False)
    answer = line.say({key: value for key, value in INITIALIZE.items() if key != "id"})
    assert answer is not None
    assert answer["id"] is None
    assert "result" in answer
    with_capabilities = {**INITIALIZE["params"], "capabilities": {"anything": [1]}}
    assert "result" in (line.say({**INITIALIZE, "params": with_capabilities}) or {})


# --- cases of others' failures -------------------------------------------------------------------------------


def answers(lines: list[str], *, ready: bool) -> list[dict[str, Any]]:
    line, framer = Line(ready=ready), Framer(codec.max_line)
    told = [line.say(read) for read in framer.feed("".join(text + "\n" for text in lines).encode())]
    return [answer for answer in told if answer is not None]


@pytest.mark.parametrize("id", ["S-b02", "S-b06", "S-b07"])
def test_cases_of_lines(id: str) -> None:
    case = CASES[id]
    given = case["input"]
    lines = given["lines"] if given["codec"] == "jan-rpc" else given["codec_variants"]["jan-rpc"]
    found = answers(lines, ready=id != "S-b07")
    expected = [entry for entry in case["expect"]["jan-rpc"] if isinstance(entry, dict)]
    assert len(found) == len(expected)
    for answer, wanted in zip(found, expected, strict=True):
        wanted = wanted["accept"][1] if "accept" in wanted else wanted
        assert answer["id"] == wanted["id"]
        assert type(answer["id"]) is type(wanted["id"])
        assert answer["error"]["code"] == wanted["error.code"]


def test_a_line_at_the_limit_is_read_and_one_over_it_is_skipped() -> None:
    """The limit counts the line feed (section 1.1)."""
    frame = b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"x":"%s"}}'
    room = 16 * 1024 * 1024 - 1 - len(frame) + 2
    line, framer = Line(), Framer(codec.max_line)
    fits, over = (frame % (b"x" * n) + b"\n" for n in (room, room + 1))
    assert len(fits) == 16 * 1024 * 1024
    told = [line.say(read, []) for read in framer.feed(over + fits)]
    assert told == [
        envelope(error(-32600, "Input line exceeds max_line_bytes")),
        envelope({"result": {"sessions": []}}, 1),
    ]


def test_carriage_returns_are_harmless() -> None:
    line, framer = Line(), Framer(codec.max_line)
    reads = framer.feed(b'{"jsonrpc":"2.0","id":1,"method":"session/list"}\r\n')
    assert [line.say(read, []) for read in reads] == [envelope({"result": {"sessions": []}}, 1)]


def test_half_a_surrogate_pair_in_an_id_is_replaced() -> None:
    """Case S-b05: what cannot be written is not, and the line is whole."""
    line = Line()
    request = line.read(b'{"jsonrpc":"2.0","id":"bad \\ud83d end","method":"no/such"}')
    assert request is not None
    assert request.refusal is not None
    answer = line.answer(request, request.refusal)
    assert answer is not None
    assert answer["id"] == "bad \ufffd end"
