"""JSON on lines: decoding that says in words what is wrong, and encoding that never leaves half a line.

Codecs decode a line in one stage with msgspec and come here for what fails. Accepted is strict JSON: of two equal
keys the last wins; NaN, numbers without a finite value and nesting too deep to decode are not JSON; half a surrogate
pair, which ``\\uD83D`` can say although no text can hold it, becomes U+FFFD.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from agentwire.text import scrub, scrub_value

T = TypeVar("T")

ECHO_LIMIT: Final = 200
"""Most characters of a peer's own text that an error repeats."""

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


class BadJson(ValueError):
    """A line is not JSON. The text is short and for a person."""


class BadShape(ValueError):
    """A line is JSON, but not what the wire expects. The text is short and for a person."""

    def __init__(self, message: str, value: Any) -> None:
        super().__init__(message)
        self.value = value
        """The line, decoded."""


def clip(text: str, limit: int = ECHO_LIMIT) -> str:
    """Bound text that is echoed: at most ``limit`` characters, the last an ellipsis if something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def parse(line: bytes) -> Any:
    """Decode one JSON value of any kind. Raises :class:`BadJson`."""
    try:
        return _decode(line)
    except msgspec.DecodeError as error:
        if b"\\u" in line:
            return _parse_surrogates(line, error)
        raise BadJson(_words(error)) from None
    except RecursionError:
        raise BadJson("nested too deeply") from None


def canonical_object(text: str | bytes) -> msgspec.Raw | None:
    """Give a JSON object as compact JSON with its keys sorted at every depth, on one line; None if it is none."""
    try:
        value = parse(text if isinstance(text, bytes) else scrub(text).encode())
        return msgspec.Raw(_encode_sorted(value)) if isinstance(value, dict) else None
    except (BadJson, RecursionError):
        return None


def sorted_json(value: Any) -> msgspec.Raw:
    """Encode free-form JSON (never an envelope: struct fields are sorted too) with its keys sorted, on one line."""
    try:
        return msgspec.Raw(_encode_sorted(value))
    except UnicodeEncodeError:
        return msgspec.Raw(_encode_sorted(scrub_value(value)))


class LineDecoder(Generic[T]):
    """Decodes lines of one direction of a wire into ``T``, usually a union of tagged structs.

    :attr:`decode` is the fast way and raises ``msgspec.DecodeError`` or ``RecursionError``; on either, the caller
    turns to :meth:`recover`, which may still succeed.
    """

    __slots__ = ("decode",)

    def __init__(self, type: Any) -> None:
        self.decode = msgspec.json.Decoder(type).decode

    def recover(self, line: bytes) -> T:
        """Decode a line that :attr:`decode` refused: equal keys and half surrogate pairs are put in order first.

        Raises :class:`BadJson` or :class:`BadShape`.
        """
        value = parse(line)
        try:
            result: T = self.decode(_encode(value))
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadShape(_words(error), value) from None
        return result


def append_line(encoder: msgspec.json.Encoder, message: Any, out: bytearray) -> None:
    """Append ``message`` and a line feed, or nothing: half surrogate pairs in it are replaced.

    ``message`` is the caller's to give away; it may be changed. A ``Raw`` inside must hold no line feed.
    """
    start = len(out)
    try:
        encoder.encode_into(message, out, -1)
    except UnicodeEncodeError:
        del out[start:]
        encoder.encode_into(scrub_value(message), out, -1)
    except BaseException:
        del out[start:]
        raise
    out += b"\n"


def _parse_surrogates(line: bytes, error: msgspec.DecodeError) -> Any:
    """Decode with the standard library, which accepts lone surrogates where msgspec does not."""
    try:
        return scrub_value(json.loads(line.decode(), parse_constant=_no_constant, parse_float=_finite))
    except RecursionError:
        raise BadJson("nested too deeply") from None
    except ValueError:
        raise BadJson(_words(error)) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(digits)
    return number


def _words(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return clip(
        str(error).removeprefix("JSON is malformed: ").replace("Input data was truncated", "text ends too early")
    )
