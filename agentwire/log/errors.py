"""What can go wrong with logs, journals and stored sessions. Every message is one line for a person."""

from __future__ import annotations

import os


class Gap(Exception):
    """Records were asked for that the log does not hold: too old for an ephemeral log, or never written.

    ``oldest`` and ``newest`` are the sequence numbers of what can be had (``oldest > newest``: nothing yet);
    ask for ``after=oldest - 1`` to get all of it.
    """

    def __init__(self, after: int, oldest: int, newest: int) -> None:
        if after > newest:
            self.message = f"There is no record {after} yet; the newest is {newest}"
        else:
            self.message = f"The records after {after} are no longer held; the oldest is {oldest}"
        super().__init__(self.message)
        self.after = after
        self.oldest = oldest
        self.newest = newest


class StoreError(Exception):
    """A stored session cannot be had. ``message`` says why, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadSessionId(StoreError):
    """Something that cannot be a session's id."""


class JournalError(StoreError):
    """A journal cannot be read: damaged, no journal at all, or written by a newer version."""


class SessionNotFound(StoreError):
    """There is no session with that id (or none at all)."""

    def __init__(self, session: str = "") -> None:
        super().__init__(f"Session '{session}' not found" if session else "No sessions found")
        self.session = session


class SessionExists(StoreError):
    """A new session was to get an id that is taken."""

    def __init__(self, session: str) -> None:
        super().__init__(f"Session ID '{session}' already exists")
        self.session = session


class SessionInUse(StoreError):
    """Someone has the session open; ``pid`` says who, where the system tells (0: unknown)."""

    def __init__(self, session: str, pid: int = 0) -> None:
        other = f"another process (pid {pid})" if pid else "another process"
        whom = "this process" if pid == os.getpid() else other
        super().__init__(f"Session '{session}' is in use by {whom}")
        self.session = session
        self.pid = pid


def reason(error: OSError) -> str:
    """Say what the system said, without the errno and the path that the caller names anyway."""
    return error.strerror or str(error) or type(error).__name__
