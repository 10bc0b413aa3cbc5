"""The Glob tool (aionrs protocol, section 4.5)."""

from __future__ import annotations

import base64
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import case

from agentwire.tools.patterns import Pattern

TREE = [
    ".hidden", "a.py", "b.txt", "sub/.git/config", "sub/c.py", "sub/deep/d.py", "sub/deep/e.txt", "sub/x[1].py",
    "sub/deep/er/f.py",
]  # fmt: skip

NONE = "No files matched the pattern"


@pytest.fixture
def tree(bench: Any) -> Any:
    for age, name in enumerate(TREE):
        os.utime(bench.write(name, name), (1000 - age, 1000 - age))
    (bench.workspace / "empty.py").mkdir()
    return bench


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", [".hidden", "a.py", "b.txt"]),
        ("*.py", ["a.py"]),
        ("?.py", ["a.py"]),
        ("[!b].*", ["a.py"]),
        ("[a-b].*", ["a.py", "b.txt"]),
        ("**", TREE),
        ("**/*", TREE),
        ("**/*.py", ["a.py", "sub/c.py", "sub/deep/d.py", "sub/x[1].py", "sub/deep/er/f.py"]),
        ("sub/**/*.py", ["sub/c.py", "sub/deep/d.py", "sub/x[1].py", "sub/deep/er/f.py"]),
        ("sub/**", [name for name in TREE if name.startswith("sub/")]),
        ("**/deep/*", ["sub/deep/d.py", "sub/deep/e.txt"]),
        ("**/deep/**/*.py", ["sub/deep/d.py", "sub/deep/er/f.py"]),
        ("**/**/f.py", ["sub/deep/er/f.py"]),
        ("*/*.py", ["sub/c.py", "sub/x[1].py"]),
        ("sub/x[[]1].py", ["sub/x[1].py"]),
        ("sub/c.py", ["sub/c.py"]),
        ("./sub//c.py", ["sub/c.py"]),
        ("*.{txt,py}", ["b.txt", "a.py"]),
        ("{sub,.}/{c,a}.*", ["sub/c.py", "a.py"]),
        ("sub/../*.py", ["a.py"]),
        ("{a}.py", []),
        ("*.rs", []),
        ("nowhere/*", []),
        ("A.PY", []),
        ("sub", []),
    ],
)
async def test_patterns(tree: Any, pattern: str, names: list[str]) -> None:
    output = await tree.works("Glob", pattern=pattern)
    wanted = sorted(names, key=TREE.index)
    assert output == ("\n".join(wanted) or NONE)


async def test_the_newest_first(tree: Any) -> None:
    os.utime(tree.workspace / "sub/deep/er/f.py", (2000, 2000))
    assert (await tree.works("Glob", pattern="**/*.py")).split("\n")[0] == "sub/deep/er/f.py"


async def test_names_are_relative_to_the_folder_searched(tree: Any) -> None:
    assert await tree.works("Glob", pattern="*.py", path="sub/deep") == "d.py"
    assert await tree.works("Glob", pattern="*.py", path=str(tree.workspace / "sub/deep")) == "d.py"
    assert await tree.works("Glob", pattern="deep/*.py", path="sub") == "deep/d.py"


async def test_an_absolute_pattern_ignores_the_folder(tree: Any) -> None:
    pattern = str(tree.workspace / "sub/deep/*.py")
    assert await tree.works("Glob", pattern=pattern, path="nowhere") == "sub/deep/d.py"


async def test_an_absolute_pattern_outside(tree: Any, tmp_path: Path) -> None:
    (tmp_path / "other.md").touch()
    pattern = str(tmp_path / "*.md")
    assert "is outside the workspace" in await tree.fails("Glob", pattern=pattern)
    tree.outside_allowed = True
    assert await tree.works("Glob", pattern=pattern) == str(tmp_path / "other.md")


async def test_the_first_hundred_in_the_order_of_the_walk(bench: Any) -> None:
    for n in range(130):
        os.utime(bench.write(f"f{n:03}", ""), (n, n))
    bench.write("a/late", "")
    names = (await bench.works("Glob", pattern="**/*")).split("\n")
    assert names == ["a/late", *(f"f{n:03}" for n in range(98, -1, -1))]
    doubled = (await bench.works("Glob", pattern="f{0,1}*")).split("\n")
    assert len(doubled) == 100


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a**", "'**' must stand alone between slashes"),
        ("***", "'**' must stand alone between slashes"),
        ("src/[a", "'[' without ']' in '[a'"),
        ("[]", "'[' without ']' in '[]'"),
        ("[!]", "'[' without ']' in '[!]'"),
        ("x/*/../y", "'..' can only come before the first wildcard"),
        ("a\0", "it holds a NUL"),
        ("", "it names no file"),
        ("/", "it names no file"),
        ("{a,b}" * 7, "it has too many alternatives"),
    ],
)
async def test_invalid_patterns(bench: Any, pattern: str, problem: str) -> None:
    assert await bench.fails("Glob", pattern=pattern) == f"Invalid glob pattern: {problem}"


