"""What a model service answered to one request, as a recording keeps it: the reply as it came, not what it meant.

Of the request nothing is kept but its method and its path.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from msgspec import Struct

from agentwire.recording.entries import RecordingError


class Chunk(Struct, array_like=True):
    """A piece of the body as it was received: ``[at, text]``, or ``[at, "", base64]`` if it is not UTF-8."""

    at: int
    """Microseconds since the agent asked its provider."""
    text: str = ""
    base64: str = ""

    @property
    def data(self) -> bytes:
        """The bytes. Raises :class:`RecordingError` for a damaged piece."""
        if not self.base64:
            return self.text.encode()
        try:
            return base64.b64decode(self.base64, validate=True)
        except binascii.Error as error:
            raise RecordingError(f"the base64 of a reply is damaged: {error}") from None


class Broke(Struct):
    """Why there was no connection, or no more of the reply."""

    kind: str
    """Name of the HTTP library's exception."""
    message: str
    cause: str = ""
    """Name of the exception at its root."""


class HttpReply(Struct, omit_defaults=True):
    """One HTTP reply, or that there was none. All times are microseconds since the agent asked its provider."""

    service: str
    """What messages call the service: its host."""
    method: str
    path: str
    """Without the query."""
    reader: dict[str, Any] | None = None
    """By whom the reply was read, and what decided how; None: not known, so that it cannot be read again."""
    asked: int = 0
    status: int = 0
    """0: there was no answer."""
    answered: int = 0
    headers: list[tuple[str, str]] = []
    """Those that are harmless."""
    body: list[Chunk] = []
    """Without compression, and without secrets."""
    whole: bool = False
    """The body came to its end. If it neither did nor broke off it was left early."""
    broke: Broke | None = None
    ended: int = 0


def chunk(at: int, data: bytes) -> list[Any]:
    """A piece of a body, as it is written."""
    try:
        return [at, data.decode()]
    except UnicodeDecodeError:
        return [at, "", base64.b64encode(data).decode()]
