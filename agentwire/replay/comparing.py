"""Two lines that should be the same, but for what can never be: ids, times, and where on a disk it happened."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from agentwire.codec.jsontext import BadJson, parse
from agentwire.replay.ids import NAMED, Ids

_ID: Final = re.compile(NAMED.decode())
_TIME: Final = re.compile(r"(?:.*_)?(?:ms|at|time|timestamp|created|modified|duration|elapsed|date)|\w+(?:Ms|At|Time)")
"""Keys whose values are times or took time."""

_MADE: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\bsub-[\w-]+-[0-9a-f]{8}\b")
"""Ids of our own making, inside a text."""


_Path = tuple[str | int, ...]
"""Keys and indices, from the outside in."""

AT_THE_END: Final = "the recording ends"
NOTHING_MORE: Final = "the server says nothing more"


class Difference(Struct):
    """The first thing that is otherwise: a line that the server wrote, or something that was read of a reply."""

    path: str
    line: int
    """Of the recording's file; where it ends, its last."""
    number: int
    """Which of the lines that the server wrote, from 1; 0: it was read of the model's reply in that line."""
    recorded: bytes | None
    now: bytes | None

    def __str__(self) -> str:
        then, now = f"{self.path}, line {self.line}", f"the server's line {self.number}"
        if not self.number:
            then, now = f"{then}: the model's reply", "the same bytes, read again"
        elif self.recorded is None:
            then = AT_THE_END
        elif self.now is None:
            now = NOTHING_MORE
        changes = difflib.unified_diff(pretty(self.recorded), pretty(self.now), then, now, lineterm="", n=4)
        return "\n".join(changes)


class Comparison:
    """Compares the lines of two runs in order, and learns which id of one stands for which of the other."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._learns = True

    def different(self, then: bytes, now: bytes) -> bool:
        """Whether two lines say different things. Ids are learned of two that say the same."""
        if then == now:
            self._ids.keep(then)
            return False
        try:
            said, says = parse(then), parse(now)
        except BadJson:
            return True
        self._learns = False
        if not self._same(said, says):
            return True
        self._learns = True
        return not self._same(said, says)

    def apart(self, then: bytes, now: bytes) -> bool:
        """Whether two lines are about different things, of which either could have come first: where one names an id
        of a call, a request or a session, the other names another."""
        try:
            said, says = parse(then), parse(now)
        except BadJson:
            return False
        named = dict(_named(said))
        return any(key in named and not self._ids.same(named[key], value) for key, value in _named(says))

    def rest(self, then: bytes, now: bytes) -> tuple[bytes, bytes] | None:
        """What is still to be said of two lines that say the same, but for one text of which one has only the
        beginning: a reader who falls behind gets neighbouring pieces of a text joined. One of the two is empty.

        None: they differ otherwise.
        """
        try:
            said, says = parse(then), parse(now)
        except BadJson:
            return None
        gaps = list(self._gaps(said, says, ()))
        if len(gaps) != 1:
            return None
        ((path, old, new),) = gaps
        if not (isinstance(old, str) and isinstance(new, str) and old and new):
            return None
        if old.startswith(new):
            return _with(said, path, old[len(new) :]), b""
        return (b"", _with(says, path, new[len(old) :])) if new.startswith(old) else None

    def _gaps(self, then: Any, now: Any, path: _Path) -> Iterator[tuple[_Path, Any, Any]]:
        """Where two values differ, and what stands there."""
        if isinstance(then, dict) and isinstance(now, dict) and list(then) == list(now):
            for name in then:
                yield from self._gaps(then[name], now[name], (*path, name))
        elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
            for place in range(len(then)):
                yield from self._gaps(then[place], now[place], (*path, place))
        elif not self._same(then, now, next((name for name in reversed(path) if isinstance(name, str)), "")):
            yield path, then, now

    def _same(self, then: Any, now: Any, key: str = "") -> bool:
        if isinstance(then, dict) and isinstance(now, dict):
            return list(then) == list(now) and all(self._same(then[name], now[name], name) for name in then)
        if isinstance(then, list) and isinstance(now, list):
            return len(then) == len(now) and all(map(self._same, then, now, [key] * len(then)))
        if type(then) is not type(now):
            return False
        if isinstance(then, str | int | float) and _ID.fullmatch(key):
            return self._same_id(then, now)
        if _TIME.fullmatch(key) and not isinstance(then, bool):
            return True
        if isinstance(then, str):
            return _MADE.sub("", then) == _MADE.sub("", now)
        return bool(then == now)

    def _same_id(self, then: Any, now: Any) -> bool:
        if self._ids.known(then):
            return self._ids.same(then, now)
        if then != now and not isinstance(then, str):
            return False
        if self._learns:
            self._ids.bind(then, now)
        return True


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    """The ids in a value, by the keys that hold them; of several under one key, the innermost and last counts."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str | int) and _ID.fullmatch(key):
                yield key, inner
            else:
                yield from _named(inner)


def _with(value: Any, path: _Path, text: str) -> bytes:
    """A line with another text at one place."""
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    if not path:
        return msgspec.json.encode(text)
    inner[path[-1]] = text
    return msgspec.json.encode(value)


def pretty(line: bytes | None) -> list[str]:
    """A line for a person, one value a line."""
    if line is None:
        return []
    try:
        return msgspec.json.format(line.strip(), indent=2).decode().split("\n")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return [line.decode("utf-8", "replace").rstrip("\n")]
