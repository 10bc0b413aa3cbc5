"""Runs of deltas: what is rendered together is neighbouring, of one kind, one origin and one call; nothing is lost."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentwire.codec.runs import OF_CALLS, TEXTS, runs, splice
from agentwire.events import CallArgumentsDelta, CallOutputDelta, Event, Notice, ReasoningDelta, TextDelta
from agentwire.log import Record
from agentwire.log.deltas import DELTAS, text_of

TEXT = st.text(max_size=5)
CALL_IDS = st.sampled_from(["", "c1", "c2"])
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, TEXT),
    st.builds(ReasoningDelta, TEXT),
    st.builds(CallArgumentsDelta, CALL_IDS, TEXT),
    st.builds(CallOutputDelta, CALL_IDS, TEXT),
    st.builds(Notice, TEXT),
)


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Records as a log gives them, with deltas of all kinds close together."""
    drawn = draw(st.lists(st.tuples(EVENTS, st.sampled_from(["", "", "run-1"])), max_size=30))
    return [Record(seq, 0, event, 1, origin) for seq, (event, origin) in enumerate(drawn, 1)]  # type: ignore[arg-type]


def _key(record: Record) -> tuple[object, ...]:
    return type(record.event), record.origin, getattr(record.event, "call_id", "")


def test_all_deltas_are_texts_or_of_calls() -> None:
    assert TEXTS | OF_CALLS == DELTAS
    assert not TEXTS & OF_CALLS


@given(logs())
def test_every_record_is_given_once_in_order(records: list[Record]) -> None:
    rest = list(records)
    for first, texts in runs(records):
        given, rest = rest[: len(texts) or 1], rest[len(texts) or 1 :]
        assert given[0] is first
        if texts:
            assert [text_of(record.event) for record in given] == texts
            assert {_key(record) for record in given} == {_key(first)}
        else:
            assert type(first.event) not in DELTAS
    assert not rest


@given(logs())
def test_runs_are_as_long_as_can_be(records: list[Record]) -> None:
    for (first, texts), (second, more) in pairwise(runs(records)):
        assert not (texts and more and _key(first) == _key(second))


@given(st.lists(st.text(), min_size=1))
def test_each_text_is_a_line_of_its_own(texts: list[str]) -> None:
    lines = splice(texts, b'{"text":', b',"id":1}\n').split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines] == [{"text": text, "id": 1} for text in texts]


@pytest.mark.parametrize("texts", [["half \ud83d"], ["a", "half \ud83d", "b"]])
def test_half_a_surrogate_pair_is_replaced(texts: list[str]) -> None:
    lines = splice(texts, b"", b"\n").decode().splitlines()
    assert [json.loads(line) for line in lines] == [text.replace("\ud83d", "\ufffd") for text in texts]
