"""What the wire makes of single events: facts that the agent side and the fidelity table share."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UnsetType

from agentwire import events as bus
from agentwire.codec.jsontext import BadJson, parse
from agentwire.events import Event
from agentwire_pagent import wire
from agentwire_pagent.calls import Call

CUT_OFF: Final = bus.ErrorInfo("internal_error", "The run ended without saying why.")
"""What a host makes of a run without its last line (section 5); such a run is rendered without one, too."""


def is_cut(event: Event) -> bool:
    """Whether a call was cancelled because its turn ends."""
    return isinstance(event, bus.CallCancelled) and event.cause in ("stopped", "crashed")


def breaks_off(event: Event, dialect: wire.Dialect) -> bool:
    """Whether a run ends without its last line."""
    return isinstance(event, bus.TurnFinished) and (
        event.outcome == "failed" or (event.outcome == "cancelled" and dialect == "classic")
    )


def failure(event: bus.TurnFinished) -> str:
    """Why a turn failed, if it says so."""
    error = event.error
    return "" if isinstance(error, UnsetType) or error == CUT_OFF else error.message


def is_extra(event: bus.StepStarted) -> bool:
    """Whether a step goes beyond the limit, to sum up."""
    return 0 < event.max <= event.index


def user_input(event: bus.TurnStarted) -> str:
    """The text of an input; the wire has no word for its images and files."""
    parts = event.input
    if len(parts) == 1 and isinstance(parts[0], bus.Text):
        return parts[0].text
    return "\n".join([part.text for part in parts if isinstance(part, bus.Text)])


def summary(call: Call) -> str:
    """What a question says of the call: its command, its file, or its arguments."""
    question = call.question
    told = "" if question is None else question.command or question.path
    return told or call.arguments


def own_line(event: bus.Unknown, dialect: wire.Dialect) -> bytes | None:
    """The line of an event without a word on the bus, if it came from this wire as a notification."""
    if event.wire != wire.NAMES[dialect]:
        return None
    raw = bytes(event.raw)
    try:
        value = parse(raw)
    except BadJson:
        return None
    if not is_notification(value):
        return None
    return msgspec.json.format(raw, indent=0) + b"\n"


def is_notification(value: Any) -> bool:
    """Whether a JSON value has this wire's envelope (section 6, rows 2 to 5 and 8)."""
    return (
        isinstance(value, dict)
        and value.get("jsonrpc") == "2.0"
        and "id" not in value
        and isinstance(value.get("method"), str)
        and value["method"] != ""
        and isinstance(value.get("params"), dict | None)
    )
