"""Which files tools may touch, and that nobody can turn them to others on the way."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
import trio
from support.cases import case

from agentwire.tools import files
from agentwire.tools.contract import FileSeen
from agentwire.tools.paths import inside, resolve


@pytest.mark.parametrize(
    ("given", "resolved", "is_inside"),
    [
        ("a.txt", "ws/a.txt", True),
        ("", "ws", True),
        (".", "ws", True),
        ("new/sub/a.txt", "ws/new/sub/a.txt", True),
        ("a/../b", "ws/b", True),
        ("~/x", "ws/~/x", True),
        ("inner", "ws/a.txt", True),
        ("..", "", False),
        ("../ws-evil/a", "ws-evil/a", False),
        ("a/../../w.txt", "w.txt", False),
        ("out/new/x", "outside/new/x", False),
        ("out/../ws/a.txt", "ws/a.txt", True),
    ],
)
def test_resolving(tmp_path: Path, given: str, resolved: str, is_inside: bool) -> None:
    root = tmp_path.resolve()
    workspace = root / "ws"
    workspace.mkdir()
    (root / "outside").mkdir()
    (workspace / "out").symlink_to("../outside")
    (workspace / "inner").symlink_to("a.txt")
    path = resolve(workspace, given)
    assert path == root / resolved
    assert inside(workspace, path) is is_inside


@pytest.mark.parametrize(
    ("given", "shown", "is_inside"), [("n\0ul", "n\ufffdul", True), ("../a\ud83d", "../a\ufffd", False)]
)
async def test_what_no_path_can_be(bench: Any, given: str, shown: str, is_inside: bool) -> None:
    """Approval can show it, no tool takes it."""
    path = resolve(bench.workspace, given)
    assert str(path) == os.path.normpath(os.path.join(os.path.realpath(bench.workspace), shown))
    assert inside(bench.workspace, path) is is_inside
    for name in ("Read", "Write", "Edit", "Grep"):
        failure = await bench.fails(
            name, file_path=given, path=given, pattern="", content="", old_string="", new_string="x"
        )
        assert failure.startswith("Invalid path ")
    assert os.listdir(bench.workspace) == []


def test_a_workspace_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for given in ("a", str(tmp_path / "link" / "a"), str(tmp_path / "real" / "a")):
        assert inside(tmp_path / "link", resolve(tmp_path / "link", given))


def lay_out(root: Path, layout: dict[str, str]) -> None:
    for name, content in layout.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif content.startswith("-> "):
            path.symlink_to(content[3:])
        else:
            path.write_text(content)


@case("S-e01")
async def test_links_out_of_the_workspace(bench: Any, tmp_path: Path, case: dict[str, Any]) -> None:
    lay_out(tmp_path, case["input"]["layout"])
    (bench.workspace / "loop").symlink_to(".")
    results = [await bench(name, **arguments) for name, arguments in case["input"]["calls"]]
    for result in results[:5]:
        assert result.is_error
        assert "is outside the workspace" in result.output
    *_, glob, grep, inner = results
    assert sorted(glob.output.split("\n")) == ["ok.txt"]
    assert grep.output == "No matches found"
    assert (inner.is_error, inner.output) == (False, "     1\tin")
    assert not any("s3cret" in result.output for result in results)
    assert (tmp_path / "outside" / "secret.txt").read_text() == "s3cret"
    assert os.listdir(tmp_path / "outside") == ["secret.txt"]


@case("S-e02")
async def test_paths_that_lead_elsewhere(bench: Any, tmp_path: Path, case: dict[str, Any]) -> None:
    lay_out(tmp_path, {"ws-evil/a.txt": "sibling", "other.txt": "outside"})
    before = sorted(tmp_path.rglob("*"))
    calls = [
        (name, {key: value.replace("{{abs:", str(tmp_path) + "/").replace("}}", "") for key, value in given.items()})
        for name, given in case["input"]["calls"]
    ]
    for name, arguments in calls:
        result = await bench(name, **arguments)
        path = arguments.get("file_path", "")
        if path.startswith("~"):
            assert not result.is_error
            assert (bench.workspace / "~" / "w.txt").read_text() == "x"
        elif path.endswith("missing.txt"):
            assert result.output == f"Failed to read file {path}: No such file or directory (os error 2)"
        elif "\0" in path:
            assert result.output.startswith("Invalid path ")
        else:
            assert "is outside the workspace" in result.output
        assert result.is_error is not path.startswith("~")
    outside = [path for path in sorted(tmp_path.rglob("*")) if bench.workspace / "~" not in (path, path.parent)]
    assert outside == before


async def test_outside_where_it_was_allowed(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("one\n")
    bench.outside_allowed = True
    assert await bench.works("Read", file_path="../other.txt") == "     1\tone"
    await bench.works("Edit", file_path="../other.txt", old_string="one", new_string="two")
    assert await bench.works("Write", file_path="../sub/new.txt", content="x") == "Created ../sub/new.txt (1 lines)"
    assert (tmp_path / "other.txt").read_text() == "two\n"
    assert await bench.works("Glob", pattern="../*.txt") == "../other.txt"
    assert await bench.works("Grep", pattern="two", path="../other.txt") == "1:two"


@pytest.fixture
def special(bench: Any) -> Any:
    """A workspace with a pipe, a socket and a folder in it."""
    os.mkfifo(bench.workspace / "pipe")
    (bench.workspace / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        there = os.getcwd()
        os.chdir(bench.workspace)  # a socket's path must be short
        listener.bind("socket")
        os.chdir(there)
        yield bench


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("folder", "Is a directory (os error 21)"),
        (".", "Is a directory (os error 21)"),
        ("pipe", "not a regular file"),
        ("socket", "not a regular file"),
        ("/dev/zero", "not a regular file"),
    ],
)
async def test_what_is_no_file_is_refused_at_once(special: Any, name: str, cause: str) -> None:
    special.outside_allowed = True
    with trio.fail_after(5):
        assert await special.fails("Read", file_path=name) == f"Failed to read file {name}: {cause}"
        assert await special.fails("Write", file_path=name, content="x") == f"Failed to write file: {cause}"
        path = str(resolve(special.workspace, name))
        assert await special.fails("ViewImage", file_path=path) == f"Failed to read image: {cause}"
        special.cache.put(path, FileSeen((0, 0)))
        edit = {"file_path": name, "old_string": "a", "new_string": "b"}
        assert await special.fails("Edit", **edit) == f"Failed to read file {name}: {cause}"


@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
async def test_grep_does_not_wait_for_a_pipe(special: Any, name: str) -> None:
    special.outside_allowed = True
    with trio.fail_after(5):
        assert "is neither a file nor a folder" in await special.fails("Grep", pattern="x", path=name)


async def test_grep_passes_over_a_pipe_in_a_folder(special: Any) -> None:
    special.write("a.txt", "needle\n")
    with trio.fail_after(5):
        assert await special.works("Grep", pattern="needle") == "./a.txt:1:needle"


def test_a_folder_swapped_for_a_link_is_not_entered(tmp_path: Path) -> None:
    """Between the check and the use of a path somebody replaces one of its folders by a link."""
    workspace = tmp_path.resolve() / "ws"
    (workspace / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("s3cret")
    path = resolve(workspace, "sub/secret.txt")
    (workspace / "sub").rmdir()
    (workspace / "sub").symlink_to("../outside")
    with pytest.raises(OSError, match="Not a directory"), files.folder_of(workspace, path):
        pass
    with pytest.raises(OSError, match="Not a directory"), files.folder_of(workspace, path, create=True):
        pass


def test_a_file_swapped_for_a_link_is_not_opened(tmp_path: Path) -> None:
    workspace = tmp_path.resolve()
    (workspace / "secret").write_text("s3cret")
    path = resolve(workspace, "a.txt")
    (workspace / "a.txt").symlink_to("secret")
    with files.folder_of(workspace, path) as folder:
        with pytest.raises(OSError, match="not a regular file"):
            files.open_to_read(folder, "a.txt")
        with pytest.raises(OSError, match="not a regular file"):
            files.replace(folder, "a.txt", b"x")
    assert (workspace / "secret").read_text() == "s3cret"
    assert sorted(os.listdir(workspace)) == ["a.txt", "secret"]


def test_replacing_keeps_the_mode_but_not_the_right_to_be_somebody_else(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "tool.sh"
    path.write_text("old")
    path.chmod(0o4751)
    with files.folder_of(path.parent, path) as folder:
        files.replace(folder, path.name, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


def test_a_new_file_gets_the_usual_mode(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "new"
    with files.folder_of(path.parent, path) as folder:
        files.replace(folder, path.name, b"new")
    usual = tmp_path / "usual"
    usual.touch()
    assert path.stat().st_mode == usual.stat().st_mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_replacing_keeps_the_owner(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "f"
    path.write_text("old")
    os.chown(path, 12345, 54321)
    with files.folder_of(path.parent, path) as folder:
        files.replace(folder, path.name, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path.resolve() / "f"
    path.write_text("old")

    def no_space(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", no_space)
    with files.folder_of(path.parent, path) as folder, pytest.raises(OSError, match="No space left"):
        files.replace(folder, path.name, b"new")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["f"]
    assert path.read_text() == "old"


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "f"
    path.write_text("old")
    known = files.stamp(path.stat())
    path.write_text("newer")
    with files.folder_of(path.parent, path) as folder:
        with pytest.raises(files.FileChangedError):
            files.replace(folder, path.name, b"mine", unchanged=known)
        path.unlink()
        with pytest.raises(files.FileChangedError):
            files.replace(folder, path.name, b"mine", unchanged=known)
    assert os.listdir(tmp_path) == []
