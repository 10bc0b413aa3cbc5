"""The ViewImage tool (aionrs protocol, section 4.8)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agentwire.events import Image

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 and so on", "image/jpeg"),
        (b"GIF87a..", "image/gif"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\x01\x02\x03\x04WEBPVP8 ", "image/webp"),
    ],
)
async def test_images_are_known_by_their_bytes(bench: Any, data: bytes, mime_type: str) -> None:
    path = str(bench.write("picture.dat", data))
    result = await bench("ViewImage", file_path=path)
    assert (result.is_error, result.output) == (
        False, f"Image loaded from {path} and attached to the next model turn.",
    )  # fmt: skip
    assert result.images == [Image(mime_type, base64.b64encode(data).decode())]


@pytest.mark.parametrize("data", [b"", b"not an image", b"RIFF\x01\x02\x03\x04WAVE", b"\x89PNG", b"<svg/>"])
async def test_what_is_no_image(bench: Any, data: bytes) -> None:
    failure = await bench.fails("ViewImage", file_path=str(bench.write("picture.png", data)))
    assert failure == "Not a PNG, JPEG, GIF or WebP image"


async def test_the_size_limit(bench: Any) -> None:
    path = bench.write("picture.png", PNG)
    with path.open("r+b") as file:
        file.truncate(20 * 1024 * 1024)
    assert (await bench("ViewImage", file_path=str(path))).images[0].mime_type == "image/png"
    with path.open("r+b") as file:
        file.truncate(20 * 1024 * 1024 + 1)
    failure = await bench.fails("ViewImage", file_path=str(path))
    assert failure == "Image exceeds the 20971520 byte size limit"


async def test_failures(bench: Any) -> None:
    assert await bench.fails("ViewImage", file_path="picture.png") == "file_path must be an absolute path"
    missing = str(bench.workspace / "missing.png")
    failure = await bench.fails("ViewImage", file_path=missing)
    assert failure == "Failed to read image: No such file or directory (os error 2)"
    outside = str(bench.write("../outside.png", PNG).resolve())
    assert "is outside the workspace" in await bench.fails("ViewImage", file_path=outside)
    (bench.workspace / "link.png").symlink_to(outside)
    assert "is outside the workspace" in await bench.fails("ViewImage", file_path=str(bench.workspace / "link.png"))
