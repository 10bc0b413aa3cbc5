"""Forks: a session that begins as a copy of another and goes its own way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stored import digest, fill, texts

from agentwire.events import Notice
from agentwire.log import Record, SessionLog
from agentwire.store import JournalError, SessionExists, SessionInUse, SessionStore


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


def test_a_fork_goes_its_own_way(store: SessionStore) -> None:
    fill(store, "parent", "1", "2", workspace="/w")
    before = digest(store)
    seen: list[Record] = []
    journal = store.fork("parent", "child", seen.extend)
    assert [record.seq for record in seen] == [1, 2]
    header = journal.header
    assert (header.session, header.forked_from, header.root, header.workspace) == ("child", "parent", "parent", "/w")
    log = SessionLog(journal)
    assert log.append(Notice("3")).seq == 3
    assert [record.seq for record in log.cursor(after=0).take()] == [1, 2, 3]
    log.close()
    assert texts(store, "child") == ["1", "2", "3"]
    assert texts(store, "parent") == ["1", "2"]
    assert digest(store)["parent.jsonl"] == before["parent.jsonl"]
    assert sorted(digest(store)) == ["child.jsonl", "parent.jsonl"]
    grandchild = store.fork("child", "grandchild")
    assert (grandchild.header.forked_from, grandchild.header.root) == ("child", "parent")
    grandchild.close()


def test_a_fork_is_open_and_locked(store: SessionStore) -> None:
    fill(store, "parent", "1")
    journal = store.fork("parent", "child")
    with pytest.raises(SessionInUse):
        store.open("child")
    journal.close()
    store.open("child").close()


def test_a_session_in_use_can_be_forked_and_half_a_line_is_left_out(store: SessionStore) -> None:
    log = SessionLog(store.create("parent"))
    log.append(Notice("1"))
    with open(store.path("parent"), "ab") as file:
        file.write(b'{"seq":2,"time":1,"event":{"type":"noti')
    store.fork("parent", "child").close()
    assert texts(store, "child") == ["1"]


def test_a_long_journal_is_forked_with_its_index(store: SessionStore) -> None:
    log = SessionLog(store.create("parent"))
    for n in range(1000):
        log.append(Notice(f"{n} " * 500))
    log.close()
    journal = store.fork("parent", "c")
    log = SessionLog(journal, resident_limit=10_000)
    log.append(Notice("more"))
    for after in (0, 500, 998, 1000):
        assert log.cursor(after).take(1)[0].seq == after + 1
    log.close()


def test_a_damaged_session_is_not_forked(store: SessionStore) -> None:
    fill(store, "parent", "1", "2")
    path = Path(store.path("parent"))
    path.write_bytes(path.read_bytes().replace(b'"seq":1', b'"seq":7'))
    with pytest.raises(JournalError, match=r"parent\.jsonl is damaged at line 2"):
        store.fork("parent", "child")
    assert os.listdir(store.directory) == ["parent.jsonl"]


def test_a_fork_works_where_files_cannot_be_linked(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def no_links(*args: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    fill(store, "parent", "1")
    store.fork("parent", "child").close()
    assert texts(store, "child") == ["1"]
    with pytest.raises(SessionExists):
        store.fork("parent", "child")
    assert sorted(os.listdir(store.directory)) == ["child.jsonl", "parent.jsonl"]
