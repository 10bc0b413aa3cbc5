"""The base of every event."""

from __future__ import annotations

import re

from msgspec import Struct


def snake(name: str) -> str:
    """The tag of a class: its name in snake_case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event(Struct, tag=snake, omit_defaults=True):
    """Base of every event. Subclass it only in this package: the journal's format is the union of them."""
