"""Opening a session: new, resumed from its journal, or forked from another.

Plain code without an event loop, so that a server can greet its host before anything heavy is imported. Resuming
reads the journal once, folds it, and closes what a killed process left open, before the session is shown to anyone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from copy import deepcopy
from typing import Literal

from msgspec.structs import replace

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
        self.history.feed_all(records, self._count)

    def _count(self, record: Record) -> None:
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
    literal: bool = False,
    mcp: bool = False,
    ephemeral: bool = False,
) -> Session:
    """Open a session as the flags say; an ``ephemeral`` one keeps no journal, and if resumed only reads it.

    ``literal``: an id to resume is a name like any, also if it is ``latest``.

    Raises :class:`~agentwire.provider.contract.ConfigError` for flags that do not go together and
    :class:`~agentwire.store.StoreError` for what the store refuses.
    """
    if resume is not None and session_id is not None:
        raise ConfigError(BOTH)
    if fork and resume is None:
        raise ConfigError(FORK_ALONE)
    opener = _Opener(store, settings, policy, provider, mcp)
    if resume is None:
        return opener.new(session_id, ephemeral)
    source = store.latest(settings.workspace).id if resume == LATEST and not literal else resume
    return opener.read_only(source, fork) if ephemeral else opener.resumed(source, fork)


def fork_session(store: SessionStore, source: Session, name: str) -> Session:
    """A copy, named ``name``, of a session that is open in this process; the source goes on undisturbed.

    It begins with the source's history, mode and model. A turn under way in the source is in the copy one that was
    cut off. Raises :class:`~agentwire.store.StoreError`.
    """
    settings = replace(source.settings, model=source.model.model, mode=source.approvals.mode)
    opener = _Opener(store, settings, source.policy, source.provider, mcp=source.capabilities().mcp)
    if not source.ephemeral:
        source.log.flush()
        return opener.resumed(source.id, fork=True, name=name)
    found = Found()
    found.history, found.turns = deepcopy(source.history), source.turns
    found.call_ids = dict(source.call_ids)
    session = opener.session(name, SessionLog(None, seq=source.log.seq), found, ephemeral=True)
    root = source.opened.event.root if source.opened and isinstance(source.opened.event, SessionOpened) else ""
    _close_and_announce(session, "forked", source.id, root or source.id)
    return session


class _Opener:
    """What every way of opening a session needs, and the ways."""

    def __init__(
        self, store: SessionStore, settings: SessionSettings, policy: Policy, provider: Provider | None, mcp: bool
    ) -> None:
        self.store = store
        self.settings = settings
        self.policy = policy
        self.provider = provider
        self.mcp = mcp

    def new(self, session_id: str | None, ephemeral: bool) -> Session:
        """A session that was not there before."""
        name = new_session_id() if session_id is None else session_id
        journal = None
        if not ephemeral:
            provider = self.provider.name if self.provider else ""
            journal = self.store.create(
                name, workspace=self.settings.workspace, provider=provider, model=self.settings.model
            )
        session = self.session(name, SessionLog(journal), Found(), ephemeral)
        _announce(session, "new")
        return session

    def resumed(self, source: str, fork: bool, name: str = "") -> Session:
        """A stored session, or a copy of it (named ``name``), to be written on."""
        found = Found()
        name = (name or new_session_id()) if fork else source
        journal = self.store.fork(source, name, found.read) if fork else self.store.open(source, found.read)
        session = self.session(name, SessionLog(journal), found, ephemeral=False)
        header = journal.header
        _close_and_announce(session, "forked" if fork else "resumed", header.forked_from, header.root)
        if journal.lost:
            logger.warning(TORN.format(n=journal.lost))
            session.append(Notice(TORN.format(n=journal.lost), "warning"))
        return session

    def read_only(self, source: str, fork: bool) -> Session:
        """A stored session taken up in memory; its journal is not locked and stays as it is."""
        found = Found()
        with self.store.view(source) as view:
            for records in view.records():
                found.read(records)
            root, last = view.header.root, view.last
        name = new_session_id() if fork else source
        session = self.session(name, SessionLog(None, seq=last), found, ephemeral=True)
        _close_and_announce(session, "forked" if fork else "resumed", source if fork else "", root)
        return session

    def session(self, name: str, log: SessionLog, found: Found, ephemeral: bool) -> Session:
        """A session of these settings over a log; ``found`` is what the log holds already."""
        session = Session(
            name,
            log,
            found.history,
            settings=self.settings,
            policy=self.policy,
            provider=self.provider,
            mcp=self.mcp,
            ephemeral=ephemeral,
            turns=found.turns,
        )
        session.call_ids = found.call_ids
        return session


Kind = Literal["new", "resumed", "forked"]


def _close_and_announce(session: Session, kind: Kind, forked_from: str, root: str) -> None:
    """Close what a killed process left open, then say that the session is there."""
    for event, turn, origin in closing_events(session.history):
        session.append(event, turn, origin)
    _announce(session, kind, forked_from, root)


def _announce(session: Session, kind: Kind, forked_from: str = "", root: str = "") -> None:
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
