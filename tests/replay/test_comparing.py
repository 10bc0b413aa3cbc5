"""Lines that should be the same: what may differ, and what a reader who fell behind got joined."""

from __future__ import annotations

import json

import pytest

from agentwire.replay.comparing import Comparison, Difference
from agentwire.replay.ids import Ids


def rest(then: object, now: object) -> object:
    found = Comparison(Ids()).rest(json.dumps(then).encode(), json.dumps(now).encode())
    return found and tuple(line and json.loads(line) for line in found)


def delta(text: str, number: str = "m1", **more: object) -> dict[str, object]:
    return {"type": "delta", "msg_id": number, "parts": [{"text": text}], "at": 7, **more}


def test_a_piece_of_a_text_is_the_beginning_of_it():
    assert rest(delta("one two"), delta("one", at=9)) == (delta(" two"), b"")
    assert rest(delta("one"), delta("one two")) == (b"", delta(" two"))
    assert rest("one two", "one") == (" two", b"")


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (delta("one two"), delta("two")), (delta("one"), delta("")), (delta("one"), delta("on", more=1)),
        (delta("one"), {**delta("on"), "type": "del"}), (delta("one"), delta("one", type="deltas") | {"parts": []}),
    ],
)  # fmt: skip
def test_all_else_is_a_difference(then, now):
    assert rest(then, now) is None


def test_what_is_no_json_has_no_rest():
    assert Comparison(Ids()).rest(b"{", b"{}") is None


def test_a_difference_says_where_it_is():
    told = str(Difference("f", 3, 2, b'{"a":1}', b'{"a":2}'))
    assert told.splitlines()[:2] == ["--- f, line 3", "+++ the server's line 2"]
    read = str(Difference("f", 3, 0, None, b'{"a":2}'))
    assert read.splitlines()[:2] == ["--- f, line 3: the model's reply", "+++ the same bytes, read again"]
    assert "+++ the server says nothing more" in str(Difference("f", 3, 2, b"{}", None))
    assert "--- the recording ends" in str(Difference("f", 3, 2, None, b"{}"))
