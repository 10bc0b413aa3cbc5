"""Runs of deltas: nearly every record is a piece of a text, so neighbours are rendered at once.

What stands around a piece is the same for every piece of a run. So the pieces are encoded in one go, and what stands
between two of them takes the place of the line feeds that part them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from agentwire.events import CallArgumentsDelta, CallOutputDelta, Event, ReasoningDelta, TextDelta
from agentwire.log.record import Record
from agentwire.text import scrub

TEXTS: Final[frozenset[type[Event]]] = frozenset({TextDelta, ReasoningDelta})
"""Deltas of what the model says."""

OF_CALLS: Final[frozenset[type[Event]]] = frozenset({CallArgumentsDelta, CallOutputDelta})
"""Deltas of a call."""

_encode_lines: Final = msgspec.json.Encoder().encode_lines


def runs(records: Sequence[Record]) -> Iterator[tuple[Record, list[str]]]:
    """Go through records: each run of deltas as its first record and all its texts, any other record with no texts.

    A run is of one class, of one origin, and of one call if it is of a call.
    """
    first: Record | None = None
    kind: type[Event] | None = None
    of_call = False
    origin = call_id = ""
    texts: list[str] = []
    for record in records:
        event: Any = record.event
        found = type(event)
        if found is kind and record.origin == origin:
            if not of_call:
                texts.append(event.text)
                continue
            if event.call_id == call_id:
                texts.append(event.delta)
                continue
        if first is not None:
            yield first, texts
            first = kind = None
        if found in TEXTS:
            first, kind, origin, of_call, texts = record, found, record.origin, False, [event.text]
        elif found in OF_CALLS:
            first, kind, origin, of_call, texts = record, found, record.origin, True, [event.delta]
            call_id = event.call_id
        else:
            yield record, []
    if first is not None:
        yield first, texts


def splice(texts: Sequence[str], start: bytes, end: bytes) -> bytes:
    """One line for each of ``texts`` (one at least): ``start``, the text as JSON, ``end``, which ends with a line feed.

    Half surrogate pairs are replaced.
    """
    try:
        lines = _encode_lines(texts)
    except UnicodeEncodeError:
        lines = _encode_lines([scrub(text) for text in texts])
    # JSON text holds no line feed of its own, so each one stands between two texts.
    return start + lines[:-1].replace(b"\n", end + start) + end
