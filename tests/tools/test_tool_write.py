"""The Write tool (aionrs protocol, section 4.2)."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("content", "lines"),
    [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\nb\n", 2), ("a\n\n", 2), ("a\r\nb\r\n", 2)],
)
async def test_creating_and_updating(bench: Any, content: str, lines: int) -> None:
    assert await bench.works("Write", file_path="new/sub/f", content=content) == f"Created new/sub/f ({lines} lines)"
    assert await bench.works("Write", file_path="new/sub/f", content=content) == f"Updated new/sub/f ({lines} lines)"
    assert (bench.workspace / "new/sub/f").read_bytes() == content.encode()
    assert os.listdir(bench.workspace / "new/sub") == ["f"]


async def test_the_path_is_shown_as_given(bench: Any) -> None:
    path = str(bench.workspace / "f")
    assert await bench.works("Write", file_path=path, content="x") == f"Created {path} (1 lines)"


async def test_halves_of_surrogate_pairs_are_not_written(bench: Any) -> None:
    await bench.works("Write", file_path="f", content="a\ud83d é 😀")
    assert (bench.workspace / "f").read_text() == "a\ufffd é 😀"


async def test_the_mode_stays(bench: Any) -> None:
    path = bench.write("run.sh", "#!/bin/sh\n")
    path.chmod(0o750)
    await bench.works("Write", file_path="run.sh", content="#!/bin/sh\ntrue\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


async def test_a_link_stays_a_link(bench: Any) -> None:
    target = bench.write("real.txt", "old")
    (bench.workspace / "link.txt").symlink_to("real.txt")
    assert await bench.works("Write", file_path="link.txt", content="new") == "Updated link.txt (1 lines)"
    assert (bench.workspace / "link.txt").is_symlink()
    assert target.read_text() == "new"


async def test_a_link_to_nowhere_is_written_through(bench: Any) -> None:
    (bench.workspace / "link.txt").symlink_to("later.txt")
    assert await bench.works("Write", file_path="link.txt", content="new") == "Created link.txt (1 lines)"
    assert (bench.workspace / "link.txt").is_symlink()
    assert (bench.workspace / "later.txt").read_text() == "new"


async def test_a_folder_that_cannot_be_made(bench: Any) -> None:
    bench.write("f", "x")
    failure = await bench.fails("Write", file_path="f/sub/g", content="x")
    assert failure == "Failed to create directories: Not a directory (os error 20)"


@pytest.mark.usefixtures("plain_user")
async def test_a_file_that_may_not_be_written(bench: Any) -> None:
    path = bench.write("f", "x")
    path.chmod(0o444)
    failure = await bench.fails("Write", file_path="f", content="y")
    assert failure == "Failed to write file: Permission denied (os error 13)"
    assert path.read_text() == "x"


async def test_the_preview_of_a_new_file(bench: Any) -> None:
    tool, context = bench.tools["Write"], bench.context()
    diff = await tool.preview({"file_path": "f", "content": "a\n"}, context)
    assert diff is not None
    assert (diff.path, diff.old, diff.new) == ("f", "", "a\n")
    assert diff.unified == "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a"
    assert not (bench.workspace / "f").exists()


async def test_the_preview_of_a_change(bench: Any) -> None:
    bench.write("f", "a\nb\n")
    diff = await bench.tools["Write"].preview({"file_path": "f", "content": "a\nc\n"}, bench.context())
    assert diff.unified == "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"file_path": "f"},
        {"file_path": "f\0", "content": "x"},
        {"file_path": "../secret", "content": "x"},
        {"file_path": "binary", "content": "x"},
        {"file_path": ".", "content": "x"},
        {"file_path": "huge", "content": "x"},
    ],
)
async def test_there_is_no_preview_of_what_is_wrong_or_outside(bench: Any, arguments: dict[str, Any]) -> None:
    bench.write("../secret", "s3cret")
    bench.write("binary", b"a\0b")
    with bench.write("huge", "").open("r+b") as file:
        file.truncate(8 * 1024 * 1024)
    bench.outside_allowed = True
    assert await bench.tools["Write"].preview(arguments, bench.context()) is None
