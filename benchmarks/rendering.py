"""Records into wire lines: what the aionrs codec's rendering costs beside the work that cannot be avoided.

For deltas in batches that is the encoding, with one reused encoder, of the structs of the very same lines, ready-made.
A record by itself is rendered into an empty buffer, as a connection does that has written everything; beside it stands
a loop without calls that makes the same structs of ready values, encodes them and appends their lines. What is left to
the codec is to look at the record, to know of the turn what the line needs, and to find words for it. How far a codec
is from encoding alone stands beside for information. All must give the same bytes, which is checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import thread_time
from typing import Any

import msgspec
from msgspec import Raw

from agentwire import events as bus
from agentwire.events import Capabilities, ErrorInfo, Event
from agentwire.log.record import Record
from agentwire_aionrs import codec, wire
from benchmarks.report import Figure, nanoseconds
from benchmarks.sample import MSG_ID, PIECES, pieces
from benchmarks.timing import Costs, Effort, Pass, cpu_time, interleave

BATCH = 64
SESSION = "s"
CALLS = range(BATCH)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(wire.AgentEvent).decode

_CAPABILITIES = Capabilities("supported", True, True, ("low", "medium", "high"))
_ARGUMENTS = Raw(b'{"cmd":"grep -rn \\"split_lines\\" src | head -50","timeout_ms":60000}')
_OUTPUT = "".join(f"src/lines_{n}.py:{n}:    for line in split_lines(data):\n" for n in range(12))
_DIFF = '--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n import sys\n-print(line)\n+print(f"{line}")\n'
_MAKE: dict[str, Callable[[int], Event]] = {
    "text_delta": lambda n: bus.TextDelta(PIECES[n]),
    "thinking": lambda n: bus.ReasoningDelta(PIECES[n]),
    "stream_start": lambda n: bus.TurnStarted(MSG_ID, MSG_ID, [bus.Text("hello")]),
    "tool_request": lambda n: bus.ApprovalRequested(_id(n), _id(n), "ExecCommand", "exec", command="grep"),
    "tool_running": lambda n: bus.CallRunning(_id(n), "ExecCommand"),
    "tool_result": lambda n: bus.CallFinished(_id(n), "ExecCommand", "ok", _OUTPUT),
    "tool_result, error": lambda n: bus.CallFinished(_id(n), "ExecCommand", "error", "No such file: x.py"),
    "tool_result, diff": lambda n: bus.CallFinished(_id(n), "Edit", "ok", "Edited", bus.Diff("/w/x.py", _DIFF)),
    "tool_cancelled": lambda n: bus.CallCancelled(_id(n), "denied", "not now", "ExecCommand", "Tool denied: not now"),
    "stream_end": lambda n: bus.TurnFinished("completed", "Done.", bus.Usage(1812, 402, 1500)),
    "error": lambda n: bus.ErrorRaised(ErrorInfo("provider_error", "The service is overloaded.", True)),
    "info": lambda n: bus.Notice("Live output of this call stops here; its result follows when it is done."),
    "info, retry": lambda n: bus.RetryScheduled(1, 3, 1000, "status 529"),
    "info, compaction": lambda n: bus.CompactionFinished("context is full", "Summary.", 4, 20),
    "ready": lambda n: bus.SessionOpened("01JDC9", "new", "/w", "openai", "gpt-4o", _CAPABILITIES),
    "config_changed": lambda n: bus.CapabilitiesChanged(_CAPABILITIES),
    "config_changed, mode": lambda n: bus.ModeChanged("yolo", "default", _CAPABILITIES),
    "config_changed, model": lambda n: bus.ConfigChanged([bus.ConfigChange("model", "a", "b")], _CAPABILITIES),
    "mcp_ready": lambda n: bus.McpServerReady("files", ["read_file", "write_file", "list"], True),
    "error, mcp": lambda n: bus.McpServerFailed("files", ErrorInfo("config_error", "files: no such program"), True),
}
"""An event of every kind that the wire shows, by the line it becomes (the last line, where there are two)."""


def measure(effort: Effort) -> Iterator[Figure]:
    """Text deltas in batches, and every kind by itself."""
    costs = interleave(_batches(effort), effort)
    yield Figure(
        what=f"record to wire line, text deltas, batches of {BATCH}",
        reference="reused msgspec encoder, ready wire structs",
        measured=costs.ratio("codec", "encoder"),
        goal=1.3,
        notes=[_note("an event", costs, "codec", "encoder")],
    )
    costs = interleave(_singles(effort), effort)
    ratios = {kind: costs.ratio(kind, _least(kind)) for kind in _MAKE}
    worst = max(ratios, key=lambda kind: ratios[kind].median)
    yield Figure(
        what=f"record to wire line, one at a time, worst kind ({worst})",
        reference="least work that gives the same line",
        measured=ratios[worst],
        goal=3.0,
        beside=f"{costs.ratio(worst, _encoder(worst)).median:.2f} x encoding ready structs",
        notes=[
            f"{ratios[kind].median:.2f} x  {_note(kind, costs, kind, _least(kind))}, "
            f"encoding {nanoseconds(costs.median(_encoder(kind)))}"
            for kind in _MAKE
        ],
    )


def _note(what: str, costs: Costs, candidate: str, reference: str) -> str:
    return f"{what}: {nanoseconds(costs.median(candidate))}, reference {nanoseconds(costs.median(reference))}"


def _encoder(kind: str) -> str:
    return f"{kind}: encoder"


def _least(kind: str) -> str:
    return f"{kind}: least"


def _id(n: int) -> str:
    return f"call_{n}_Xk2"


def _opened() -> list[Record]:
    """The turn as far as a batch of calls that were shown and have no end yet."""
    events: list[Event] = [bus.TurnStarted(MSG_ID, MSG_ID)]
    for n in CALLS:
        events.append(bus.CallReady(_id(n), "ExecCommand", "", _ARGUMENTS, "exec", "Run a command: grep"))
        events.append(bus.CallRunning(_id(n), "ExecCommand"))
    return _records(events)


def _records(events: list[Event]) -> list[Record]:
    return [Record(seq, 1764460800000, event, 1) for seq, event in enumerate(events, 1)]  # type: ignore[arg-type]


def _batches(effort: Effort) -> dict[str, Pass]:
    side = codec.agent()
    side.feed(SESSION, _opened())
    texts = pieces(BATCH)
    records = _records([bus.TextDelta(text) for text in texts])
    ready = [wire.TextDelta(text, MSG_ID) for text in texts]
    out = bytearray()
    side.render(SESSION, records, out)
    _check_same(bytes(out), ready)
    times = effort.size(400)

    def render() -> None:
        for _ in range(times):
            out = bytearray()
            side.render(SESSION, records, out)

    def encode() -> None:
        for _ in range(times):
            for message in ready:
                _encode(message)

    return {"codec": cpu_time(render, times * BATCH), "encoder": cpu_time(encode, times * BATCH)}


def _singles(effort: Effort) -> dict[str, Pass]:
    passes: dict[str, Pass] = {}
    for kind, make in _MAKE.items():
        # Batches of one, as they come from the log; calls end, so each batch has its own.
        alone = [[record] for record in _records([make(n) for n in CALLS])]
        out = bytearray()
        side = codec.agent()
        side.feed(SESSION, _opened())
        side.render(SESSION, alone[0], out)
        ready = [_decode(line) for line in bytes(out).splitlines()]
        _check_same(bytes(out), ready)
        passes[kind] = _rendered(alone, effort.size(40))
        passes[_encoder(kind)] = _encoded(ready, effort.size(40))
        passes[_least(kind)] = _made(ready, effort.size(40))
    return passes


def _rendered(alone: list[list[Record]], times: int) -> Pass:
    opened = _opened()

    def timed() -> float:
        spent = 0.0
        for _ in range(times):
            side = codec.agent()
            side.feed(SESSION, opened)
            began = thread_time()
            _render_each(side.render, alone)
            spent += thread_time() - began
        return spent / (times * len(alone))

    return timed


def _render_each(render: Callable[[str, list[Record], bytearray], object], alone: list[list[Record]]) -> None:
    out = bytearray()
    for records in alone:
        render(SESSION, records, out)
        del out[:]  # it was written


def _encoded(ready: list[wire.AgentEvent], times: int) -> Pass:
    def encode() -> None:
        for _ in range(BATCH * times):
            for message in ready:
                _encode(message)

    return cpu_time(encode, BATCH * times)


def _made(ready: list[wire.AgentEvent], times: int) -> Pass:
    """Makes each of the lines' structs, of values that are there, encodes it and appends its line."""
    recipes = [(type(message), *_values(message)) for message in ready]
    if [kind(*values, **named) for kind, values, named in recipes] != ready:
        raise AssertionError(f"not the same structs: {ready}")

    def make() -> None:
        out = bytearray()
        for _ in range(BATCH * times):
            for kind, values, named in recipes:
                out += _encode(kind(*values, **named)) + b"\n"
            del out[:]

    return cpu_time(make, BATCH * times)


def _values(message: wire.AgentEvent) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What its struct is made of, by place, or by name where the struct wants names."""
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    by_name = isinstance(message, wire.Ready | wire.Error)
    return ((), fields) if by_name else (tuple(fields.values()), {})


def _check_same(lines: bytes, ready: Sequence[wire.AgentEvent]) -> None:
    """The rendering must be what the reference encodes."""
    if lines != b"".join(_encode(message) + b"\n" for message in ready):
        raise AssertionError(f"the codec renders something else than the reference: {lines[:200]!r}")
