"""We are the agent: a pagent host drives or follows us."""

from __future__ import annotations

from collections.abc import Sequence

from agentwire.codec.contract import Directive, Request, View
from agentwire.codec.framing import LineFault
from agentwire.commands import Done, GetHistory, Outcome, Prompt, Refusal, ResumeSession, SessionState, Stop
from agentwire.log.record import Record
from agentwire_pagent import answers, requests, wire
from agentwire_pagent.answers import Thread
from agentwire_pagent.envelope import line
from agentwire_pagent.rendering import SessionLines


class PagentAgent:
    """The agent side of one connection; see :class:`agentwire.codec.contract.AgentSide`.

    ``errors`` adds v4's ``Error`` line to the classic dialect, for a failed run and for what cannot be carried out; a
    strict classic decoder refuses it, so it is off unless asked for.
    """

    __slots__ = ("_dialect", "_errors", "_resuming", "_sessions", "_stopping")

    def __init__(self, dialect: wire.Dialect = "classic", *, errors: bool = False) -> None:
        self._dialect = dialect
        self._errors = errors or dialect == "v4"
        self._sessions: dict[str, SessionLines] = {}
        self._resuming = ""
        """The thread that was asked for last and is not there yet."""
        self._stopping = False
        """A cancel was read, and no input after it."""

    def receive(self, line: bytes | LineFault, view: View) -> Request | None:
        """Read one line of a host."""
        request = requests.read(line, view)
        if request is None:
            return None
        kind = request.command.__class__
        if kind is Prompt:
            return self._prompt(request, view)
        if kind is ResumeSession:
            return self._resume(request)
        self._stopping = self._stopping or kind is Stop
        return request

    def _prompt(self, request: Request, view: View) -> Request:
        """An input after a cancel is not one during a run, although that may still be ending: it begins the next.

        One after the thread that was shown is deleted opens a new one.
        """
        command, own = request.command, self._own().id
        if isinstance(command, Prompt):
            command.when_busy = "queue" if self._stopping else ""
            command.open = bool(own) and not view.has_session(own)
        self._stopping = False
        return request

    def _resume(self, request: Request) -> Request:
        """The thread that is shown already need not be taken up: it is told again."""
        wanted: str = request.token.thread_id
        if wanted == (self._resuming or self._own().id):
            return Request(GetHistory(wanted), None, request.token)
        self._resuming = wanted
        return request

    def outcome(self, request: Request, outcome: Outcome, out: bytearray) -> Directive | None:
        """Append the lines that answer a request, if the dialect has any."""
        resumed = Thread()
        if isinstance(request.command, ResumeSession):
            resumed = self._taken_up(outcome.result)
            if request.command.id == self._resuming:
                self._resuming = ""
        for method, params in answers.answer(request, outcome.result, self._own(), resumed):
            if self._dialect == "v4" or (self._errors and method == "Error"):
                out += line(method, params)
        return None

    def render(self, session: str, records: Sequence[Record], out: bytearray) -> Directive | None:
        """Append the lines for ``records``: all of them are rendered."""
        lines = self._sessions.get(session) or self._begin(session)
        if len(records) == 1:
            lines.render_one(records[0], out)
        else:
            lines.render(records, out)
        return None

    def feed(self, session: str, records: Sequence[Record]) -> None:
        """Learn the current turn's step and calls from ``records``, and v4 the messages so far."""
        (self._sessions.get(session) or self._begin(session)).feed(records)

    def fatal(self, refusal: Refusal, out: bytearray) -> None:
        """Append the error that says why the process cannot start; the classic dialect has no word for it."""
        if self._errors:
            out += line("Error", wire.Error(refusal.message, "open"))

    def _begin(self, session: str) -> SessionLines:
        lines = self._sessions[session] = SessionLines(self._dialect, self._errors, first=not self._sessions)
        return lines

    # --- what answers are made of ---

    def _own(self) -> Thread:
        """The session that was shown last."""
        last = max(self._sessions.values(), key=lambda lines: lines.shown, default=None)
        return last.thread() if last is not None and last.shown else Thread()

    def _taken_up(self, result: Done | Refusal) -> Thread:
        """The session that was taken up, with the messages that are to be told now."""
        state = result.value if isinstance(result, Done) else None
        lines = self._sessions.get(state.id) if isinstance(state, SessionState) else None
        return Thread() if lines is None else lines.thread(tell=True)
