"""The Grep tool (aionrs protocol, section 4.6), with whichever of rg and grep are installed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import trio
from support.agent_process import gone, lines_of

PROGRAMS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("rg", "grep")
]


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, bench: Any, tmp_path: Path) -> str:
    """Only one of the two can be found."""
    found = shutil.which(request.param)
    assert found is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / request.param).symlink_to(found)
    bench.environ = {"PATH": str(tmp_path / "bin"), "RIPGREP_CONFIG_PATH": "/nowhere", "GREP_COLORS": "mt=01;31"}
    return str(request.param)


@pytest.fixture
def tree(bench: Any, program: str) -> Any:
    bench.write("a.txt", "one\ntwo\nThree (3)\n")
    bench.write("sub/b.py", "two = 2\n")
    bench.write("sub/binary", b"two\0two\n")
    return bench


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "two"}, ["./a.txt:2:two", "./sub/b.py:1:two = 2"]),
        ({"pattern": "two", "path": "."}, ["./a.txt:2:two", "./sub/b.py:1:two = 2"]),
        ({"pattern": "two", "path": "sub"}, ["sub/b.py:1:two = 2"]),
        ({"pattern": "two", "path": "a.txt"}, ["2:two"]),
        ({"pattern": "two", "glob": "*.py"}, ["./sub/b.py:1:two = 2"]),
        ({"pattern": "three"}, ["No matches found"]),
        ({"pattern": "three", "case_insensitive": True}, ["./a.txt:3:Three (3)"]),
        ({"pattern": "three", "case_insensitive": "yes"}, ["No matches found"]),
        ({"pattern": "t(wo|hree)$"}, ["./a.txt:2:two"]),
        ({"pattern": r"\(3\)", "path": "a.txt"}, ["3:Three (3)"]),
        ({"pattern": "-v", "path": None, "glob": None}, ["No matches found"]),
        ({"pattern": "--help"}, ["No matches found"]),
    ],
)
async def test_searching(tree: Any, arguments: dict[str, Any], lines: list[str]) -> None:
    assert sorted((await tree.works("Grep", **arguments)).split("\n")) == lines


async def test_an_absolute_path_stays_as_it_was_given(tree: Any) -> None:
    path = str(tree.workspace / "sub")
    assert await tree.works("Grep", pattern="two", path=path) == f"{path}/b.py:1:two = 2"


async def test_a_path_that_looks_like_an_option(tree: Any) -> None:
    tree.write("-v", "two\n")
    assert await tree.works("Grep", pattern="two", path="-v") == "1:two"


async def test_failures_say_what_the_program_says(tree: Any, program: str) -> None:
    start = "rg error: " if program == "rg" else "grep failed: "
    assert (await tree.fails("Grep", pattern="(")).startswith(start)
    missing = await tree.fails("Grep", pattern="x", path="missing")
    assert missing.startswith(start)
    assert "missing" in missing
    assert (await tree.fails("Grep", pattern="a\0b")).startswith("grep failed: ")


async def test_at_most_250_lines_of_all_files(tree: Any) -> None:
    for n in range(5):
        tree.write(f"many/{n}", "needle\n" * 100)
    assert len((await tree.works("Grep", pattern="needle")).split("\n")) == 250


async def test_exactly_250_lines(tree: Any) -> None:
    tree.write("many", "needle\n" * 250)
    output = await tree.works("Grep", pattern="needle", path="many")
    assert output == "\n".join(f"{n}:needle" for n in range(1, 251))


async def test_a_line_much_longer_than_the_limit(tree: Any) -> None:
    tree.write("long", "needle" + "x" * 5_000_000 + "\n")
    output = await tree.works("Grep", pattern="needle", path="long")
    total = len("1:needle") + 5_000_000
    assert output.startswith("1:needlexxx")
    assert f"... [truncated {total + 1 - 20_000} chars] ..." in output
    assert len(output) < 20_050


async def test_output_that_is_not_utf8(tree: Any) -> None:
    tree.write("latin", b"caf\xe9 needle\n")
    assert await tree.works("Grep", pattern="needle", path="latin") == "1:caf\ufffd needle"


async def test_links_lead_nowhere(tree: Any, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("s3cret two\n")
    (tree.workspace / "out").symlink_to("../outside")
    (tree.workspace / "loop").symlink_to(".")
    (tree.workspace / "file").symlink_to("../outside/secret")
    assert "s3cret" not in await tree.works("Grep", pattern="two")
    for path in ("out", "file", "out/secret", "..", "/etc"):
        assert "is outside the workspace" in await tree.fails("Grep", pattern="two", path=path)


async def test_neither_program(bench: Any, tmp_path: Path) -> None:
    bench.environ = {"PATH": str(tmp_path)}
    assert await bench.fails("Grep", pattern="x") == "grep failed: neither rg nor grep is installed"


class Stand:
    """A script in grep's place, that does what a real one would be hard to make do."""

    def __init__(self, bench: Any, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "grep"
        self.path.touch(0o755)
        bench.environ = {"PATH": str(folder)}

    def does(self, script: str) -> None:
        self.path.write_text(f"#!/bin/sh\necho $$ > pid\n{script}\n")


@pytest.fixture
def stand(bench: Any, tmp_path: Path) -> Stand:
    return Stand(bench, tmp_path / "bin")


async def test_what_was_found_counts_more_than_what_failed(bench: Any, stand: Stand) -> None:
    stand.does("echo found:1:x; echo 'grep: y: Permission denied' >&2; exit 2")
    assert await bench.works("Grep", pattern="x") == "found:1:x"


async def test_it_is_ended_when_there_is_enough(bench: Any, stand: Stand) -> None:
    stand.does("while :; do echo 1:needle; done")
    with trio.fail_after(20):
        output = await bench.works("Grep", pattern="x")
    assert output == "\n".join(["1:needle"] * 250)
    (pid,) = await lines_of(bench.workspace / "pid", 1)
    await gone(int(pid), within=2)


async def test_it_can_be_cancelled(bench: Any, stand: Stand) -> None:
    stand.does("exec /bin/sleep 300")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: bench("Grep", pattern="x"))
        (pid,) = await lines_of(bench.workspace / "pid", 1)
        nursery.cancel_scope.cancel()
    await gone(int(pid), within=2)


@pytest.mark.parametrize("found", ["", "a.txt:1:x"])
async def test_a_search_without_end_is_ended(
    bench: Any, stand: Stand, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setattr("agentwire.tools.grep.LONGEST", 0.5)
    stand.does(f"echo {found}; exec /bin/sleep 300" if found else "exec /bin/sleep 300")
    with trio.fail_after(20):
        result = await bench("Grep", pattern="x")
    assert "The search was ended after 0.5 seconds" in result.output
    assert result.output.startswith(found)
    assert result.is_error is not bool(found)
    (pid,) = await lines_of(bench.workspace / "pid", 1)
    await gone(int(pid), within=2)
