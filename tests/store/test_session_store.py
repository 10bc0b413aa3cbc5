"""The stored sessions: names, lists, and what happens to files that are not what they should be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from stored import fill, texts

from agentwire.events import Notice, TextDelta
from agentwire.log import Record, SessionLog
from agentwire.store import (
    JournalError,
    SessionExists,
    SessionInUse,
    SessionNotFound,
    SessionStore,
    StoreError,
    default_directory,
    new_session_id,
)


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "data" / "sessions")


def test_a_new_session_is_created_opened_and_read(store: SessionStore) -> None:
    journal = store.create("my-conv-123", workspace=Path("/w"), provider="openai", model="m")
    assert journal.path == os.path.join(store.directory, "my-conv-123.jsonl")
    SessionLog(journal).append(Notice("a"))
    journal.close()
    seen: list[Record] = []
    journal = store.open("my-conv-123", seen.extend)
    assert (journal.header.workspace, journal.header.provider, journal.header.model) == ("/w", "openai", "m")
    assert journal.header.session == "my-conv-123"
    assert [record.event for record in seen] == [Notice("a")]
    journal.close()


def test_only_the_owner_may_look(store: SessionStore) -> None:
    fill(store, "s")
    assert os.stat(store.directory).st_mode & 0o777 == 0o700
    assert os.stat(store.path("s")).st_mode & 0o777 == 0o600


def test_the_words_of_the_refusals(store: SessionStore) -> None:
    def message(kind: type[StoreError], call: object, *args: str) -> str:
        with pytest.raises(kind) as info:
            call(*args)  # type: ignore[operator]
        assert str(info.value) == info.value.message
        return info.value.message

    for call in (store.open, store.remove, store.view, store.read):
        assert message(SessionNotFound, call, "nope") == "Session 'nope' not found"
    assert message(SessionNotFound, store.fork, "nope", "new") == "Session 'nope' not found"
    assert message(SessionNotFound, store.latest) == "No sessions found"
    journal = store.create("s")
    assert message(SessionExists, store.create, "s") == "Session ID 's' already exists"
    assert message(SessionExists, store.fork, "s", "s") == "Session ID 's' already exists"
    for call in (store.open, store.remove):
        assert message(SessionInUse, call, "s").startswith("Session 's' is in use by ")
    journal.close()


# --- ids ---


@pytest.mark.parametrize(
    ("session", "name"),
    [
        ("plain-1_2.3", "plain-1_2.3.jsonl"),
        ("a/b", "a%2Fb.jsonl"),
        ("../../etc/passwd", "..%2F..%2Fetc%2Fpasswd.jsonl"),
        ("50%", "50%25.jsonl"),
        ("a b", "a%20b.jsonl"),
        ("é", "%C3%A9.jsonl"),
        ("\0\n", "%00%0A.jsonl"),
        ("...", "....jsonl"),
        ("x.jsonl", "x.jsonl.jsonl"),
    ],
)
def test_files_are_named_after_ids(store: SessionStore, session: str, name: str) -> None:
    fill(store, session, "a")
    assert os.listdir(store.directory) == [name]
    assert [info.id for info in store.list()] == [session]
    assert texts(store, session) == ["a"]


@pytest.mark.parametrize("session", ["", ".", "..", "x" * 201, "é" * 40, "\ud83d"])
def test_what_cannot_be_an_id_is_refused_everywhere(store: SessionStore, session: str) -> None:
    for call in (store.create, store.open, store.remove, store.read, store.view, store.path):
        with pytest.raises(StoreError, match="cannot be a session's id") as info:
            call(session)
        info.value.message.encode()
    with pytest.raises(StoreError, match="cannot be a session's id"):
        store.fork("s", session)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8).filter(lambda text: text not in {".", ".."}), unique=True, max_size=5))
def test_every_id_is_its_own_file(tmp_path_factory: pytest.TempPathFactory, sessions: list[str]) -> None:
    store = SessionStore(tmp_path_factory.mktemp("store"))
    for session in sessions:
        fill(store, session, session)
    assert {info.id for info in store.list()} == set(sessions)
    for session in sessions:
        assert texts(store, session) == [session.encode().decode()]
        assert re.fullmatch(r"[A-Za-z0-9_.%-]+\.jsonl", os.path.basename(store.path(session)))


def test_the_longest_id(store: SessionStore) -> None:
    fill(store, "x" * 200, "a")
    assert texts(store, "x" * 200) == ["a"]


def test_new_ids_are_uuids_of_version_7_that_sort_by_time() -> None:
    before = time.time_ns() // 1_000_000
    made = []
    for _ in range(200):
        made.append(new_session_id())
        at = time.time_ns()
        while time.time_ns() < at + 1000:  # two of the same microsecond have no order
            pass
    after = time.time_ns() // 1_000_000
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    for session in made:
        parsed = uuid.UUID(session)
        assert str(parsed) == session
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
        assert before <= parsed.int >> 80 <= after


# --- lists ---


def test_a_list_is_newest_first_and_may_be_of_one_workspace(store: SessionStore) -> None:
    assert store.list() == []
    for n, workspace in enumerate(("/a", "/b", "/a", "/c\udcff")):
        path = store.path(f"s{n}")
        fill(store, f"s{n}", workspace=workspace)
        data = Path(path).read_bytes()
        Path(path).write_bytes(re.sub(rb'"created":\d+', b'"created":%d' % (1000 - n), data))
    assert [info.id for info in store.list()] == ["s0", "s1", "s2", "s3"]
    assert [info.id for info in store.list("/a")] == ["s0", "s2"]
    assert [info.id for info in store.list(Path("/a"))] == ["s0", "s2"]
    assert [info.id for info in store.list("/c\udcff")] == ["s3"]
    assert store.latest().id == "s0"
    assert store.latest("/b").id == "s1"
    with pytest.raises(SessionNotFound, match="No sessions found"):
        store.latest("/elsewhere")


def test_latest_is_the_newest_created_not_the_last_used(store: SessionStore) -> None:
    fill(store, "old", "a")
    at = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == at:
        pass
    fill(store, "new", "a")
    log = SessionLog(store.open("old"))
    log.append(Notice("used"))
    log.close()
    assert store.latest().id == "new"


def test_an_entry_tells_what_the_file_tells(store: SessionStore) -> None:
    store.create("s", workspace="/w", provider="p", model="m").close()
    (info,) = store.list()
    status = os.stat(store.path("s"))
    assert (info.id, info.workspace, info.provider, info.model, info.problem) == ("s", "/w", "p", "m", "")
    assert (info.size, info.modified) == (status.st_size, status.st_mtime_ns // 1_000_000)
    assert abs(info.created - time.time() * 1000) < 60_000


def test_long_first_lines_are_read_whole(store: SessionStore) -> None:
    fill(store, "s", workspace="/" + "w" * 20_000)
    assert store.list()[0].workspace == "/" + "w" * 20_000


def test_broken_and_foreign_files_do_not_spoil_a_list(store: SessionStore) -> None:
    fill(store, "good", "a")
    directory = Path(store.directory)
    (directory / "garbage.jsonl").write_bytes(b"\xff\0garbage\n")
    (directory / "empty.jsonl").write_bytes(b"")
    (directory / "newer.jsonl").write_bytes(b'{"agentwire":"journal","version":7,"session":"newer"}\n')
    (directory / "renamed.jsonl").write_bytes(Path(store.path("good")).read_bytes())
    (directory / "folder.jsonl").mkdir()
    (directory / "notes.txt").write_text("not ours")
    (directory / "not encoded.jsonl").write_text("not ours")
    (directory / "good.jsonl.77.draft").write_text("left by a fork that was killed")
    problems = {info.id: info.problem for info in store.list()}
    assert problems.pop("good") == ""
    assert set(problems) == {"garbage", "empty", "newer", "renamed", "folder"}
    assert all(problem and "\n" not in problem for problem in problems.values())
    assert "newer version" in problems["newer"]
    assert "is of session 'good', not 'renamed'" in problems["renamed"]
    assert store.latest().id == "good"
    assert [info.id for info in store.list("")] == ["good"]
    with pytest.raises(JournalError, match="newer version"):
        store.open("newer")
    for call in (store.open, store.view):
        with pytest.raises(JournalError, match="is of session 'good'"):
            call("renamed")
        with pytest.raises(SessionNotFound):
            call("empty")
    fill(store, "empty", "taken over")


def test_a_directory_that_cannot_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SessionStore(tmp_path / "file")
    with pytest.raises(StoreError, match=r"session directory .*file cannot be read: Not a directory"):
        store.list()
    with pytest.raises(StoreError, match=r"session directory .*file cannot be made: File exists"):
        store.create("s")
    with pytest.raises(StoreError, match="cannot be opened: Not a directory"):
        store.open("s")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_read_only_directory_is_told_in_one_line(store: SessionStore) -> None:
    fill(store, "s", "a")
    os.chmod(store.directory, 0o500)
    try:
        with pytest.raises(StoreError, match="cannot be written: Permission denied"):
            store.create("t")
        with pytest.raises(StoreError, match="cannot be removed: Permission denied"):
            store.remove("s")
        assert texts(store, "s") == ["a"]
    finally:
        os.chmod(store.directory, 0o700)


def test_where_sessions_are_kept(tmp_path: Path) -> None:
    assert default_directory({"AGENTWIRE_DATA_DIR": "/data"}) == "/data/sessions"
    assert SessionStore.default({"AGENTWIRE_DATA_DIR": os.fspath(tmp_path)}).directory == os.fspath(
        tmp_path / "sessions"
    )
    import platformdirs

    assert default_directory({}) == os.path.join(platformdirs.user_data_dir("agentwire", appauthor=False), "sessions")


# --- removing ---


def test_a_removed_session_is_gone_and_its_id_free(store: SessionStore) -> None:
    fill(store, "s", "a")
    store.remove("s")
    with pytest.raises(SessionNotFound):
        store.open("s")
    fill(store, "s", "b")
    assert texts(store, "s") == ["b"]


def test_a_broken_session_can_be_removed(store: SessionStore) -> None:
    fill(store, "s")
    Path(store.path("s")).write_bytes(b"garbage\n")
    store.remove("s")
    assert store.list() == []


RACER = """
import sys
from agentwire.store import SessionStore, StoreError
store = SessionStore(sys.argv[1])
sys.stdin.readline()
won = 0
for n in range(100):
    try:
        store.create(f"s{n}").close()
        won += 1
    except StoreError as error:
        assert error.message == f"Session ID 's{n}' already exists", error
