"""The sessions of one process: opening, taking up, copying, listing and closing them by command."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agentwire.commands import (
    NOW,
    ArchiveSession,
    Done,
    ForkSession,
    ListSessions,
    OpenSession,
    Outcome,
    Prompt,
    Refusal,
    ResumeSession,
    SessionState,
)
from agentwire.events import SessionClosed
from agentwire.provider.contract import ConfigError
from agentwire.server.runner import BUSY, SessionRunner, refused
from agentwire.store import BadSessionId, SessionInUse, SessionNotFound, StoreError

if TYPE_CHECKING:
    from agentwire.setup import Boot, Setup

logger = logging.getLogger("agentwire.server")

NO_SETUP = "This server opens no sessions"

MakeRunner = Callable[["Boot"], SessionRunner]


class Sessions:
    """Sessions by id. ``setup`` is where new ones come from; None: there are those that were added, and no others."""

    def __init__(self, make_runner: MakeRunner, setup: Setup | None = None) -> None:
        self._make_runner = make_runner
        self._setup = setup
        self._runners: dict[str, SessionRunner] = {}

    def __iter__(self) -> Iterator[SessionRunner]:
        return iter(list(self._runners.values()))

    def __contains__(self, session: str) -> bool:
        return session in self._runners

    def get(self, session: str) -> SessionRunner | None:
        """The session of that id, or None."""
        return self._runners.get(session)

    def add(self, runner: SessionRunner) -> None:
        """Take charge of a session."""
        self._runners[runner.session.id] = runner

    # --- commands ---

    def open(self, command: OpenSession) -> SessionRunner | Outcome:
        """Open a new session; why not, if not."""
        runner = self._opened(lambda setup: setup.open(command))
        if isinstance(runner, SessionRunner) and command.tools:
            runner.declare(command.tools)
        return runner

    def resume(self, command: ResumeSession) -> SessionRunner | Outcome:
        """Give a session of this process, or take up a stored one."""
        runner = self.get(command.id) or self._opened(lambda setup: setup.resume(command))
        if isinstance(runner, SessionRunner) and command.tools:
            runner.declare(command.tools)
        return runner

    def take_up(self, command: Prompt) -> SessionRunner | Outcome:
        """Give the session that a prompt names, opened if need be."""
        return self.get(command.session) or self._opened(lambda setup: setup.take_up(command))

    def fork(self, command: ForkSession) -> SessionRunner | Outcome:
        """Copy a session of this process."""
        source = self.get(command.session)
        if source is None:
            return self.unknown(command.session)
        if source.session.active is not None:
            return refused("busy", BUSY, retryable=True)
        runner = self._opened(lambda setup: setup.fork(source.session, command))
        if isinstance(runner, SessionRunner) and source.host_tools:
            runner.declare(source.host_tools)
        return runner

    def archive(self, command: ArchiveSession) -> Outcome:
        """Close a session; its journal stays, or goes too.

        After a removal the outcome's value is what :meth:`list` gives then, stored ones too.
        """
        runner = self.get(command.session)
        if runner is None:
            if command.remove and self._setup is not None:
                return self._remove(self._setup, command.session, NOW)
            return self.unknown(command.session)
        session = runner.session
        if session.active is not None:
            return refused("busy", BUSY, retryable=True)
        after = session.log.seq
        session.append(SessionClosed("archived"))
        session.closed = True
        session.log.close()  # another process may take it up; what is unread can still be read
        runner.mcp.close()
        del self._runners[command.session]
        if command.remove and self._setup is not None and not session.ephemeral:
            return self._remove(self._setup, command.session, after)
        return Outcome(Done(self._left() if command.remove else None), after)

    def _remove(self, setup: Setup, session: str, after: int) -> Outcome:
        """Remove a stored session that is not open here."""
        try:
            setup.remove(session)
        except SessionNotFound as error:
            return refused("not_found", error.message)
        except SessionInUse as error:
            return refused("busy", error.message, retryable=True)
        except StoreError as error:
            return refused("config", error.message)
        return Outcome(Done(self._left()), after)

    def _left(self) -> list[SessionState] | None:
        """The sessions there are now, stored ones too."""
        left = self.list(ListSessions(stored=True)).result
        return left.value if isinstance(left, Done) else None

    def list(self, command: ListSessions) -> Outcome:
        """The sessions of this process, and (``stored``) those that have a journal beside."""
        here = [runner.state() for runner in self]
        if command.stored and self._setup is not None:
            try:
                here += [state for state in self._setup.stored() if state.id not in self._runners]
            except StoreError as error:
                return refused("config", error.message)
        return Outcome(Done(here), NOW)

    # --- how ---

    def _opened(self, open_one: Callable[[Setup], Boot]) -> SessionRunner | Outcome:
        if self._setup is None:
            return refused("unsupported", NO_SETUP)
        try:
            boot = open_one(self._setup)
        except ConfigError as error:
            return Outcome(Refusal("config", str(error), data=error.kind), NOW)
        except SessionNotFound as error:
            return refused("not_found", error.message)
        except SessionInUse as error:
            return refused("busy", error.message, retryable=True)
        except BadSessionId as error:
            return refused("bad_params", error.message)
        except StoreError as error:
            return refused("config", error.message)
        except Exception as error:  # a foreign plugin, or a bug: the host is told, the other sessions go on
            logger.exception("a session could not be opened")
            return refused("internal", f"The session could not be opened: {type(error).__name__}: {error}")
        runner = self._make_runner(boot)
        self.add(runner)
        return runner

    @staticmethod
    def unknown(session: str) -> Outcome:
        """The refusal of a command for a session that is not there."""
        return refused("not_found", f"Session '{session}' not found")
