"""Whoever listens to what services answer, and what they are told. Usually nobody does.

A listener is set for a task, and for those that it starts: a provider's own code knows nothing of it. What it hears is
the reply as it came, before anybody read it; of the request it is told the method and the path, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from msgspec import Struct


class Reading(Struct, frozen=True):
    """Who reads a service's replies, and what decides how: enough to have them read again."""

    provider: str
    """Name of the provider."""
    options: dict[str, Any] = {}
    """Those of its options that are switches, numbers or choices (:meth:`agentwire.provider.HttpQuirks.choices`)."""
    connect_timeout: float = 10.0
    """Seconds, as errors name them."""
    silence_timeout: float = 300.0


class Exchange(Protocol):
    """One request's reply, as it comes."""

    def answered(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """The service answers. All headers are told: a listener keeps those that are harmless."""
        ...

    def heard(self, chunk: bytes) -> None:
        """The next bytes of the body, as they were received."""
        ...

    def ended(self) -> None:
        """The body is whole. Not told if it was left early."""
        ...

    def broke(self, kind: str, message: str, cause: str) -> None:
        """There is no connection, or it broke: the exception's name, what it says (without secrets), and the name of
        the exception at its root."""
        ...


class Listener(Protocol):
    """Hears everything that services answer to one request of an agent."""

    def reads(self, reading: Reading) -> None:
        """Who is going to read what comes."""
        ...

    def asks(self, service: str, method: str, path: str, secrets: Sequence[str]) -> Exchange:
        """A request is sent. ``service``: what messages call it; ``secrets``: what may be kept nowhere."""
        ...


LISTENER: ContextVar[Listener | None] = ContextVar("agentwire_listener", default=None)
