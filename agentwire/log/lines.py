"""Records as lines of JSON: encoding them so that a line is a line, and decoding what an older self wrote.

Decoding is strict about what must hold (JSON, a record, no gap) and tolerant of what a newer version may add:
unknown fields are skipped, an event with an unknown tag becomes :class:`agentwire.events.Unknown`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from agentwire.events import (
    ALL_EVENTS,
    CallFinished,
    CallReady,
    Event,
    HostToolDetails,
    HostToolRequested,
    StepFinished,
    Unknown,
)
from agentwire.log.record import Record
from agentwire.text import scrub_value

RAW_FIELDS: dict[type[Event], str] = {
    CallReady: "arguments",
    CallFinished: "details",
    HostToolRequested: "arguments",
    HostToolDetails: "details",
    StepFinished: "items",
    Unknown: "raw",
}
"""The field that holds ready-made JSON (a ``Raw`` or a list of them), by event."""

_encoder = msgspec.json.Encoder()

encode_lines = _encoder.encode_lines
"""Records to lines. Raises :class:`UnicodeEncodeError` if a string holds a lone surrogate."""


class BadLine(Exception):
    """A line is no record, or not the next one. ``index`` counts lines from 0 within what was decoded."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index
        self.problem = problem


class _Envelope(Struct):
    """A record whose event is not looked into."""

    seq: int
    time: int
    event: Raw
    turn: int = 0
    origin: str = ""


class _Tagged(Struct):
    type: str


# Building the decoder of the union takes some milliseconds, which a process that opens a new session need not spend.
@cache
def _records() -> msgspec.json.Decoder[Record]:
    return msgspec.json.Decoder(Record)


@cache
def _known_tags() -> frozenset[Any]:
    return frozenset(kind.__struct_config__.tag for kind in ALL_EVENTS)


def encode_line(record: Record) -> bytes:
    """Encode one record of any event, mending it in place where it would not be one line of valid JSON.

    Lone surrogates in any of its strings are replaced, ready-made JSON with line feeds is made compact. Raises
    ``ValueError`` for ready-made JSON that is not JSON, and ``TypeError`` for an object that JSON has no word for.
    """
    if type(record.event) in RAW_FIELDS:
        _change_raw(record.event, _mended)
    try:
        return _encoder.encode(record) + b"\n"
    except UnicodeEncodeError:
        scrub_value(record)
        return _encoder.encode(record) + b"\n"


def decode_lines(data: bytes, first: int) -> list[Record]:
    """Decode whole lines into records that begin with sequence number ``first`` and have no gap.

    Nothing in the records refers to ``data``. Raises :class:`BadLine`.
    """
    try:
        records = _records().decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        records = []
    if len(records) != data.count(b"\n"):
        lines = data.split(b"\n")
        records = [_decode_line(line, index) for index, line in enumerate(lines[:-1])]
    if [record.seq for record in records] != list(range(first, first + len(records))):
        raise _out_of_order(records, first)
    for record in records:
        if type(record.event) in RAW_FIELDS:
            _change_raw(record.event, Raw.copy)
    return records


def _decode_line(line: bytes, index: int) -> Record:
    try:
        return _records().decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        record = _of_newer_version(line)
        if record is None:
            raise BadLine(index, str(error)) from None
        return record


def _of_newer_version(line: bytes) -> Record | None:
    """Read a record whose event has a tag that this version does not know; None: something else is wrong."""
    try:
        envelope = msgspec.json.decode(line, type=_Envelope)
        tag = msgspec.json.decode(envelope.event, type=_Tagged).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if tag in _known_tags():
        return None
    event = Unknown(wire="agentwire", name=tag, raw=envelope.event)
    return Record(envelope.seq, envelope.time, event, envelope.turn, envelope.origin)


def _out_of_order(records: list[Record], first: int) -> BadLine:
    for index, record in enumerate(records):
        if record.seq != first + index:
            return BadLine(index, f"record {record.seq} where {first + index} must be")
    raise AssertionError("the records are in order")


def _change_raw(event: Any, change: Any) -> None:
    name = RAW_FIELDS[type(event)]
    value = getattr(event, name)
    if isinstance(value, Raw):
        setattr(event, name, change(value))
    elif value:
        setattr(event, name, [change(raw) for raw in value])


def _mended(raw: Raw) -> Raw:
    data = bytes(raw)
    try:
        data.decode()
        msgspec.json.decode(data, type=Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"an event holds ready-made JSON that is not JSON: {error}") from error
    if b"\n" in data or b"\r" in data:
        return Raw(msgspec.json.format(data, indent=-1))
    return raw