async def test_links_are_followed_only_where_named_and_inside(tree: Any, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").touch()
    workspace = tree.workspace
    (workspace / "out").symlink_to("../outside")
    (workspace / "in").symlink_to("sub/deep")
    (workspace / "sub/up").symlink_to("..")
    (workspace / "broken.py").symlink_to("nowhere")
    (workspace / "file.py").symlink_to("a.py")
    names = (await tree.works("Glob", pattern="**/*.py")).split("\n")
    assert sorted(names) == sorted([*(name for name in TREE if name.endswith(".py")), "file.py"])
    assert await tree.works("Glob", pattern="in/*.py") == "in/d.py"
    assert await tree.works("Glob", pattern="i*/*.py") == "in/d.py"
    assert await tree.works("Glob", pattern="o*/*.py") == NONE
    assert "is outside the workspace" in await tree.fails("Glob", pattern="out/*.py")
    assert sorted((await tree.works("Glob", pattern="sub/u*/*.py")).split("\n")) == ["sub/up/a.py", "sub/up/file.py"]


@case("S-b05")
@pytest.mark.skipif(sys.platform == "darwin", reason="file names there are always UTF-8")
async def test_names_that_are_not_utf8(bench: Any, case: dict[str, Any]) -> None:
    for name in case["input"]["workspace_files_bytes_names"]:
        with open(os.path.join(os.fsencode(bench.workspace), base64.b64decode(name)), "wb"):
            pass
    output = await bench.works("Glob", pattern="*")
    assert output == "caf\ufffd.txt"
    assert output.encode().decode() == output


@pytest.mark.usefixtures("plain_user")
async def test_folders_that_cannot_be_read_are_passed_over(tree: Any) -> None:
    (tree.workspace / "sub").chmod(0)
    try:
        assert await tree.works("Glob", pattern="**/*.py") == "a.py"
    finally:
        (tree.workspace / "sub").chmod(0o755)


async def test_a_long_walk_can_be_cancelled(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its thread ends then too."""
    for n in range(50):
        bench.write(f"d{n}/f", "")
    token, scope = trio.lowlevel.current_trio_token(), trio.CancelScope()
    scanned = 0
    scandir = os.scandir

    def counted(folder: Any) -> Any:
        nonlocal scanned
        scanned += 1
        if scanned == 5:
            trio.from_thread.run_sync(scope.cancel, trio_token=token)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", counted)
    with scope:
        await bench("Glob", pattern="**/*.py")
    assert scope.cancelled_caught
    await bench.threads_end()
    assert scanned < 50


PART = st.sampled_from(["a", "b", "ab", "*", "?", "a*", "**", "[ab]", "[!a]"])
NAME = st.sampled_from(["a", "b", "ab", "ba", "c"])


@settings(max_examples=100, deadline=None)
@given(st.lists(PART, min_size=1, max_size=4), st.lists(st.lists(NAME, min_size=1, max_size=4), max_size=8))
def test_the_walk_finds_what_a_regular_expression_finds(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], files: list[list[str]]
) -> None:
    root = tmp_path_factory.mktemp("walk")
    made: set[str] = set()
    for names in files:
        path = root.joinpath(*names)
        if any(parent.is_file() for parent in path.parents) or path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        made.add("/".join(names))
    expression = ""
    for n, part in enumerate(parts):
        last = n == len(parts) - 1
        if part == "**":
            expression += "(?:[^/]+/)*[^/]+" if last else "(?:[^/]+/)*"
        else:
            one = part.replace("?", "[^/]").replace("*", "[^/]*").replace("[!", "[^")
            expression += one if last else one + "/"
    (pattern,) = Pattern.parse("/".join(parts))
    found = [
        os.path.normpath(os.path.join(pattern.root, name))
        for name in pattern.walk(root / pattern.root, None, lambda: None)
    ]
    assert len(found) == len(set(found))
    assert set(found) == {name for name in made if re.fullmatch(expression, name)}
