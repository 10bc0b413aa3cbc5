"""The Edit tool (aionrs protocol, sections 1.7 and 4.3)."""

from __future__ import annotations

import base64
import os
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import case

from agentwire.events import Diff
from agentwire.tools import ToolError, edit, files
from agentwire.tools.edit import _Edited, _Order, _replaced

NOT_FOUND = "old_string not found in file"
IDENTICAL = "old_string and new_string are identical, also in their line endings: nothing to change"
AMBIGUOUS = "Ambiguous line-ending match: old_string matches both LF and CRLF text. Provide more surrounding context."


def several(count: int) -> str:
    return f"Multiple matches found ({count}). Use replace_all or provide more context."


async def test_an_edit(bench: Any) -> None:
    path = bench.write("src/main.rs", "old line\nkept\n")
    given_path = str(path)
    await bench.works("Read", file_path=given_path)
    result = await bench("Edit", file_path=given_path, old_string="old line", new_string="new line")
    assert (result.is_error, result.output) == (False, f"Edited {given_path}: replaced 1 occurrence(s)")
    assert result.metadata == {"file_path": given_path}
    assert result.display == Diff(
        given_path,
        f"--- a{given_path}\n+++ b{given_path}\n@@ -1,2 +1,2 @@\n-old line\n+new line\n kept",
        "old line\nkept\n",
        "new line\nkept\n",
    )
    assert path.read_text() == "new line\nkept\n"
    assert os.listdir(path.parent) == ["main.rs"]


async def test_a_file_must_have_been_read(bench: Any) -> None:
    path = bench.write("f", "a")
    must_read = "You must Read f before editing. Use the Read tool first so the file content is loaded into context."
    order = {"file_path": "f", "old_string": "a", "new_string": "b"}
    assert await bench.fails("Edit", **order) == must_read
    assert path.read_text() == "a"
    assert await bench.fails("Edit", **{**order, "file_path": "missing"}) == must_read.replace("Read f", "Read missing")
    await bench.works("Read", file_path=str(path))  # by another name
    await bench.works("Edit", **order)
    await bench.works("Edit", file_path="f", old_string="b", new_string="c")
    assert path.read_text() == "c"


async def test_reading_a_part_is_enough(bench: Any) -> None:
    path = bench.write("f", "1\n2\n3\n")
    await bench.works("Read", file_path="f", offset=0, limit=1)
    await bench.works("Edit", file_path="f", old_string="3", new_string="three")
    assert path.read_text() == "1\n2\nthree\n"


async def test_writing_counts_as_reading(bench: Any) -> None:
    await bench.works("Write", file_path="f", content="a")
    await bench.works("Edit", file_path="f", old_string="a", new_string="b")


async def test_a_file_that_somebody_else_changed(bench: Any) -> None:
    path = bench.write("f", "a")
    await bench.works("Read", file_path="f")
    path.write_text("abc")
    failure = await bench.fails("Edit", file_path="f", old_string="a", new_string="b")
    assert failure == (
        "File f has been modified externally since last read. "
        "Read the file again to see the current content before editing."
    )
    assert path.read_text() == "abc"
    await bench.works("Read", file_path="f")
    await bench.works("Edit", file_path="f", old_string="a", new_string="b")


