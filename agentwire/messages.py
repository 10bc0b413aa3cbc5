"""The history as a model service reads it: what :mod:`agentwire.log.history` folds a log into."""

from __future__ import annotations

from msgspec import Raw, Struct

from agentwire.events import CallRef, Image, Part


class UserMessage(Struct, tag="user"):
    """What the user (or prior context) said."""

    parts: list[Part]


class AssistantMessage(Struct, tag="assistant", omit_defaults=True):
    """One step of the model. Every call in it is answered by a :class:`ToolMessage` right after it."""

    text: str = ""
    reasoning: str = ""
    calls: list[CallRef] = []
    provider: str = ""
    items: list[Raw] = []
    """The reply's blocks verbatim; only for the provider named, else made from the other fields."""


class ToolMessage(Struct, tag="tool", omit_defaults=True):
    """The result of one call."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    images: list[Image] = []


Message = UserMessage | AssistantMessage | ToolMessage
