"""A stored session as text: the conversation, or its records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

import msgspec

from agentwire.log.record import Record


def print_records(records: Iterable[Record], out: TextIO) -> None:
    """Every record as one line of JSON."""
    for record in records:
        out.write(msgspec.json.encode(record).decode() + "\n")


def print_transcript(records: Iterable[Record], out: TextIO) -> None:
    """What was said and done, as a person reads it."""
    from rich.console import Console

    from agentwire.events import Text, TurnStarted
    from agentwire.host.screen import Screen

    screen = Screen(Console(file=out, highlight=False, soft_wrap=True))
    for record in records:
        if record.origin:
            continue
        if isinstance(record.event, TurnStarted):
            screen.say("user", "\n".join(part.text for part in record.event.input if isinstance(part, Text)))
        else:
            screen.event(record.event)
