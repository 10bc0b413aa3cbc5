from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.provider import ThinkSplitter


def split(*pieces: str) -> tuple[str, str]:
    splitter = ThinkSplitter()
    parts = [splitter.feed(piece) if splitter.open else ("", piece) for piece in pieces]
    parts.append(splitter.close())
    return "".join(part[0] for part in parts), "".join(part[1] for part in parts)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("<think>a</think>b", "a", "b"),
        ("\n <think>a</think>\n\nb", "a", "\n\nb"),
        ("<think></think>b", "", "b"),
        ("<think>a</think><think>c</think>b", "ac", "b"),
        ("<think>a < b </thin </think>b <", "a < b </thin ", "b <"),
        ("<think>never closed", "never closed", ""),
        ("<think>cut </thi", "cut </thi", ""),
        ("<thi", "", "<thi"),
        ("  <th is no tag", "", "  <th is no tag"),
        ("The tag <think>x</think> is text here", "", "The tag <think>x</think> is text here"),
        ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
        ("</think>a", "", "</think>a"),
        ("", "", ""),
        ("  ", "", "  "),
    ],
)
def test_however_it_is_cut(text: str, reasoning: str, answer: str) -> None:
    assert split(text) == (reasoning, answer)
    assert split(*text) == (reasoning, answer)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "think", ">", " ", "a", "\n"]), max_size=12), st.data()
)
def test_any_cutting_gives_the_same(tokens: list[str], data: st.DataObject) -> None:
    text = "".join(tokens)
    cut = data.draw(st.integers(0, len(text)))
    assert split(text[:cut], text[cut:]) == split(text) == split(*text)


def test_nothing_is_held_back_longer_than_needed() -> None:
    splitter = ThinkSplitter()
    assert splitter.feed("<think>ab") == ("ab", "")
    assert splitter.feed("c<") == ("c", "")
    assert splitter.feed("d") == ("<d", "")
    assert splitter.feed("</think>x") == ("", "x")
    assert not splitter.open
