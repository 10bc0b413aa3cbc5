"""What a decoder accepts and why it refuses: probes of the real one, and where ours is stricter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import asdict
from pagentlines import rows

from agentwire import events as bus
from agentwire.codec import Heard
from agentwire_pagent import codec, wire
from agentwire_pagent.envelope import line
from agentwire_pagent.reading import WireError, decode

PROBES = {row["note"]: row for row in rows("decode_probes.jsonl")}

REASONS = {
    "UTF-8 BOM in str": "json",
    "id present": "id",
    "id present but null": "id",
    "jsonrpc missing": "jsonrpc",
    "jsonrpc 1.0": "jsonrpc",
    "jsonrpc number 2.0": "jsonrpc",
    "method missing": "method",
    "method empty": "method",
    "method not a string": "method",
    "method unknown": "unknown",
    "method wrong case": "unknown",
    "v4 TurnResult is unknown to the classic decoder": "unknown",
    "v4 RunEnd shape into the classic decoder": "missing",
    "params missing, required field": "missing",
    "params null, required field": "missing",
    "params array": "params",
    "params string": "params",
    "params empty array": "params",
    "params false": "params",
    "RunEnd without content": "missing",
    "StepEnd without tool_calls": "missing",
    "TurnEnd without stopped": "missing",
    "empty line": "json",
    "not json": "json",
    "json but array (batch)": "object",
    "json scalar": "object",
    "json null": "object",
    "two objects on one line": "json",
    "raw control character rejected": "json",
    "truncated line": "json",
}
"""Every probe that the peer refuses."""

STRICTER = {
    "ToolResult ok non-bool is kept": "type",
    "wrong value type is not checked (int text)": "type",
    "wrong value type is not checked (null text)": "type",
    "wrong value type is not checked (turn string)": "type",
    "arguments as object is kept as object": "type",
    "NaN accepted in usage": "json",
}
"""What the peer takes and we do not: values of another type, unless asked to; and what is not JSON."""

FRAMING = ("UTF-8 BOM in bytes",)
"""The first line of a stream may begin with a byte order mark; the framing takes it off."""


def test_every_probe_has_its_verdict() -> None:
    refused = {note for note, row in PROBES.items() if "error" in row}
    assert len(PROBES) == 54
    assert refused == set(REASONS)
    assert set(STRICTER) <= set(PROBES) - refused


@pytest.mark.parametrize("note", REASONS)
def test_what_the_peer_refuses(note: str) -> None:
    for lenient in (False, True):
        with pytest.raises(WireError) as caught:
            decode(PROBES[note]["line"], lenient=lenient)
        assert caught.value.reason == REASONS[note]


@pytest.mark.parametrize("note", [note for note in PROBES if note not in REASONS | STRICTER])
def test_what_the_peer_accepts(note: str) -> None:
    probe = PROBES[note]
    given = probe["line"].removeprefix("\ufeff") if note in FRAMING else probe["line"]
    params = decode(given)
    assert type(params) is wire.EVENTS["classic"][probe["event"]]
    if "fields" in probe:
        assert asdict(params) == probe["fields"]
        assert line(probe["event"], params) == probe["reencoded"].encode()
    else:
        assert params.text == "\ufffd"  # half a surrogate pair, which no text can hold


@pytest.mark.parametrize("note", STRICTER)
def test_where_we_are_stricter(note: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(PROBES[note]["line"])
    assert caught.value.reason == STRICTER[note]


@pytest.mark.parametrize("note", [note for note, reason in STRICTER.items() if reason == "type"])
def test_lenient_takes_what_the_peer_takes(note: str) -> None:
    probe = PROBES[note]
    params = decode(probe["line"], lenient=True)
    assert asdict(params) == probe["fields"]
    assert line(probe["event"], params) == probe["reencoded"].encode()


@pytest.mark.parametrize("note", [*REASONS, *STRICTER])
def test_a_host_keeps_what_it_cannot_read(note: str) -> None:
    """Nothing that an agent writes ends a replay, and nothing is lost without a trace; blank lines are nothing."""
    text = PROBES[note]["line"].rstrip("\r\n")
    heard = codec.host().receive(text.encode())
    if not text:
        assert heard == []
        return
    (item,) = heard
    assert isinstance(item, Heard)
    assert isinstance(item.event, bus.Unknown)
    kept = json.loads(bytes(item.event.raw))
    assert kept == text or json.dumps(kept) == json.dumps(json.loads(text))


def test_reasons_come_in_the_peers_order() -> None:
    """Of several faults the first counts."""
    told: dict[str, Any] = {"jsonrpc": "1.0", "id": 1, "method": "", "params": []}
    order = []
    for repair in ({"jsonrpc": "2.0"}, {"id": ...}, {"method": "Nope"}, {"method": "RunEnd"}, {"params": None}):
        with pytest.raises(WireError) as caught:
            decode(json.dumps(told))
        order.append(caught.value.reason)
        told.update(repair)
        told = {key: value for key, value in told.items() if value is not ...}
    with pytest.raises(WireError) as caught:
        decode(json.dumps(told))
    assert [*order, caught.value.reason] == ["jsonrpc", "id", "method", "unknown", "params", "missing"]


def test_a_v4_turn_result_may_come_without_parameters() -> None:
    for text in ('{"jsonrpc":"2.0","method":"TurnResult"}', '{"jsonrpc":"2.0","method":"TurnResult","params":null}'):
        assert decode(text, "v4") == wire.TurnResult()


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ('{"method":"TextDelta","jsonrpc":"2.0","method":"ReasoningDelta","params":{"text":"a"}}', "ReasoningDelta"),
        ('{"jsonrpc":"1.0","method":"TextDelta","params":{"text":"a"},"jsonrpc":"2.0"}', "TextDelta"),
    ],
)
def test_of_two_equal_keys_the_last_counts(text: str, method: str) -> None:
    assert type(decode(text)) is wire.EVENTS["classic"][method]


def test_deep_nesting_is_not_json() -> None:
    deep = (
        '{"jsonrpc":"2.0","method":"RunEnd","params":{"content":"x","usage":{"a":'
        + "[" * 100_000
        + "]" * 100_000
        + "}}}"
    )
    with pytest.raises(WireError) as caught:
        decode(deep)
    assert caught.value.reason == "json"
