"""The Read tool (aionrs protocol, section 4.1)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.tools import post_process
from agentwire.tools.output import Excerpt
from agentwire.tools.read import UNCHANGED, _Numbered


def numbered(lines: list[str], offset: int = 0) -> str:
    return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(lines, offset + 1))


@pytest.mark.parametrize(
    ("content", "arguments", "output"),
    [
        ("one\ntwo\nthree\n", {}, numbered(["one", "two", "three"])),
        ("one\ntwo", {}, numbered(["one", "two"])),
        ("", {}, ""),
        ("\n", {}, "     1\t"),
        ("a\n\nb\n", {}, numbered(["a", "", "b"])),
        ("a\r\nb\r\n", {}, numbered(["a", "b"])),
        ("a\u2028b\x0cc\n", {}, numbered(["a\u2028b\x0cc"])),
        ("1\n2\n3\n4\n", {"offset": 1, "limit": 2}, numbered(["2", "3"], 1)),
        ("1\n2\n3\n4\n", {"offset": 3}, numbered(["4"], 3)),
        ("1\n2\n3\n4\n", {"offset": 4}, ""),
        ("1\n2\n", {"offset": 99, "limit": 5}, ""),
        ("1\n2\n", {"limit": 0}, ""),
        ("1\n2\n", {"offset": -1, "limit": -5}, numbered(["1", "2"])),
        ("1\n2\n", {"offset": 1.0, "limit": "1"}, numbered(["1", "2"])),
        ("1\n2\n", {"offset": True, "limit": True}, numbered(["1", "2"])),
        ("1\n2\n", {"offset": None, "limit": None}, numbered(["1", "2"])),
        (b"caf\xe9\n\xff\xfe\xf0\x9f\x92", {}, numbered(["caf\ufffd", "\ufffd\ufffd\ufffd"])),
        (b"ab\0cd", {}, "(binary file, 5 bytes)"),
        (b"a" * 8191 + b"\0", {}, "(binary file, 8192 bytes)"),
    ],
)
async def test_reading(bench: Any, content: str | bytes, arguments: dict[str, Any], output: str) -> None:
    bench.write("f", content)
    assert await bench.works("Read", file_path="f", **arguments) == output


async def test_a_nul_after_the_first_8192_bytes_is_text(bench: Any) -> None:
    bench.write("f", b"a" * 8192 + b"\0")
    raw = await bench.works("Read", file_path="f")
    assert post_process(raw, 100_000, "off") == "     1\t" + "a" * 8192 + "\ufffd"


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("missing", "No such file or directory (os error 2)"),
        ("f/below", "Not a directory (os error 20)"),
        ("x" * 300, "File name too long (os error 36)"),
        ("loop", "not a regular file"),
    ],
)
async def test_failures_name_the_path_as_given(bench: Any, path: str, cause: str) -> None:
    bench.write("f", "x")
    (bench.workspace / "loop").symlink_to("loop")
    assert await bench.fails("Read", file_path=path) == f"Failed to read file {path}: {cause}"
    absolute = str(bench.workspace / path)
    assert await bench.fails("Read", file_path=absolute) == f"Failed to read file {absolute}: {cause}"


@pytest.mark.usefixtures("plain_user")
async def test_a_file_that_may_not_be_read(bench: Any) -> None:
    bench.write("f", "x").chmod(0)
    assert await bench.fails("Read", file_path="f") == "Failed to read file f: Permission denied (os error 13)"


async def test_reading_again_points_back(bench: Any) -> None:
    path = bench.write("f", "1\n2\n3\n")
    assert await bench.works("Read", file_path="f") == numbered(["1", "2", "3"])
    assert await bench.works("Read", file_path=str(path)) == UNCHANGED
    assert await bench.works("Read", file_path="f", offset=1) == numbered(["2", "3"], 1)
    assert await bench.works("Read", file_path="f", offset=1) == UNCHANGED
    assert await bench.works("Read", file_path="f") == numbered(["1", "2", "3"])
    path.write_text("four\n")
    assert await bench.works("Read", file_path="f") == numbered(["four"])
    os.utime(path, (1, 1))
    assert await bench.works("Read", file_path="f") == numbered(["four"])


async def test_reading_after_the_conversation_was_cleared(bench: Any) -> None:
    bench.write("f", "1\n")
    await bench.works("Read", file_path="f")
    bench.cache.forget_contents()
    assert await bench.works("Read", file_path="f") == numbered(["1"])
    bench.cache.forget_contents()
    await bench.works("Edit", file_path="f", old_string="1", new_string="2")


async def test_a_failure_is_not_remembered(bench: Any) -> None:
    await bench.fails("Read", file_path="f")
    bench.write("f", "1\n")
    assert await bench.works("Read", file_path="f") == numbered(["1"])


async def test_an_empty_file_is_remembered_too(bench: Any) -> None:
    bench.write("f", "")
    assert await bench.works("Read", file_path="f") == ""
    assert await bench.works("Read", file_path="f") == UNCHANGED


async def test_reading_after_writing_and_editing(bench: Any) -> None:
    await bench.works("Write", file_path="f", content="a\nb\nc\n")
    assert await bench.works("Read", file_path="f") == UNCHANGED
    await bench.works("Edit", file_path="f", old_string="b", new_string="B")
    assert await bench.works("Read", file_path="f") == UNCHANGED
    assert await bench.works("Read", file_path="f", offset=1, limit=1) == numbered(["B"], 1)
    await bench.works("Edit", file_path="f", old_string="B", new_string="bb")
    # What the model had read before the edit was one line, so it cannot be pointed back to the whole.
    assert await bench.works("Read", file_path="f") == numbered(["a", "bb", "c"])


async def test_a_file_much_longer_than_the_limit(bench: Any) -> None:
    lines = [f"line number {n} é" for n in range(200_000)]
    bench.write("f", "\n".join(lines) + "\n")
    raw = await bench.works("Read", file_path="f")
    assert len(raw) < 100_100
    assert post_process(raw, 100_000, "off") == post_process(numbered(lines), 100_000, "off")
    await bench.works("Read", file_path="f", offset=199_999)
    assert await bench.works("Read", file_path="f", offset=199_998) == numbered(lines[-2:], 199_998)


async def test_one_line_much_longer_than_the_limit(bench: Any) -> None:
    bench.write("f", b"x" * 10_000_000)
    raw = await bench.works("Read", file_path="f")
    assert raw == post_process("     1\t" + "x" * 10_000_000, 100_000, "off")


CONTENT = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\xc3\xa9", b"\xff", b"\xf0\x9f", b" "]), max_size=40)


@settings(max_examples=300)
@given(CONTENT, st.integers(1, 7), st.integers(0, 4), st.none() | st.integers(0, 4))
def test_chunks_make_no_difference(parts: list[bytes], size: int, offset: int, limit: int | None) -> None:
    content = b"".join(parts)
    reader = _Numbered(offset, limit, Excerpt(100_000))
    for at in range(0, len(content), size):
        if not reader.feed(content[at : at + size]):
            break
    reader.end()
    *lines, rest = content.decode("utf-8", "replace").split("\n")
    lines = [line.removesuffix("\r") for line in lines] + ([rest] if rest else [])
    wanted = lines[offset:] if limit is None else lines[offset : offset + limit]
    assert reader.out.text() == numbered(wanted, offset)


async def test_a_file_that_says_it_is_empty(bench: Any) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    bench.outside_allowed = True
    assert (await bench.works("Read", file_path="/proc/self/status", limit=1)).startswith("     1\tName:")
