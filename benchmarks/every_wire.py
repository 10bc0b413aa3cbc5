"""Text as every other wire carries it: rendered in batches, and read by the host side, beside what cannot be avoided.

The reference structs for rendering are made from a line that the codec wrote, whatever its shape: nested as the line
is nested, and flat inside. For pagent, whose own package writes lines too, that package is a reference as well.

Reading is held against the least work that gives the same objects: a loop without calls that decodes the line in one
stage into the wire's structs, looks what it is, keeps the text for the end of the turn, and makes of it the event in
its :class:`Heard`. Decoding alone is no measure: those two objects cost as much as decoding a short line does, and the
contract wants them. How far we are from decoding alone stands beside it for information. An envelope has a higher goal
because what surrounds the event has to be looked up too. In the same way a run of deltas is first gathered from its
records: beside a line of two keys, which is encoded in the time that takes, a goal of 1.3 would be below what is there
to be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from agentwire import events as bus
from agentwire import load_codec
from agentwire.codec import Codec, Heard, HostSide
from agentwire.events import Event, TextDelta
from agentwire.log.record import Record
from agentwire_jan import frames as jan
from agentwire_jan import stream_wire
from agentwire_jan import wire as jan_wire
from agentwire_levpro import reading as levpro
from agentwire_pagent import reading as pagent
from agentwire_pagent import wire as pagent_wire
from benchmarks.report import Figure, nanoseconds
from benchmarks.sample import pieces
from benchmarks.timing import Effort, Pass, cpu_time, interleave

BATCH = 64
SESSION = "s"

Decode = Callable[[bytes], Any]


class Wire(Struct, frozen=True):
    """How a wire's text is read with the least work."""

    decode: Decode
    """A line in one stage, into the union of the wire's structs."""
    least: Callable[[Decode, list[bytes]], Heard | None]
    """Makes an event of each line; gives the last."""
    reading: float
    """Goal of reading a line, as a multiple of that."""
    rendering: float = 1.3
    """Goal of rendering one, as a multiple of encoding it."""


def _pagent(decode: Decode, lines: list[bytes]) -> Heard | None:
    heard: list[Heard] = []
    told: list[str] = []
    kind = pagent_wire.TextDelta
    for line in lines:
        message = decode(line).params
        if type(message) is kind:
            text = message.text
            told.append(text)
            heard = [Heard(TextDelta(text), "", "t")]
    return heard[0] if heard else None


def _jan(decode: Decode, lines: list[bytes]) -> Heard | None:
    heard: list[Heard] = []
    told: list[str] = []
    kind: Any = jan.PARAMS["token"]
    for line in lines:
        params = decode(line).params
        if type(params) is kind:
            text = params.event.text
            told.append(text)
            heard = [Heard(TextDelta(text), params.sessionId, params.turnId)]
    return heard[0] if heard else None


def _jan_stream(decode: Decode, lines: list[bytes]) -> Heard | None:
    heard: list[Heard] = []
    told: list[str] = []
    kind = jan_wire.Token
    for line in lines:
        item = decode(line)
        if type(item) is kind:
            text = item.text
            told.append(text)
            heard = [Heard(TextDelta(text), "", "run")]
    return heard[0] if heard else None


def _levpro(decode: Decode, lines: list[bytes]) -> Heard | None:
    heard: list[Heard] = []
    told: list[str] = []
    for line in lines:
        message = decode(line)
        if message.type == "event" and message.event == "llm_chunk":
            text = message.delta
            told.append(text)
            heard = [Heard(TextDelta(text), "", message.id)]
    return heard[0] if heard else None


WIRES = {
    "pagent": Wire(pagent.DECODE["classic"], _pagent, 1.6),
    "pagent-v4": Wire(pagent.DECODE["v4"], _pagent, 1.6),
    "jan": Wire(jan.decode, _jan, 1.6),
    "jan-stream": Wire(msgspec.json.Decoder(jan_wire.Item | stream_wire.Frame).decode, _jan_stream, 1.3, rendering=2.0),
    "levpro": Wire(levpro.DECODE, _levpro, 1.3),
}

_encode = msgspec.json.Encoder().encode


def measure(effort: Effort) -> Iterator[Figure]:
    """Rendering and reading for each wire, and pagent's lines beside the real package's."""
    for name, wire in WIRES.items():
        codec = load_codec(name)
        costs = interleave(_passes(codec, wire, effort), effort)
        yield Figure(
            what=f"{name}: record to wire line, text deltas, batches of {BATCH}",
            reference="reused msgspec encoder, ready structs",
            measured=costs.ratio("render", "encode"),
            goal=wire.rendering,
            notes=[_note(costs.median("render"), costs.median("encode"))],
        )
        yield Figure(
            what=f"{name}: wire line to event (host side), text",
            reference="least work that gives the same objects",
            measured=costs.ratio("receive", "least"),
            goal=wire.reading,
            beside=f"{costs.ratio('receive', 'decode').median:.2f} x bare decoding",
            notes=[
                _note(costs.median("receive"), costs.median("least")),
                f"bare decoding: {nanoseconds(costs.median('decode'))}",
            ],
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


def _passes(codec: Codec, wire: Wire, effort: Effort) -> dict[str, Pass]:
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
    if [msgspec.json.decode(_encode(message)) for message in ready] != [msgspec.json.decode(line) for line in lines]:
        raise AssertionError("the reference does not say the same")

    def begun_host() -> HostSide:
        """One that heard the turn begin; each pass has its own, for it remembers all that is said."""
        host = codec.host()
        for line in head.splitlines():
            host.receive(bytes(line))
        return host

    host = begun_host()
    received = [bytes(line) for line in lines]
    for one, text in zip(received, texts, strict=True):
        (said,), least = host.receive(one), wire.least(wire.decode, [one])
        if not isinstance(said, Heard) or least is None or not said.event == least.event == bus.TextDelta(text):
            raise AssertionError(f"{codec.name} reads {one!r} as {said}, the reference as {least}")
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

    def received_by_a_host() -> float:
        receive = begun_host().receive
        return cpu_time(repeated(receive, received), times * BATCH)()

    passes: dict[str, Pass] = {
        "render": cpu_time(render, times * BATCH),
        "encode": cpu_time(repeated(_encode, ready), times * BATCH),
        "receive": received_by_a_host,
        "decode": cpu_time(repeated(wire.decode, received), times * BATCH),
        "least": cpu_time(lambda: wire.least(wire.decode, received * times), times * BATCH),
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
