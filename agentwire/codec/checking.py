"""Checking a wire while it is spoken: which line is not as the protocol has it, in shape or in place.

A codec that knows the rules of its wire offers a :class:`Checker`. It is fed the lines of both directions in the order
in which they crossed (or of one: a log of what an agent wrote) and says of each what is wrong with it. Like the codec's
two sides it does no I/O and never raises; after a fault it goes on as if the line had been in order, so that one
mistake is reported once.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeVar

from msgspec import DecodeError, Struct

from agentwire.codec.framing import LineFault
from agentwire.codec.jsontext import BadJson, BadShape, LineDecoder

T = TypeVar("T")

Severity = Literal["must", "should"]
"""``must``: a peer may fail over it. ``should``: peers cope, but it is not what the protocol describes."""


class Violation(Struct, frozen=True):
    """One rule that one line breaks."""

    message: str
    """What is wrong, for a person; peers' own text in it is clipped."""
    section: str = ""
    """Of the wire's specification."""
    severity: Severity = "must"


class Checker(Protocol):
    """Knows the rules of one wire. Lines come as a :class:`~agentwire.codec.framing.Framer` gives them."""

    def agent(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the agent; nothing: it is in order."""
        ...

    def host(self, line: bytes | LineFault) -> list[Violation]:
        """Check a line of the host."""
        ...

    def close(self) -> list[Violation]:
        """The agent's output ended: what is missing."""
        ...


def decoded(decoder: LineDecoder[T], line: bytes | LineFault, section: str) -> T | Violation:
    """A line as ``decoder`` reads it, or what is wrong with it; ``section`` is where its shape is described."""
    if type(line) is LineFault:
        return Violation(line.message, section)
    try:
        read: T = decoder.decode(line)
        return read
    except (DecodeError, RecursionError):
        pass
    try:
        return decoder.recover(line)
    except BadJson as fault:
        return Violation(f"not JSON: {fault}", section)
    except BadShape as fault:
        return Violation(str(fault), section)
