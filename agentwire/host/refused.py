"""What a driver gets when an agent does not take a command."""

from __future__ import annotations

from agentwire.commands import Refusal


class Refused(Exception):
    """A command was not taken; the message says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
