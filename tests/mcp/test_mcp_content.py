"""Results of tools as a model reads them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from agentwire.events import Image, ImageInput
from agentwire.mcp.content import MAX_IMAGE, compact, tool_result

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000002000000020802000000"
        "fdd49a730000000e49444154789c63f8cfc0c0f01f00060001ff1c3b7d2c0000000049454e44ae426082"
    )
).decode()
SVG = "PHN2Zy8+"
SIZE = len(base64.b64decode(PNG))


def read(*content: object, image_input: ImageInput = "supported", **more: Any) -> Any:
    return tool_result({"content": list(content), **more}, image_input)


def test_texts_are_joined_by_lines() -> None:
    result = read({"type": "text", "text": "a"}, {"type": "text", "text": "b\nc"})
    assert (result.output, result.is_error, result.images) == ("a\nb\nc", False, [])


SHOT = (
    {"type": "text", "text": "shot:"},
    {"type": "image", "mimeType": "image/png", "data": PNG},
    {"type": "image", "mimeType": "image/svg+xml", "data": SVG},
)


@pytest.mark.parametrize("image_input", ["supported", "unknown"])
def test_s_f06_a_picture_travels_beside_the_text(image_input: ImageInput) -> None:
    result = read(*SHOT, image_input=image_input)
    assert result.images == [Image("image/png", data=PNG)]
    assert result.output == "shot:\n[image: image/png]\n[image: image/svg+xml, 6 bytes, not sent]"


def test_s_f06_a_model_without_eyes_gets_a_note() -> None:
    result = read(*SHOT, image_input="unsupported")
    assert result.images == []
    assert result.output == (
        f"shot:\n[image: image/png, {SIZE} bytes, not sent]\n[image: image/svg+xml, 6 bytes, not sent]"
    )


@pytest.mark.parametrize("image_input", ["supported", "unsupported"])
def test_s_f06_nothing_is_ever_base64_in_the_text_and_nothing_raises(image_input: ImageInput) -> None:
    result = read(
        {"type": "audio", "mimeType": "audio/wav", "data": PNG},
        {"type": "resource_link", "uri": "file:///x", "name": "x"},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": PNG}},
        {"type": "hologram", "data": PNG},
        {"type": "image", "mimeType": "image/png", "data": "not base64!"},
        {"type": "image"},
        {"data": PNG},
        "nonsense",
        image_input=image_input,
    )
    assert result.output.splitlines() == [
        "[audio: audio/wav]",
        "[resource: file:///x]",
        "[resource]",
        "[hologram]",
        "[image: image/png, 0 bytes, not sent]",
        "[image: image, 0 bytes, not sent]",
        "[unknown content]",
        "[unknown content]",
    ]
    assert result.images == []


def test_a_picture_is_what_it_is_not_what_it_is_called() -> None:
    """A wrong type would have the model service refuse every later request of the session."""
    assert read({"type": "image", "mimeType": "image/jpeg", "data": PNG}).images == [Image("image/png", data=PNG)]


def test_a_picture_that_services_refuse_is_not_sent() -> None:
    huge = base64.b64encode(b"\xff\xd8\xff" + bytes(MAX_IMAGE)).decode()
    result = read({"type": "image", "mimeType": "image/jpeg", "data": huge})
    assert result.images == []
    assert result.output == f"[image: image/jpeg, {MAX_IMAGE + 3} bytes, not sent]"


def test_embedded_resources() -> None:
    text = read({"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "body"}})
    assert text.output == "[resource]\nbody"
    picture = read({"type": "resource", "resource": {"uri": "x:y", "mimeType": "image/png", "blob": PNG}})
    assert picture.output == "[resource]\n[image: image/png]"
    assert picture.images == [Image("image/png", data=PNG)]


def test_structured_content_stands_in_for_missing_text() -> None:
    assert read(structuredContent={"b": 1, "a": ["ü"]}).output == '{"a":["ü"],"b":1}'
    assert read({"type": "text", "text": "t"}, structuredContent={"a": 1}).output == "t"
    assert tool_result({"structuredContent": {"a": 1}}).output == '{"a":1}'


def test_errors_are_errors() -> None:
    result = read({"type": "text", "text": "no"}, isError=True)
    assert (result.output, result.is_error) == ("no", True)
    assert read(isError=True).output == "MCP tool error: the server reported an error and gave no reason"
    assert tool_result({}).output == ""


def test_compact_json_is_one_sorted_line_whatever_is_in_it() -> None:
    assert compact({"b": {"y": 1, "x": "a\nb"}, "a": "é"}) == '{"a":"é","b":{"x":"a\\nb","y":1}}'
    text = compact({"half": "\ud83d"})
    assert json.loads(text.encode()) == {"half": "\ufffd"}
