"""A turn as a person sees it in a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from agentwire.events import (
    AnyEvent,
    ApprovalRequested,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRunning,
    Diff,
    ErrorRaised,
    Notice,
    ReasoningDelta,
    RetryScheduled,
    TextDelta,
    TurnFinished,
    Usage,
)

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_OUTPUT = 12


class Screen:
    """Prints events as they come. Deltas are streamed; everything else is a line or a block of its own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._streaming: type[Any] | None = None
        self._names: dict[str, str] = {}

    def say(self, who: str, text: str) -> None:
        """A line of somebody's."""
        self._end_stream()
        self._print(f"\n{who}: {text}", style="bold")

    def answered(self, question: ApprovalRequested, allowed: bool) -> None:
        """What the person answered."""
        self._end_stream()
        self._print(f"you: {'yes, run it' if allowed else 'no'}", style="bold green" if allowed else "bold red")

    def note(self, text: str) -> None:
        """Something that is nobody's word."""
        self._end_stream()
        self._print(f"note: {text}", style="dim")

    def event(self, event: AnyEvent) -> None:
        """One event of the turn."""
        show = _SHOW.get(type(event))
        if show is not None:
            show(self, event)

    def _text(self, event: TextDelta) -> None:
        self._stream(TextDelta, "\nagent: ", event.text, "")

    def _reasoning(self, event: ReasoningDelta) -> None:
        self._stream(ReasoningDelta, "\nagent thinks: ", event.text, "italic cyan")

    def _ready(self, event: CallReady) -> None:
        self._names[event.call_id] = event.description or event.name

    def _asked(self, event: ApprovalRequested) -> None:
        self._end_stream()
        self._print(f"\nagent asks: may I run [{self._names.get(event.call_id, event.name)}]?", style="bold yellow")

    def _running(self, event: CallRunning) -> None:
        self._end_stream()
        self._print(f"\ntool {self._names.get(event.call_id, event.name)}: running", style="yellow")

    def _finished(self, event: CallFinished) -> None:
        self._end_stream()
        display = event.display
        text = display.unified if isinstance(display, Diff) else event.output
        lines = text.splitlines()
        shown = [*lines[:LONGEST_OUTPUT], "..."] if len(lines) > LONGEST_OUTPUT else lines
        self._print(f"tool {event.name}: {event.status}", style="yellow" if event.status == "ok" else "red")
        for line in shown:
            self._print(f"  | {line}", style=_DIFF_STYLES.get(line[:1], "") if isinstance(display, Diff) else "")

    def _cancelled(self, event: CallCancelled) -> None:
        self._end_stream()
        self._print(f"tool {event.name or event.call_id}: not run ({event.reason or event.cause})", style="red")

    def _error(self, event: ErrorRaised) -> None:
        self._end_stream()
        self._print(f"error: {event.error.message}", style="bold red")

    def _notice(self, event: Notice) -> None:
        self.note(event.text)

    def _retry(self, event: RetryScheduled) -> None:
        self.note(f"{event.reason}; trying again ({event.attempt}/{event.of})")

    def _ended(self, event: TurnFinished) -> None:
        self._end_stream()
        self._print(f"\nturn {event.outcome}{_tokens(event.usage)}", style="bold")

    # --- printing ---

    def _stream(self, kind: type[Any], label: str, text: str, style: str) -> None:
        if self._streaming is not kind:
            self._end_stream()
            self._console.print(label, style="bold" if kind is TextDelta else style, markup=False, end="")
            self._streaming = kind
        self._console.print(plain(text), style=style, markup=False, end="")

    def _end_stream(self) -> None:
        if self._streaming is not None:
            self._console.print()
            self._streaming = None

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(plain(text), style=style, markup=False)


def plain(text: str) -> str:
    """Text without what a terminal would obey: control characters but line feed and tab become U+FFFD."""
    return _CONTROL.sub("\ufffd", text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _tokens(usage: Usage) -> str:
    if usage.input_tokens is UNSET or usage.output_tokens is UNSET:
        return ""
    return f" ({usage.input_tokens} tokens in, {usage.output_tokens} out)"


_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}

_SHOW: dict[type[Any], Callable[[Screen, Any], None]] = {
    TextDelta: Screen._text,
    ReasoningDelta: Screen._reasoning,
    CallReady: Screen._ready,
    ApprovalRequested: Screen._asked,
    CallRunning: Screen._running,
    CallFinished: Screen._finished,
    CallCancelled: Screen._cancelled,
    ErrorRaised: Screen._error,
    Notice: Screen._notice,
    RetryScheduled: Screen._retry,
    TurnFinished: Screen._ended,
}