async def test_a_file_that_somebody_changes_while_it_is_edited(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bench.write("f", "a")
    await bench.works("Read", file_path="f")
    plan = edit._plan

    def slow(*args: Any) -> Any:
        planned = plan(*args)
        path.write_text("theirs")
        return planned

    monkeypatch.setattr(edit, "_plan", slow)
    assert "modified externally" in await bench.fails("Edit", file_path="f", old_string="a", new_string="b")
    assert path.read_text() == "theirs"


async def test_a_file_that_is_gone(bench: Any) -> None:
    path = bench.write("f", "a")
    await bench.works("Read", file_path="f")
    path.unlink()
    failure = await bench.fails("Edit", file_path="f", old_string="a", new_string="b")
    assert failure == "Failed to read file f: No such file or directory (os error 2)"


@pytest.mark.parametrize(
    ("content", "old", "new", "everywhere", "outcome"),
    [
        (b"a b a", "b", "c", False, b"a c a"),
        (b"a b a", "a", "c", False, several(2)),
        (b"a b a", "a", "c", True, b"c b c"),
        (b"aaa", "aa", "b", False, several(2)),  # two places, although only one fits after the other
        (b"aaa", "aa", "b", True, b"ba"),
        (b"a", "x", "y", False, NOT_FOUND),
        (b"a", "x", "y", True, NOT_FOUND),
        (b"a", "a", "a", False, IDENTICAL),
        (b"a", "", "y", False, NOT_FOUND),
        (b"", "", "new\n", False, b"new\n"),
        (b"", "", "", False, IDENTICAL),
        (b"", "x", "y", False, NOT_FOUND),
        (b"a\n", "a\n", "", False, b""),
        # an exact match wins
        (b"a\nb\r\na\r\nb", "a\nb", "c", False, b"c\r\na\r\nb"),
        # the other line endings are tried, and new text gets those of what it replaces
        (b"a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3", False, b"1\r\n2\r\n3\r\nc\r\n"),
        (b"a\nb\nc\n", "a\r\nb", "1\r\n2\r\n3", False, b"1\n2\n3\nc\n"),
        (b"a\r\nb\r\n", "a\r\nb", "1\n2", False, b"1\r\n2\r\n"),
        (b"a\nb\n", "a\nb", "1\r\n2", False, b"1\n2\n"),
        (b"a\r\nb\nc\n", "a\r\nb\nc", "1\n2\r\n3", False, b"1\n2\r\n3\n"),
        # old text without a line ending: those of the file, if they are all CRLF
        (b"a\r\nb\r\n", "b", "1\n2", False, b"a\r\n1\r\n2\r\n"),
        (b"a\r\nb\n", "b", "1\n2", False, b"a\r\n1\n2\n"),
        (b"a\nb\n", "b", "1\r\n2", False, b"a\n1\r\n2\n"),
        (b"a", "a", "1\n2", False, b"1\n2"),
        (b"a\r\nb\r\n", "a\nb", "a\nb", False, IDENTICAL),
        (b"x\r\ny\nx\ny\r\n", "x\r\ny\r\n", "z", False, NOT_FOUND),
        (b"x\r\ny\r\nz, x\ny\nz", "x\r\ny\nz", "q", False, AMBIGUOUS),
        (b"\r\r\nb", "\r\nb", "x", False, b"\rx"),
        # bytes that are not UTF-8 stay
        (b"x = 1 // caf\xe9\n", "x = 1", "x = 2", False, b"x = 2 // caf\xe9\n"),
        (b"x = 1 // caf\xe9\n", "caf\ufffd", "cafe", False, NOT_FOUND),
        (
            b"x = 1 // caf\xe9\n", "x = 1", "x = \u00e9", False,
            "Cannot edit f: it is not UTF-8, so new_string may only hold ASCII characters",
        ),
        (b"\xef\xbb\xbfkey=1\n", "key=1", "key=2", False, b"\xef\xbb\xbfkey=2\n"),
        ("größer".encode(), "ö", "oe", False, "groeßer".encode()),
    ],
)  # fmt: skip
async def test_replacing(
    bench: Any, content: bytes, old: str, new: str, everywhere: bool, outcome: bytes | str
) -> None:
    path = bench.write("f", content)
    await bench.works("Read", file_path="f")
    result = await bench("Edit", file_path="f", old_string=old, new_string=new, replace_all=everywhere)
    if isinstance(outcome, bytes):
        assert not result.is_error, result.output
        assert path.read_bytes() == outcome
    else:
        assert (result.is_error, result.output) == (True, outcome)
        assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"a\0b", b"\xff\xfea\0=\0", b"\xff\xfe\x60\x4f\x61\x62", b"\xfe\xff\x4f\x60"])
