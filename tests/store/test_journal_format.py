"""Journals of older versions of agentwire are read, folded and written on by this one.

``journals/format-1.jsonl`` was written by the first version of the format, with every event it knew. It is never
written anew: what a new version adds has a default, so that this file goes on to be read.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agentwire.events import Notice, SessionOpened, TurnFinished, TurnStarted, Unknown
from agentwire.log import Record, SessionLog
from agentwire.log.history import History
from agentwire.log.lines import decode_lines
from agentwire.messages import AssistantMessage, ToolMessage, UserMessage
from agentwire.opening import open_session
from agentwire.policy import Policy
from agentwire.settings import SessionSettings
from agentwire.store import SessionStore

OLD = Path(__file__).with_name("journals") / "format-1.jsonl"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """A store that holds the old journal."""
    found = SessionStore(tmp_path / "sessions")
    Path(found.directory).mkdir()
    Path(found.path("s1")).write_bytes(OLD.read_bytes())
    return found


def test_every_event_of_the_first_format_is_known(store: SessionStore) -> None:
    """An event that was renamed or got a field without a default would show here."""
    tags = [msgspec.json.decode(line)["event"]["type"] for line in OLD.read_bytes().splitlines()[1:]]
    assert len(set(tags)) > 40
    for tag, record in zip(tags, store.read("s1"), strict=True):
        assert type(record.event).__struct_config__.tag == tag
        assert not isinstance(record.event, Unknown) or tag == "unknown"


def test_what_was_said_is_still_what_the_model_reads(store: SessionStore) -> None:
    history = History()
    history.feed_all(store.read("s1"))
    kinds = [type(message) for message in history.messages()]
    assert kinds[-1] in (ToolMessage, UserMessage, AssistantMessage)
    said = next(message for message in history.messages() if isinstance(message, AssistantMessage))
    assert (said.text, said.reasoning, [call.name for call in said.calls]) == (
        "Hello there", "hmm", ["Edit", "ExecCommand"],
    )  # fmt: skip
    assert history.context == ["before"]


def test_it_is_listed_resumed_and_written_on(store: SessionStore) -> None:
    (info,) = store.list()
    assert (info.id, info.workspace, info.provider, info.model, info.created, info.problem) == (
        "s1", "/w", "script", "m", 1764468000000, "",
    )  # fmt: skip
    before = OLD.read_bytes()
    session = open_session(store, SessionSettings(workspace="/w"), Policy(), None, resume="s1")
    assert isinstance(session.opened, Record)
    assert isinstance(session.opened.event, SessionOpened)
    assert session.turns == 1
    session.append(TurnStarted("t2", None), 2)
    session.append(TurnFinished("completed", "on"), 2)
    session.log.close()
    after = Path(store.path("s1")).read_bytes()
    assert after.startswith(before)
    assert [record.seq for record in store.read("s1")] == list(range(1, len(after.splitlines())))


@pytest.mark.parametrize(
    "event",
    [
        b'{"type":"turn_started","id":"t"}',
        b'{"type":"step_started","index":0}',
        b'{"type":"text_delta","text":"x"}',
        b'{"type":"step_finished","index":0}',
        b'{"type":"call_ready","call_id":"c","name":"n","arguments_text":"{}"}',
        b'{"type":"call_finished","call_id":"c","name":"n","status":"ok","output":"x"}',
        b'{"type":"call_cancelled","call_id":"c","cause":"stopped"}',
        b'{"type":"turn_finished","outcome":"completed"}',
        b'{"type":"notice","text":"x"}',
        b'{"type":"session_opened","id":"s"}',
    ],
)
def test_the_least_that_an_event_was_written_with_is_enough(event: bytes) -> None:
    """Fields with their default are not written, so every later field is like one that was not there yet."""
    (record,) = decode_lines(b'{"seq":1,"time":5,"event":' + event + b"}\n", 1)
    assert not isinstance(record.event, Unknown)
    assert (record.turn, record.origin) == (0, "")


def test_a_journal_that_lies_where_nothing_may_be_written_can_be_read_and_not_resumed(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for writing, such a file system says so; root in a test cannot be held back by modes."""
    import errno
    import os

    from agentwire.store import JournalError

    really = os.open

    def read_only(path: str, flags: int, *more: int, **named: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, "Read-only file system", path)
        return really(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", read_only)
    assert len(list(store.read("s1"))) > 40
    assert [info.problem for info in store.list()] == [""]
    with pytest.raises(JournalError, match="cannot be opened: Read-only file system"):
        store.open("s1")
    assert Path(store.path("s1")).read_bytes() == OLD.read_bytes()


def test_two_readers_and_a_writer_see_whole_records_only(store: SessionStore) -> None:
    """A view is of the records that are there when it is opened."""
    log = SessionLog(store.open("s1"))
    with store.view("s1") as early:
        log.append(Notice("later"))
        with store.view("s1") as late:
            first = [record.seq for records in early.records() for record in records]
            second = [record.seq for records in late.records() for record in records]
    log.close()
    assert second == [*first, first[-1] + 1]
