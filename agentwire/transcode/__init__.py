"""From one wire to another, by way of the log.

:func:`read_log` makes the log of any recording: what happened, as records, from the agent's lines and, where there are
any, the host's. :class:`LogWriter` renders a log as the output of an agent of any wire, and
:mod:`agentwire.transcode.dialogue` both directions. :func:`transcode` is the one after the other, with a
:class:`Report` of what was lost.
"""

from __future__ import annotations

from agentwire.transcode.laws import broken_laws
from agentwire.transcode.logbook import Logged
from agentwire.transcode.reading import Asked, LogReader, Read, Settled, read_all, read_log
from agentwire.transcode.recognition import Unrecognised, recognise
from agentwire.transcode.report import Dropped, Ledger, Loss, Passage, Report, account, as_table
from agentwire.transcode.transcoding import transcode, wire_of
from agentwire.transcode.writing import LogWriter

__all__ = [
    "Asked",
    "Dropped",
    "Ledger",
    "LogReader",
    "LogWriter",
    "Logged",
    "Loss",
    "Passage",
    "Read",
    "Report",
    "Settled",
    "Unrecognised",
    "account",
    "as_table",
    "broken_laws",
    "read_all",
    "read_log",
    "recognise",
    "transcode",
    "wire_of",
]
