"""The pieces that the plays of both dialects' scripted hosts are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from agentwire.codec.checking import Severity
from agentwire.codec.kit import (
    Await,
    Check,
    Play,
    Requirement,
    Say,
    Step,
)
from agentwire.codec.patterns import Absent, Bind, OneOf


def told(method: str, **params: Any) -> dict[str, Any]:
    """A pattern of a notification: nothing but the three keys, and no id."""
    return {"jsonrpc": "2.0", "id": Absent(), "method": method, "params": params}


def user(text: str) -> Say:
    """A user input."""
    return Say({"cmd": "user", "text": text})


def hears(method: str, *never: str, **params: Any) -> Await:
    """A notification comes, and none of those before it."""
    return Await(told(method, **params), method, tuple({"method": name} for name in never))


def turn(text: str) -> tuple[Step, ...]:
    """A user input, up to the end of its run."""
    return (user(text), hears("RunBegin", user_input=text), hears("RunEnd", "RunBegin"))


FENCE: Final = Say({"cmd": "capabilities"})
"""Answered at once, whatever goes on (v4)."""


def fenced(*never: str) -> Await:
    """The fence is answered, and none of those came before."""
    return hears("Capabilities", *never)


GREET_V4: Final[tuple[Step, ...]] = (hears("SlashCommands", "RunBegin"),)

Make = Callable[..., Requirement]


def maker(greet: tuple[Step, ...]) -> Make:
    """Makes requirements with a play of their own, each of which begins with ``greet``."""

    def make(
        name: str, section: str, text: str, *steps: Step, check: Check | None = None, level: Severity = "must"
    ) -> Requirement:
        return Requirement(name, "agent", section, text, Play(name, (*greet, *steps)), check, level)

    return make


TEXT: Final = Bind(kind="string")
USAGE: Final = OneOf((None, Bind(kind="object")))
