"""Reads a reply that comes as an AWS event stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from agentwire.provider import CLOSED, CLOSING, Emit, ProviderError, lenient
from agentwire_anthropic.stream import MessageReader
from agentwire_bedrock.converse import TRANSLATIONS
from agentwire_bedrock.frames import Frame, FrameError, FrameParser

STATUS_OF = {
    "accessDeniedException": 403,
    "internalServerException": 500,
    "modelErrorException": 424,
    "modelNotReadyException": 429,
    "modelStreamErrorException": 424,
    "modelTimeoutException": 408,
    "resourceNotFoundException": 404,
    "serviceQuotaExceededException": 400,
    "serviceUnavailableException": 503,
    "throttlingException": 429,
    "validationException": 400,
}
"""The statuses that Bedrock gives these exceptions when it answers with them before the stream."""

PASSING = frozenset(("modelErrorException", "modelStreamErrorException"))
"""The model broke down at this request; it may do better at the next."""


class Chunk(Struct, gc=False):
    """What a chunk holds: an event of the model's own, in base64. What fills it up to some length says nothing."""

    event: bytes = field(name="bytes", default=b"")


_decode_chunk = msgspec.json.Decoder(Chunk).decode


class FrameReader(MessageReader):
    """One reply: frames that hold the events of a Messages stream, or of Converse."""

    def __init__(self, emit: Emit, *, service: str, secrets: Sequence[str] = ()) -> None:
        super().__init__(emit, service=service, secrets=secrets)
        self._frames = FrameParser()

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        try:
            for frame in self._frames.feed(chunk):
                if self.patience == CLOSED:
                    return
                self._take(frame)
        except FrameError as error:
            raise ProviderError(f"{self.service} sent {error}", kind="bad_reply") from error

    def _take(self, frame: Frame) -> None:
        if frame.kind != "event":
            raise self._failure(frame)
        if frame.name == "chunk":
            try:
                inner = _decode_chunk(frame.payload).event
            except (msgspec.DecodeError, RecursionError) as error:
                raise self.garbled(frame.payload) from error
            if inner:
                self.on_event(inner, b"")
            return
        if (translate := TRANSLATIONS.get(frame.name)) is None:
            return
        for event in translate(self._object(frame.payload)):
            self.on_event(msgspec.json.encode(event), b"")
        if frame.name == "messageStop":
            self.patience = CLOSING  # what was used is told after the end

    def _object(self, payload: bytes) -> dict[str, Any]:
        try:
            value = lenient.decode(payload)
        except ValueError as error:
            raise self.garbled(payload) from error
        return value if isinstance(value, dict) else {}

    def _failure(self, frame: Frame) -> ProviderError:
        """The error for a frame that says that the service failed, after a status that said it had not."""
        name = frame.name[:1].lower() + frame.name[1:]
        try:
            said = self._object(frame.payload)
        except ProviderError:
            said = {}
        text = said.get("message") or said.get("Message") or frame.text or frame.name
        error = self.reported({"error": {"message": text, "type": frame.name, "status": STATUS_OF.get(name, 0)}})
        error.retryable = error.retryable or name in PASSING
        return error
