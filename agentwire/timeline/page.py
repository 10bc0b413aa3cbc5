"""A timeline as one page: all data in it, no network, nothing that the recording says is ever taken for markup.

The data stands in the page as JSON without any character that HTML gives a meaning to; the script puts it on the page
as text only; and the page's own policy lets nothing else run or load, whatever might slip through.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections import Counter
from importlib.resources import files
from typing import Any, Final

import msgspec
from msgspec import Struct

from agentwire.log.record import Record
from agentwire.timeline.items import LANES, ORDERS, Fact, Item, Timeline, Wait
from agentwire.timeline.sources import RawLine, Source
from agentwire.timeline.titles import of_usage

ITEMS: Final = 32_000
"""Items that a page holds at most; what matters least is left out first."""

PIECE: Final = 16 * 1024
"""Characters of one line or event that are embedded."""

BUDGET: Final = 4_000_000
"""Characters of all lines, and of all events."""

_SCRIPTS: Final = ("model.js", "lanes.js", "list.js", "details.js", "main.js")

_LEAST: Final = ("arguments", "reasoning", "text", "request_sent", "unknown", "command", "input", "step")
"""Kinds that are left out first when there is too much, in this order; what went wrong stays longest."""


class _Shown(Struct, omit_defaults=True):
    """An item as the script reads it."""

    kind: str
    lane: int
    title: str
    start: int
    end: int
    first: int
    last: int
    session: int = -1
    turn: int = 0
    origin: str = ""
    depth: int = 0
    status: str = ""
    problem: bool = False
    note: str = ""
    pieces: int = 0
    told: int = -1
    sources: list[int] = []
    facts: list[tuple[int, int, str]] = []
    """Entry, deltas joined, and the JSON text."""
    waits: dict[Wait, int] = {}


def write_page(source: Source) -> bytes:
    """Make the page of a recording or journal. Raises what the source's ``timeline`` does."""
    timeline = source.timeline(keep=True)
    left_out: list[str] = []
    chosen = _choose(timeline.items, left_out)
    shown = _shown(timeline, chosen, left_out)
    wanted = {number for item in shown for number in item.sources}
    lines = _lines(source, wanted, left_out)
    data = {
        "name": timeline.name,
        "wire": timeline.wire or "journal",
        "made_by": timeline.made_by,
        "started": timeline.started,
        "timed": timeline.timed,
        "orders": ORDERS,
        "lanes": LANES,
        "sessions": timeline.sessions,
        "totals": timeline.totals,
        "tokens": of_usage(timeline.totals.usage),
        "items": shown,
        "lines": lines,
        "left_out": left_out,
    }
    return _fill(f"{timeline.name} \u2013 agentwire", msgspec.json.encode(data).decode()).encode()


def embedded(json: str) -> str:
    """JSON text as it may stand inside a page's script element: nothing in it can end the element or begin another."""
    return _MARKUP.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


_MARKUP: Final = re.compile("[<>&\u2028\u2029\x7f-\x9f]")


def _fill(title: str, json: str) -> str:
    here = files("agentwire.timeline") / "web"
    script = "\n".join((here / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    style = (here / "page.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src {_hashed(script)}; style-src {_hashed(style)}; base-uri 'none';"
        " form-action 'none'"
    )
    parts = {
        "title": html.escape(title),
        "policy": html.escape(policy, quote=True),
        "style": style,
        "data": embedded(json),
        "script": script,
    }
    page = (here / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], page)


def _hashed(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _choose(items: list[Item], left_out: list[str]) -> list[Item]:
    """The items that the page holds."""
    if len(items) <= ITEMS:
        return items
    kinds = Counter(item.kind for item in items if not item.problem)
    dropped: set[str] = set()
    count = len(items)
    for kind in _LEAST:
        if count > ITEMS and kinds[kind]:
            dropped.add(kind)
            count -= kinds[kind]
            left_out.append(f"{kinds[kind]:,} of kind {kind}")
    kept = [item for item in items if item.problem or item.kind not in dropped]
    if len(kept) > ITEMS:
        left_out.append(f"the last {len(kept) - ITEMS:,} items")
    return kept[:ITEMS]


def _shown(timeline: Timeline, chosen: list[Item], left_out: list[str]) -> list[_Shown]:
    lanes = {lane: number for number, lane in enumerate(LANES)}
    sessions = {name: number for number, name in enumerate(timeline.sessions)}
    waits = {id(turn.item): turn.waits for turn in timeline.turns}
    budget = _Budget("events")
    shown = [
        _Shown(
            item.kind, lanes[item.lane], item.title, item.start, item.end, item.first, item.last,
            sessions.get(item.session, -1), item.turn, item.origin, item.depth, item.status, item.problem, item.note,
            item.pieces, item.told_ms, item.sources,
            [(fact.source, fact.joined, text) for fact in item.facts if (text := budget.take(_json(fact)))],
            waits.get(id(item), {}),
        )
        for item in chosen
    ]  # fmt: skip
    budget.tell(left_out)
    return shown


def _json(fact: Fact) -> str:
    what: Any = fact.what
    if fact.pieces and isinstance(what, Record):
        event: Any = what.event
        text = "".join(fact.pieces)
        changed = {"text": text} if hasattr(event, "text") else {"delta": text}
        what = msgspec.structs.replace(what, event=msgspec.structs.replace(event, **changed))
    return msgspec.json.encode(what).decode()


def _lines(source: Source, wanted: set[int], left_out: list[str]) -> dict[int, tuple[str, int, str]]:
    """The lines behind the items: who wrote each, when, and what."""
    budget = _Budget("lines")
    found = {}
    for number, line in source.lines(wanted):
        if text := budget.take(_text(line)):
            found[number] = (line.who, line.at, text)
    budget.tell(left_out)
    return found


def _text(line: RawLine) -> str:
    return line.data[: 4 * PIECE].decode(errors="replace")


class _Budget:
    """Cuts texts, and gives no more when there were enough."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._left = BUDGET
        self._refused = 0

    def take(self, text: str) -> str:
        """The text, cut if it is long; empty if there is no room for it."""
        if len(text) > PIECE:
            text = f"{text[:PIECE]}\u2026 ({len(text) - PIECE:,} more characters are not in this page)"
        if len(text) > self._left:
            self._refused += 1
            return ""
        self._left -= len(text)
        return text

    def tell(self, left_out: list[str]) -> None:
        """Say what was left out."""
        if self._refused:
            left_out.append(f"the text of {self._refused:,} {self._what}")
