"""What a benchmark hands over, and how it is shown: a table for people, JSON for machines."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from benchmarks.timing import Ratio


class Figure(Struct, kw_only=True):
    """One line of the table."""

    what: str
    reference: str = "-"
    measured: Ratio
    goal: float
    sense: Literal["at most", "at least"] = "at most"
    unit: str = "x"
    beside: str = ""
    """Another ratio of the same run, for information: no goal is set for it."""
    notes: list[str] = []
    """Absolute numbers and parts of the figure, shown on demand: true for this machine and this run only."""
    benchmark: str = ""
    """Name of the module; filled in by the command."""

    @property
    def met(self) -> bool:
        """Whether the median keeps the goal."""
        value = self.measured.median
        return value <= self.goal if self.sense == "at most" else value >= self.goal

    def row(self) -> tuple[str, ...]:
        """The cells of its line in the table."""
        sign = "<=" if self.sense == "at most" else ">="
        found = self.measured
        return (
            self.what,
            self.reference,
            f"{number(found.median)} {self.unit}",
            f"{number(found.low)} .. {number(found.high)}",
            f"{sign} {number(self.goal)} {self.unit}",
            "yes" if self.met else "NO",
            self.beside,
        )


HEAD = ("what", "reference", "measured", "quartiles", "goal", "met?", "for information")


def number(value: float) -> str:
    """Three digits that count, and no exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def rate(cost: float) -> str:
    """Seconds per event as events per second, for people."""
    per_second = 1 / cost
    return f"{per_second / 1e6:.2f} M/s" if per_second >= 1e6 else f"{per_second / 1e3:.1f} k/s"


def nanoseconds(cost: float) -> str:
    """Seconds per event in a unit of that size, for people."""
    return f"{cost * 1e9:.0f} ns"


def table(figures: Sequence[Figure], errors: dict[str, str], *, verbose: bool = False) -> str:
    """All figures in columns of plain text."""
    rows = [HEAD, *(figure.row() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_line(HEAD, widths), "  ".join("-" * width for width in widths)]
    for figure in figures:
        lines.append(_line(figure.row(), widths))
        if verbose:
            lines += [f"    {note}" for note in figure.notes]
    lines += [f"{name} failed: {error}" for name, error in errors.items()]
    return "\n".join(lines)


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


class Report(Struct, kw_only=True):
    """Everything that one run found, for ``--json``."""

    python: str
    system: str
    cpus: int
    rounds: int
    quick: bool
    figures: list[Figure]
    missed: list[str]
    """The figures that miss their goals, by what they measure."""
    errors: dict[str, str]
    """Why a benchmark could not run, by its name."""

    @classmethod
    def of(cls, figures: list[Figure], errors: dict[str, str], *, rounds: int, quick: bool) -> Report:
        """The report of this run on this machine."""
        return cls(
            python=platform.python_version(),
            system=platform.platform(),
            cpus=os.cpu_count() or 0,
            rounds=rounds,
            quick=quick,
            figures=figures,
            missed=[figure.what for figure in figures if not figure.met],
            errors=errors,
        )
