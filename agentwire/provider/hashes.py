"""What a request was made of, as hashes: two runs that sent the same can be told from two that did not."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from agentwire.events import Image, RequestSent, SentImage
from agentwire.messages import Message, ToolMessage, UserMessage
from agentwire.provider.conversation import paired

TRANSPORT = ("stream", "stream_options")
"""Fields of a body that say how the reply is to come, and nothing about what is asked: they are not hashed."""


def provenance(
    body: bytes, *, provider: str, model: str, api: str = "", messages: Iterable[Message] = ()
) -> RequestSent:
    """The record of a request whose JSON body is ``body``, to be emitted right before it is sent.

    The hashes are SHA-256 in hex over canonical JSON, that is, compact and with the keys of every object sorted: one
    over the body without the fields :data:`TRANSPORT`, one over its tools as they stand there (empty if it has none).
    ``api`` is the form of the body: ``chat``, ``responses``, ``messages``, ``converse``. ``messages`` are what the
    body was made of, for the images in it.
    """
    fields: dict[str, Any] = msgspec.json.decode(body)
    for name in TRANSPORT:
        fields.pop(name, None)
    tools = fields.get("tools") or fields.get("toolConfig")
    return RequestSent(
        provider, model, api, _digest(fields), len(body), _digest(tools) if tools else "", list(_images(messages))
    )


def _images(messages: Iterable[Message]) -> Iterator[SentImage]:
    """The images of a conversation, in the order in which every service is sent them."""
    for message in paired(messages):
        if isinstance(message, UserMessage):
            yield from (_sent(part, "") for part in message.parts if isinstance(part, Image) and part.data)
        elif isinstance(message, ToolMessage):
            yield from (_sent(image, message.call_id) for image in message.images if image.data)


def _sent(image: Image, call_id: str) -> SentImage:
    try:
        data = base64.b64decode(image.data)
    except (binascii.Error, ValueError):
        data = image.data.encode("utf-8", "replace")  # no base64: what is sent is the text itself
    return SentImage(sha256(data).hexdigest(), image.mime_type, len(data), call_id)


def _digest(value: Any) -> str:
    return sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
