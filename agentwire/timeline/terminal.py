"""A timeline in the terminal: what it came to, and a tree with bars for every turn."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from agentwire.host.screen import plain
from agentwire.timeline.items import Item, Timeline, Totals, Turn, Wait
from agentwire.timeline.titles import of_usage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDEST: Final = 140
"""Columns that are used at most."""

TURNS: Final = 40
"""Turns that are shown unless all are asked for."""

ROWS: Final = 60
"""Items of one turn that are shown, unless all are."""

_STYLES: Final[Mapping[str, str]] = {
    "host": "magenta", "agent": "bold", "model": "blue", "tools": "yellow", "approvals": "green",
    "subagents": "cyan",
}  # fmt: skip

_WAIT_STYLES: Final[dict[Wait, str]] = {
    "model": "blue", "tools": "yellow", "person": "green", "subagents": "cyan", "retry": "red",
}  # fmt: skip

_SHOWN: Final = frozenset({"step", "call", "approval", "retry", "compaction", "subagent", "host_tool", "error_raised"})
"""What is a row; the rest is counted. What went wrong always is."""


def show(timeline: Timeline, console: Console, *, turns: Sequence[int] = (), everything: bool = False) -> None:
    """Print a timeline. ``turns``: only these, counted from 1; ``everything``: leave nothing out."""
    width = min(console.width, WIDEST)
    view = _View(console, width, timeline.timed)
    view.heading(timeline)
    chosen = [(number, turn) for number, turn in enumerate(timeline.turns, 1) if not turns or number in turns]
    shown = chosen if everything or turns else chosen[:TURNS]
    for number, turn in shown:
        view.turn(number, turn, everything or bool(turns), len(timeline.sessions) > 1)
    if len(shown) < len(chosen):
        view.line("")
        view.line(f"{len(chosen) - len(shown)} more turns; --all shows them, --turn N one of them", "dim")
    outside = [item for item in timeline.items if not item.turn and item.problem]
    if outside and not turns:
        view.line("")
        view.line("outside any turn", "bold")
        view.rows(outside if everything else outside[:ROWS], None)


class _View:
    def __init__(self, console: Console, width: int, timed: bool) -> None:
        self._console = console
        self._width = width
        self._timed = timed
        self._unicode = console.encoding.lower().startswith("utf")

    def line(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._print(Text(plain(text), style=style))

    def heading(self, timeline: Timeline) -> None:
        totals = timeline.totals
        told = [timeline.wire or "journal", timeline.made_by]
        if timeline.started:
            when = datetime.datetime.fromtimestamp(timeline.started / 1000)
            told.append(when.strftime("%Y-%m-%d %H:%M:%S"))
        self.line(timeline.name, "bold")
        self.line("  ".join(part for part in told if part), "dim")
        for name, value in _facts(timeline, totals):
            self._print(self._pair(name, value))
        if totals.waits:
            self._waits(totals)
        if not self._timed:
            self.line("  The source has no times: bars show the order of what was told.", "dim")

    def turn(self, number: int, turn: Turn, everything: bool, named: bool) -> None:
        from rich.text import Text

        item = turn.item
        self.line("")
        head = Text(f"turn {number} ", style="bold")
        head.append(turn.outcome or "unfinished", style="green" if turn.outcome == "completed" else "bold red")
        told = [duration(item.took)] if self._timed else []
        told.append(of_usage(turn.usage))
        if named:
            told.append(f"session {item.session}")
        head.append(plain("".join(f"  {part}" for part in told if part)), style="dim")
        self._print(head)
        self.line(f"  {item.title}")
        if turn.outcome != "completed" and item.note:
            self.line(f"  {item.note}", "red")
        if turn.waits:
            self._print(self._shares(turn.waits, item.took))
        rows = [part for part in turn.items if part.kind in _SHOWN or part.problem]
        shown = rows if everything else rows[:ROWS]
        self.rows(shown, item)
        if len(shown) < len(rows):
            self.line(f"  {len(rows) - len(shown)} more; --turn {number} shows them", "dim")

    def rows(self, items: Iterable[Item], within: Item | None) -> None:
        bar_width = max(10, self._width // 4) if within is not None else 0
        label_width = max(12, self._width - bar_width - 25)
        for item in items:
            self._print(self._row(item, within, label_width, bar_width))

    def _row(self, item: Item, within: Item | None, label_width: int, bar_width: int) -> Text:
        from rich.cells import set_cell_size
        from rich.text import Text

        label = f"  {'  ' * max(0, item.depth - 1)}{_MARKS.get(item.kind, '')}{item.title}"
        if item.status and item.note:
            label += f" ({item.note})"
        row = Text(set_cell_size(plain(label).replace("\n", " ").replace("\t", " "), label_width), no_wrap=True)
        row.append(f"  {item.status or 'ok':<11.11}", style=_status_style(item))
        took = duration(item.took) if self._timed else duration(1000 * item.told_ms) if item.told_ms >= 0 else ""
        row.append(f"{took:>9}", style="dim")
        if within is not None:
            row.append("  ")
            row.append(self._bar(item, within, bar_width), style=_STYLES[item.lane])
        return row

    def _bar(self, item: Item, within: Item, width: int) -> str:
        """Where an item lies in its turn."""
        if self._timed:
            low, high, start, end = within.start, within.end, item.start, item.end
        else:
            low, high, start, end = within.first, within.last, item.first, item.last
        span = max(1, high - low)
        left = min(width - 1, max(0, (start - low) * width // span))
        right = min(width, max(left + 1, -(-(end - low) * width // span)))
        full, point, rest = ("\u2501", "\u2578", "\u00b7") if self._unicode else ("=", "|", ".")
        body = full * (right - left) if end > start else point
        return rest * left + body + rest * (width - left - len(body))

    def _waits(self, totals: Totals) -> None:
        spent = sum(totals.waits.values())
        self._print(self._shares(totals.waits, spent))

    def _shares(self, waits: Mapping[Wait, int], total: int) -> Text:
        from rich.text import Text

        width = max(10, self._width // 3)
        bar, words = Text("  "), Text()
        left, until, drawn = width, 0, 0
        for wait, style in _WAIT_STYLES.items():
            spent = waits.get(wait, 0)
            if not spent:
                continue
            until += spent
            cells = min(left, round(until * width / max(1, total)) - drawn)
            letter = "\u2588" if self._unicode and self._console.color_system else wait[0]
            bar.append(letter * cells, style=style)
            left, drawn = left - cells, drawn + cells
            words.append(f"  {wait} {duration(spent)}", style=style)
        bar.append(" " * left)
        return bar + words

    def _pair(self, name: str, value: str) -> Text:
        from rich.text import Text

        pair = Text(f"  {name:<10}", style="dim")
        pair.append(plain(value), style="not dim")
        return pair

    def _print(self, text: Text) -> None:
        self._console.print(text, width=self._width, highlight=False, no_wrap=True, overflow="ellipsis")


def duration(micros: int) -> str:
    """A time as a person reads it."""
    if micros < 1000:
        return f"{micros} \u00b5s" if micros else "0"
    if micros < 1_000_000:
        return f"{micros / 1000:.0f} ms"
    if micros < 60_000_000:
        return f"{micros / 1e6:.1f} s"
    minutes, seconds = divmod(micros // 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} m" if hours else f"{minutes} m {seconds:02} s"


def _facts(timeline: Timeline, totals: Totals) -> list[tuple[str, str]]:
    """What there is to say about all of it."""
    found = [
        (
            "turns",
            _counts(totals.turns)
            + (f", {totals.steps:,} {'step' if totals.steps == 1 else 'steps'}" if totals.steps else ""),
        ),
        ("calls", _counts(totals.calls)),
        ("questions", _counts(totals.questions)),
        ("tokens", of_usage(totals.usage)),
        ("trouble", _trouble(totals)),
        ("lines", _counts(totals.lines)),
        ("sessions", str(len(timeline.sessions)) if len(timeline.sessions) > 1 else ""),
    ]
    if timeline.timed:
        idle = f", {duration(totals.idle)} of it between turns" if totals.idle else ""
        found.append(("time", duration(totals.duration) + idle))
    return [(name, value) for name, value in found if value]


def _trouble(totals: Totals) -> str:
    parts = [(totals.errors, "error", "errors"), (totals.retries, "retry", "retries")]
    return ", ".join(f"{number} {one if number == 1 else many}" for number, one, many in parts if number)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


def _status_style(item: Item) -> str:
    if not item.problem:
        return "green"
    return "yellow" if item.status in ("retry", "warning", "cancelled", "stopped", "denied") else "red"


_MARKS: Final[dict[str, str]] = {"approval": "? ", "error_raised": "! ", "retry": "~ "}
