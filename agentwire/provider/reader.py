"""The base of everything that reads a streamed reply: bytes in, stream events out, a whole reply at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType

from agentwire.events import Usage
from agentwire.provider import errors
from agentwire.provider.contract import Completion, Emit, ProviderError
from agentwire.provider.sse import EventParser, SseError

CLOSING = 10.0
"""Seconds that a service gets to say the rest (usage, mostly) once it has said why it finished."""

CLOSED = 0.1
"""Seconds that it gets to end the response once it has said that nothing more comes; then the connection can be
used again. If it does not, the connection is closed."""


class ReplyReader(Protocol):
    """What :meth:`agentwire.provider.http.HttpClient.post` feeds."""

    patience: float | None
    """None: the reply goes on. A number: it is whole, and what may still come is awaited that many seconds at most."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the body; raises :class:`ProviderError`."""
        ...

    def whole(self, body: bytes) -> None:
        """Take a body that is one JSON document, from a service that does not stream."""
        ...


class EventStreamReader(ABC):
    """Reads a reply that comes as server-sent events. Subclasses say what an event means and what the reply is."""

    def __init__(self, emit: Emit, *, service: str, secrets: Sequence[str] = ()) -> None:
        self.emit = emit
        self.service = service
        """What messages call the service: its host."""
        self.secrets = secrets
        self.patience: float | None = None
        self._parser = EventParser()

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        try:
            events = self._parser.feed(chunk)
        except SseError as error:
            raise ProviderError(f"{self.service}: {error}", kind="bad_reply") from error
        for event in events:
            if self.patience == CLOSED:
                return  # whatever a service still says after its last word
            if event.data and not event.data.isspace():
                self.on_event(event.data, event.name)

    def whole(self, body: bytes) -> None:
        """Take a reply that came as one JSON document."""
        raise errors.not_understood("no event stream", body, service=self.service, secrets=self.secrets)

    def finish(self) -> Completion:
        """The stream ended: the whole reply. Raises :class:`ProviderError` if its proper end never came."""
        for event in self._parser.close():
            # Its blank line is missing. If it was cut inside, the reply has not ended and that is the better error.
            try:
                self.on_event(event.data, event.name)
            except ProviderError as error:
                if error.kind != "bad_reply":
                    raise
        if self.patience is None:
            raise errors.broke_off(self.service)
        return self.completion()

    @abstractmethod
    def on_event(self, data: bytes, name: bytes) -> None:
        """Take one event; sets ``patience`` when the reply is whole."""

    @abstractmethod
    def completion(self) -> Completion:
        """The whole reply. Called once, when it is whole."""

    @property
    def usage(self) -> Usage | UnsetType:
        """What was reported so far."""
        return UNSET

    def garbled(self, data: bytes) -> ProviderError:
        """The error for an event that is not JSON."""
        return errors.not_understood("something that is not JSON", data, service=self.service, secrets=self.secrets)

    def reported(self, value: object) -> ProviderError:
        """The error for an error object in the stream."""
        return errors.reported(value, service=self.service, secrets=self.secrets)
