"""Going on with a session that aionrs has left: it becomes one of ours, under the same id, once.

From then on the two go separate ways. aionrs's file is read and never touched; ours is complete or not there at all.
"""

from __future__ import annotations

import datetime
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from agentwire.log.journal import Journal, JournalHeader, JournalView
from agentwire.log.lines import encode_line
from agentwire.store import SessionExists, SessionNotFound, SessionStore, StoreError
from agentwire_aionrs.originals.replay import replay
from agentwire_aionrs.originals.sessions import OriginalSessions
from agentwire_aionrs.originals.statefile import State, milliseconds, read_head, read_state
from agentwire_aionrs.policy import POLICY

LATEST: Final = "latest"


def take_over(resume: str | None, session_id: str | None, workspace: Path, directory: str) -> str | None:
    """The session to resume (None: none), which is one of ours after this, if there is one.

    ``resume`` is an id or ``latest``, the newest of ours and aionrs's together. ``session_id`` is to be the id of a new
    session, and must not be one of aionrs's either. ``directory`` is where aionrs keeps sessions, seen from
    ``workspace``. Raises :class:`StoreError`.
    """
    store = SessionStore.default(os.environ)
    originals = OriginalSessions(workspace / directory)
    if resume is None:
        if session_id is not None and _is_whole(originals.find(session_id)):
            raise SessionExists(session_id)
        return None
    if session_id is not None:
        return resume  # they exclude each other, which is told by whoever opens the session
    if resume == LATEST:
        found = originals.newest()
        if found is None or not _is_newer(milliseconds(found[1].created_at), store, workspace):
            return LATEST
        path, wanted = found[0], found[1].id
    else:
        wanted = resume
        if (place := originals.find(resume)) is None:
            return resume
        path = place
    if not _has(store, wanted):
        with suppress(SessionExists):  # another process was quicker with the same
            adopt(store, wanted, read_state(path), workspace, path)
    return wanted


def adopt(store: SessionStore, session: str, state: State, workspace: Path, path: Path) -> None:
    """Make ``state``, read from ``path``, a session of ``store``. Raises :class:`StoreError`."""
    records = replay(
        state,
        session,
        policy=POLICY.name,
        workspace=str(workspace),
        told=f"This session was begun by aionrs; its conversation comes from {path}",
    )
    header = JournalHeader(
        session, created=state.created, workspace=str(workspace), provider=state.provider, model=state.model
    )
    target = store.path(session)
    try:
        os.makedirs(store.directory, 0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="agentwire-") as scratch:
            draft = os.path.join(scratch, "draft.jsonl")
            journal = Journal.create(draft, header)
            journal.append(b"".join(map(encode_line, records)), len(records))
            journal.close()
            _publish(draft, target, header)
    except OSError as error:
        raise StoreError(f"The session file {path} cannot be taken over: {error.strerror or error}") from error


def _publish(draft: str, target: str, header: JournalHeader) -> None:
    """A fork appears under its name only when it is complete."""
    with JournalView.open(draft) as view:
        for _ in view.records():
            pass
        journal = Journal.fork(view, target, header)
        try:
            journal.sync()
        finally:
            journal.close()


def listed(workspace: Path, directory: str) -> list[str]:
    """The sessions of a workspace, newest first, one line each; those that are still aionrs's own say so."""
    store = SessionStore.default(os.environ)
    rows = {info.id: (info.created, info.model, "") for info in store.list(str(workspace))}
    for path, head in OriginalSessions(workspace / directory).whole():
        rows.setdefault(head.id, (milliseconds(head.created_at), head.model, f"  {path}"))
    newest_first = sorted(rows.items(), key=lambda row: row[1][0], reverse=True)
    return [
        f"{session}  {_date(created)}  {model or '-':<28}{note}" for session, (created, model, note) in newest_first
    ]


def _is_newer(created: int, store: SessionStore, workspace: Path) -> bool:
    try:
        return created > store.latest(str(workspace)).created
    except SessionNotFound:
        return True


def _has(store: SessionStore, session: str) -> bool:
    try:
        store.view(session).close()
    except SessionNotFound:
        return False
    return True


def _is_whole(path: Path | None) -> bool:
    """Whether there is a session that could be resumed; a broken one may be begun anew under its id."""
    if path is None:
        return False
    try:
        read_head(path)
    except StoreError:
        return False
    return True


def _date(created: int) -> str:
    return datetime.datetime.fromtimestamp(created / 1000).strftime("%Y-%m-%d %H:%M")
