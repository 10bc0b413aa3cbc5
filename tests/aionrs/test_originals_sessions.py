"""Finding aionrs's sessions, in both layouts, and making one of them ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.original_sessions import assistant, state, user, write_current, write_older

from agentwire.log.errors import SessionInUse
from agentwire.log.history import History
from agentwire.messages import AssistantMessage, UserMessage
from agentwire.store import SessionExists, SessionStore, StoreError
from agentwire_aionrs.originals import takeover
from agentwire_aionrs.originals.sessions import OriginalSessions, directory_name
from agentwire_aionrs.originals.statefile import State, read_state
from agentwire_aionrs.originals.takeover import adopt, take_over

TALK = (user("Hello"), assistant("Hi."))
DIRECTORY = ".aionrs/sessions"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@pytest.fixture
def base(workspace: Path) -> Path:
    return workspace / DIRECTORY


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionStore:
    monkeypatch.setenv("AGENTWIRE_DATA_DIR", str(tmp_path / "data"))
    return SessionStore.default()


def on(day: int, session: str, *messages: Any) -> dict[str, Any]:
    """A session created on that day of a month."""
    return state(session, *(messages or TALK), created_at=f"2026-03-{day:02}T10:00:00Z")


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder: its bytes, and when it was written."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


# --- finding -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "name"),
    [
        ("my-conv_1.x", "my-conv_1.x"),
        ("a/b", "a%2Fb"),
        ("a b", "a%20b"),
        ("é", "%C3%A9"),
        ("%41", "%2541"),
        ("..\\x", "..%5Cx"),
    ],
)
def test_the_name_of_a_sessions_directory(session: str, name: str, base: Path) -> None:
    assert directory_name(session) == name
    path = write_current(base, state(session), name)
    assert OriginalSessions(base).find(session) == path


@pytest.mark.parametrize("session", ["", ".", "..", "other"])
def test_what_is_not_there_is_not_found(session: str, base: Path) -> None:
    assert OriginalSessions(base).find(session) is None
    write_current(base, state("one"))
    (base / "state.json").write_text("{}")
    (base / "sessions" / "state.json").write_text("{}")
    assert OriginalSessions(base).find(session) is None


def test_the_older_layout_is_found_by_the_id_inside(base: Path) -> None:
    path = write_older(base, state("old-one"))
    renamed = path.rename(base / "2020-01-01_whatever.json")
    assert OriginalSessions(base).find("old-one") == renamed


def test_the_newer_layout_goes_before_the_older(base: Path) -> None:
    write_older(base, on(1, "both"))
    path = write_current(base, on(2, "both"))
    assert OriginalSessions(base).find("both") == path
    [(found, _)] = OriginalSessions(base).whole()
    assert found == path


@pytest.mark.parametrize("content", ["", "{", '{"id": "bad"}', "[]", '{"id": 1, "created_at": "x", "messages": []}'])
@pytest.mark.parametrize("name", ["sessions/bad/state.json", "2026-03-01_bad.json"])
def test_a_broken_file_is_found_by_its_name_and_passed_over_in_lists(content: str, name: str, base: Path) -> None:
    path = base / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
    found = OriginalSessions(base).find("bad")
    assert found == path
    with pytest.raises(StoreError, match=r"bad.*is broken"):
        read_state(found)
    assert OriginalSessions(base).newest() is None


def test_a_pipe_is_no_session(base: Path) -> None:
    (base / "sessions" / "pipe").mkdir(parents=True)
    os.mkfifo(base / "sessions" / "pipe" / "state.json")
    assert OriginalSessions(base).find("pipe") is None
    assert OriginalSessions(base).whole() == []


def test_the_newest_is_the_one_created_last(base: Path) -> None:
    write_current(base, on(3, "middle"))
    write_older(base, on(9, "newest"))
    first = write_current(base, on(1, "first"))
    os.utime(first, (2**31, 2**31))
    found = OriginalSessions(base).newest()
    assert found is not None
    assert found[1].id == "newest"


def test_what_is_not_known_or_not_there_does_no_harm(base: Path) -> None:
    kept = state("s", *TALK)
    for key in ("context_state", "total_usage", "updated_at", "provider", "model", "cwd"):
        del kept[key]
    kept["later"] = {"x": 1}
    assert read_state(write_current(base, kept)).id == "s"


# --- taking over ---------------------------------------------------------------------------------------------


def history(store: SessionStore, session: str) -> History:
    """The history of a stored session."""
    folded = History()
    folded.feed_all(store.read(session))
    return folded


@pytest.mark.parametrize("write", [write_current, write_older])
def test_a_session_becomes_ours_under_its_id(write: Any, store: SessionStore, base: Path, workspace: Path) -> None:
    write(base, on(1, "conv"))
    before = snapshot(workspace)
    assert take_over("conv", None, workspace, DIRECTORY) == "conv"
    assert snapshot(workspace) == before
    [info] = store.list(str(workspace))
    assert (info.id, info.provider, info.model) == ("conv", "openai", "gpt-4o")
    assert info.created == 1772359200000
    assert [type(message) for message in history(store, "conv").messages()] == [UserMessage, AssistantMessage]


def test_it_happens_once(store: SessionStore, base: Path, workspace: Path) -> None:
    write_current(base, on(1, "conv"))
    take_over("conv", None, workspace, DIRECTORY)
    write_current(base, on(1, "conv", user("something else")))
    assert take_over("conv", None, workspace, DIRECTORY) == "conv"
    assert len(history(store, "conv").messages()) == 2


def test_what_is_ours_alone_or_nowhere_stays_so(store: SessionStore, base: Path, workspace: Path) -> None:
    assert take_over("conv", None, workspace, DIRECTORY) == "conv"
    assert store.list() == []


def test_a_broken_file_asked_for_is_an_error(store: SessionStore, base: Path, workspace: Path) -> None:
    path = write_current(base, on(1, "conv"))
    path.write_text(path.read_text()[:-20])
    with pytest.raises(StoreError, match="is broken"):
        take_over("conv", None, workspace, DIRECTORY)
    assert store.list() == []


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"), [(None, 5, "theirs"), (5, None, "ours"), (4, 5, "theirs"), (5, 4, "ours")]
)
def test_latest_is_the_newest_of_both(
    ours: int | None, theirs: int | None, wanted: str, store: SessionStore, base: Path, workspace: Path
) -> None:
    elsewhere = read_state(write_current(workspace / "elsewhere", on(28, "elsewhere")))
    adopt(store, "elsewhere", elsewhere, workspace.parent, workspace)
    for day, session in ((ours, "ours"), (3, "older")):
        if day is not None and ours is not None:
            adopt(store, session, read_state(write_current(workspace / "x", on(day, session))), workspace, workspace)
    for day, session in ((theirs, "theirs"), (2, "older still")):
        if day is not None and theirs is not None:
            write_current(base, on(day, session), directory_name(session))
    resumed = take_over("latest", None, workspace, DIRECTORY)
    assert (store.latest(str(workspace)).id if resumed == "latest" else resumed) == wanted
    assert store.view(wanted).header.session == wanted


def test_latest_does_not_take_over_twice(store: SessionStore, base: Path, workspace: Path) -> None:
    write_current(base, on(5, "conv"))
    assert take_over("latest", None, workspace, DIRECTORY) == "conv"
    assert take_over("latest", None, workspace, DIRECTORY) == "latest"
    assert store.latest(str(workspace)).id == "conv"


def test_the_id_of_a_new_session_must_not_be_taken_by_aionrs(store: SessionStore, base: Path, workspace: Path) -> None:
    path = write_current(base, on(1, "conv"))
    with pytest.raises(SessionExists, match="Session ID 'conv' already exists"):
        take_over(None, "conv", workspace, DIRECTORY)
    assert take_over(None, "other", workspace, DIRECTORY) is None
    path.write_text("{")
    assert take_over(None, "conv", workspace, DIRECTORY) is None


def test_a_session_that_somebody_has_open_is_not_touched(store: SessionStore, base: Path, workspace: Path) -> None:
    write_current(base, on(1, "conv"))
    take_over("conv", None, workspace, DIRECTORY)
    journal = store.open("conv")
    try:
        assert take_over("conv", None, workspace, DIRECTORY) == "conv"
        with pytest.raises(SessionInUse):
            store.open("conv")
    finally:
        journal.close()


def test_another_process_may_be_quicker(
    store: SessionStore, base: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes second finds a whole session there."""
    path = write_current(base, on(1, "conv"))

    def read_while_another_takes_over(found: Path) -> State:
        kept = read_state(found)
        adopt(store, "conv", kept, workspace, path)
        return kept

    monkeypatch.setattr(takeover, "read_state", read_while_another_takes_over)
    assert take_over("conv", None, workspace, DIRECTORY) == "conv"
    assert len(history(store, "conv").messages()) == 2
    assert os.listdir(store.directory) == ["conv.jsonl"]


