"""AWS event streams: frames out of bytes that are cut anywhere.

A frame has headers, which say what it is, and a payload. Lengths and both checksums are checked by botocore.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from botocore.eventstream import EventStreamBuffer, ParserError
from msgspec import Struct


class FrameError(ValueError):
    """The bytes are no event stream; the parser cannot be used any more."""


class Frame(Struct, frozen=True):
    """One frame."""

    kind: str
    """``event``, or ``exception`` or ``error`` if the service failed."""
    name: str
    """Which event, exception or error code."""
    payload: bytes
    text: str = ""
    """What an ``error`` says; an exception says it in its payload."""


_NAMES = {"exception": ":exception-type", "error": ":error-code"}


class FrameParser:
    """Cuts one stream into frames. Make a new one for every response."""

    def __init__(self) -> None:
        self._buffer = EventStreamBuffer()

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Take the next bytes and give the frames that they complete; raises :class:`FrameError`."""
        self._buffer.add_data(chunk)
        while True:
            try:
                message = self._buffer.next()
            except StopIteration:
                return
            except (ParserError, struct.error, LookupError, UnicodeDecodeError) as error:
                # The latter three: headers that make no sense under a checksum that is right.
                raise FrameError(f"no event stream: {error}") from error
            yield _frame(message.headers, message.payload)


def _frame(headers: dict[str, Any], payload: bytes) -> Frame:
    kind = str(headers.get(":message-type", "event"))
    name = str(headers.get(_NAMES.get(kind, ":event-type"), ""))
    return Frame(kind, name, payload, str(headers.get(":error-message", "")))
