"""Two lines that should be the same, but for what can never be: ids, times, and where on a disk it happened."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from agentwire.codec.jsontext import BadJson, parse
from agentwire.replay.ids import NAMED, Ids

_ID: Final = re.compile(NAMED.decode())
_TIME: Final = re.compile(r"(?:.*_)?(?:ms|at|time|timestamp|created|modified|duration|elapsed|date)|\w+(?:Ms|At|Time)")
"""Keys whose values are times or took time."""

_MADE: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\bsub-[\w-]+-[0-9a-f]{8}\b")
"""Ids of our own making, inside a text."""


class Comparison:
    """Compares the lines of two runs in order, and learns which id of one stands for which of the other."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids

    def different(self, then: bytes, now: bytes) -> bool:
        """Whether two lines say different things."""
        if then == now:
            return False
        try:
            return not self._same(parse(then), parse(now))
        except BadJson:
            return True

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
        self._ids.bind(then, now)
        return True


def pretty(line: bytes | None) -> list[str]:
    """A line for a person, one value a line."""
    if line is None:
        return []
    try:
        return msgspec.json.format(line.strip(), indent=2).decode().split("\n")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return [line.decode("utf-8", "replace").rstrip("\n")]
