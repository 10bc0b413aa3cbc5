"""Unified diffs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from agentwire.tools.diff import change, unified

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "x y\n", "é\n"]), max_size=30)
TEXTS = st.builds(lambda lines, rest: "".join(lines) + rest, LINES, st.sampled_from(["", "end", "é", "a\r"]))


def test_a_change_in_the_middle_has_three_lines_around_it() -> None:
    old = "".join(f"{n}\n" for n in range(1, 10))
    assert unified("src/x", old, old.replace("5", "five")) == "\n".join(
        ["--- a/src/x", "+++ b/src/x", "@@ -2,7 +2,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"]
    )


@pytest.mark.parametrize(
    ("old", "new", "body"),
    [
        ("", "a\nb\n", ["@@ -0,0 +1,2 @@", "+a", "+b"]),
        ("a\n", "", ["@@ -1 +0,0 @@", "-a"]),
        ("a", "b", ["@@ -1 +1 @@", "-a", "\\ No newline at end of file", "+b", "\\ No newline at end of file"]),
        ("a\r\nb\r\n", "a\r\nc\r\n", ["@@ -1,2 +1,2 @@", " a\r", "-b\r", "+c\r"]),
        ("a\u2028b\n", "a\u2028c\n", ["@@ -1 +1 @@", "-a\u2028b", "+a\u2028c"]),
    ],
)
def test_edges(old: str, new: str, body: list[str]) -> None:
    assert unified("f", old, new).split("\n")[2:] == body


def test_equal_texts_have_no_diff() -> None:
    assert unified("f", "a\n", "a\n") == ""


def test_the_leading_slash_goes_and_a_name_cannot_forge_lines() -> None:
    assert unified("/src/main.rs", "a", "b").startswith("--- a/src/main.rs\n+++ b/src/main.rs\n@@")
    assert unified("x\n+++ b/y", "a", "b").split("\n")[:2] == ["--- a/x\\n+++ b/y", "+++ b/x\\n+++ b/y"]


def test_a_large_changed_region_is_not_compared_line_by_line() -> None:
    old, new = "a\nb\n" * 5000, "b\na\n" * 5000
    lines = unified("f", old, new).split("\n")
    assert lines[2] == "@@ -1,10000 +1,10000 @@"
    assert lines[3] == "-a"
    assert lines[-1] == "+a"


def test_a_long_diff_is_cut_and_long_sides_are_left_out() -> None:
    diff = change("f", "a\n" * 60_000, "b\n" * 60_000, 10_000)
    assert 10_000 < len(diff.unified) < 10_100
    assert "... [truncated " in diff.unified
    assert diff.old is UNSET
    assert diff.new is UNSET
    short = change("f", "a\0\n", "b\ud800\n", 10_000)
    assert (short.old, short.new) == ("a\ufffd\n", "b\ufffd\n")


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diffs")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=TEXTS, new=TEXTS)
def test_git_can_apply_every_diff(tmp_path: Path, old: str, new: str) -> None:
    diff = unified("f", old, new)
    if not diff:
        assert old == new
        return
    (tmp_path / "f").write_bytes(old.encode())
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "--unidiff-zero", "-"], cwd=tmp_path, input=diff.encode() + b"\n",
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode() + diff
    assert (tmp_path / "f").read_bytes() == new.encode()
