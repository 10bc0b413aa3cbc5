"""JSON on lines: what is accepted, what is said of the rest, and that no half line is ever left."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, Struct

from agentwire.codec.jsontext import (
    BadJson,
    BadShape,
    LineDecoder,
    append_line,
    canonical_object,
    clip,
    parse,
    sorted_json,
)

DEEP = 100_000


class Ping(Struct, tag="ping"):
    pass


class Say(Struct, tag="say"):
    text: str
    how: Literal["loud", "low"] = "low"


DECODER: LineDecoder[Ping | Say] = LineDecoder(Ping | Say)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b' {"a": 1} ', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"bad \\ud83d end"', "bad \ufffd end"),
        (b'"cut \\ud83d"', "cut \ufffd"),
        (b'["\\udc00",{"\\ud800":1}]', ["\ufffd", {"\ufffd": 1}]),
        (b'{"a":"\\ud800","a":"x"}', {"a": "x"}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        ('"\u2028"'.encode(), "\u2028"),
    ],
)
def test_accepted(line: bytes, value: Any) -> None:
    assert parse(line) == value


@pytest.mark.parametrize(
    "line",
    [
        b"", b"  ", b"not json", b"NaN", b"[Infinity]", b"-Infinity", b'{"a":1,}', b"[1,]", b"01", b"1.", b"+1", b"'a'",
        b'"\x01"', b'"\\q"', b'{"a":1} {"b":2}', b'{"a"', b"1e999", b'["\\ud800",1e999]', b'["\\ud800",NaN]',
        b"\xef\xbb\xbf{}", b"[" * DEEP, b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP, b'["\\ud800",' + b"[" * DEEP,
        b'["\\ud800",' + b"[" * 900 + b"]" * 900 + b"]", b"9" * 5000, b'["\\ud800",' + b"9" * 5000 + b"]",
    ],
)  # fmt: skip
def test_refused_with_a_short_text(line: bytes) -> None:
    with pytest.raises(BadJson) as refused:
        parse(line)
    assert 0 < len(str(refused.value)) <= 200


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ud8tfn1e-. \n', max_size=40).map(str.encode))
def test_any_line_is_json_or_bad_json(line: bytes) -> None:
    try:
        value = parse(line)
    except BadJson:
        return
    msgspec.json.encode(value)  # whatever was read can be written


class TestLineDecoder:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (b'{"type":"ping","type":"say","text":"x"}', Say("x")),
            (b'{"type":5,"type":"ping"}', Ping()),
            (b'{"type":"say","text":1,"text":"b"}', Say("b")),
            (b'{"type":"say","text":"half \\ud83d"}', Say("half \ufffd")),
            (b'{"type":"ping","other":"\\ud83d end"}', Ping()),
        ],
    )
    def test_recovers_what_only_needs_order(self, line: bytes, message: Ping | Say) -> None:
        with pytest.raises(msgspec.DecodeError):
            DECODER.decode(line)
        assert DECODER.recover(line) == message

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            (b'{"type":"say"}', "text"),
            (b'{"type":"say","text":1}', "$.text"),
            (b'{"type":"say","text":"x","how":"' + b"y" * 1000 + b'"}', "yyy"),
            (b'{"type":"nod"}', "nod"),
            (b"[]", "object"),
            (b"null", "object"),
        ],
    )
    def test_says_what_does_not_fit(self, line: bytes, words: str) -> None:
        with pytest.raises(BadShape) as refused:
            DECODER.recover(line)
        assert words in str(refused.value)
        assert len(str(refused.value)) <= 200
        assert refused.value.value == json.loads(line)

    def test_depth_is_bad_json(self) -> None:
        line = b'{"type":"ping","deep":' + b"[" * DEEP + b"]" * DEEP + b"}"
        with pytest.raises(RecursionError):
            DECODER.decode(line)
        with pytest.raises(BadJson, match="deep"):
            DECODER.recover(line)


class TestAppendLine:
    def test_half_a_pair_is_replaced_and_no_half_line_left(self) -> None:
        out = bytearray(b"before\n")
        append_line(msgspec.json.Encoder(), ["a" * 5000, {"k\ud800": "x\udc00y"}], out)
        before, line, after = bytes(out).split(b"\n")
        assert (before, after) == (b"before", b"")
        assert json.loads(line) == ["a" * 5000, {"k\ufffd": "x\ufffdy"}]

    def test_what_cannot_be_encoded_leaves_nothing(self) -> None:
        out = bytearray(b"before\n")
        with pytest.raises(TypeError):
            append_line(msgspec.json.Encoder(), ["some", object()], out)
        assert out == b"before\n"


def test_canonical_objects() -> None:
    assert canonical_object('{"b": [1.50, "é\\n"],\n "a": {"z": 1, "y": {}}}') == Raw(
        '{"a":{"y":{},"z":1},"b":[1.5,"é\\n"]}'.encode()
    )
    assert canonical_object(b'{"a":"\\ud800"}') == Raw('{"a":"\ufffd"}'.encode())
    for text in ("", "[]", "1", "{", "null", '{"a":NaN}', "{" * DEEP, '{"a":' + "[" * DEEP, "\ud800"):
        assert canonical_object(text) is None


def test_sorted_json_never_breaks_a_line() -> None:
    assert sorted_json({"b": "x\ny", "a": {"d": 1, "c": "\ud800"}}) == Raw(
        '{"a":{"c":"\ufffd","d":1},"b":"x\\ny"}'.encode()
    )


def test_clip() -> None:
    assert clip("x" * 200) == "x" * 200
    assert clip("x" * 201) == "x" * 199 + "…"
