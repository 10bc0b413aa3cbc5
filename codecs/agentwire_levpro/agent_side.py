"""We are the agent: a LevPRO host drives us."""

from __future__ import annotations

from collections.abc import Sequence

from agentwire.codec.contract import Directive, Request, View
from agentwire.codec.framing import LineFault
from agentwire.commands import Outcome, Refusal
from agentwire.log.record import Record
from agentwire_levpro.answers import answer, code
from agentwire_levpro.envelope import error_line
from agentwire_levpro.inflight import Asked, InFlight
from agentwire_levpro.rendering import SessionLines
from agentwire_levpro.requests import Requests


class LevproAgent:
    """The agent side of one connection; see :class:`agentwire.codec.contract.AgentSide`."""

    __slots__ = ("_in_flight", "_requests", "_sessions")

    def __init__(self) -> None:
        self._in_flight = InFlight()
        self._requests = Requests(self._in_flight)
        self._sessions: dict[str, SessionLines] = {}

    def receive(self, line: bytes | LineFault, view: View) -> Request | None:
        """Read one line. None for a blank one, and for what comes after ``shutdown``."""
        return self._requests.read(line)

    def outcome(self, request: Request, outcome: Outcome, out: bytearray) -> Directive | None:
        """Append the answer to a request. A chat that begins is answered by its end."""
        asked = request.token or Asked(None)  # a line that could not even be read has no token
        out += answer(asked, outcome.result)
        if asked.method != "chat" or isinstance(outcome.result, Refusal):
            self._in_flight.remove(asked)
        return None

    def render(self, session: str, records: Sequence[Record], out: bytearray) -> Directive | None:
        """Append the lines for ``records``: all of them are rendered."""
        lines = self._lines(session)
        if len(records) == 1:
            lines.render_one(records[0], out)
        else:
            lines.render(records, out)
        if lines.idle:
            del self._sessions[session]  # a process may see very many sessions
        return None

    def feed(self, session: str, records: Sequence[Record]) -> None:
        """Learn the current chat's step and calls from ``records``."""
        self._lines(session).feed(records)

    def fatal(self, refusal: Refusal, out: bytearray) -> None:
        """Append the error that says why the process cannot start: no request can be named."""
        out += error_line(None, code(refusal), refusal.message)

    def _lines(self, session: str) -> SessionLines:
        lines = self._sessions.get(session)
        if lines is None:
            lines = self._sessions[session] = SessionLines(session, self._in_flight)
        return lines
