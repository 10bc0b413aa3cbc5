"""Event objects into lines: what both surfaces do alike, whatever stands around an event.

Nearly every record is a delta, so those do not become structs first: a run of them is encoded at once and spliced
between bytes that are made once a turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from agentwire import events as bus
from agentwire.codec.runs import OF_CALLS, runs
from agentwire.events import CallArgumentsDelta, CallOutputDelta, Event, ReasoningDelta, TextDelta
from agentwire.log.record import Record
from agentwire.text import scrub, scrub_value
from agentwire_jan import wire
from agentwire_jan.events_out import Items, Own
from agentwire_jan.surface import Surface

_ENCODER: Final = msgspec.json.Encoder()
_encode: Final = _ENCODER.encode
_encode_lines: Final = _ENCODER.encode_lines

_TAGS: Final[dict[type[Event], tuple[str, bytes]]] = {
    TextDelta: ("token", b'{"type":"token","text":'),
    ReasoningDelta: ("reasoning", b'{"type":"reasoning","text":'),
    CallArgumentsDelta: ("tool_call_args_delta", b'{"type":"tool_call_args_delta","id":'),
    CallOutputDelta: ("tool_output_delta", b'{"type":"tool_output_delta","id":'),
}
"""Of each kind of delta, its tag and how its object begins."""

_Key = tuple[type[Event], str, str]
"""A run of deltas: its kind, the subagent's run id, the call's id."""

_NAMING: Final = frozenset({bus.SubagentQueued, bus.SubagentStarted})
"""Events that tell a subagent's name."""

_TOP_LEVEL: Final = frozenset({wire.ToolRequest, wire.ToolRequestCancelled})
"""A subagent's events that are not nested: the host answers them like any other (section 2.3)."""


def encoded(value: Any) -> bytes:
    """JSON of a wire struct or a text, half surrogate pairs replaced."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(scrub_value(value))


class ItemLines:
    """Renders one session's records. A surface says what stands around an event and what the end of a turn adds."""

    __slots__ = ("_frames", "_splices", "items")

    def __init__(self, surface: Surface, session: str = "") -> None:
        self.items = Items(surface, session)
        self._frames: dict[str, tuple[bytes, bytes]] = {}
        self._splices: dict[_Key, tuple[bytes, bytes, bytes]] = {}

    # --- what a surface says ---

    def frame(self, tag: str) -> tuple[bytes, bytes]:
        """What stands before and after the object of an event in the turn under way; the line feed is of it."""
        raise NotImplementedError

    def ended(self, event: bus.TurnFinished, turn_id: str) -> bytes:
        """The lines that follow the events of a turn's end."""
        raise NotImplementedError

    def holds(self) -> bool:
        """Whether the end of the turn under way has to wait."""
        return False

    # --- the contract's ways in ---

    def render_one(self, record: Record, out: bytearray) -> int:
        """The same as :meth:`render` for a single record."""
        event = record.event
        kind = event.__class__
        if (kind is TextDelta or kind is ReasoningDelta) and not record.origin:
            items = self.items
            if not (items.turn_id and record.turn):
                return 1
            if kind is TextDelta:
                items.history.feed(record)
            start, _, end = self._splices.get((kind, "", "")) or self._splice((kind, "", ""))
            try:
                out += start + _encode(event.text) + end  # type: ignore[union-attr]  # its class tells
            except UnicodeEncodeError:
                out += start + _encode(scrub(event.text)) + end  # type: ignore[union-attr]
            return 1
        return self.render((record,), out)

    def render(self, records: Sequence[Record], out: bytearray) -> int:
        """Append the lines for ``records``; gives how many were rendered, less than all where an end has to wait."""
        done = 0
        for record, deltas in runs(records):
            if deltas:
                self.render_run(record, deltas, out)
                done += len(deltas)
                continue
            if record.event.__class__ is bus.TurnFinished and not record.origin and self.holds():
                break
            self.render_other(record, out)
            done += 1
        return done

    def render_run(self, record: Record, deltas: list[str], out: bytearray) -> None:
        """Append the lines for a run of deltas, of which ``record`` is the first."""
        if not (self.items.turn_id and record.turn):
            return
        event: Any = record.event
        kind, origin = type(event), record.origin
        run = kind, origin, event.call_id if kind in OF_CALLS else ""
        if kind is TextDelta and not origin:
            self.items.said(deltas[0] if len(deltas) == 1 else "".join(deltas))
        elif kind is CallOutputDelta:
            for item in self.items.released(origin):
                self._append(item, origin, out)
        start, between, end = self._splices.get(run) or self._splice(run)
        try:
            lines = _encode_lines(deltas)
        except UnicodeEncodeError:
            lines = _encode_lines([scrub(delta) for delta in deltas])
        # JSON text holds no line feed of its own, so each one stands between two deltas.
        out += start
        out += lines[:-1].replace(b"\n", between)
        out += end

    def render_other(self, record: Record, out: bytearray) -> None:
        """Append the lines for a record that is no delta; the end of a turn does not wait here."""
        event = record.event
        turn_id = self.items.turn_id
        kind = event.__class__
        if kind in _NAMING or (kind is bus.TurnStarted and not record.origin):
            self._forget()
        for item in self.items.made(record):
            self._append(item, record.origin, out)
        if kind is bus.TurnFinished and not record.origin and turn_id:
            out += self.ended(event, turn_id)  # type: ignore[arg-type]  # its class tells
            self.items.end()

    def feed(self, records: Sequence[Record]) -> None:
        """Remember what ``records`` say, without writing."""
        for record in records:
            if type(record.event) is bus.TurnStarted and not record.origin:
                self._forget()
            self.items.learn(record)

    # --- lines ---

    def _forget(self) -> None:
        """What was made for another turn, or before a subagent's name was known."""
        self._frames.clear()
        self._splices.clear()

    def _append(self, item: Struct, origin: str, out: bytearray) -> None:
        """Append the line of one event."""
        tag, text = (item.tag, bytes(item.raw)) if type(item) is Own else (_tag(item), encoded(item))
        if origin and item.__class__ not in _TOP_LEVEL:
            tag, text = "subagent", encoded(self.items.nested(origin, text))
        start, end = self._frame(tag)
        out += start
        out += text
        out += end

    def _frame(self, tag: str) -> tuple[bytes, bytes]:
        frame = self._frames.get(tag)
        if frame is None:
            frame = self._frames[tag] = self.frame(tag)
        return frame

    def _splice(self, run: _Key) -> tuple[bytes, bytes, bytes]:
        """What stands before, between and after the deltas of a run in this turn."""
        kind, origin, call_id = run
        tag, before = _TAGS[kind]
        if kind in OF_CALLS:
            before += encoded(call_id) + b',"delta":'
        after = b"}"
        if origin:
            tag = "subagent"
            outside = encoded(self.items.nested(origin, b"0"))
            before, after = outside[:-2] + before, b"}}"
        start, end = self._frame(tag)
        before, after = start + before, after + end
        splice = self._splices[run] = before, after + before, after
        return splice


def _tag(item: Struct) -> str:
    return str(item.__struct_config__.tag)