async def test_what_is_no_text_is_not_edited(bench: Any, content: bytes) -> None:
    path = bench.write("f", content)
    await bench.works("Read", file_path="f")
    failure = await bench.fails("Edit", file_path="f", old_string="a", new_string="xyz")
    assert failure == "Cannot edit f: it is not a text file that tools can edit (binary or UTF-16)"
    assert path.read_bytes() == content


async def test_replace_all_must_be_a_boolean(bench: Any) -> None:
    bench.write("f", "aa")
    await bench.works("Read", file_path="f")
    order = {"file_path": "f", "old_string": "a", "new_string": "b"}
    assert await bench.fails("Edit", **order, replace_all="true") == several(2)


async def test_the_mode_and_the_link_stay(bench: Any) -> None:
    path = bench.write("real", "a")
    path.chmod(0o755)
    (bench.workspace / "link").symlink_to("real")
    await bench.works("Read", file_path="link")
    await bench.works("Edit", file_path="link", old_string="a", new_string="b")
    assert (bench.workspace / "link").is_symlink()
    assert path.read_text() == "b"
    assert path.stat().st_mode & 0o777 == 0o755


async def test_a_file_too_large_to_edit(bench: Any) -> None:
    with bench.write("f", "a").open("r+b") as file:
        file.truncate(257 * 1024 * 1024)
    await bench.works("Read", file_path="f", limit=0)
    failure = await bench.fails("Edit", file_path="f", old_string="a", new_string="b")
    assert failure == f"Failed to read file f: it is too large to edit ({257 * 1024 * 1024} bytes)"


async def test_a_cancelled_edit_changes_nothing(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bench.write("f", "a")
    await bench.works("Read", file_path="f")
    plan, scope = edit._plan, trio.CancelScope()
    planned = trio.Event()

    def cancelled_meanwhile(*args: Any) -> Any:
        result = plan(*args)
        trio.from_thread.run_sync(scope.cancel, trio_token=token)
        return result

    token = trio.lowlevel.current_trio_token()
    monkeypatch.setattr(edit, "_plan", cancelled_meanwhile)
    replaced = files.replace

    def never(*args: Any, **kwargs: Any) -> Any:
        token.run_sync_soon(planned.set)
        return replaced(*args, **kwargs)

    monkeypatch.setattr(files, "replace", never)
    with scope:
        await bench("Edit", file_path="f", old_string="a", new_string="b")
    assert scope.cancelled_caught
    await bench.threads_end()
    assert path.read_text() == "a"
    assert not planned.is_set()
    assert os.listdir(bench.workspace) == ["f"]


@case("S-e04")
async def test_old_text_that_occurs_more_than_once(bench: Any, case: dict[str, Any]) -> None:
    bench.write_all(case["input"]["files"])
    await bench.works("Read", file_path="a.py")
    twice, missing, same, everywhere = [await bench(name, **arguments) for name, arguments in case["input"]["calls"]]
    assert (twice.is_error, twice.output) == (True, several(2))
    assert (missing.is_error, missing.output) == (True, NOT_FOUND)
    assert (same.is_error, same.output) == (True, IDENTICAL)
    assert not everywhere.is_error
    assert isinstance(everywhere.display, Diff)
    assert everywhere.metadata == {"file_path": "a.py"}
    wanted = base64.b64decode(case["expect"]["call_4"]["file_base64"])
    assert (bench.workspace / "a.py").read_bytes() == wanted


@case("S-e05")
async def test_files_with_crlf(bench: Any, case: dict[str, Any]) -> None:
    bench.write_all(case["input"]["files"])
    await bench.works("Read", file_path="mixed.txt")
    for name, arguments in case["input"]["calls"]:
        await bench.works(name, **arguments)
    for name in ("w.txt", "mixed.txt"):
        assert (bench.workspace / name).read_bytes() == base64.b64decode(case["expect"][f"{name}_after"])


@case("S-e06")
async def test_files_that_are_not_utf8(bench: Any, case: dict[str, Any]) -> None:
    given_files = case["input"]["files"]
    bench.write_all(given_files)
    for name in given_files:
        await bench.works("Read", file_path=name)
    latin, read, bom, utf16 = [await bench(name, **arguments) for name, arguments in case["input"]["calls"]]
    assert not latin.is_error
    accepted = [base64.b64decode(one["file_base64"]) for one in case["expect"]["l1.c"]["accept"]]
    assert (bench.workspace / "l1.c").read_bytes() == accepted[1]
    assert read.output.encode().decode() == read.output
    assert not bom.is_error
    assert (bench.workspace / "bom.txt").read_bytes() == base64.b64decode(case["expect"]["bom.txt_after"])
    assert utf16.is_error
    assert (bench.workspace / "u16.txt").read_bytes() == base64.b64decode(given_files["u16.txt"])


async def test_the_preview_is_the_diff_of_the_edit(bench: Any) -> None:
    path = bench.write("f", "a\nb\n")
    order = {"file_path": "f", "old_string": "b", "new_string": "c"}
    preview = await bench.tools["Edit"].preview(order, bench.context())
    assert path.read_text() == "a\nb\n"
    await bench.works("Read", file_path="f")
    assert preview == (await bench("Edit", **order)).display


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"file_path": "f", "old_string": "zzz", "new_string": "c"},
        {"file_path": "missing", "old_string": "b", "new_string": "c"},
        {"file_path": "../secret", "old_string": "s3cret", "new_string": "c"},
        {"file_path": "\0", "old_string": "s3cret", "new_string": "c"},
    ],
)
async def test_there_is_no_preview_of_what_would_fail_or_is_outside(bench: Any, order: dict[str, Any]) -> None:
    bench.write("f", "a\nb\n")
    bench.write("../secret", "s3cret")
    bench.outside_allowed = True
    assert await bench.tools["Edit"].preview(order, bench.context()) is None