print(won)
"""


def test_of_processes_that_create_the_same_session_exactly_one_wins(store: SessionStore) -> None:
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, store.directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"\n")
        racer.stdin.flush()
    won = [int(racer.communicate()[0]) for racer in racers]
    assert sum(won) == 100
    assert [info.problem for info in store.list()] == [""] * 100


# --- laws ---

_names = st.sampled_from(("a", "b", "c/d", "é"))


class StoreMachine(RuleBasedStateMachine):
    """A store against a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.directory = tempfile.TemporaryDirectory()
        self.store = SessionStore(self.directory.name)
        self.sessions: dict[str, list[str]] = {}
        self.open: dict[str, SessionLog] = {}

    def teardown(self) -> None:
        for log in self.open.values():
            log.close()
        self.directory.cleanup()

    @rule(name=_names)
    def create(self, name: str) -> None:
        if name in self.sessions:
            with pytest.raises(SessionExists):
                self.store.create(name)
        else:
            self.open[name] = SessionLog(self.store.create(name))
            self.sessions[name] = []

    @rule(name=_names)
    def take_up(self, name: str) -> None:
        if name in self.open:
            with pytest.raises(SessionInUse):
                self.store.open(name)
        elif name in self.sessions:
            self.open[name] = SessionLog(self.store.open(name))
        else:
            with pytest.raises(SessionNotFound):
                self.store.open(name)

    @rule(name=_names, text=st.text(max_size=3))
    def say(self, name: str, text: str) -> None:
        if name in self.open:
            self.open[name].append(TextDelta(text))
            self.open[name].append(Notice(text))
            self.sessions[name] += [text, text]

    @rule(name=_names)
    def close(self, name: str) -> None:
        if name in self.open:
            self.open.pop(name).close()

    @rule(source=_names, name=_names)
    def fork(self, source: str, name: str) -> None:
        if source not in self.sessions:
            with pytest.raises(SessionNotFound):
                self.store.fork(source, name)
        elif name in self.sessions:
            with pytest.raises(SessionExists):
                self.store.fork(source, name)
        else:
            self.open[name] = SessionLog(self.store.fork(source, name))
            self.sessions[name] = list(self.sessions[source])

    @rule(name=_names)
    def remove(self, name: str) -> None:
        if name in self.open:
            with pytest.raises(SessionInUse):
                self.store.remove(name)
        elif name in self.sessions:
            self.store.remove(name)
            del self.sessions[name]
        else:
            with pytest.raises(SessionNotFound):
                self.store.remove(name)

    @invariant()
    def all_is_there(self) -> None:
        assert {info.id for info in self.store.list()} == set(self.sessions)
        for name, said in self.sessions.items():
            assert texts(self.store, name) == said


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
