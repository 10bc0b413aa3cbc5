"""File name patterns: what they mean, and the walk through the folders that finds what they match."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

_MOST_ALTERNATIVES = 100

_RECURSIVE = "**"
_WILD = re.compile(r"[*?\[]")


class Pattern:
    """One pattern without braces: a folder to start from, and what must match below it."""

    def __init__(self, text: str) -> None:
        parts = [part for part in text.split("/") if part not in ("", ".")]
        literal = 0
        while literal < len(parts) - 1 and not _WILD.search(parts[literal]):
            literal += 1
        self.root = ("/" if text.startswith("/") else "") + "/".join(parts[:literal])
        """The part before the first wildcard: a relative or absolute folder, or empty."""
        self._parts = [None if part == _RECURSIVE else _part(part) for part in parts[literal:]]
        if not self._parts:
            raise ValueError("it names no file")

    @staticmethod
    def parse(text: str) -> list[Pattern]:
        """The patterns that ``text`` stands for: several if it has ``{a,b}`` in it.

        Raises :class:`ValueError` with what is wrong.
        """
        if "\0" in text:
            raise ValueError("it holds a NUL")
        return [Pattern(one) for one in _alternatives(text)]

    def walk(self, root: Path, limits: Path | None, checkpoint: Callable[[], None]) -> Iterator[str]:
        """The matching files below ``root``, a resolved folder, relative to it, in the order of their names.

        ``**`` follows no links; a link that a name or another wildcard matches is followed, but not out of
        ``limits``. Folders that cannot be read are passed over. ``checkpoint`` is called before each folder.
        """
        # Per open folder: its place, its entries, and which parts of the pattern the names in it may match next.
        open_folders = [("", self._entries(root, checkpoint), self._closure({0}))]
        while open_folders:
            place, entries, states = open_folders[-1]
            entry = next(entries, None)
            if entry is None:
                open_folders.pop()
                continue
            after = {state + 1 for state in states if self._matches(state, entry.name)}
            again = {state for state in states if self._parts[state] is None}
            if (len(self._parts) in after or self._open_ended(again)) and _is_file(entry):
                yield place + entry.name
            link = entry.is_symlink()
            further = self._closure(after if link else after | again)
            if further and (_leads_inside(entry.path, limits) if link else entry.is_dir(follow_symlinks=False)):
                inner = self._entries(Path(entry.path), checkpoint)
                open_folders.append((f"{place}{entry.name}/", inner, further))

    def _matches(self, state: int, name: str) -> bool:
        part = self._parts[state]
        return part is not None and part.fullmatch(name) is not None

    def _open_ended(self, states: set[int]) -> bool:
        """A ``**`` at the end matches every file below."""
        return len(self._parts) - 1 in states

    def _closure(self, states: set[int]) -> set[int]:
        """With what follows each ``**``, for it may also match no folder at all; without the end."""
        reached: set[int] = set()
        for state in states:
            while state < len(self._parts):
                reached.add(state)
                if self._parts[state] is not None:
                    break
                state += 1
        return reached

    @staticmethod
    def _entries(folder: Path, checkpoint: Callable[[], None]) -> Iterator[os.DirEntry[str]]:
        checkpoint()
        try:
            with os.scandir(folder) as entries:
                return iter(sorted(entries, key=lambda entry: entry.name))
        except OSError:  # no folder, or not for us
            return iter(())


def _part(part: str) -> re.Pattern[str]:
    if _RECURSIVE in part:
        raise ValueError("'**' must stand alone between slashes")
    if part == "..":
        raise ValueError("'..' can only come before the first wildcard")
    at = part.find("[")
    while at >= 0:
        # A closing bracket right after the opening one, or after its "!", is a member of the set.
        end = part.find("]", at + (3 if part.startswith("!", at + 1) else 2))
        if end < 0:
            raise ValueError(f"'[' without ']' in '{part}'")
        at = part.find("[", end)
    return re.compile(fnmatch.translate(part))


def _alternatives(text: str) -> list[str]:
    """``text`` with every ``{a,b}`` written out; braces without a comma are ordinary characters."""
    done: list[str] = []
    todo = [text]
    while todo:
        one = todo.pop()
        match = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if match is None:
            done.append(one)
        else:
            todo += [one[: match.start()] + choice + one[match.end() :] for choice in reversed(match[1].split(","))]
        if len(done) + len(todo) > _MOST_ALTERNATIVES:
            raise ValueError("it has too many alternatives")
    return done


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _leads_inside(path: str, limits: Path | None) -> bool:
    target = os.path.realpath(path)
    return os.path.isdir(target) and (limits is None or Path(target).is_relative_to(limits))
