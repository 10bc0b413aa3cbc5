"""JSON as it should be sent, and JSON as it is sometimes received.

Model services send halves of surrogate pairs, ``NaN``, raw control characters and broken UTF-8. The typed decoder
refuses all of these, rightly; :func:`decode` is what a reader falls back on. What we send is always strict.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from agentwire.text import scrub_value

_encode = msgspec.json.Encoder().encode


def decode(data: bytes) -> Any:
    """Decode JSON of a foreign service; what no strict string can hold becomes U+FFFD. Raises ``ValueError``."""
    try:
        return scrub_value(json.loads(data.decode("utf-8", "replace"), strict=False))
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def encode(value: Any) -> bytes:
    """Encode a request body: strict UTF-8, no U+0000 (several services refuse it), on one line."""
    try:
        data = _encode(value)
    except UnicodeEncodeError:
        data = _encode(scrub_value(value))
    if b"\\u0000" in data:
        data = _encode(_without_nul(msgspec.json.decode(data)))
    return data


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    return [_without_nul(item) for item in value] if isinstance(value, list) else value


def as_object(text: str) -> dict[str, Any] | None:
    """The JSON object that ``text`` is, or None."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def object_text(text: str) -> str:
    """``text`` if it is a JSON object, else ``{}``: what may stand as a call's arguments in a request."""
    return text if as_object(text) is not None else "{}"


def arguments_text(text: str) -> str:
    """A call's arguments as streamed, unless only their JSON is at fault.

    An object that strict JSON refuses for a raw line feed, half a surrogate pair or ``NaN`` comes back as strict
    JSON, so that the call can run. Cut or otherwise broken text stays as it is; nothing is guessed.
    """
    if not text or as_object(text) is not None:
        return text
    try:
        value = decode(text.encode("utf-8", "replace"))
    except ValueError:
        return text
    return _encode(value).decode() if isinstance(value, dict) else text
