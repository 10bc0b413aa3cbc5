"""Deltas: the events that stream one text in pieces, and how a reader that is far behind gets them joined.

Joining never loses: the text of the joined record is the concatenation, its sequence number and time are those of
the last piece, and only pieces that follow one another directly are joined, so everything else keeps its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentwire.events import CallArgumentsDelta, CallOutputDelta, Event, ReasoningDelta, TextDelta
from agentwire.log.lines import encode_lines
from agentwire.log.record import Record
from agentwire.text import scrub_value

RECORD_BYTES = 192
"""Memory of a record and its delta beside the text."""

JOIN_LIMIT = 64 * 1024
"""Longest joined text, in characters."""

DELTAS: frozenset[type[Event]] = frozenset({TextDelta, ReasoningDelta, CallArgumentsDelta, CallOutputDelta})


def text_of(delta: Any) -> str:
    """Give the piece of text that a delta carries."""
    text: str = delta.text if type(delta) is TextDelta or type(delta) is ReasoningDelta else delta.delta
    return text


def _key(event: Any) -> tuple[Any, ...]:
    kind = type(event)
    if kind is CallOutputDelta:
        return kind, event.call_id, event.stream
    return kind, event.call_id if kind is CallArgumentsDelta else event.message_id


def _with_text(event: Any, text: str) -> Any:
    kind = type(event)
    if kind is CallOutputDelta:
        return CallOutputDelta(event.call_id, text, event.stream)
    if kind is CallArgumentsDelta:
        return CallArgumentsDelta(event.call_id, text)
    return kind(text, event.message_id)


def encode_deltas(deltas: list[Record]) -> bytes:
    """Encode deltas, having mended strings that are no text."""
    try:
        return encode_lines(deltas)
    except UnicodeEncodeError:
        for record in deltas:
            scrub_value(record)
        return encode_lines(deltas)


def deltas_size(deltas: list[Any]) -> int:
    """Mend strings that are no text, and give the memory of all strings: quick for text without message ids."""
    try:
        texts = [record.event.text for record in deltas if not record.event.message_id]
        if len(texts) == len(deltas):
            text = "".join(texts)
            return len(text) if text.isascii() else 2 * len(text.encode())
    except (AttributeError, UnicodeEncodeError):
        pass  # deltas of calls, or strings to be mended
    return 2 * len(encode_deltas(deltas))


class Joiner:
    """Collects records and joins neighbouring deltas of one item."""

    __slots__ = ("_key", "_last", "_pieces", "_size", "joined")

    def __init__(self) -> None:
        self.joined: list[Record] = []
        self._pieces: list[str] = []
        """Texts of the run of deltas that ends with ``_last``."""
        self._last: Record | None = None
        self._key: tuple[Any, ...] = ()
        self._size = 0

    def add(self, records: Iterable[Record]) -> None:
        """Take more records, in order."""
        for record in records:
            event = record.event
            if type(event) not in DELTAS:
                self.finish()
                self.joined.append(record)
                continue
            text = text_of(event)
            key = (*_key(event), record.turn, record.origin)
            if key != self._key or self._size + len(text) > JOIN_LIMIT:
                self.finish()
                self._key = key
            self._pieces.append(text)
            self._size += len(text)
            self._last = record

    def finish(self) -> list[Record]:
        """Close the run of deltas that is still open, and give all records."""
        last = self._last
        if last is not None:
            if len(self._pieces) > 1:
                event = _with_text(last.event, "".join(self._pieces))
                last = Record(last.seq, last.time, event, last.turn, last.origin)
            self.joined.append(last)
            self._last, self._pieces, self._key, self._size = None, [], (), 0
        return self.joined
