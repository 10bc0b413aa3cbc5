"""What becomes of a tool's output before the model and the host see it (aionrs protocol, section 4.0).

Tools return raw text; the agent loop passes every result through :func:`post_process`, so that event, history
and model request hold the same string. A tool whose output may be endless collects it in an :class:`Excerpt`,
which keeps what :func:`post_process` would keep and counts the rest.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from agentwire.text import scrub

Level = Literal["off", "safe", "full"]
"""How much output is compacted: not at all, without loss of meaning, or also by folding what repeats."""

_MARKER = "\n\n... [truncated {} chars] ...\n\n"
_MARKED = re.compile(r"\n\n\.\.\. \[truncated [0-9]+ chars\] \.\.\.\n\n")

_ESCAPE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # device control and its kin
    r"|[ -/]*[0-~]"  # everything short
    r")?"  # and what is left of a sequence that was cut
)

_FOLD_FROM = 3
"""Fewer similar neighbours than this are left alone."""


def clean(text: str) -> str:
    """``text`` as every wire and every model service takes it: no lone surrogates, no NUL (each becomes U+FFFD)."""
    return scrub(text).replace("\0", "\ufffd")


def truncate(text: str, limit: int) -> str:
    """Cut the middle out of a text longer than ``limit`` characters and say how many characters are missing.

    A text that was cut to the same limit before comes back as it is.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    tail = len(text) - half
    if _MARKED.fullmatch(text, half, tail):
        return text
    return text[:half] + _MARKER.format(len(text) - limit) + text[tail:]


def compact(text: str, level: Level) -> str:
    """``text`` with less noise: see :data:`Level`. Compacting twice changes nothing more, except at ``full``."""
    if level == "off":
        return text
    text = _tidy(text)
    if level == "safe":
        return text
    return _compact_json(text) or _fold(text)


def post_process(text: str, limit: int, level: Level) -> str:
    """A tool's raw output as the model reads it: cleaned, cut to about ``limit`` characters, compacted."""
    return compact(truncate(clean(text), limit), level)


class Excerpt:
    """The beginning and the end of a text that comes in pieces, and its length; memory stays within ``limit``."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        """Characters added so far."""
        self._head = ""
        self._tail: list[str] = []
        self._tail_size = 0

    def add(self, text: str) -> None:
        """Append ``text``."""
        self.total += len(text)
        room = self.limit // 2 - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        if text:
            self._tail.append(text)
            self._tail_size += len(text)
            if self._tail_size > 2 * self._keep:
                self._squeeze()

    def extend(self, other: Excerpt) -> None:
        """Append the text that ``other``, an excerpt of the same limit, stands for."""
        if other.limit != self.limit:
            raise ValueError("excerpts of different limits do not fit together")
        other._squeeze()
        missing = other.total - len(other._head) - other._tail_size
        self.add(other._head)
        self.total += missing
        for piece in other._tail:
            self.add(piece)

    def text(self) -> str:
        """All of it if it is no longer than the limit, else as :func:`truncate` would have cut it."""
        self._squeeze()
        tail = "".join(self._tail)
        if self.total <= self.limit:
            return self._head + tail
        half = self.limit // 2
        return self._head + _MARKER.format(self.total - self.limit) + (tail[-half:] if half else "")

    @property
    def _keep(self) -> int:
        return self.limit - self.limit // 2

    def _squeeze(self) -> None:
        if self._tail_size > self._keep:
            tail = "".join(self._tail)[-self._keep :]
            self._tail = [tail]
            self._tail_size = len(tail)


def _tidy(text: str) -> str:
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    lines: list[str] = []
    blank = True  # leading empty lines go too
    for raw in text.split("\n"):
        # A terminal would show only what was written after the last return to the line's start.
        line = raw.removesuffix("\r").rpartition("\r")[2].rstrip() if "\r" in raw else raw.rstrip()
        if line or not blank:
            lines.append(line)
        blank = not line
    if lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def _compact_json(text: str) -> str:
    """``text`` with its JSON on one line, if it is JSON (after any lines before it); empty if it is not."""
    start = re.search(r"^[ \t]*[{\[]", text, re.MULTILINE)
    if start is None:
        return ""
    try:
        packed = msgspec.json.format(text[start.start() :], indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return text[: start.start()] + packed


def _similar(a: str, b: str) -> bool:
    shorter = min(len(a), len(b))
    half = (shorter + 1) // 2
    return shorter > 0 and a[:half] == b[:half]


def _fold(text: str) -> str:
    lines = text.split("\n")
    out: list[str] = []
    first = 0
    while first < len(lines):
        end = first + 1
        while end < len(lines) and _similar(lines[first], lines[end]):
            end += 1
        group = lines[first:end]
        if len(group) < _FOLD_FROM:
            out += group
        else:
            kind = "identical" if all(line == group[0] for line in group) else "similar"
            out += [group[0], f"[... {len(group) - 2} {kind} lines]", group[-1]]
        first = end
    return "\n".join(out)
