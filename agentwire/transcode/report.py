"""What became of a log on its way to another wire, counted by event and field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from agentwire.codec.fidelity import Declaration, Fidelity, Verdict, tag
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
    events: dict[str, Passage] = {}
    """By tag."""
    losses: list[Loss] = []
    commands: dict[str, int] = {}
    """What the host had asked, by the command's tag: an agent's output does not hold it."""
    violations: list[str] = []
    """Rules of the target's wire that the lines break, with the line's number."""


def losses_of(counted: Mapping[Declaration, int]) -> list[Loss]:
    """Counted declarations, in the order of the bus's tags."""
    return [
        Loss(entry.event, entry.field, entry.verdict, count, entry.note, entry.when)
        for entry, count in sorted(counted.items())
        if count
    ]


def account(
    fidelity: Fidelity, logs: Mapping[str, Sequence[Record]]
) -> tuple[Counter[Declaration], dict[str, Passage]]:
    """What a wire does to whole logs by its table: what is lost, and what arrives. ``logs`` by the sessions' names."""
    lost: Counter[Declaration] = Counter()
    told: Counter[str] = Counter()
    heard: Counter[str] = Counter()
    for session, records in logs.items():
        lost += fidelity.losses(records)
        told.update(tag(type(record.event)) for record in records)
        heard.update(tag(type(item.event)) for item in fidelity.surviving(records, session))
    return lost, {name: Passage(told[name], heard[name]) for name in sorted({*told, *heard})}


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
    if report.commands:
        asked = ", ".join(f"{count} {name}" for name, count in report.commands.items())
        lines.append(f"  not in an agent's output: what the host asked ({asked})")
    lines += [f"  breaks a rule: {violation}" for violation in report.violations]
    return "\n".join(lines) + "\n"


def _words(loss: Loss) -> str:
    return f"{loss.note} ({loss.when})" if loss.note and loss.when else loss.note or loss.when
