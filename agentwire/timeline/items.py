"""What a timeline is made of."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field

from agentwire.events import Outcome, Usage

Lane = Literal["host", "agent", "model", "tools", "approvals", "subagents"]
"""Who is busy or spoken to: a row of the picture."""

LANES: Final[tuple[Lane, ...]] = ("host", "agent", "model", "tools", "approvals", "subagents")

Wait = Literal["person", "tools", "subagents", "retry", "model"]
"""What a turn waits for. Where there are several at once, the first of this order counts; ``retry`` is the pause before
a failed request is sent again, ``model`` everything else."""

PROBLEMS: Final = frozenset(
    {
        "error",
        "failed",
        "refused",
        "denied",
        "crashed",
        "client_gone",
        "limit",
        "retry",
        "warning",
        "cancelled",
        "stopped",
    }
)
"""Statuses that a person looks for first."""


class Place(NamedTuple):
    """Where and when something was told."""

    at: int
    """Microseconds since the recording began; 0 throughout if it has no times."""
    order: int
    """By entry, and within one by what it told before: places things where there are no times."""
    source: int
    """Number of the entry or record, from 0; -1: the end."""


ORDERS: Final = 16
"""Places for the things that one entry tells; what is more shares the last."""


class Fact(Struct):
    """What was told of an item: a record or a command, or many joined deltas as one."""

    source: int
    what: Any
    """A :class:`agentwire.log.Record`, a command, or an outcome."""
    joined: int = 1
    """How many deltas are one here; ``what`` is the first of them."""
    pieces: list[str] = []
    """Their texts, as far as they are kept."""
    size: int = 0
    """Characters of ``pieces``."""


class Item(Struct):
    """Something that took a while, or happened at once (``start`` is ``end``)."""

    kind: str
    """``turn``, ``step``, ``text``, ``reasoning``, ``arguments``, ``call``, ``approval``, ``host_tool``, ``retry``,
    ``compaction``, ``subagent``, ``command``, or the tag of an event."""
    lane: Lane
    title: str
    start: int
    """Microseconds since the recording began."""
    end: int
    first: int
    """Place in the order of everything told."""
    last: int
    session: str = ""
    turn: int = 0
    """The session's turn, from 1; 0: outside any."""
    origin: str = ""
    """Run id of the subagent that said it."""
    depth: int = 0
    """How deep it lies in its turn, which is 0."""
    status: str = ""
    """How it ended; empty: well, or there is no more to say."""
    note: str = ""
    """What a person may want to know beside the title."""
    pieces: int = 0
    """Deltas of it."""
    told_ms: int = -1
    """How long it took, as the agent said; -1: it did not."""
    sources: list[int] = []
    """Entries or records that told of it; of many deltas the first and the last ones."""
    facts: list[Fact] = []
    """Kept only for those who ask for it."""

    @property
    def problem(self) -> bool:
        """It did not go well."""
        return self.status in PROBLEMS

    @property
    def took(self) -> int:
        """Microseconds."""
        return self.end - self.start


class Turn(Struct):
    """A turn, and what it waited for."""

    item: Item
    items: list[Item] = []
    """Everything in it, in order; without the turn itself."""
    outcome: Outcome | Literal[""] = ""
    usage: Usage = Usage()
    waits: dict[Wait, int] = {}
    """Microseconds; together they are the turn's duration."""


class Totals(Struct):
    """Sums over everything."""

    turns: dict[str, int] = {}
    """By outcome."""
    steps: int = 0
    calls: dict[str, int] = {}
    """By status."""
    questions: dict[str, int] = {}
    """By decision."""
    errors: int = 0
    retries: int = 0
    subagents: int = 0
    usage: Usage = Usage()
    waits: dict[Wait, int] = {}
    duration: int = 0
    """Microseconds from the first to the last line."""
    idle: int = 0
    """Of them, how long no turn ran."""
    lines: dict[str, int] = {}
    """Entries or records, by who wrote them."""


class Timeline(Struct):
    """What happened, in order."""

    name: str
    wire: str
    """Codec; empty: a journal of ours."""
    made_by: str = ""
    started: int = 0
    """Milliseconds since the epoch; 0: not known."""
    timed: bool = False
    """The source says when its lines were written."""
    items: list[Item] = []
    turns: list[Turn] = []
    sessions: list[str] = []
    """As lines name them; a wire of one session names it once or not at all."""
    totals: Totals = field(default_factory=Totals)
