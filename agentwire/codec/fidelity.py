"""Declared fidelity: what a wire does to every event and field of the bus, as data.

A codec's table has one or more :class:`Row` for each event. Three things come of it: the matrix in the README, the
losses that ``transcode`` reports, and the law that tests hold every codec to::

    host side reads (agent side writes (log))  ==  fidelity.surviving(log)

A row whose fate hangs on more than its event names a condition; the codec's :class:`Story` keeps what conditions and
values need to know of the records before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from agentwire.codec.heard import Heard
from agentwire.commands import JsonId
from agentwire.events import ALL_EVENTS, Event, TurnFinished
from agentwire.log.record import Record

Verdict = Literal["exact", "narrowed", "moved", "absent", "invented"]
"""``narrowed``: something of it is lost; ``moved``: it arrives elsewhere or as another event; ``invented``: what
arrives was made up, for the wire or the bus demands a value."""

MARKS: Final[dict[Verdict, str]] = {"exact": "●", "narrowed": "◐", "moved": "→", "absent": "–", "invented": "+"}

_PLACE: Final = ("seq", "time", "turn", "origin")


class Story(Protocol):
    """What a codec's table remembers of the records before the one at hand."""

    def advance(self, record: Record) -> None:
        """Learn from a record, after its fate was decided."""
        ...


@runtime_checkable
class LongStory(Story, Protocol):
    """A story that can be told in pieces, so that a log need not be held whole."""

    def go_on(self, records: Sequence[Record]) -> None:
        """Learn beforehand from the next records, which follow those told so far; no turn is under way before them."""
        ...


Value = Callable[[Any, Any], Any]
"""Makes a field's value as it arrives from the event and the story."""


class Rule(Struct, frozen=True):
    """What becomes of one field. Without ``value`` it arrives as it is or, if absent, with its default."""

    verdict: Verdict
    note: str = ""
    value: Value | None = None


EXACT: Final = Rule("exact")


def absent(note: str = "", value: Value | None = None) -> Rule:
    """The wire has no word for the field; ``value`` where the bus has no default for it."""
    return Rule("absent", note, value)


def narrowed(note: str, value: Value) -> Rule:
    """Something of the value is lost."""
    return Rule("narrowed", note, value)


def moved(note: str, value: Value | None = None) -> Rule:
    """The value arrives elsewhere; ``value`` is what is left here (none: nothing)."""
    return Rule("moved", note, value)


def invented(note: str, value: Value) -> Rule:
    """The value that arrives is made up."""
    return Rule("invented", note, value)


class Row(Struct, frozen=True):
    """What becomes of one event, always or under a condition."""

    event: type[Event]
    verdict: Verdict
    note: str = ""
    fields: Mapping[str, Rule] = {}
    """Every field of the event; empty for an event that is absent."""
    when: str = ""
    """Name of the condition; the first row of an event whose condition holds counts, the last has none."""
    becomes: Callable[[Any, Any], Sequence[Event]] | None = None
    """The events that arrive, from event and story; None: itself, reduced to what its fields' rules leave."""

    def reduce(self, event: Event, story: Any) -> Event:
        """The event with each field as it arrives."""
        return type(event)(**{
            name: _arrives(rule, type(event), name, event, story) for name, rule in self.fields.items()
        })  # fmt: skip


class Declaration(Struct, frozen=True, order=True):
    """One entry of the table: what happens to an event (``field`` empty) or to one of its fields."""

    event: str
    """Its tag, or ``record`` for what surrounds every event."""
    field: str
    verdict: Verdict
    note: str = ""
    when: str = ""


