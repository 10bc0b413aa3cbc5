"""A session as aionrs keeps it: one JSON file with the whole conversation."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from agentwire.store import StoreError

T = TypeVar("T")

Block = dict[str, Any]
"""A piece of a message: ``text``, ``image_url``, ``tool_use``, ``tool_result``, ``thinking``, ``provider_item``, or a
kind that came later."""


class TotalUsage(Struct, frozen=True):
    """Tokens of the whole session; ``input_tokens`` includes cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0


class Message(Struct):
    """What one side said. Results of calls come from the user, or (``tool``) stand alone."""

    role: Literal["user", "assistant", "system", "tool"]
    content: list[Block]
    timestamp: datetime.datetime | None = None


class StateHead(Struct):
    """As much of a state as a list needs."""

    id: str
    created_at: datetime.datetime
    model: str = ""


class State(Struct):
    """A whole session. What aionrs measures for its own use is not read."""

    id: str
    created_at: datetime.datetime
    messages: list[Message]
    updated_at: datetime.datetime | None = None
    provider: str = ""
    """The name in aionrs's configuration, which may be an alias."""
    model: str = ""
    cwd: str = ""
    total_usage: TotalUsage = TotalUsage()

    @property
    def created(self) -> int:
        """Milliseconds since the epoch."""
        return milliseconds(self.created_at)


def milliseconds(moment: datetime.datetime) -> int:
    """Since the epoch; a moment without a time zone is taken as UTC, in which aionrs writes all."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)


def read_state(path: Path) -> State:
    """A whole session. Raises :class:`StoreError` if the file cannot be read or is no session."""
    return _read(path, _STATE)


def read_head(path: Path) -> StateHead:
    """As :func:`read_state`, but only what a list needs."""
    return _read(path, _HEAD)


_STATE = msgspec.json.Decoder(State)
_HEAD = msgspec.json.Decoder(StateHead)


def _read(path: Path, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(path.read_bytes())
    except OSError as error:
        raise StoreError(f"The session file {path} cannot be read: {error.strerror or error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"The session file {path} is broken: {error}") from None
