"""What became of a log on its way to another wire, counted by event and field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from agentwire.codec.fidelity import Declaration, Fidelity, Tally, Verdict
from agentwire.log.record import Record


class Loss(Struct, frozen=True, omit_defaults=True):
    """Something that did not arrive as it was, and how often."""

    event: str
    """Its tag, or ``record`` for what surrounds every event."""
    field: str
    """Empty: the whole event."""
    verdict: Verdict
    count: int
    note: str = ""
    when: str = ""
    """Name of the condition in the wire's table."""


class Dropped(Struct, frozen=True):
    """A command that a host of the target cannot give, or not there."""

    command: str
    """Its tag; ``unreadable``: its line was none."""
    why: str
    """A refusal's code (:data:`agentwire.commands.RefusalCode`), or in words."""
    count: int


class Passage(Struct, frozen=True):
    """How many events of a kind there were, and how many a host of the target hears."""

    told: int
    heard: int


class Report(Struct, omit_defaults=True):
    """What became of one recording. What the source's own wire had lost before is not in it."""

    source: str
    """Codec that it was read with."""
    target: str
    """Codec that it was written with."""
    restored: bool = False
    """The recording held the target's own lines: they were given back, and nothing else here applies."""
    sessions: int = 0
    turns: int = 0
    lines_read: int = 0
    """Of host and agent."""
    lines_written: int = 0
    """Of the agent, and of the host where it is written."""
    events: dict[str, Passage] = {}
    """By tag."""
    losses: list[Loss] = []
    commands: dict[str, int] = {}
    """What the host had asked, by the command's tag."""
    dropped: list[Dropped] = []
    """Of that, what a host of the target does not ask."""
    unsaid: dict[str, int] = {}
    """What a host of the target says otherwise or not at all, by command and field, as in ``approve.scope``."""
    invented: dict[str, int] = {}
    """What a host of the target asks beside, by the command's tag."""
    beside: dict[str, int] = {}
    """Entries beside the wire that were not taken over (a model's, a tool's), by whose they are."""
    violations: list[str] = []
    """Rules of the target's wire that the lines break, with the line's number; the first hundred."""
    broken: int = 0
    """How many there are."""


def losses_of(counted: Mapping[Declaration, int]) -> list[Loss]:
    """Counted declarations, in the order of the bus's tags."""
    return [
        Loss(entry.event, entry.field, entry.verdict, count, entry.note, entry.when)
        for entry, count in sorted(counted.items())
        if count
    ]


class Ledger:
    """An account of many logs while they are told. It holds a turn of each at most, and forgets what is over."""

    def __init__(self, fidelity: Fidelity) -> None:
        self._fidelity = fidelity
        self._open: dict[str, Tally] = {}
        self._lost: Counter[Declaration] = Counter()
        self._told: Counter[str] = Counter()
        self._heard: Counter[str] = Counter()

    def add(self, session: str, record: Record) -> None:
        """Take the next record of a session's log."""
        tally = self._open.get(session)
        if tally is None:
            tally = self._open[session] = self._fidelity.tally()
        tally.add(record)

    def end(self, session: str) -> None:
        """A session is over."""
        tally = self._open.pop(session, None)
        if tally is not None:
            tally.close()
            self._lost += tally.lost
            self._told += tally.told
            self._heard += tally.heard

    def close(self) -> tuple[Counter[Declaration], dict[str, Passage]]:
        """Everything is over: what was lost, and how many events there were and arrived."""
        for session in list(self._open):
            self.end(session)
        names = sorted({*self._told, *self._heard})
        return self._lost, {name: Passage(self._told[name], self._heard[name]) for name in names}


def account(
    fidelity: Fidelity, logs: Mapping[str, Sequence[Record]]
) -> tuple[Counter[Declaration], dict[str, Passage]]:
    """What a wire does to whole logs by its table: what is lost, and what arrives. ``logs`` by the sessions' names."""
    ledger = Ledger(fidelity)
    for session, records in logs.items():
        for record in records:
            ledger.add(session, record)
    return ledger.close()


def as_table(report: Report) -> str:
    """The report for a person, as lines of text."""
    if report.restored:
        return f"{report.source} -> {report.target}: the original lines were given back\n"
    lines = [
        f"{report.source} -> {report.target}: {report.sessions} sessions, {report.turns} turns,"
        f" {report.lines_read} lines read, {report.lines_written} written"
    ]
    rows = [
        (f"{loss.count}", loss.verdict, f"{loss.event}.{loss.field}" if loss.field else loss.event, _words(loss))
        for loss in report.losses
    ]
    if rows:
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines += [
            f"  {count:>{widths[0]}}  {verdict:<{widths[1]}}  {what:<{widths[2]}}  {note}".rstrip()
            for count, verdict, what, note in rows
        ]
    else:
        lines.append("  nothing was lost")
    for what, counts in (
        ("the host asked", report.commands),
        ("said otherwise by the host", report.unsaid),
        ("asked beside by the host", report.invented),
        ("beside the wire and left out", report.beside),
    ):
        if counts:
            lines.append(f"  {what}: {', '.join(f'{count} {name}' for name, count in counts.items())}")
    lines += [f"  dropped: {drop.count} {drop.command} ({drop.why})" for drop in report.dropped]
    lines += [f"  breaks a rule: {violation}" for violation in report.violations]
    if report.broken > len(report.violations):
        lines.append(f"  and {report.broken - len(report.violations)} more")
    return "\n".join(lines) + "\n"


def _words(loss: Loss) -> str:
    return f"{loss.note} ({loss.when})" if loss.note and loss.when else loss.note or loss.when
