"""The result of an MCP tool as a model reads it (Model Context Protocol, server features, tools).

Text is text; anything else becomes a short note in its place, and pictures that model services take travel beside
the text. Nothing is ever put into the text as base64, and a kind of content that is not known yet is a note too.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

from agentwire.events import Image, ImageInput
from agentwire.text import scrub
from agentwire.tools.contract import ToolResult

MAX_IMAGE = 5 * 1024 * 1024
"""Longest base64 text of an image that model services take."""

_SIGNATURES: tuple[tuple[bytes, int, bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"GIF8", 0, b"", "image/gif"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
)
"""How the formats that every model service takes begin: start, then what stands at an offset."""


class _Reader:
    """Collects what one result holds."""

    def __init__(self, image_input: ImageInput) -> None:
        self.lines: list[str] = []
        self.images: list[Image] = []
        self.has_text = False
        self._image_input = image_input

    def read(self, item: object) -> None:
        if not isinstance(item, Mapping):
            self.lines.append("[unknown content]")
            return
        kind = str(item.get("type", "unknown content"))
        read = _KINDS.get(kind)
        if read is None:
            self.lines.append(f"[{kind[:80]}]")
        else:
            read(self, item)

    def text(self, item: Mapping[str, Any]) -> None:
        self.has_text = True
        self.lines.append(str(item.get("text", "")))

    def image(self, item: Mapping[str, Any]) -> None:
        self._picture(str(item.get("mimeType", "image")), item.get("data"))

    def audio(self, item: Mapping[str, Any]) -> None:
        self.lines.append(f"[audio: {item.get('mimeType', 'unknown')}]")

    def resource(self, item: Mapping[str, Any]) -> None:
        resource = item.get("resource")
        resource = resource if isinstance(resource, Mapping) else {}
        self.lines.append("[resource]")
        if isinstance(resource.get("text"), str):
            self.has_text = True
            self.lines.append(resource["text"])
        elif str(resource.get("mimeType", "")).startswith("image/"):
            self._picture(str(resource["mimeType"]), resource.get("blob"))

    def link(self, item: Mapping[str, Any]) -> None:
        self.lines.append(f"[resource: {item.get('uri', '')}]")

    def _picture(self, declared: str, data: object) -> None:
        text = data if isinstance(data, str) else ""
        try:
            content = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            content = b""
        kind = _format(content)
        if kind and len(text) <= MAX_IMAGE and self._image_input != "unsupported":
            # What it is, not what the server calls it: a wrong type would spoil every later request of the session.
            self.images.append(Image(kind, data=text))
            self.lines.append(f"[image: {kind}]")
        else:
            self.lines.append(f"[image: {kind or declared}, {len(content)} bytes, not sent]")


_KINDS: dict[str, Callable[[_Reader, Mapping[str, Any]], None]] = {
    "text": _Reader.text,
    "image": _Reader.image,
    "audio": _Reader.audio,
    "resource": _Reader.resource,
    "resource_link": _Reader.link,
}


def _format(content: bytes) -> str:
    for start, offset, middle, mime in _SIGNATURES:
        if content.startswith(start) and content.startswith(middle, offset):
            return mime
    return ""


def compact(value: object) -> str:
    """A value as JSON on one line with sorted keys, whatever it holds."""
    return scrub(json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str))


def tool_result(answer: Mapping[str, Any], image_input: ImageInput = "unknown") -> ToolResult:
    """The answer to ``tools/call``, as it came, as a result for the model.

    Pictures are kept unless the model is known not to see them. Structured content is shown where there is no text.
    """
    reader = _Reader(image_input)
    content = answer.get("content")
    for item in content if isinstance(content, list) else []:
        reader.read(item)
    if not reader.has_text and answer.get("structuredContent") is not None:
        reader.lines.append(compact(answer["structuredContent"]))
    failed = answer.get("isError") is True
    output = "\n".join(reader.lines)
    if failed and not output:
        output = "MCP tool error: the server reported an error and gave no reason"
    return ToolResult(output, is_error=failed, images=reader.images)
