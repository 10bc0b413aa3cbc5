"""The framer: any chunking of the same bytes gives the same lines and faults, in bounded memory and linear time."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.codec.framing import HOST_LIMIT, Framer, LineFault

BOM = b"\xef\xbb\xbf"
PIECES = (
    b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b" ", b"{}", b'{"type":"ping"}', b"x" * 30, b"x" * 31, b"x" * 40, BOM,
    b"\xef", b"\xbb\xbf", "é".encode(), "🙂".encode()[:2], "🙂".encode()[2:], "\u2028".encode(), "\u0085".encode(),
    b"\xff", b"\x00", b"\xed\xa0\xbd", b"\x0b\x0c\x1c\x1d\x1e",
)  # fmt: skip
streams = st.lists(st.sampled_from(PIECES) | st.binary(max_size=6), max_size=25).map(b"".join)


def frame(chunks: Iterable[bytes], limit: int = 1 << 20) -> list[bytes | LineFault]:
    framer = Framer(limit)
    lines = [line for chunk in chunks for line in framer.feed(chunk)]
    return lines + framer.finish()


def plainly(stream: bytes, limit: int) -> Iterator[bytes | str]:
    """What the framer must give, said the slow way: the lines, and the kind of a fault in its place."""
    lines = stream.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines):
        if len(line) > limit:
            yield "too_long"
            continue
        line = line.removeprefix(BOM) if number == 0 else line
        line = line.removesuffix(b"\r")
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            yield "not_utf8"
        else:
            yield line


def kinds(lines: Iterable[bytes | LineFault]) -> list[bytes | str]:
    return [line.kind if isinstance(line, LineFault) else line for line in lines]


@given(streams, st.lists(st.integers(0, 60), max_size=12), st.sampled_from((8, 30, 1 << 20)))
def test_chunks_do_not_matter(stream: bytes, cuts: list[int], limit: int) -> None:
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(borders)]
    whole = frame([stream], limit)
    assert frame(chunks, limit) == whole
    assert frame((stream[i : i + 1] for i in range(len(stream))), limit) == whole
    assert kinds(whole) == list(plainly(stream, limit))


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 300_000, 4_194_304])
def test_s_b01_lines_of_every_size(size: int) -> None:
    """Case S-b01: no size of a read is a border."""
    stream = b"x" * size + b"\nping\n"
    for step in (1_000, 4_096, 65_536, len(stream)):
        chunks = [stream[i : i + step] for i in range(0, len(stream), step)]
        assert frame(chunks, 8 << 20) == [b"x" * size, b"ping"]


def test_s_b01_a_line_over_the_limit_is_one_fault_and_the_next_line_is_read() -> None:
    stream = b"a\n" + b"x" * 9_000_000 + b'{"type":"stop"}\nping\n'
    for step in (4_096, 1 << 20, len(stream)):
        lines = frame((stream[i : i + step] for i in range(0, len(stream), step)), 8 << 20)
        assert kinds(lines) == [b"a", "too_long", b"ping"]
        fault = lines[1]
        assert isinstance(fault, LineFault)
        assert fault.size == 9_000_015
        assert "9000015 bytes" in fault.message
        assert str(8 << 20) in fault.message


def test_the_limit_counts_what_stands_before_the_line_feed() -> None:
    assert kinds(frame([b"12345678\n123456789\n1234567\r\n12345678\r\n"], 8)) == [
        b"12345678", "too_long", b"1234567", "too_long",
    ]  # fmt: skip


def test_s_b03_crlf_and_blank_lines() -> None:
    stream = b'\r\n{"type":"ping"}\r\n   \r\n\n\n{"type":"ping"}\n'
    assert frame([stream]) == [b"", b'{"type":"ping"}', b"   ", b"", b"", b'{"type":"ping"}']
    assert frame([b"a\r\r\n", b"b\rc\n"]) == [b"a\r", b"b\rc"]


def test_s_b04_other_line_separators_are_text() -> None:
    text = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg"
    assert frame([f"{text}\n".encode()]) == [text.encode()]


def test_s_b10_a_last_line_without_a_line_feed_counts() -> None:
    assert frame([b"a\n", b"b"]) == [b"a", b"b"]
    assert frame([b"a\n"]) == [b"a"]
    assert frame([]) == []


def test_s_b11_bytes_that_are_not_utf8_cost_one_line_each() -> None:
    stream = b'\xff\xfe\n{"type":"message","msg_id":"x","content":"caf\xe9"}\n{"type":"ping"}\n'
    lines = frame([stream])
    assert kinds(lines) == ["not_utf8", "not_utf8", b'{"type":"ping"}']
    assert isinstance(lines[1], LineFault)
    assert "at byte 45" in lines[1].message
    assert "caf" not in lines[1].message


def test_a_byte_order_mark_is_dropped_once() -> None:
    assert frame([BOM[:1], BOM[1:] + b"a\n" + BOM + b"b\n"]) == [b"a", BOM + b"b"]
    assert frame([BOM + b"\n"]) == [b""]


def test_any_buffer_may_be_fed() -> None:
    for kind in (bytes, bytearray, memoryview):
        framer = Framer(100)
        lines = framer.feed(kind(b"a\nb\nc"))
        assert lines == [b"a", b"b"]
        assert all(type(line) is bytes for line in lines)
        assert framer.finish() == [b"c"]


def test_memory_is_bounded_by_the_limit() -> None:
    """A line without an end, in the smallest pieces: no object per piece, nothing beyond the limit."""
    limit = 1 << 20
    tracemalloc.start()
    try:
        framer = Framer(limit)
        for _ in range(limit // 8):
            framer.feed(b"xxxxxxxx")
        held, _ = tracemalloc.get_traced_memory()
        for _ in range(200):
            framer.feed(b"x" * 65_536)
        skipping, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * limit
    assert skipping < 200_000
    assert peak < 3 * limit
    assert kinds(framer.feed(b"\nnext\n")) == ["too_long", b"next"]


def test_time_is_linear_in_the_length_of_a_line() -> None:
    def cost(size: int) -> float:
        best = float("inf")
        for _ in range(3):
            framer = Framer(HOST_LIMIT)
            began = time.thread_time()
            for _ in range(size // 512):
                framer.feed(b"x" * 512)
            framer.finish()
            best = min(best, time.thread_time() - began)
        return best

    assert cost(16 << 20) < 9 * cost(4 << 20)  # 4 if linear, 16 if every piece were searched from the start


@settings(max_examples=50)
@given(st.binary(max_size=300))
def test_nothing_is_invented(stream: bytes) -> None:
    """Lines and sizes of faults add up to the stream, less line ends and the mark."""
    lines = frame([stream], 50)
    total = sum(line.size if isinstance(line, LineFault) else len(line) for line in lines)
    assert total <= len(stream)
    assert len(lines) == stream.count(b"\n") + (not stream.endswith(b"\n") and stream != b"")
