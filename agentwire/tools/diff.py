"""Changes of a file as a person reads them: unified diffs (aionrs protocol, section 1.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from agentwire.events import Diff
from agentwire.tools.output import clean, truncate

_CONTEXT = 3
"""Unchanged lines shown around a change."""

_COMPARED = 1_000_000
"""Old times new lines above which a changed region is shown as replaced, instead of being compared line by line."""

_BOTH_SIDES = 100_000
"""Characters of old and new text together, above which only the unified text is kept."""

_Change = tuple[int, int, int, int]
"""Lines ``[0:1]`` of the old text became lines ``[2:3]`` of the new one."""


def change(path: str, old: str, new: str, limit: int) -> Diff:
    """The change of the file ``path`` (as it was named) from ``old`` to ``new``.

    The unified text is cut to about ``limit`` characters; both sides stand beside it unless they are long.
    """
    old, new = clean(old), clean(new)
    both = len(old) + len(new) <= _BOTH_SIDES
    text = truncate(unified(path, old, new), limit)
    return Diff(clean(path), text, old if both else UNSET, new if both else UNSET)


def unified(path: str, old: str, new: str) -> str:
    """The unified diff between two texts, without a final line feed; empty if they are equal."""
    if old == new:
        return ""
    before, after = _lines(old), _lines(new)
    name = _shown(path)
    out = [f"--- a/{name}", f"+++ b/{name}"]
    for hunk in _hunks(_changes(before, after)):
        out += _rendered(hunk, before, after)
    return "\n".join(out)


def _shown(path: str) -> str:
    # A line feed in a file's name must not forge lines of the diff.
    path = path.lstrip("/")
    return path if path.isprintable() else path.encode("unicode_escape").decode("ascii")


def _lines(text: str) -> list[str]:
    """The lines with their line feeds. Nothing but LF ends a line: a diff is about bytes, not about typography."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[_Change]:
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and before[start] == after[start]:
        start += 1
    same = 0
    while same < shorter - start and before[-1 - same] == after[-1 - same]:
        same += 1
    old, new = before[start : len(before) - same], after[start : len(after) - same]
    if len(old) * len(new) > _COMPARED:
        yield start, start + len(old), start, start + len(new)
        return
    import difflib

    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield start + i1, start + i2, start + j1, start + j2


def _hunks(changes: Iterator[_Change]) -> Iterator[list[_Change]]:
    hunk: list[_Change] = []
    for one in changes:
        if hunk and one[0] - hunk[-1][1] > 2 * _CONTEXT:
            yield hunk
            hunk = []
        hunk.append(one)
    yield hunk


def _rendered(hunk: list[_Change], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    lead = min(hunk[0][0], _CONTEXT)
    trail = min(len(before) - hunk[-1][1], _CONTEXT)
    old = hunk[0][0] - lead, hunk[-1][1] + trail
    new = hunk[0][2] - lead, hunk[-1][3] + trail
    yield f"@@ -{_range(*old)} +{_range(*new)} @@"
    at = old[0]
    for i1, i2, j1, j2 in hunk:
        yield from (_line(" ", line) for line in before[at:i1])
        yield from (_line("-", line) for line in before[i1:i2])
        yield from (_line("+", line) for line in after[j1:j2])
        at = i2
    yield from (_line(" ", line) for line in before[at : old[1]])


def _range(start: int, end: int) -> str:
    length = end - start
    # A range without lines is named by the line before it.
    return f"{start + 1 if length else start},{length}" if length != 1 else f"{start + 1}"


def _line(mark: str, line: str) -> str:
    return mark + line[:-1] if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file"
