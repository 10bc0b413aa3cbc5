"""Ids: those of the recording, and those that stand for them now.

A host chooses ids anew each time (of messages, requests, sessions); an agent repeats them. Which stands for which is
seen where a line of the host is matched with the recorded one; from then on the recorded agent's lines are written with
the host's. Nothing else in a line changes, not even a blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode

NAMED: Final = rb"(?:\w*_)?(?:id|ref|session|thread)|\w*Id"
"""Keys whose values are ids, on every wire that is known."""

_KEY: Final = re.compile(NAMED.decode())
_IN_LINE: Final = re.compile(
    # A quote that begins a key stands after one of these, and never does inside a string.
    rb'(?<=[{,\s])("(?:' + NAMED + rb')"\s*:\s*)("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*)'
)


class Ids:
    """Which id of the recording stands for which one now."""

    def __init__(self) -> None:
        self._now: dict[bytes, bytes] = {}
        self._hosts: set[bytes] = set()
        self._agents: set[bytes] = set()

    def matched(self, recorded: Any, live: Any) -> None:
        """Learn from two lines of the host, as JSON values, that are the same but for ids.

        What the agent said first is the agent's: nothing else can stand for that.
        """
        for then, now in _pairs(recorded, live):
            self.bind(then, now)

    def bind(self, then: Any, now: Any) -> None:
        """Let one id stand for another, if the host was the first to say it."""
        key, value = _encode(then), _encode(now)
        if key in self._agents:
            return
        self._hosts.add(key)
        if key == value:
            self._now.pop(key, None)
        else:
            self._now[key] = value

    def same(self, then: Any, now: Any) -> bool:
        """Whether an id is the one that stands for a recorded one."""
        key = _encode(then)
        return self._now.get(key, key) == _encode(now)

    def known(self, then: Any) -> bool:
        """Whether anybody has said this id before."""
        key = _encode(then)
        return key in self._agents or key in self._hosts

    def keep(self, line: bytes) -> None:
        """Learn from a line that is the same then and now: the ids in it stand for themselves."""
        self._hosts.update(_canonical(value) for _, value in _IN_LINE.findall(line))

    def heard(self, line: bytes) -> None:
        """Note the ids that the agent chose, from a line of the recording."""
        for _, value in _IN_LINE.findall(line):
            value = _canonical(value)
            if value not in self._hosts:
                self._agents.add(value)

    def translate(self, line: bytes) -> bytes:
        """A line of the recorded agent with the ids of now."""
        return _IN_LINE.sub(self._translated, line) if self._now else line

    def _translated(self, found: re.Match[bytes]) -> bytes:
        now = self._now.get(_canonical(found[2]))
        return found[0] if now is None else found[1] + now


def _canonical(value: bytes) -> bytes:
    """An id as we write it, whatever escapes it was written with."""
    if b"\\" not in value and value[:1] == b'"':
        return value
    try:
        return _encode(_decode(value))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return value


def _pairs(recorded: Any, live: Any, named: bool = False) -> Iterator[tuple[Any, Any]]:
    """The ids at the same places of two values."""
    if isinstance(recorded, dict) and isinstance(live, dict):
        for key, value in recorded.items():
            if key in live:
                yield from _pairs(value, live[key], _KEY.fullmatch(key) is not None)
    elif isinstance(recorded, list) and isinstance(live, list):
        for value, other in zip(recorded, live, strict=False):
            yield from _pairs(value, other)
    elif named and all(isinstance(value, str | int | float) for value in (recorded, live)):
        yield recorded, live
