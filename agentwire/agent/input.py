"""A prompt as the model reads it: its text, the files the host attached, and images that the model can see."""

from __future__ import annotations

import base64
import logging
from itertools import islice
from pathlib import Path

from agentwire.commands import Prompt
from agentwire.events import Image, ImageInput, Part, Text
from agentwire.text import scrub

logger = logging.getLogger("agentwire.input")

HEADER = "[Attached files]"
LARGEST_IMAGE = 5 * 1024 * 1024
"""Bytes; what the common services take. A larger one is only named."""

MOST_IMAGES = 4
"""Images sent along with one prompt: they are read while everybody waits. More are only named."""

SIGNATURES: tuple[tuple[bytes, bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", b"", "image/png"),
    (b"\xff\xd8\xff", b"", "image/jpeg"),
    (b"GIF8", b"", "image/gif"),
    (b"RIFF", b"WEBP", "image/webp"),
)
"""First bytes, what stands at byte 8, and what that makes it."""


def input_parts(command: Prompt, workspace: Path, image_input: ImageInput) -> list[Part]:
    """The parts of a prompt: text with the attached paths listed under it, then the images among them.

    The paths are named always; an image is sent along only where the model can see it.
    """
    parts = list(command.parts)
    text = scrub(command.text)
    if command.files:
        files = [scrub(path) for path in command.files]
        text = "\n".join([HEADER, *files]) if not text.strip() else "\n".join([text.strip(), "", HEADER, *files])
    if text or not parts:
        parts.insert(0, Text(text))
    if image_input == "supported":
        parts += islice(filter(None, (read_image(workspace / path) for path in command.files)), MOST_IMAGES)
    return parts


def image_type(data: bytes) -> str:
    """The MIME type of an image by its first bytes; ``""`` if it is none that models take."""
    for start, at_eight, mime_type in SIGNATURES:
        if data.startswith(start) and data[8:].startswith(at_eight):
            return mime_type
    return ""


def read_image(path: Path) -> Image | None:
    """An image file as a part; None if it is not one, cannot be read, or is too large."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_IMAGE:
            return None
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        logger.info("cannot attach %s: %s", path, error)
        return None
    mime_type = image_type(data)
    return Image(mime_type, base64.b64encode(data).decode("ascii"), str(path)) if mime_type else None
