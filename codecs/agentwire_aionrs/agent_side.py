"""We are the agent: an aionrs host drives us."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from agentwire.codec.contract import Directive, Request
from agentwire.codec.jsontext import append_line
from agentwire.codec.runs import runs
from agentwire.commands import Outcome, Refusal
from agentwire.log.record import Record
from agentwire.text import scrub_value
from agentwire_aionrs.rendering import SessionLines, maker
from agentwire_aionrs.requests import answer, read, refused

_ENCODER: Final = msgspec.json.Encoder()


class AionrsAgent:
    """The agent side of one connection; see :class:`agentwire.codec.contract.AgentSide`."""

    __slots__ = ("_sessions",)

    receive = staticmethod(read)

    def __init__(self) -> None:
        # The wire knows one session; a connection that follows several keeps their turns apart.
        self._sessions: defaultdict[str, SessionLines] = defaultdict(SessionLines)

    def outcome(self, request: Request, outcome: Outcome, out: bytearray) -> Directive | None:
        """Append the line that answers a request, if there is one."""
        line = answer(request.command, outcome.result)
        if line is not None:
            append_line(_ENCODER, line, out)
        return None

    def render(self, session: str, records: Sequence[Record], out: bytearray) -> Directive | None:
        """Append the lines for ``records``: all of them are rendered."""
        lines = self._sessions[session]
        if len(records) != 1:
            for record, texts in runs(records):
                if len(texts) < 2:
                    self.render(session, [record], out)
                else:
                    lines.render_run(record, texts, out)
            return None
        record = records[0]
        make = maker(type(record.event))
        if make is None or record.origin:
            return None  # a subagent's own events are not on this wire
        try:
            out += make(lines, record.event, record)
        except UnicodeEncodeError:
            out += make(lines, scrub_value(record.event), record)
        return None

    def feed(self, session: str, records: Sequence[Record]) -> None:
        """Learn the current turn's id and calls from ``records``."""
        self._sessions[session].feed(records)

    def fatal(self, refusal: Refusal, out: bytearray) -> None:
        """Append the error that stands in place of ``ready`` (section 4.3)."""
        append_line(_ENCODER, refused(None, refusal), out)
