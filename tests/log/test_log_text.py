"""Strings that are no text become text, and nothing else changes."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from agentwire.events import (
    CallFinished,
    Capabilities,
    CapabilitiesChanged,
    Diff,
    SessionOpened,
    Text,
    TurnStarted,
    Usage,
)
from agentwire.text import scrub, scrub_value

any_strings = st.text(st.characters(exclude_categories=()) | st.sampled_from("\ud83d\ude00a"))


@given(any_strings)
def test_scrubbed_text_encodes_and_loses_nothing_else(text: str) -> None:
    clean = scrub(text)
    clean.encode()
    assert clean == scrub(clean)
    kept = [c for c in text if not "\ud800" <= c <= "\udfff"]
    assert [c for c in clean if c != "\ufffd" and c not in _joined(text)] == [
        c for c in kept if c != "\ufffd" and c not in _joined(text)
    ]


def _joined(text: str) -> set[str]:
    """Characters that two halves side by side in ``text`` make."""
    return {
        (high + low).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        for high, low in itertools.pairwise(text)
        if "\ud800" <= high <= "\udbff" and "\udc00" <= low <= "\udfff"
    }


@given(st.text())
def test_text_is_given_back_as_it_is(text: str) -> None:
    assert scrub(text) is text


def test_halves() -> None:
    assert scrub("a\ud83d") == "a\ufffd"
    assert scrub("\ude00b") == "\ufffdb"
    assert scrub("\ud83d\ude00") == "\U0001f600"
    assert scrub("\ude00\ud83d") == "\ufffd\ufffd"


def test_structs_are_mended_in_place_wherever_the_string_is() -> None:
    event = CallFinished(
        "c", "n", "ok", "\ud83d", Diff("\ud83d", ""), metadata={"\ud83d": [("\ud83d",), {"\ud83d"}, 1, None]}
    )
    assert scrub_value(event) is event
    assert event == CallFinished(
        "c", "n", "ok", "\ufffd", Diff("\ufffd", ""), metadata={"\ufffd": [("\ufffd",), {"\ufffd"}, 1, None]}
    )


def test_frozen_structs_are_replaced() -> None:
    event = CapabilitiesChanged(Capabilities(effort_levels=("low", "\ud83d")))
    scrub_value(event)
    assert event.capabilities.effort_levels == ("low", "\ufffd")
    opened = SessionOpened("s", capabilities=Capabilities())
    before = opened.capabilities
    scrub_value(opened)
    assert opened.capabilities == before


def test_what_holds_no_broken_string_stays_equal() -> None:
    event = TurnStarted("t", 1.5, [Text("é")])
    scrub_value(event)
    assert event == TurnStarted("t", 1.5, [Text("é")])
    assert scrub_value(Usage(1, extra={"a": 1})) == Usage(1, extra={"a": 1})
