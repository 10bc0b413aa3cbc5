"""The log of a session, its journal on disk, and the history that is folded from it.

Nothing here imports trio; :mod:`agentwire.log.waiting` does when one of its functions is first called.
"""

from agentwire.log.cursor import Cursor
from agentwire.log.errors import Gap, JournalError, SessionExists, SessionInUse, SessionNotFound, StoreError
from agentwire.log.history import History
from agentwire.log.journal import Journal, JournalHeader, JournalView
from agentwire.log.log import SessionLog, now_ms
from agentwire.log.record import Record

__all__ = [
    "Cursor",
    "Gap",
    "History",
    "Journal",
    "JournalError",
    "JournalHeader",
    "JournalView",
    "Record",
    "SessionExists",
    "SessionInUse",
    "SessionLog",
    "SessionNotFound",
    "StoreError",
    "now_ms",
]
