"""What a request was made of, as hashes: two runs that sent the same can be told from two that did not."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from agentwire.events import RequestSent

TRANSPORT = ("stream", "stream_options")
"""Fields of a body that say how the reply is to come, and nothing about what is asked: they are not hashed."""


def provenance(body: bytes, *, provider: str, model: str, api: str = "") -> RequestSent:
    """The record of a request whose JSON body is ``body``, to be emitted right before it is sent.

    The hashes are SHA-256 in hex over canonical JSON, that is, compact and with the keys of every object sorted: one
    over the body without the fields :data:`TRANSPORT`, one over its tools as they stand there (empty if it has none).
    ``api`` is the form of the body: ``chat``, ``responses``, ``messages``, ``converse``.
    """
    fields: dict[str, Any] = msgspec.json.decode(body)
    for name in TRANSPORT:
        fields.pop(name, None)
    tools = fields.get("tools") or fields.get("toolConfig")
    return RequestSent(provider, model, api, _digest(fields), len(body), _digest(tools) if tools else "")


def _digest(value: Any) -> str:
    return sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