class Fidelity:
    """A codec's table, and what follows from it.

    ``place`` says what becomes of a record's own fields. ``hidden`` names conditions under which no event at all is
    shown, with the reason; every other condition is used by rows. ``story`` is made anew for each log, from the
    whole log. ``ref`` gives the turn's ``ref`` as it arrives with a record, None where the wire does not tell.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        place: Mapping[str, Rule],
        story: Callable[[Sequence[Record]], Story],
        ref: Callable[[Record, Any], JsonId],
        conditions: Mapping[str, Callable[[Record, Any], bool]] | None = None,
        hidden: Mapping[str, str] | None = None,
    ) -> None:
        self._rows: dict[type[Event], list[Row]] = {}
        for row in rows:
            self._rows.setdefault(row.event, []).append(row)
        self._place = place
        self._story = story
        self._ref = ref
        self._conditions = conditions or {}
        self._hidden = hidden or {}

    # --- what follows from the table ---

    def surviving(self, records: Sequence[Record], session: str = "") -> list[Heard]:
        """What a host side hears of a log that an agent side rendered; ``session`` is the id that lines carry."""
        story = self._story(records)
        heard = []
        for record in records:
            row = self._find(record, story)
            if row is not None:
                origin = record.origin if self._place["origin"].verdict == "exact" else ""
                ref = self._ref(record, story)
                heard += [Heard(event, session, ref, origin) for event in _arriving(row, record.event, story)]
            story.advance(record)
        return heard

    def losses(self, records: Sequence[Record]) -> Counter[Declaration]:
        """Count what does not arrive as it was, by event and field. A field that was empty loses nothing."""
        story = self._story(records)
        lost: Counter[Declaration] = Counter()
        for record in records:
            lost.update(self._lost(record, self._find(record, story), story))
            story.advance(record)
        return lost

    def tally(self) -> Tally:
        """An account of one log that is given to it piece by piece."""
        return Tally(self)

    def declarations(self) -> Iterator[Declaration]:
        """The whole table, in the order of the bus."""
        for name in _PLACE:
            if name in self._place:
                yield Declaration("record", name, self._place[name].verdict, self._place[name].note)
        for event in ALL_EVENTS:
            for row in self._rows.get(event, []):
                yield _of_row(row)
                for name, rule in row.fields.items():
                    yield Declaration(tag(event), name, rule.verdict, rule.note, row.when)

    def matrix(self) -> dict[str, str]:
        """One cell for each event's tag: the marks (:data:`MARKS`) of its rows, the most faithful first."""
        verdicts = {event: {row.verdict for row in self._rows.get(event, [])} for event in ALL_EVENTS}
        return {
            tag(event): "".join(mark for verdict, mark in MARKS.items() if verdict in found)
            for event, found in verdicts.items()
        }

    def problems(self) -> list[str]:
        """What the table lacks or contradicts; empty for a table that is complete."""
        found = [f"record.{name}: no declaration" for name in _PLACE if name not in self._place]
        named = {row.when for rows in self._rows.values() for row in rows if row.when} | set(self._hidden)
        found += [f"condition {name!r} is not defined" for name in sorted(named - set(self._conditions))]
        found += [f"condition {name!r} is never used" for name in sorted(set(self._conditions) - named)]
        for event in ALL_EVENTS:
            rows = self._rows.get(event, [])
            if not rows or rows[-1].when or not all(row.when for row in rows[:-1]):
                found.append(f"{tag(event)}: needs rows of which the last, and only that, is unconditional")
            for row in rows:
                found += [f"{tag(event)}{f' when {row.when}' if row.when else ''}: {fault}" for fault in _faults(row)]
        return found

    # --- one record ---

    def _find(self, record: Record, story: Story) -> Row | None:
        """The row that decides over a record; None if it is hidden."""
        if any(self._conditions[name](record, story) for name in self._hidden):
            return None
        for row in self._rows[type(record.event)]:
            if not row.when or self._conditions[row.when](record, story):
                return row
        raise LookupError(f"no row for {tag(type(record.event))}")

    def _lost(self, record: Record, row: Row | None, story: Story) -> Iterator[Declaration]:
        event = record.event
        if row is None:
            hides = next(name for name in self._hidden if self._conditions[name](record, story))
            yield Declaration(tag(type(event)), "", "absent", self._hidden[hides], hides)
            return
        if row.verdict in ("absent", "moved", "invented"):
            yield _of_row(row)
        for name, rule in row.fields.items():
            if rule.verdict != "exact" and _arrives(rule, type(event), name, event, story) != getattr(event, name):
                yield Declaration(tag(type(event)), name, rule.verdict, rule.note, row.when)


