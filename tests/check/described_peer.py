"""The other side of a play, made from the play: a peer that says exactly what the play waits for.

That peer meets the requirement; what each of its variations breaks is one thing that the requirement asks.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentwire.codec.kit import (
    Again,
    Await,
    AwaitEnd,
    EndInput,
    HangUp,
    Let,
    Play,
    Say,
    Terminate,
)
from agentwire.codec.patterns import (
    Absent,
    Bind,
    Given,
    Has,
    Holds,
    Joined,
    OneOf,
    filled,
)

SAMPLES = {"": "x", "string": "x", "number": 1, "boolean": True, "array": [], "object": {}}

Deed = tuple[str, Any]


@dataclass
class Described:
    """What a peer does. ``waited`` holds the place of the deed that each step of the play waits for."""

    deeds: list[Deed] = field(default_factory=list)
    waited: list[tuple[Await, int]] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)

    def without(self, place: int) -> list[Deed]:
        """One line is left out; the peer says what it has to say up to where it would wait, and is gone."""
        rest = self.deeds[place + 1 :]
        stop = next((n for n, (what, _) in enumerate(rest) if what != "write"), len(rest))
        return [*self.deeds[:place], *rest[:stop], ("exit", 0)]

    def with_last(self, line: Any) -> list[Deed]:
        """One more line, before the end."""
        end = next((n for n, (what, _) in enumerate(self.deeds) if what in ("exit", "read all")), len(self.deeds))
        return self.with_before(end, line)

    def with_before(self, place: int, line: Any) -> list[Deed]:
        """One more line, before another."""
        return [*self.deeds[:place], write(line), *self.deeds[place:]]


def describe(play: Play, given: dict[str, Any], *, host: bool = False) -> Described:
    """The peer that a play describes. A host ends by itself, an agent at the end of its input."""
    peer = Described(given=dict(given))
    for step in play.steps:
        match step:
            case Say():
                said = step.times
                peer.deeds += [("read", None)] * said
            case Await():
                for _ in range(0 if step.spare in peer.given else step.times):
                    peer.waited.append((step, len(peer.deeds)))
                    peer.deeds.append(write(sample(step.line, peer.given)))
            case Let(name, value):
                peer.given[name] = value
            case AwaitEnd(status, fails):
                peer.deeds.append(("exit", status or int(fails)))
            case Again(killed=False):
                peer.deeds += [("read all", None), ("again", None)]
            case Again():
                peer.deeds.append(("again", "killed"))
            case Terminate():
                peer.deeds.append(("signal", None))
            case HangUp():
                peer.deeds.append(("read all", None))
            case EndInput() if not host:
                peer.deeds.append(("read all", None))
    if not host:
        peer.deeds.append(("read all", None))
    return peer


def sample(pattern: Any, given: dict[str, Any]) -> Any:
    """A value that fits a pattern."""
    match pattern:
        case Bind(name, kind):
            value = SAMPLES[kind] if not name else (name if kind in ("", "string") else SAMPLES[kind])
            if name:
                given[name] = value
            return value
        case Given() | Joined():
            return filled(pattern, given)
        case Holds(items):
            return [sample(item, given) for item in items]
        case OneOf(choices):
            return sample(choices[0], given)
        case Has(text):
            return f"-{text}-"
        case dict():
            return {key: sample(part, given) for key, part in pattern.items() if not isinstance(part, Absent)}
        case list():
            return [sample(part, given) for part in pattern]
    return pattern


def write(line: Any) -> Deed:
    """The deed of writing a line: a JSON value, or bytes as they are."""
    data = line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() + b"\n"
    return ("write", base64.b64encode(data).decode())


def put(deeds: list[Deed], path: Path) -> Path:
    """A file for the peer program."""
    path.write_text(json.dumps(deeds), encoding="utf-8")
    return path
