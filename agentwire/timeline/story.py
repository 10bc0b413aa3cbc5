"""What of a session is under way, and the items that are made of it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from agentwire.log.record import Record
from agentwire.timeline.items import Fact, Item, Lane, Place, Timeline, Turn, Wait
from agentwire.timeline.waiting import Stretch

LONGEST_FACT: Final = 64 * 1024
"""Characters of joined deltas that are kept."""

FIRST_SOURCES: Final = 8
"""Of an item of many lines: how many of the first are remembered. The last always is."""

_PART_OF_STEP: Final = frozenset({"text", "reasoning", "arguments", "retry", "approval"})


class Voice:
    """The main agent or one subagent of a session: what of it is under way."""

    __slots__ = ("compaction", "origin", "parked", "ready", "retry", "step", "streams")

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.ready = Place(0, 0, -1)
        """Since when the model could have been at work on its next reply."""
        self.step: Item | None = None
        self.streams: dict[str, Item] = {}
        """Deltas under way, by kind, or by call for arguments."""
        self.retry: Item | None = None
        self.compaction: Item | None = None
        self.parked: Place | None = None


class Question(Struct):
    """A question that waits for its answer."""

    item: Item
    call_id: str


class Call(Struct):
    """A call that has not ended."""

    item: Item
    ran: bool = False
    asked: bool = False
    """Whatever time passes before it runs is not its own."""


class Story:
    """One session."""

    __slots__ = ("approvals", "busy", "calls", "host_tools", "key", "number", "prompt", "subagents", "turn", "voices")

    def __init__(self, key: str) -> None:
        self.key = key
        self.number = 0
        self.turn: Turn | None = None
        self.prompt = ""
        """What the host asked last, for wires whose turns do not repeat it."""
        self.voices: dict[str, Voice] = {}
        self.calls: dict[str, Call] = {}
        self.approvals: dict[str, Question] = {}
        self.host_tools: dict[str, Item] = {}
        self.subagents: dict[str, Item] = {}
        self.busy: dict[Wait, list[Stretch]] = {}

    def voice(self, origin: str) -> Voice:
        """The main agent (``""``) or a subagent."""
        voice = self.voices.get(origin)
        if voice is None:
            voice = self.voices[origin] = Voice(origin)
        return voice


class Scribe:
    """Writes items into a timeline. ``keep``: they keep what was told of them."""

    def __init__(self, timeline: Timeline, *, keep: bool) -> None:
        self.timeline = timeline
        self.heard_host = False
        """The recording has lines of the host."""
        self._keep = keep

    def begin(
        self, story: Story, voice: Voice, kind: str, lane: Lane, title: str, place: Place, record: Record | None
    ) -> Item:
        """An item begins; ``record`` tells of it, unless something else does."""
        if voice.origin and lane != "approvals":
            lane = "subagents"
        item = Item(kind, lane, title, place.at, place.at, place.order, place.order, origin=voice.origin)
        self.add(story, item, place)
        if record is not None:
            self.told(item, place, record)
        return item

    def add(self, story: Story | None, item: Item, place: Place) -> Item:
        """Put an item into the timeline, and into the turn under way."""
        self.timeline.items.append(item)
        if story is not None:
            item.session = story.key
            if story.turn is not None:
                inside = item.kind in _PART_OF_STEP
                item.turn, item.depth = story.number, 1 + inside + bool(item.origin)
                story.turn.items.append(item)
            elif item.kind in ("turn", "input"):
                item.turn = story.number
        return item

    def end(self, item: Item | None, place: Place, status: str = "", note: str = "") -> None:
        """An item ends, if it is one; what is not said about it stays."""
        if item is None:
            return
        item.end, item.last = max(place.at, item.start), place.order
        item.status = status or item.status
        item.note = note or item.note

    def told(self, item: Item, place: Place, what: Any) -> None:
        """Remember where an item was told of, and by what."""
        self._source(item, place.source)
        if self._keep:
            item.facts.append(Fact(place.source, what))

    def joined(self, item: Item, piece: str, record: Record, place: Place) -> None:
        """One more of many deltas: they are one fact."""
        item.pieces += 1
        self._source(item, place.source)
        if not self._keep:
            return
        last = item.facts[-1] if item.facts else None
        if last is None or not last.pieces:
            last = Fact(place.source, record, 0)
            item.facts.append(last)
        last.joined += 1
        if last.size < LONGEST_FACT:
            last.pieces.append(piece)
            last.size += len(piece)

    def _source(self, item: Item, source: int) -> None:
        sources = item.sources
        if source < 0 or sources[-1:] == [source]:
            return
        if len(sources) > FIRST_SOURCES:
            sources.pop()
        sources.append(source)


def count(counts: dict[str, int], name: str) -> None:
    """One more of a kind."""
    counts[name] = counts.get(name, 0) + 1
