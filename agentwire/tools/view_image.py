"""The ViewImage tool (aionrs protocol, section 4.8)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import trio

from agentwire.events import Image
from agentwire.tools import arguments as args
from agentwire.tools import files
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult
from agentwire.tools.paths import admit

LARGEST = 20 * 1024 * 1024
"""Bytes of the largest image."""

_KINDS: tuple[tuple[str, bytes, int, bytes], ...] = (
    ("image/png", b"\x89PNG\r\n\x1a\n", 0, b""),
    ("image/jpeg", b"\xff\xd8\xff", 0, b""),
    ("image/gif", b"GIF87a", 0, b""),
    ("image/gif", b"GIF89a", 0, b""),
    ("image/webp", b"RIFF", 8, b"WEBP"),
)
"""How image files begin: type, first bytes, and further bytes at an offset."""


class ViewImage(Tool):
    """An image for the model to look at."""

    name = "ViewImage"
    description = "Look at an image file (PNG, JPEG, GIF or WebP, at most 20 MiB)."
    category = "info"
    overlaps = True
    parameters = args.schema(["file_path"], file_path=("string", "The absolute path of the image"))

    def available(self, context: ToolContext) -> bool:
        """Only where the model is known to take images."""
        return context.image_input == "supported"

    def describe(self, arguments: dict[str, Any]) -> str:
        """``View image P``."""
        return f"View image {args.text(arguments, 'file_path', 'unknown')}"

    def paths(self, arguments: dict[str, Any]) -> list[str]:
        """The file."""
        path = args.text(arguments, "file_path", "")
        return [path] if path else []

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Attach it to the result. What it is, its first bytes tell, not its name."""
        given = args.required(arguments, "file_path")
        if not os.path.isabs(given):
            raise ToolError("file_path must be an absolute path")
        path = admit(context, given)
        try:
            image = await trio.to_thread.run_sync(_load, context.workspace, path, abandon_on_cancel=True)
        except OSError as error:
            raise ToolError(f"Failed to read image: {files.cause(error)}") from error
        return ToolResult(f"Image loaded from {given} and attached to the next model turn.", images=[image])


def _load(workspace: Path, path: Path) -> Image:
    import base64

    with files.folder_of(workspace, path) as folder:
        descriptor, _ = files.open_to_read(folder, path.name)
    try:
        data = files.read_all(descriptor, LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        raise ToolError(f"Image exceeds the {LARGEST} byte size limit")
    for mime_type, start, offset, further in _KINDS:
        if data.startswith(start) and data.startswith(further, offset):
            return Image(mime_type, base64.b64encode(data).decode("ascii"))
    raise ToolError("Not a PNG, JPEG, GIF or WebP image")
