"""The short ways between lines, requests, logs and what is heard of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agentwire import events as bus
from agentwire.codec import AgentSide, Answered, Heard, Record, Request
from agentwire.commands import Done, Outcome, Refusal
from agentwire_levpro import codec


class NoView:
    """Nothing is open, nothing runs: this wire must not need to look."""

    def has_session(self, session: str) -> bool:
        raise AssertionError

    def turn_active(self, session: str = "") -> bool:
        raise AssertionError

    def pending(self, request: str, session: str = "") -> bool:
        raise AssertionError

    def active_session(self) -> str:
        raise AssertionError

    def is_directory(self, path: str) -> bool:
        raise AssertionError


def split(stream: bytes) -> list[bytes]:
    """A stream's lines, cut at line feeds alone."""
    assert stream == b"" or stream.endswith(b"\n")
    return stream.split(b"\n")[:-1]


def objects(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in split(stream)]


def ask(side: AgentSide, line: Any) -> Request | None:
    """Give a line of a host, as bytes or as the object it holds."""
    text = line if isinstance(line, bytes) else json.dumps(line).encode()
    return side.receive(text, NoView())


def tell(side: AgentSide, request: Request, result: Done | Refusal | None = None) -> list[dict[str, Any]]:
    """The answer to a request; None: what the line itself was refused with, or just done."""
    out = bytearray()
    side.outcome(request, Outcome(result or request.refusal or Done()), out)
    return objects(bytes(out))


def render(records: Sequence[Record], session: str = "") -> bytes:
    out = bytearray()
    assert codec.agent().render(session, records, out) is None
    return bytes(out)


def turn(*events: bus.Event, number: int = 1) -> list[Record]:
    """Events of one turn as records."""
    return [Record(n, 0, event, number) for n, event in enumerate(events, 1)]  # type: ignore[arg-type]


def hear(stream: bytes) -> list[Heard | Answered]:
    """What a host makes of a whole stream, its end included."""
    host = codec.host()
    return [said for line in split(stream) for said in host.receive(line)] + host.close()


def logged(said: Iterable[Heard | Answered]) -> list[Record]:
    """What a host heard, as a log."""
    turns: dict[object, int] = {None: 0}
    records = []
    number = 0
    for n, heard in enumerate(said, 1):
        assert isinstance(heard, Heard)
        if isinstance(heard.event, bus.TurnStarted):
            number += 1
            turns[heard.ref] = number
        records.append(Record(n, 0, heard.event, turns[heard.ref]))  # type: ignore[arg-type]
    return records
