"""The event stream parser: what the standard says, and that the network may cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.provider import EventParser, SseError

Events = list[tuple[bytes, bytes]]


def parse(*chunks: bytes, close: bool = False) -> Events:
    parser = EventParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    if close:
        events += parser.close()
    return [(event.name, event.data) for event in events]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a \n\n", [(b"", b" a ")]),
        (b"data: a\r\n\r\n", [(b"", b"a")]),
        (b"data: a\r\rdata: b\r\r", [(b"", b"a"), (b"", b"b")]),
        (b"data: a\n\r\n", [(b"", b"a")]),
        (b"data: a\r\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [(b"", b"a")]),
        (b": comment\n\n:\n\ndata: a\n: more\n\n", [(b"", b"a")]),
        (b"data: a\ndata: b\ndata\ndata: c\n\n", [(b"", b"a\nb\n\nc")]),
        (b"data\n\n", [(b"", b"")]),
        (b"data:\n\n", [(b"", b"")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")]),
        (b"event:x\n\ndata: b\n\n", [(b"", b"b")]),
        (b"data: a\nevent: late\n\n", [(b"late", b"a")]),
        (b"event: x\nevent: y\ndata: a\n\n", [(b"y", b"a")]),
        (b"id: 1\nretry: 5\nunknown: z\nevent\ndata: a\n\n", [(b"", b"a")]),
        (b"event: x\nid: 1\ndata: a\n\n", [(b"x", b"a")]),
        (b"event: x\ndata: a\ndata: b\n\n", [(b"x", b"a\nb")]),
        (b"datax: a\n\n data: b\n\n", []),
        (b"data: a: b\n\n", [(b"", b"a: b")]),
        (
            "data: a\u2028b\u2029c\u0085d\x0b\x0c\x1c\n\n".encode(),
            [(b"", "a\u2028b\u2029c\u0085d\x0b\x0c\x1c".encode())],
        ),
        (b"\n\n\ndata: a\n\n\n\n", [(b"", b"a")]),
        (b"data: a\n", []),
        (b"", []),
    ],
)
def test_the_standard(stream: bytes, expected: Events) -> None:
    assert parse(stream) == expected
    assert parse(*[bytes([byte]) for byte in stream]) == expected
    after_something = parse(b"data: 0\n\n", stream.removeprefix(b"\xef\xbb\xbf"))
    assert after_something == [(b"", b"0"), *expected]


def test_an_event_that_lacks_only_its_end_is_given_on_close() -> None:
    assert parse(b"data: [DONE]", close=True) == [(b"", b"[DONE]")]
    assert parse(b"event: x\ndata: a\n", close=True) == [(b"x", b"a")]
    assert parse(b"data: a\n\nevent: x\n", close=True) == [(b"", b"a")]
    assert parse(b"\xef\xbb", close=True) == []


def test_a_carriage_return_ends_its_line_at_once() -> None:
    parser = EventParser()
    assert [event.data for event in parser.feed(b"data: a\r\r")] == [b"a"]
    assert parser.feed(b"\n") == []
    assert [event.data for event in parser.feed(b"data: b\n\n")] == [b"b"]


# Mostly pieces that mean something, so that every state meets every other.
_FIELDS = (b"data: ", b"data:", b"data", b"event: ", b"event:", b": ", b"id: 1")
_ENDS = (b"\n", b"\r", b"\r\n", b"\n\n")
_VALUES = (b"x", b" ", b"{}", b"\xe2", "\u2028".encode(), b"\xef\xbb\xbf")
_EVENTS = (b"data: a\n\n", b"event: e\ndata: b\n\n")
_PIECES = st.sampled_from((*_FIELDS, *_ENDS, *_VALUES, *_EVENTS))


@settings(max_examples=60, deadline=None)
@given(st.lists(_PIECES, max_size=25).map(b"".join), st.data())
def test_any_chunking_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    ends = [*cuts, len(stream)]
    chunks = [stream[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
    byte_by_byte = parse(*[bytes([byte]) for byte in stream], close=True)
    assert parse(*chunks, close=True) == byte_by_byte
    assert parse(stream, close=True) == byte_by_byte


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=8).filter(
                lambda name: not name.startswith(" ")
            ),
            st.text(st.characters(codec="utf-8", exclude_characters="\r")),
        ),
        max_size=6,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_what_is_written_is_read(events: list[tuple[str, str]], newline: str) -> None:
    lines = []
    for name, data in events:
        lines += [f"event: {name}", *(f"data: {line}" for line in data.split("\n")), ""]
    stream = "".join(line + newline for line in lines).encode()
    assert parse(stream, close=True) == [(name.encode(), data.encode()) for name, data in events]


def test_the_size_of_an_event_is_bounded() -> None:
    def feed(limit: int, *chunks: bytes) -> list[bytes]:
        parser = EventParser(limit)
        return [event.data for chunk in chunks for event in parser.feed(chunk)]

    assert feed(100, b"data: " + b"x" * 90 + b"\n\n") == [b"x" * 90]
    assert feed(100, *[b"data: " + b"x" * 90 + b"\n\n"] * 5) == [b"x" * 90] * 5
    assert feed(100, *[b": " + b"x" * 90 + b"\n"] * 5, b"data: y\n\n") == [b"y"]
    for chunks in (
        [b"data: " + b"x" * 101 + b"\n\n"],
        [b"data: ", *[b"x"] * 101],
        [b"data: xxxxxxxxxx\n"] * 11,
        [b"event: " + b"x" * 101 + b"\n"],
        [b": " + b"x" * 101],
    ):
        with pytest.raises(SseError, match="larger than 100 bytes"):
            feed(100, *chunks)


def test_many_small_pieces_of_a_long_line_stay_linear() -> None:
    parser = EventParser()
    parser.feed(b"data: ")
    for _ in range(200_000):
        parser.feed(b"x" * 10)
    (event,) = parser.feed(b"\n\n")
    assert len(event.data) == 2_000_000