def attempt(content: bytes, order: _Order) -> _Edited | str:
    try:
        return _replaced(content, order)
    except ToolError as error:
        return str(error)


PIECES = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "é", "😀", " "]), max_size=12).map("".join)


@settings(max_examples=150)
@given(before=PIECES, old=PIECES, new=PIECES, after=PIECES, everywhere=st.booleans())
def test_only_what_matches_is_replaced(before: str, old: str, new: str, after: str, everywhere: bool) -> None:
    """Against a simple model of the rules, on texts that hold ``old`` at least once."""
    content = (before + old + after).encode()
    edited = attempt(content, _Order("f", old.encode(), new.encode(), everywhere))
    if isinstance(edited, str):
        if not old:
            assert edited == (NOT_FOUND if content else IDENTICAL)
        elif edited != IDENTICAL:
            assert not everywhere
            assert sum(content.startswith(old.encode(), at) for at in range(len(content))) > 1
            assert edited.startswith("Multiple matches found (")
        return
    parts = edited.old.split(old.encode()) if old else [b"", b""]
    assert edited.times == len(parts) - 1
    assert everywhere or edited.times == 1
    kinds = {new.encode(), new.replace("\r\n", "\n").encode(), new.replace("\r\n", "\n").replace("\n", "\r\n").encode()}
    assert edited.new in {kind.join(parts) for kind in kinds}
    if content.count(b"\n") == content.count(b"\r\n") and "\n" in old:
        assert edited.new.count(b"\n") == edited.new.count(b"\r\n")
    if b"\r\n" not in content and "\n" in old:
        assert b"\r\n" not in edited.new


@settings(max_examples=200)
@given(content=st.binary(max_size=60), old=st.text("ab\n", min_size=1, max_size=2), new=st.text("xy\n", max_size=3))
def test_bytes_outside_the_match_never_change(content: bytes, old: str, new: str) -> None:
    """Whatever the file holds, valid UTF-8 or not."""
    content += old.encode()
    edited = attempt(content, _Order("f", old.encode(), new.encode(), False))
    if isinstance(edited, str):
        return
    news = {new.encode(), new.replace("\n", "\r\n").encode()}
    assert edited.new in {content.removesuffix(old.encode()) + one for one in news}