def test_a_store_that_cannot_be_written_is_an_error(store: SessionStore, base: Path, workspace: Path) -> None:
    write_current(base, on(1, "conv"))
    Path(store.directory).parent.write_text("a file")
    with pytest.raises(StoreError, match=r"state\.json cannot be taken over: "):
        adopt(store, "conv", read_state(base / "sessions" / "conv" / "state.json"), workspace, base / "state.json")


def test_a_long_conversation_and_an_empty_one(store: SessionStore, base: Path, workspace: Path) -> None:
    turns = [message for n in range(2000) for message in (user(f"{n}\0\u2028"), assistant("x" * 200))]
    write_current(base, state("long", *turns))
    write_current(base, state("empty"))
    for session, count in (("long", 4000), ("empty", 0)):
        assert take_over(session, None, workspace, DIRECTORY) == session
        assert len(history(store, session).messages()) == count


def test_the_list_shows_ours_and_what_can_be_taken_over(store: SessionStore, base: Path, workspace: Path) -> None:
    write_current(base, on(1, "conv"))
    path = write_older(base, on(2, "old"))
    take_over("conv", None, workspace, DIRECTORY)
    first, second = takeover.listed(workspace, DIRECTORY)
    assert first.startswith("old  2026-03-02 ")
    assert first.endswith(f"gpt-4o{' ' * 22}  {path}")
    assert second.startswith("conv  2026-03-01 ")
    assert str(base) not in second
