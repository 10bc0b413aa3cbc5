"""Content parts: checks in their order, with their texts (section 3.6).

Sizes are worked out of the base64 text; nothing is decoded. What a part says beside its text or its image
(``detail``, ``cache_control``) is kept as it came, up to a bound that the original does not have. The texts of a tool's
result become one, and lose it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from agentwire.codec.jsontext import clip
from agentwire.events import Image, Part, Text
from agentwire_jan.wire import CAPS

Label = Literal["user", "tool_result"]
"""What the parts are of, as the texts call it."""

_ALPHABET: Final = re.compile(r"[A-Za-z0-9+/]*").fullmatch
_KINDS: Final = "text, image_url"
_encode: Final = msgspec.json.Encoder().encode


MAX_EXTRA: Final = 16 * 1024
"""Most bytes of JSON that a part may say beside its text or its image: they are sent again with every request."""

MAX_DEPTH: Final = 16
"""How deep it may be nested."""


class BadContent(ValueError):
    """The content cannot be accepted; the text says why, as the wire words it."""


def read_parts(given: list[Any], label: Label) -> list[Part]:
    """Check content parts and give them as the bus has them. Raises :class:`BadContent`."""
    if not given:
        raise BadContent(f"'{label}' content is empty")
    reader = _Reader()
    parts = [reader.part(part) for part in given]
    if not any(isinstance(part, Image) or (isinstance(part, Text) and part.text.strip()) for part in parts):
        raise BadContent(f"'{label}' content carries neither text nor an image")
    return parts


class _Reader:
    """Reads the parts of one message; images have caps together."""

    def __init__(self) -> None:
        self._images = 0
        self._bytes = 0

    def part(self, part: Any) -> Part:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            raise BadContent("every content part needs a string 'type'")
        read = _READERS.get(kind)
        if read is None:
            raise BadContent(f"unsupported content part '{clip(kind)}' ({_KINDS})")
        return read(self, part)

    def text(self, part: dict[str, Any]) -> Part:
        text = part.get("text")
        if not isinstance(text, str):
            raise BadContent("a 'text' part needs a string 'text'")
        return Text(text, _extra(_beside(part, "type", "text")))

    def image(self, part: dict[str, Any]) -> Part:
        inner = part.get("image_url")
        url = inner.get("url") if isinstance(inner, dict) else None
        if not isinstance(url, str):
            raise BadContent("an 'image_url' part needs a string 'image_url.url'")
        image, size = read_data_url(url)
        if size > CAPS.max_image_bytes:
            raise BadContent(f"image is {size} bytes decoded, over the {CAPS.max_image_bytes} byte cap")
        self._images += 1
        if self._images > CAPS.max_images:
            raise BadContent(f"message carries more than {CAPS.max_images} images")
        self._bytes += size
        if self._bytes > CAPS.max_message_image_bytes:
            total = CAPS.max_message_image_bytes
            raise BadContent(f"images total {self._bytes} bytes decoded, over the {total} byte cap")
        extra = _beside(part, "type", "image_url")
        if by_url := _beside(inner, "url"):
            extra["image_url"] = by_url
        image.extra = _extra(extra)
        return image


_READERS: Final[dict[str, Callable[[_Reader, dict[str, Any]], Part]]] = {
    "text": _Reader.text,
    "image_url": _Reader.image,
}


def _beside(value: Any, *known: str) -> dict[str, Any]:
    """What an object holds beside the keys that are known."""
    return {name: found for name, found in value.items() if name not in known}


def _extra(found: dict[str, Any]) -> dict[str, Any] | UnsetType:
    if not found:
        return UNSET
    if _too_deep(found, MAX_DEPTH) or len(_encode(found)) > MAX_EXTRA:
        raise BadContent(f"a content part says more than {MAX_EXTRA} bytes beside its text or image")
    return found


def _too_deep(value: Any, left: int) -> bool:
    """Whether a value is nested deeper than ``left`` levels."""
    if isinstance(value, dict):
        return not left or any(_too_deep(inner, left - 1) for inner in value.values())
    return isinstance(value, list) and (not left or any(_too_deep(inner, left - 1) for inner in value))


def read_data_url(url: str) -> tuple[Image, int]:
    """An image and how many bytes it has. Raises :class:`BadContent`."""
    if not url.startswith("data:"):
        raise BadContent("image url must be a data: URL")
    head, comma, payload = url[5:].partition(",")
    if not comma:
        raise BadContent("data: URL has no payload")
    kind, *parameters = head.split(";")
    if "base64" not in (parameter.strip().lower() for parameter in parameters):
        raise BadContent("data: URL must be base64-encoded")
    mime_type = kind.strip().lower()
    if mime_type not in CAPS.mime_types:
        raise BadContent(f"unsupported image type '{clip(kind.strip())}' ({', '.join(CAPS.mime_types)})")
    if len(payload) % 4:
        raise BadContent("base64 payload length is not a multiple of 4")
    data = payload.rstrip("=")
    padding = len(payload) - len(data)
    if padding > 2:
        raise BadContent("base64 payload has too much padding")
    if _ALPHABET(data) is None:
        raise BadContent("base64 payload has a character outside the alphabet")
    return Image(mime_type, payload), len(payload) // 4 * 3 - padding
