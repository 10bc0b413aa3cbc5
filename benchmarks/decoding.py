"""Wire lines into commands (we are the agent) and into events (we drive one), beside the bare decoding of the line.

The reference is msgspec decoding the line in one stage into a union of the wire's structs and nothing more; the
codec's sides also check state, and make of the struct what it means. The notes tell how low that can be brought:
``the least`` is a function that decodes the line and gives the result the form of the contract, unexamined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from agentwire.codec.contract import Heard, Request, View
from agentwire.events import TextDelta
from agentwire_aionrs import codec, reading, wire
from benchmarks.report import Figure, nanoseconds
from benchmarks.sample import MSG_ID, NoSessions, pieces
from benchmarks.timing import Effort, Pass, cpu_time, interleave

_COMMANDS: dict[str, bytes] = {
    "message": b'{"type":"message","msg_id":"b7c1f0de-5a3e","content":"Please fix the test in tests/test_lines.py"}',
    "message, files": b'{"type":"message","msg_id":"b7c1f0de-5a3e","content":"See these","files":["a.py","b.py"]}',
    "stop": b'{"type":"stop"}',
    "tool_approve": b'{"type":"tool_approve","call_id":"call_1_Xk2","scope":"once"}',
    "tool_deny": b'{"type":"tool_deny","call_id":"call_1_Xk2","reason":"not now"}',
    "init_history": b'{"type":"init_history","text":"The user works on a parser."}',
    "set_mode": b'{"type":"set_mode","mode":"auto_edit"}',
    "set_config": b'{"type":"set_config","model":"gpt-4o","thinking":"enabled","thinking_budget":4000}',
    "ping": b'{"type":"ping"}',
}
"""A line of every command that hosts send often."""

LEAST = "the least"

_CALL = f'"msg_id":"{MSG_ID}","call_id":"call_%d"'
_ASKED = [
    f'{{"type":"tool_request",{_CALL},"tool":{{"name":"Read","category":"info","args":{{"file_path":"/w/x.py"}},'
    '"description":"Read a file"}}',
    f'{{"type":"tool_running",{_CALL},"tool_name":"Read"}}',
    f'{{"type":"tool_result",{_CALL},"tool_name":"Read","status":"success","output":"x = 1","output_type":"text"}}',
]
_START = f'{{"type":"stream_start","msg_id":"{MSG_ID}"}}'.encode()


def measure(effort: Effort) -> Iterator[Figure]:
    """Both sides of the codec."""
    costs = interleave(_commands(effort), effort)
    yield Figure(
        what="wire line to command (agent side), all kinds",
        reference="one-stage msgspec union decode",
        measured=costs.ratio("all", "all: decoder"),
        goal=1.3,
        notes=[
            f"{costs.ratio(kind, f'{kind}: decoder').median:.2f} x  {kind}: {nanoseconds(costs.median(kind))}, "
            f"reference {nanoseconds(costs.median(f'{kind}: decoder'))}"
            for kind in [*_COMMANDS, "all", LEAST]
        ],
    )
    costs = interleave(_events(effort), effort)
    yield Figure(
        what="wire line to event (host side), a turn of text",
        reference="one-stage msgspec union decode",
        measured=costs.ratio("text", "text: decoder"),
        goal=1.3,
        notes=[
            f"{costs.ratio(kind, f'{kind}: decoder').median:.2f} x  {kind}: {nanoseconds(costs.median(kind))}, "
            f"reference {nanoseconds(costs.median(f'{kind}: decoder'))}"
            for kind in ("text", "calls", LEAST)
        ],
    )


def _commands(effort: Effort) -> dict[str, Pass]:
    decode = msgspec.json.Decoder(wire.HostCommand).decode
    side, view = codec.agent(), NoSessions()
    for line in _COMMANDS.values():
        request = side.receive(line, view)
        if request is None or request.command is None:
            raise AssertionError(f"not understood: {line!r}")
    times = effort.size(4000)

    def received(receive: Callable[[bytes, View], object], lines: list[bytes]) -> Callable[[], None]:
        def run() -> None:
            for line in lines:
                receive(line, view)

        return run

    def decoded(lines: list[bytes]) -> Callable[[], None]:
        def run() -> None:
            for line in lines:
                decode(line)

        return run

    passes: dict[str, Pass] = {}
    for kind, lines in {**{kind: [line] for kind, line in _COMMANDS.items()}, "all": [*_COMMANDS.values()]}.items():
        lines = lines * (times // len(lines) or 1)
        passes[kind] = cpu_time(received(side.receive, lines), len(lines))
        passes[f"{kind}: decoder"] = cpu_time(decoded(lines), len(lines))

    def least(line: bytes, view: View) -> Request:
        return Request(decode(line))  # type: ignore[arg-type]  # not a command of the bus yet

    passes[LEAST] = cpu_time(received(least, lines), len(lines))
    passes[f"{LEAST}: decoder"] = cpu_time(decoded(lines), len(lines))
    return passes


def _events(effort: Effort) -> dict[str, Pass]:
    decode = msgspec.json.Decoder(reading.AgentEvent).decode
    encode = msgspec.json.Encoder().encode
    count = effort.size(6000, 30)
    text = [encode(wire.TextDelta(piece, MSG_ID)) for piece in pieces(count)]
    calls = [(line % n).encode() for n in range(count // 3) for line in _ASKED]

    def received(lines: list[bytes]) -> Pass:
        def timed() -> float:
            host = codec.host()  # anew: it remembers every call
            host.receive(_START)
            return cpu_time(lambda: _feed(host.receive, lines), len(lines))()

        return timed

    def least(line: bytes) -> list[Heard]:
        return [Heard(TextDelta(decode(line).text), "", MSG_ID)]  # type: ignore[union-attr]  # all are text

    return {
        LEAST: cpu_time(lambda: _feed(least, text), len(text)),
        f"{LEAST}: decoder": cpu_time(lambda: _feed(decode, text), len(text)),
        "text": received(text),
        "text: decoder": cpu_time(lambda: _feed(decode, text), len(text)),
        "calls": received(calls),
        "calls: decoder": cpu_time(lambda: _feed(decode, calls), len(calls)),
    }


def _feed(take: Callable[[bytes], Any], lines: list[bytes]) -> None:
    for line in lines:
        take(line)
