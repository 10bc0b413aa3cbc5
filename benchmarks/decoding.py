"""Wire lines into commands (we are the agent) and into events (we drive one), beside the least work that does the same.

The reference is a loop without calls that decodes the line in one stage into a union of the wire's structs, looks what
it is, and makes of it the same objects: the command in its :class:`Request`, the event in its :class:`Heard`. Decoding
alone is no measure: the two objects that the contract wants cost as much as decoding a short line does, so no codec
could come near it. How far we are from it stands beside for information.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from agentwire import commands as bus
from agentwire.codec.contract import Heard, Request
from agentwire.events import MODES, TextDelta
from agentwire_aionrs import codec, reading, wire
from benchmarks.report import Figure, nanoseconds
from benchmarks.sample import MSG_ID, NoSessions, pieces
from benchmarks.timing import Costs, Effort, Pass, cpu_time, interleave

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
    yield _figure("wire line to command (agent side), all kinds", costs, [*_COMMANDS, "all"], "all")
    costs = interleave(_events(effort), effort)
    yield _figure("wire line to event (host side), a turn of text", costs, ["text", "calls"], "text")


def _figure(what: str, costs: Costs, kinds: list[str], whole: str) -> Figure:
    bare = costs.ratio(whole, f"{whole}: decoder").median
    return Figure(
        what=what,
        reference="least work that gives the same objects",
        measured=costs.ratio(whole, f"{whole}: least"),
        goal=1.3,
        beside=f"{bare:.2f} x bare decoding",
        notes=[
            f"{costs.ratio(kind, f'{kind}: {reference}').median:.2f} x  {kind}: {nanoseconds(costs.median(kind))}, "
            f"{reference} {nanoseconds(costs.median(f'{kind}: {reference}'))}"
            for kind in kinds
            for reference in ("least", "decoder")
            if f"{kind}: {reference}" in costs.rounds
        ],
    )


def _commands(effort: Effort) -> dict[str, Pass]:
    decode = msgspec.json.Decoder(wire.HostCommand).decode
    side, view = codec.agent(), NoSessions()
    for line in _COMMANDS.values():
        if side.receive(line, view) != _least_command(decode, [line]):
            raise AssertionError(f"not the same as the reference: {line!r}")
    times = effort.size(4000)

    def received(lines: list[bytes]) -> Callable[[], None]:
        def run() -> None:
            receive = side.receive
            for line in lines:
                receive(line, view)

        return run

    passes: dict[str, Pass] = {}
    for kind, one in {**{kind: [line] for kind, line in _COMMANDS.items()}, "all": [*_COMMANDS.values()]}.items():
        lines = one * (times // len(one) or 1)
        passes[kind] = cpu_time(received(lines), len(lines))
        passes[f"{kind}: least"] = cpu_time(partial(_least_command, decode, lines), len(lines))
        passes[f"{kind}: decoder"] = cpu_time(partial(_feed, decode, lines), len(lines))
    return passes


def _least_command(decode: Callable[[bytes], wire.HostCommand], lines: list[bytes]) -> Request | None:
    """The commands of some lines; gives the last."""
    stop, ping, modes = bus.Stop(), bus.Ping(), {mode: bus.SetMode(mode) for mode in MODES}
    request = None
    for line in lines:
        command = decode(line)
        kind = type(command)
        if kind is wire.Message:
            request = Request(bus.Prompt(command.content, command.msg_id, [], command.files))  # type: ignore[union-attr]
        elif kind is wire.ToolApprove:
            request = Request(bus.Approve(command.call_id, "", command.scope))  # type: ignore[union-attr]
        elif kind is wire.ToolDeny:
            request = Request(bus.Deny(command.call_id, "", command.reason))  # type: ignore[union-attr]
        elif kind is wire.Stop:
            request = Request(stop)
        elif kind is wire.Ping:
            request = Request(ping)
        elif kind is wire.SetMode:
            request = Request(modes[command.mode])  # type: ignore[union-attr]
        elif kind is wire.InitHistory:
            request = Request(bus.InitHistory(command.text))  # type: ignore[union-attr]
        elif kind is wire.SetConfig:
            asked: Any = command
            request = Request(
                bus.SetConfig(
                    UNSET if asked.model is None else asked.model,
                    UNSET if asked.image_input is None else asked.image_input,
                    UNSET if asked.thinking is None else asked.thinking,
                    UNSET if asked.thinking_budget is None else asked.thinking_budget,
                    UNSET if asked.effort is None else asked.effort,
                    UNSET if asked.compaction is None else asked.compaction,
                )
            )
    return request


def _events(effort: Effort) -> dict[str, Pass]:
    decode = msgspec.json.Decoder(reading.AgentEvent).decode
    encode = msgspec.json.Encoder().encode
    count = effort.size(6000, 30)
    text = [encode(wire.TextDelta(piece, MSG_ID)) for piece in pieces(count)]
    calls = [(line % n).encode() for n in range(count // 3) for line in _ASKED]
    host = codec.host()
    host.receive(_START)
    if [_least_text(decode, [line]) for line in text[:30]] != [host.receive(line)[0] for line in text[:30]]:
        raise AssertionError("not the same as the reference")

    def received(lines: list[bytes]) -> Pass:
        def timed() -> float:
            host = codec.host()  # anew: it remembers every call
            host.receive(_START)
            return cpu_time(lambda: _feed(host.receive, lines), len(lines))()

        return timed

    return {
        "text": received(text),
        "text: least": cpu_time(lambda: _least_text(decode, text), len(text)),
        "text: decoder": cpu_time(lambda: _feed(decode, text), len(text)),
        "calls": received(calls),
        "calls: decoder": cpu_time(lambda: _feed(decode, calls), len(calls)),
    }


def _least_text(decode: Callable[[bytes], Any], lines: list[bytes]) -> Heard | None:
    """The events of some lines; gives the last. The text is kept: the end of the turn is told with it."""
    said: list[str] = []
    heard: list[Heard] = []
    for line in lines:
        message = decode(line)
        if type(message) is reading.TextDelta and message.msg_id == MSG_ID:
            said.append(message.text)
            heard = [Heard(TextDelta(message.text), "", MSG_ID)]
    return heard[0] if heard else None


def _feed(take: Callable[[bytes], Any], lines: list[bytes]) -> None:
    for line in lines:
        take(line)