class Tally:
    """What becomes of one log on a wire, counted: as :meth:`Fidelity.losses` and :meth:`Fidelity.surviving` say it.

    It holds a turn at most, and what was said since the one before: what is said outside of turns may be told with the
    next one that ends well. Of a wire whose :class:`Story` cannot be told in pieces it holds the log.
    """

    def __init__(self, fidelity: Fidelity) -> None:
        self.lost: Counter[Declaration] = Counter()
        self.told: Counter[str] = Counter()
        """Events of the log, by tag."""
        self.heard: Counter[str] = Counter()
        """Events that a host side hears of it."""
        self._fidelity = fidelity
        self._story = fidelity._story([])
        self._long = isinstance(self._story, LongStory)
        self._piece: list[Record] = []
        self._outside = False
        """The piece holds something that was said outside of turns."""

    def add(self, record: Record) -> None:
        """Take the next record."""
        self._piece.append(record)
        self._outside = self._outside or not record.turn
        event = record.event
        ends = isinstance(event, TurnFinished) and not record.origin
        if ends and self._long and (event.outcome in ("completed", "limit") or not self._outside):  # type: ignore[union-attr]
            self._count()

    def close(self) -> None:
        """The log is over: count what was held."""
        if self._piece:
            self._count()

    def _count(self) -> None:
        piece, self._piece, self._outside = self._piece, [], False
        fidelity, story = self._fidelity, self._story
        if self._long:
            story.go_on(piece)  # type: ignore[attr-defined]  # it was asked whether it can
        else:
            story = fidelity._story(piece)
        for record in piece:
            event, row = record.event, fidelity._find(record, story)
            self.told[tag(type(event))] += 1
            self.lost.update(fidelity._lost(record, row, story))
            if row is not None:
                self.heard.update(tag(type(arrived)) for arrived in _arriving(row, event, story))
            story.advance(record)


def matrix_table(codecs: Mapping[str, Fidelity]) -> str:
    """The README's matrix: one line of Markdown for each event, one column for each codec."""
    cells = {name: fidelity.matrix() for name, fidelity in codecs.items()}
    lines = [f"| event | {' | '.join(codecs)} |", f"|---|{':-:|' * len(codecs)}"]
    for event in map(tag, ALL_EVENTS):
        lines.append(f"| `{event}` | {' | '.join(cell[event] for cell in cells.values())} |")
    return "\n".join(lines) + "\n"


def tag(event: type[Event]) -> str:
    """The name of an event in journals and tables."""
    return str(event.__struct_config__.tag)


def _of_row(row: Row) -> Declaration:
    return Declaration(tag(row.event), "", row.verdict, row.note, row.when)


def _arriving(row: Row, event: Event, story: Any) -> Sequence[Event]:
    if row.becomes is not None:
        return row.becomes(event, story)
    return [] if row.verdict in ("absent", "moved") else [row.reduce(event, story)]


def _arrives(rule: Rule, event_type: type[Event], name: str, event: Event, story: Any) -> Any:
    if rule.value is not None:
        return rule.value(event, story)
    return getattr(event, name) if rule.verdict == "exact" else _default(event_type, name)


def _default(event: type[Event], name: str) -> Any:
    """A field's default; ``msgspec.NODEFAULT`` if it is required."""
    field = _fields(event)[name]
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


@cache
def _fields(event: type[Event]) -> dict[str, msgspec.structs.FieldInfo]:
    """A field's description costs far more than an event: a log has very many."""
    return {field.name: field for field in msgspec.structs.fields(event)}


def _faults(row: Row) -> Iterator[str]:
    names = set(row.event.__struct_fields__)
    if row.verdict == "absent":
        if row.fields or row.becomes:
            yield "absent, yet something is said of what arrives"
        return
    if not row.fields and row.becomes is not None and row.verdict == "moved":
        return  # nothing of it arrives as this event
    if missing := names - set(row.fields):
        yield f"no declaration of {', '.join(sorted(missing))}"
    if unknown := set(row.fields) - names:
        yield f"no such field: {', '.join(sorted(unknown))}"
    inexact = {name for name, rule in row.fields.items() if rule.verdict != "exact"}
    if row.verdict == "exact" and inexact:
        yield f"exact, yet {', '.join(sorted(inexact))} is not"
    if row.verdict == "narrowed" and not inexact:
        yield "narrowed, yet every field is exact"
    for name in inexact & names:
        if row.fields[name].value is None and _default(row.event, name) is msgspec.NODEFAULT:
            yield f"{name} has no default and needs a value"
