"""What a bridge could not carry, in either direction, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from agentwire.codec.fidelity import Fidelity
from agentwire.events import TurnStarted
from agentwire.log.record import Record
from agentwire.transcode.report import Ledger, Loss, Passage, losses_of


class Report(Struct, omit_defaults=True):
    """What became of everything that passed a bridge. What the agent's wire had lost before is not in it."""

    host: str
    """Codec of the host."""
    agent: str
    """Codec of the agent."""
    sessions: int = 0
    turns: int = 0
    events: dict[str, Passage] = {}
    """From agent to host, by tag."""
    losses: list[Loss] = []
    """What of it the host's wire could not carry as it was."""
    refused: dict[str, int] = {}
    """What the host asked and was refused, for the agent's wire has no word for it: by the command's tag."""
    unsaid: dict[str, int] = {}
    """What the host asked and the agent was not told, by command and field, as in ``prompt.user``."""
    approved_ahead: int = 0
    """Prompts that said beforehand that every call may run, for the agent's wire cannot ask."""
    decided: dict[str, int] = {}
    """Questions of the agent that its host did not see, by how they were decided here: ``allowed`` or ``denied``."""
    ended_early: int = 0
    """Calls whose result the host did not read: its wire shows no question before the call before it has ended, and
    the agent's tells results after the questions."""
    resumed: dict[str, int] = {}
    """Sessions that were gone on with, by what the agent knows of what was said before: ``taken up`` (it has kept
    it), ``handed over`` (it was told) or ``forgotten``."""
    unasked: dict[str, int] = {}
    """What the agent told of turns that nobody had asked for, or that were over here, by the event's tag."""


class Account:
    """Counts while a bridge runs."""

    def __init__(self, host: str, agent: str, fidelity: Fidelity) -> None:
        self.refused = Counter[str]()
        self.unsaid = Counter[str]()
        self.decided = Counter[str]()
        self.unasked = Counter[str]()
        self.resumed = Counter[str]()
        self.approved_ahead = 0
        self.ended_early = 0
        self._host, self._agent = host, agent
        self._ledger = Ledger(fidelity)
        self._sessions = self._turns = 0

    def add(self, session: str, records: Sequence[Record]) -> None:
        """Count the next records of a session's log."""
        for record in records:
            self._ledger.add(session, record)
            self._turns += isinstance(record.event, TurnStarted) and not record.origin

    def end(self, session: str) -> None:
        """A session's log is over."""
        self._ledger.end(session)
        self._sessions += 1

    def report(self) -> Report:
        """What was counted."""
        lost, passages = self._ledger.close()
        return Report(
            self._host,
            self._agent,
            self._sessions,
            self._turns,
            passages,
            losses_of(lost),
            dict(sorted(self.refused.items())),
            dict(sorted(self.unsaid.items())),
            self.approved_ahead,
            dict(sorted(self.decided.items())),
            self.ended_early,
            dict(sorted(self.resumed.items())),
            dict(sorted(self.unasked.items())),
        )


def in_short(report: Report) -> str:
    """The report for a person: a line or two."""
    lost = sum(loss.count for loss in report.losses)
    lines = [
        f"bridge: {report.agent} -> {report.host}: {report.sessions} sessions, {report.turns} turns;"
        f" {lost} losses of {len(report.losses)} kinds on the host's wire"
    ]
    for what, counts in (
        ("refused to the host", report.refused),
        ("not told to the agent", report.unsaid),
        ("decided without the host", report.decided),
        ("sessions gone on with", report.resumed),
        ("unasked for and dropped", report.unasked),
    ):
        if counts:
            lines.append(f"bridge: {what}: {', '.join(f'{count} {name}' for name, count in counts.items())}")
    if report.approved_ahead:
        lines.append(f"bridge: approved beforehand, for the agent cannot ask: {report.approved_ahead} prompts")
    if report.ended_early:
        lines.append(f"bridge: ended before their results were known: {report.ended_early} calls")
    return "\n".join(lines) + "\n"
