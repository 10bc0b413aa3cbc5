"""Opening a session: new, resumed from its journal, or forked from another.

Plain code without an event loop, so that a server can greet its host before anything heavy is imported. Resuming
reads the journal once, folds it, and closes what a killed process left open, before the session is shown to anyone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Literal

from agentwire.events import CallReady, CallStarted, Notice, SessionOpened, TurnStarted
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.log.repair import closing_events
from agentwire.policy import Policy
from agentwire.provider.contract import ConfigError, Provider
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.store import SessionStore, new_session_id

logger = logging.getLogger("agentwire.opening")

LATEST = "latest"
BOTH = "Cannot use --resume and --session-id together"
FORK_ALONE = "--fork-session needs --resume: say which session to fork"
TORN = "The last record of this session was incomplete (torn by a crash while it was written): {n} bytes were dropped."


class Found:
    """What a journal says about a session, folded."""

    def __init__(self) -> None:
        self.history = History()
        self.turns = 0
        self.call_ids: dict[str, None] = {}

    def read(self, records: Iterable[Record]) -> None:
        """Fold records in."""
        for record in records:
            self.history.feed(record)
            event = record.event
            if isinstance(event, TurnStarted):
                self.turns = max(self.turns, record.turn)
            elif isinstance(event, CallReady | CallStarted):
                self.call_ids[event.call_id] = None


def open_session(
    store: SessionStore,
    settings: SessionSettings,
    policy: Policy,
    provider: Provider | None,
    *,
    session_id: str | None = None,
    resume: str | None = None,
    fork: bool = False,
    mcp: bool = False,
    ephemeral: bool = False,
) -> Session:
    """Open a session as the flags say; an ``ephemeral`` one keeps no journal, and if resumed only reads it.

    Raises :class:`~agentwire.provider.contract.ConfigError` for flags that do not go together and
    :class:`~agentwire.store.StoreError` for what the store refuses.
    """
    if resume is not None and session_id is not None:
        raise ConfigError(BOTH)
    if fork and resume is None:
        raise ConfigError(FORK_ALONE)
    if resume is None:
        return _new(None if ephemeral else store, settings, policy, provider, session_id, mcp)
    source = store.latest(settings.workspace).id if resume == LATEST else resume
    if ephemeral:
        return _read_only(store, settings, policy, provider, source, fork, mcp)
    return _resumed(store, settings, policy, provider, source, fork, mcp)


def _session(
    session_id: str,
    log: SessionLog,
    found: Found,
    settings: SessionSettings,
    policy: Policy,
    provider: Provider | None,
    mcp: bool,
    ephemeral: bool,
) -> Session:
    session = Session(
        session_id,
        log,
        found.history,
        settings=settings,
        policy=policy,
        provider=provider,
        mcp=mcp,
        ephemeral=ephemeral,
        turns=found.turns,
    )
    session.call_ids = found.call_ids
    return session


def _new(
    store: SessionStore | None,
    settings: SessionSettings,
    policy: Policy,
    provider: Provider | None,
    session_id: str | None,
    mcp: bool,
) -> Session:
    name = new_session_id() if session_id is None else session_id
    journal = None
    if store is not None:
        journal = store.create(
            name, workspace=settings.workspace, provider=provider.name if provider else "", model=settings.model
        )
    session = _session(name, SessionLog(journal), Found(), settings, policy, provider, mcp, store is None)
    _announce(session, "new")
    return session


def _resumed(
    store: SessionStore,
    settings: SessionSettings,
    policy: Policy,
    provider: Provider | None,
    source: str,
    fork: bool,
    mcp: bool,
) -> Session:
    found = Found()
    name = new_session_id() if fork else source
    journal = store.fork(source, name, found.read) if fork else store.open(source, found.read)
    session = _session(name, SessionLog(journal), found, settings, policy, provider, mcp, ephemeral=False)
    for event, turn, origin in closing_events(found.history):
        session.append(event, turn, origin)
    header = journal.header
    _announce(session, "forked" if fork else "resumed", header.forked_from, header.root)
    if journal.lost:
        logger.warning(TORN.format(n=journal.lost))
        session.append(Notice(TORN.format(n=journal.lost), "warning"))
    return session


def _read_only(
    store: SessionStore,
    settings: SessionSettings,
    policy: Policy,
    provider: Provider | None,
    source: str,
    fork: bool,
    mcp: bool,
) -> Session:
    """A stored session taken up in memory; its journal is not locked and stays as it is."""
    found = Found()
    with store.view(source) as view:
        for records in view.records():
            found.read(records)
        root, last = view.header.root, view.last
    name = new_session_id() if fork else source
    session = _session(name, SessionLog(None, seq=last), found, settings, policy, provider, mcp, ephemeral=True)
    for event, turn, origin in closing_events(found.history):
        session.append(event, turn, origin)
    _announce(session, "forked" if fork else "resumed", source if fork else "", root)
    return session


def _announce(
    session: Session, kind: Literal["new", "resumed", "forked"], forked_from: str = "", root: str = ""
) -> None:
    session.opened = session.append(
        SessionOpened(
            session.id,
            kind,
            str(session.workspace),
            session.provider_name,
            session.model.model,
            session.capabilities(),
            forked_from,
            root,
            session.ephemeral,
            session.policy.name,
        )
    )
