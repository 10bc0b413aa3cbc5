"""Short ways between logs, lines and what is heard of them; a view that a test sets; the published schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from agentwire import events as bus
from agentwire.codec import Answered, Heard, LineFault, Record, Request
from agentwire.commands import Done, Outcome, Refusal
from agentwire_jan import codec

PUBLISHED = Path(__file__).parent / "published"

INITIALIZE = {
    "jsonrpc": "2.0", "id": "hello", "method": "initialize",
    "params": {"protocolVersion": 1, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
INITIALIZED = {"jsonrpc": "2.0", "method": "initialized", "params": {}}


@dataclass
class Scene:
    """What an agent side may look at: as the test says."""

    sessions: set[str] = field(default_factory=set)
    running: str = ""
    waiting: dict[str, str] = field(default_factory=dict)
    directories: set[str] = field(default_factory=lambda: {"/tmp/p"})

    def has_session(self, session: str) -> bool:
        return session in self.sessions

    def turn_active(self, session: str = "") -> bool:
        return bool(self.running) and session in ("", self.running)

    def pending(self, request: str, session: str = "") -> bool:
        return request in self.waiting and session in ("", self.waiting[request])

    def active_session(self) -> str:
        return self.running

    def is_directory(self, path: str) -> bool:
        return path in self.directories


class Line:
    """One connection's agent side, driven line by line."""

    def __init__(self, scene: Scene | None = None, *, ready: bool = True) -> None:
        self.scene = scene or Scene()
        self.side = codec.agent()
        if ready:
            assert self.say(INITIALIZE)["result"]["protocolVersion"] == 1
            assert self.say(INITIALIZED) is None

    def read(self, line: Any) -> Request | None:
        """What a line is read as; anything that is not bytes is written as JSON."""
        if not isinstance(line, bytes | LineFault):
            line = json.dumps(line).encode()
        return self.side.receive(line, self.scene)

    def answer(self, request: Request, result: Done | Refusal) -> dict[str, Any] | None:
        """The line that an outcome becomes."""
        out = bytearray()
        assert self.side.outcome(request, Outcome(result), out) is None
        lines = split(bytes(out))
        assert len(lines) <= 1
        return json.loads(lines[0]) if lines else None

    def say(self, line: Any, value: Any = None) -> dict[str, Any] | None:
        """The answer to a line, if whatever it asks for is done and gives ``value``."""
        request = self.read(line)
        if request is None:
            return None
        return self.answer(request, request.refusal or Done(value))

    def call(self, method: str, params: Any, value: Any = None, *, id: Any = 7) -> dict[str, Any]:
        """The answer to a request, without its envelope: a result or an error."""
        answer = self.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, value)
        assert answer is not None
        assert (answer.pop("jsonrpc"), answer.pop("id")) == ("2.0", id)
        return answer

    def command(self, method: str, params: Any) -> Any:
        """The command that a request becomes."""
        request = self.read({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        assert request is not None
        assert request.refusal is None, request.refusal
        return request.command


def error(code: int, message: str, data: Any = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "data": data}}


def split(stream: bytes) -> list[bytes]:
    """A stream's lines, cut at line feeds alone."""
    assert stream == b"" or stream.endswith(b"\n")
    return stream.split(b"\n")[:-1]


def render(records: Sequence[Record], session: str = "s") -> bytes:
    out = bytearray()
    assert codec.agent().render(session, records, out) is None
    return bytes(out)


def items(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The event objects of a log, and of each turn's end the parameters."""
    frames = [json.loads(line) for line in split(render(records))]
    return [frame["params"].get("event", frame["params"]) for frame in frames]


def tags(records: Sequence[Record]) -> list[str]:
    """The methods of a log's lines, ``item/`` left out."""
    return [json.loads(line)["method"].removeprefix("item/") for line in split(render(records))]


def hear(stream: bytes) -> list[Heard | Answered]:
    """What a host makes of a whole stream, its end included."""
    host = codec.host()
    return [said for line in split(stream) for said in host.receive(line)] + host.close()


def turn(*events: bus.Event | tuple[str, bus.Event], number: int = 1) -> list[Record]:
    """Events of one turn as records, the end included; a pair is a subagent's event."""
    told = [event if isinstance(event, tuple) else ("", event) for event in events]
    return [Record(n, 0, event, number, origin) for n, (origin, event) in enumerate(told, 1)]  # type: ignore[arg-type]


def logged(said: Iterable[Heard | Answered]) -> list[Record]:
    """What a host heard, as a log."""
    turns: dict[object, int] = {None: 0}
    records = []
    for n, heard in enumerate(said, 1):
        assert isinstance(heard, Heard)
        number = turns.setdefault(heard.ref, len(turns))
        records.append(Record(n, 0, heard.event, number, heard.origin))  # type: ignore[arg-type]
    return records


def published(name: str = "rpc-schema.json") -> dict[str, Any]:
    """The schema document that Jan publishes, or a fork's."""
    return json.loads((PUBLISHED / name).read_text(encoding="utf-8"))


def published_events() -> Draft202012Validator:
    """Judges an event object: by Jan's document, with the one event that came after it."""
    document = published()["events"]
    newer = published("fork-rpc-schema.json")["events"]
    retry = [entry for entry in newer["oneOf"] if entry["properties"]["type"]["const"] == "retry"]
    return Draft202012Validator({**document, "oneOf": [*document["oneOf"], *retry]})
