"""We are the agent: a pagent host drives or follows us."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentwire import events as bus
from agentwire.codec.contract import Directive, Request
from agentwire.commands import Outcome, Refusal
from agentwire.log.record import Record
from agentwire_pagent import answers, requests, wire
from agentwire_pagent.envelope import line
from agentwire_pagent.rendering import SessionLines

_FEW: Final = 4
"""Fewer records than this are rendered quicker one by one than in runs."""


class PagentAgent:
    """The agent side of one connection; see :class:`agentwire.codec.contract.AgentSide`.

    ``errors`` adds v4's ``Error`` line to the classic dialect, for a failed run and for what cannot be carried out; a
    strict classic decoder refuses it, so it is off unless asked for.
    """

    __slots__ = ("_dialect", "_errors", "_sessions")

    receive = staticmethod(requests.read)

    def __init__(self, dialect: wire.Dialect = "classic", *, errors: bool = False) -> None:
        self._dialect = dialect
        self._errors = errors or dialect == "v4"
        self._sessions: dict[str, SessionLines] = {}

    def outcome(self, request: Request, outcome: Outcome, out: bytearray) -> Directive | None:
        """Append the line that answers a request, if the dialect has one."""
        answer = answers.answer(request, outcome.result, self._opened())
        if answer is not None and (self._dialect == "v4" or (self._errors and answer[0] == "Error")):
            out += line(*answer)
        return None

    def render(self, session: str, records: Sequence[Record], out: bytearray) -> Directive | None:
        """Append the lines for ``records``: all of them are rendered."""
        lines = self._sessions.get(session) or self._begin(session)
        if len(records) == 1:
            lines.render_one(records[0], out)
        elif len(records) < _FEW:
            for record in records:
                lines.render_one(record, out)
        else:
            lines.render(records, out)
        return None

    def feed(self, session: str, records: Sequence[Record]) -> None:
        """Learn the current turn's step and calls from ``records``."""
        (self._sessions.get(session) or self._begin(session)).feed(records)

    def fatal(self, refusal: Refusal, out: bytearray) -> None:
        """Append the error that says why the process cannot start; the classic dialect has no word for it."""
        if self._errors:
            out += line("Error", wire.Error(refusal.message, "open"))

    def _begin(self, session: str) -> SessionLines:
        lines = self._sessions[session] = SessionLines(self._dialect, self._errors)
        return lines

    def _opened(self) -> bus.SessionOpened | None:
        """The session that this connection was shown last."""
        shown = [lines.opened for lines in self._sessions.values() if lines.opened is not None]
        return shown[-1] if shown else None
