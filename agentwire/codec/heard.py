"""What a host side makes of a line."""

from __future__ import annotations

from msgspec import Struct

from agentwire.commands import Done, JsonId, Refusal
from agentwire.events import Event


class Heard(Struct, gc=False):
    """An event that a host side read, with what the wire tells of its place.

    ``gc=False`` is sound: an event does not refer back to it.
    """

    event: Event
    session: str = ""
    ref: JsonId = None
    """The ``ref`` of the turn it belongs to; None outside a turn."""
    origin: str = ""


class Answered(Struct):
    """The outcome of a command that a host side sent; ``command`` is the command's number from :meth:`send`."""

    command: int
    result: Done | Refusal
