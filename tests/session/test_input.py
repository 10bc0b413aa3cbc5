"""A prompt as the model reads it: text, attached paths, and the images that it can see."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from agentwire.agent.input import MOST_IMAGES, input_parts
from agentwire.commands import Prompt
from agentwire.events import Image, Text

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize("seen", ["supported", "unsupported", "unknown"])
def test_images_go_along_where_the_model_sees_them_and_are_named_always(seen, tmp_path: Path):
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.txt").write_text("no image")
    first, *rest = input_parts(Prompt(" look ", files=["a.png", "b.txt", "none.png"]), tmp_path, seen)
    assert first == Text("look\n\n[Attached files]\na.png\nb.txt\nnone.png")
    image = Image("image/png", base64.b64encode(PNG).decode(), str(tmp_path / "a.png"))
    assert rest == ([image] if seen == "supported" else [])


def test_only_so_many_images_go_along(tmp_path: Path):
    names = [f"{n}.png" for n in range(MOST_IMAGES + 2)]
    for name in names:
        (tmp_path / name).write_bytes(PNG)
    text, *images = input_parts(Prompt("look", files=names), tmp_path, "supported")
    assert len(images) == MOST_IMAGES
    assert text.text.endswith("\n".join(names))
