"""Workspaces and arguments at the edge: very many files, patterns that run away, paths of every make."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.tools import files
from agentwire.tools.contract import ReadCache, ToolContext, ToolError
from agentwire.tools.paths import admit, inside, resolve

pytestmark = pytest.mark.slow

FILES = 10_000
SLOWEST = 0.5
"""Seconds that the loop may stand still while a tool works."""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten thousand files in a hundred folders, each with one line; of those in a folder all but one are hard links."""
    root = tmp_path_factory.mktemp("crowd")
    for number in range(FILES - 1):
        folder = root / f"d{number // 100:02}"
        if number % 100 == 0:
            folder.mkdir()
            first = folder / f"f{number:05}.txt"
            first.write_bytes(b"a needle\n")
        else:
            os.link(first, folder / f"f{number:05}.txt")
    (root / "d99" / f"f{FILES - 1:05}.txt").write_bytes(b"the needle\n")
    return root


async def pulse(beats: list[float]) -> None:
    """Note how long the loop was held up, again and again."""
    while True:
        before = trio.current_time()
        await trio.sleep(0.01)
        beats.append(trio.current_time() - before - 0.01)


async def watched(call: Any, **arguments: Any) -> str:
    """The output of a tool that may not hold up the loop."""
    beats: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse, beats)
        with trio.fail_after(30):
            output = await call(**arguments)
        nursery.cancel_scope.cancel()
    assert max(beats, default=0.0) < SLOWEST
    return str(output)


async def test_ten_thousand_files_are_searched(bench: Any, crowd: Path) -> None:
    bench.workspace = crowd
    one = await watched(lambda **arguments: bench.works("Grep", **arguments), pattern="^the needle$")
    assert one == f"./d99/f{FILES - 1:05}.txt:1:the needle"
    many = await watched(lambda **arguments: bench.works("Grep", **arguments), pattern="needle")
    assert len(many.split("\n")) == 250


async def test_ten_thousand_files_are_found(bench: Any, crowd: Path) -> None:
    bench.workspace = crowd
    names = await watched(lambda **arguments: bench.works("Glob", **arguments), pattern="**/*.txt")
    assert len(names.split("\n")) == 100
    last = await watched(lambda **arguments: bench.works("Glob", **arguments), pattern=f"**/f{FILES - 1:05}.*")
    assert last == f"d99/f{FILES - 1:05}.txt"
    none = await watched(lambda **arguments: bench.works("Glob", **arguments), pattern="**/nothing")
    assert none == "No files matched the pattern"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "((a*)*)*b$"])
@pytest.mark.parametrize("program", ["rg", "grep"])
async def test_expressions_that_run_away_elsewhere(bench: Any, tmp_path: Path, pattern: str, program: str) -> None:
    """Neither program tries one way after the other."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program).symlink_to(found)
    bench.environ = {"PATH": str(tmp_path / "bin")}
    bench.write("a.txt", "a" * 40 + "!\n")
    with trio.fail_after(20):
        assert await bench.works("Grep", pattern=pattern) == "No matches found"


async def test_file_patterns_that_run_away_elsewhere(bench: Any) -> None:
    bench.write("a" * 200, "x")
    with trio.fail_after(20):
        for pattern in ("*a" * 60 + "b", "**/" * 40 + "b", "a*" * 60 + "[!a]", "**/" + "*?" * 80 + "b"):
            assert await bench.works("Glob", pattern=pattern) == "No files matched the pattern"


# --- paths of every make ---

PLACES = ("ws", "ws/d", "ws/d/e", "ws-evil", "outside")
PARTS = st.sampled_from(
    (
        "..",
        ".",
        "",
        "d",
        "e",
        "f.txt",
        "link",
        "up",
        "loop",
        "evil",
        "absent",
        "~",
        "ws",
        "outside",
        "ü",
        " ",
        "a" * 300,
    )
)
PATHS = st.builds(
    lambda parts, absolute, end: ("{root}/" if absolute else "") + "/".join(parts) + end,
    st.lists(PARTS, max_size=7),
    st.booleans(),
    st.sampled_from(("", "/", "/.", "/..", "\0", "\ud800")),
)
TARGETS = st.sampled_from(
    ("..", "../..", "../outside", "d", "{root}/ws-evil", "{root}/ws/d", "/", "link", "absent", "f.txt")
)


@settings(max_examples=120, deadline=None)
@given(
    links=st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(("link", "up", "evil")), TARGETS), max_size=5),
    given_path=PATHS,
)
def test_no_path_leads_out_unseen(links: list[tuple[str, str, str]], given_path: str) -> None:
    """What is admitted lies in the workspace, by the word of the system itself; the rest fails in words."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for place in PLACES:
            (root / place).mkdir(parents=True, exist_ok=True)
            (root / place / "f.txt").write_bytes(place.encode())
        (root / "ws" / "loop").symlink_to("loop")
        for place, name, target in links:
            if not os.path.lexists(root / place / name):
                (root / place / name).symlink_to(target.format(root=root))
        workspace, path = root / "ws", given_path.format(root=root)
        context = ToolContext(workspace=workspace, cache=ReadCache())
        shown = resolve(workspace, path)
        assert shown.is_absolute()
        if not inside(workspace, shown) or "\0" in path or "\ud800" in path:
            with pytest.raises(ToolError, match=r"is outside the workspace|that no file name can have"):
                admit(context, path)
            return
        admitted = admit(context, path)
        assert admitted == shown
        assert inside(workspace, admitted)
        check_opened(workspace, admitted)


def check_opened(workspace: Path, path: Path) -> None:
    """What is read there is a file of the workspace."""
    try:
        with files.folder_of(workspace, path) as folder:
            descriptor, _ = files.open_to_read(folder, path.name)
    except OSError:
        return  # nothing there, or no regular file
    try:
        assert files.read_all(descriptor, 100).decode().startswith("ws")
        assert not files.read_all(descriptor, 100)
        assert os.path.samestat(os.fstat(descriptor), os.stat(path))
    finally:
        os.close(descriptor)
    assert (workspace.stat().st_dev, workspace.stat().st_ino) in {
        (parent.stat().st_dev, parent.stat().st_ino) for parent in Path(os.path.realpath(path)).parents
    }
