"""Text as every other wire carries it: rendered in batches, and read by the host side, beside what cannot be avoided.

The reference structs are made from a line that the codec wrote, whatever its shape: nested as the line is nested, and
flat inside. For pagent, whose own package writes lines too, that package is a reference as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from agentwire import events as bus
from agentwire import load_codec
from agentwire.codec import Codec
from agentwire.events import Event
from agentwire.log.record import Record
from benchmarks.report import Figure, nanoseconds
from benchmarks.sample import pieces
from benchmarks.timing import Effort, Pass, cpu_time, interleave

BATCH = 64
SESSION = "s"

WIRES = {"pagent": 1.6, "pagent-v4": 1.6, "jan": 1.6, "jan-stream": 1.3, "levpro": 1.3}
"""Codecs, and what reading a line may cost as a multiple of decoding it: more where it comes in an envelope."""

_encode = msgspec.json.Encoder().encode


def measure(effort: Effort) -> Iterator[Figure]:
    """Rendering and reading for each wire, and pagent's lines beside the real package's."""
    for name, reading in WIRES.items():
        codec = load_codec(name)
        costs = interleave(_passes(codec, effort), effort)
        yield Figure(
            what=f"{name}: record to wire line, text deltas, batches of {BATCH}",
            reference="reused msgspec encoder, ready structs",
            measured=costs.ratio("render", "encode"),
            goal=1.3,
            notes=[_note(costs.median("render"), costs.median("encode"))],
        )
        yield Figure(
            what=f"{name}: wire line to event (host side), text",
            reference="one-stage msgspec decode",
            measured=costs.ratio("receive", "decode"),
            goal=reading,
            notes=[_note(costs.median("receive"), costs.median("decode"))],
        )
        if "peer" in costs.rounds:
            yield Figure(
                what=f"{name}: lines of text a second",
                reference="the pagent package's encoder",
                measured=costs.ratio("peer", "render"),
                goal=7.0,
                sense="at least",
                notes=[_note(costs.median("render"), costs.median("peer"))],
            )


def _note(ours: float, reference: float) -> str:
    return f"an event: {nanoseconds(ours)}, reference {nanoseconds(reference)}"


def _passes(codec: Codec, effort: Effort) -> dict[str, Pass]:
    opening: list[Event] = [
        bus.SessionOpened(SESSION, "new", "/w", "openai", "m"), bus.TurnStarted("t", "c1", [bus.Text("hi")]),
        bus.StepStarted(0),
    ]  # fmt: skip
    begun = [Record(seq, 0, event, int(seq > 1)) for seq, event in enumerate(opening, 1)]  # type: ignore[arg-type]
    texts = pieces(BATCH)
    records = [Record(len(begun) + n, 0, bus.TextDelta(text), 1) for n, text in enumerate(texts, 1)]
    side, head, out = codec.agent(), bytearray(), bytearray()
    side.render(SESSION, begun, head)
    side.render(SESSION, records, out)
    lines = out.splitlines()
    if len(lines) != BATCH:
        raise AssertionError(f"{codec.name} made {len(lines)} lines of {BATCH} deltas")
    ready = [_struct(msgspec.json.decode(line)) for line in lines]
    decode = msgspec.json.Decoder(type(ready[0])).decode
    if [msgspec.json.decode(_encode(message)) for message in ready] != [msgspec.json.decode(line) for line in lines]:
        raise AssertionError("the reference does not say the same")
    host = codec.host()
    for line in head.splitlines():
        host.receive(bytes(line))
    received = [bytes(line) for line in lines]
    times = effort.size(300)

    def render() -> None:
        for _ in range(times):
            side.render(SESSION, records, bytearray())

    def repeated(take: Callable[[Any], object], values: list[Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(times):
                for value in values:
                    take(value)

        return run

    passes = {
        "render": cpu_time(render, times * BATCH),
        "encode": cpu_time(repeated(_encode, ready), times * BATCH),
        "receive": cpu_time(repeated(host.receive, received), times * BATCH),
        "decode": cpu_time(repeated(decode, received), times * BATCH),
    }
    if codec.name == "pagent":
        from pagent.events import TextDelta
        from pagent.wire import encode_event_line

        events = [TextDelta(text=text) for text in texts]
        passes["peer"] = cpu_time(repeated(encode_event_line, events), times * BATCH)
    return passes


def _struct(value: Any) -> Any:
    """A value of JSON as structs, one class for each shape."""
    if not isinstance(value, dict):
        return value
    inner = {name: _struct(found) for name, found in value.items()}
    shape = tuple((name, type(found)) for name, found in inner.items())
    made = _SHAPES.get(shape)
    if made is None:
        renamed = {f"f{n}": name for n, name in enumerate(inner)}
        fields = [(f"f{n}", type(found)) for n, found in enumerate(inner.values())]
        made = _SHAPES[shape] = msgspec.defstruct(f"Line{len(_SHAPES)}", fields, rename=renamed, gc=False)
    return made(*inner.values())


_SHAPES: dict[tuple[tuple[str, type], ...], type[msgspec.Struct]] = {}
