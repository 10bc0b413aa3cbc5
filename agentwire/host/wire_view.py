"""What stood on a wire, for a person: every line with its direction, runs of like lines folded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console

LONGEST = 180
"""Characters of a line that are shown."""

SHOWN_OF_A_RUN = 2
ALIKE = 22
"""Lines of one direction that begin with the same so many bytes are alike: on every wire the kind comes first."""


class WireView:
    """Collects the lines of a conversation; :meth:`take` is a tap for :func:`agentwire.connect`."""

    def __init__(self) -> None:
        self.lines: list[tuple[Literal["in", "out"], bytes]] = []

    def take(self, direction: Literal["in", "out"], line: bytes) -> None:
        """One line; ``in`` is what the agent reads."""
        self.lines.append((direction, line))

    def print(self, console: Console) -> None:
        """Print what was collected."""
        for direction, text in self._folded():
            arrow = "host > agent" if direction == "in" else "agent > host"
            console.print(f"{arrow}  {text}", style="cyan" if direction == "in" else "", markup=False)

    def _folded(self) -> Iterator[tuple[str, str]]:
        for (direction, _), run in groupby(self.lines, key=lambda entry: (entry[0], entry[1][:ALIKE])):
            lines = [line for _, line in run]
            shown = lines if len(lines) <= SHOWN_OF_A_RUN + 1 else lines[:SHOWN_OF_A_RUN]
            for line in shown:
                text = line.decode("utf-8", errors="replace")
                yield direction, f"{text[:LONGEST]}..." if len(text) > LONGEST else text
            if len(shown) < len(lines):
                yield direction, f"... and {len(lines) - len(shown)} more of these"
