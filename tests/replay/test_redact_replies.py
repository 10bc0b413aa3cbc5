"""Secrets and chosen fields out of the replies of a model service, wherever they were cut."""

from __future__ import annotations

import base64
import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replaying import asides

from agentwire.recording import Chunk, Recorder, open_recording
from agentwire.recording.replies import chunk
from agentwire.replay.redaction import Redaction, redact

SECRET = "sk-proj-abcdefghijklmnop0123"
STREAM = (
    'event: delta\ndata: {"type":"text_delta","index":1,"text":"The key \u2014 ' + SECRET + '","api_key":"hunter2"}\n\n'
    'data: {"choices":[{"index":0,"delta":{"content":"pa\\u00dfword is\\n\\"Sesam\\"","refusal":null}}]}\n\n'
    ": a comment\n\ndata: [DONE]\n\n"
).encode()


def recorded(path: Path, pieces: list[bytes], media: str = "text/event-stream") -> Path:
    """A recording with one reply."""
    reply = {
        "service": "s", "method": "POST", "path": "/", "headers": [["content-type", media]],
        "body": [chunk(number, piece) for number, piece in enumerate(pieces)],
    }  # fmt: skip
    path.unlink(missing_ok=True)
    with Recorder(path, "aionrs") as recorder:
        recorder.aside(
            "model", {"request": 1, "http": [reply], "completion": {"text": "x", "items": [{"thinking": "y"}]}}
        )
    return path


def body(path: Path) -> list[bytes]:
    (about,) = asides(path, "model")
    return [Chunk(*piece).data for piece in about["http"][0]["body"]]


def redacted(path: Path, *fields: str) -> list[bytes]:
    """The pieces afterwards; the file is as long as before, and nothing more is taken out the next time."""
    out = path.with_suffix(".out")
    out.write_bytes(b"".join(redact(open_recording(path), Redaction(fields))))
    assert out.stat().st_size == path.stat().st_size
    again = b"".join(redact(open_recording(out), Redaction(fields)))
    assert again == out.read_bytes()
    return body(out)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    borders = [0, *sorted(border % len(data) for border in at), len(data)]
    return [data[start:end] for start, end in pairwise(borders) if start < end]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), max_size=6))
def test_a_secret_is_gone_wherever_a_body_was_cut(tmp_path_factory, at):
    pieces = cut(STREAM, at)
    path = recorded(tmp_path_factory.mktemp("r") / "r", pieces)
    found = redacted(path)
    assert [len(piece) for piece in found] == [len(piece) for piece in pieces]
    whole = b"".join(found)
    expected = STREAM.replace(SECRET.encode(), b"x" * len(SECRET)).replace(b"hunter2", b"xxxxxxx")
    assert whole == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), max_size=6))
def test_with_a_field_all_that_was_said_is_gone(tmp_path_factory, at):
    pieces = cut(STREAM, at)
    path = recorded(tmp_path_factory.mktemp("r") / "r", pieces)
    found = redacted(path, "arguments")
    assert [len(piece) for piece in found] == [len(piece) for piece in pieces]
    lines = b"".join(found).decode().split("\n")
    first, second = (json.loads(line[6:]) for line in lines if line.startswith("data: {"))
    assert first == {
        "type": "text_delta", "index": 1, "text": f"xxx xxx \uff58 {'x' * len(SECRET)}", "api_key": "xxxxxxx",
    }  # fmt: skip
    assert second["choices"][0]["index"] == 0
    assert "Sesam" not in second["choices"][0]["delta"]["content"]
    assert lines[0] == "event: delta"
    assert "data: [DONE]" in lines
    assert "comment" not in "".join(lines)
    assert asides(path.with_suffix(".out"), "model")[0]["completion"]["items"] == [{"thinking": "x"}]


@pytest.mark.parametrize("media", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("head", ["data: ", ""])
def test_a_body_that_ends_within_a_character(media, head, tmp_path):
    data = (f'{head}{{"text":"geheim \u00e9\u79d8\u5bc6 {SECRET} \u79d8').encode()[:-1]
    path = recorded(tmp_path / "r", [data[:9], data[9:-5], data[-5:]], media)
    assert b"".join(redacted(path)) == data.replace(SECRET.encode(), b"x" * len(SECRET))
    found = b"".join(redacted(path, "text")).decode()
    assert len(found.encode()) == len(data)
    assert not set("geheim\u00e9\u79d8\u5bc6") & set(found[len(head) :])


def test_a_secret_is_looked_for_in_every_line(tmp_path):
    data = f"id: {SECRET}\nevent: delta\ndata: [DONE]\n\n".encode()
    path = recorded(tmp_path / "r", [data])
    for fields in ((), ("text",)):
        assert redacted(path, *fields) == [data.replace(SECRET.encode(), b"x" * len(SECRET))]


def frame(payload: bytes) -> bytes:
    """A frame of an AWS event stream, with one header."""
    head = b"\x0b:event-type\x07\x00\x05chunk"
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    whole = prelude + struct.pack("!I", crc32(prelude)) + head + payload
    return whole + struct.pack("!I", crc32(whole))


def events(data: bytes) -> list[Any]:
    """What botocore makes of it: it checks the checksums."""
    eventstream = pytest.importorskip("botocore.eventstream")
    buffer = eventstream.EventStreamBuffer()
    buffer.add_data(data)
    return [json.loads(message.payload) for message in buffer]


@pytest.mark.parametrize("fields", [(), ("text",)])
def test_frames_are_looked_into(tmp_path, fields):
    inner = json.dumps({"type": "content_block_delta", "index": 2, "delta": {"text": f"Here: {SECRET}"}}).encode()
    data = frame(json.dumps({"bytes": base64.b64encode(inner).decode(), "p": "abc"}).encode())
    data += frame(json.dumps({"message": f"no such key: {SECRET}"}).encode())
    path = recorded(
        tmp_path / "r", [data[:50], data[50:90], data[90:], frame(inner)[:60]], "application/vnd.amazon.eventstream"
    )
    assert SECRET not in path.read_text(), "it is in base64"
    first, second = events(b"".join(redacted(path, *fields)[:3]))
    told = json.loads(base64.b64decode(first["bytes"]))
    assert (told["type"], told["index"]) == ("content_block_delta", 2)
    assert told["delta"]["text"] == f"{'xxxxx' if fields else 'Here:'} {'x' * len(SECRET)}"
    assert SECRET not in second["message"]
    assert b"text_delta" not in redacted(path, "text")[3]


@pytest.mark.parametrize("message", [f"011... {SECRET}", f"006{'.' * 12} {SECRET}"])
def test_a_checksum_that_is_no_text_any_more(message, tmp_path):
    """A piece that was text is kept as bytes where the frame's new checksum is none."""
    data = frame(json.dumps({"message": message}).encode())
    path = recorded(tmp_path / "r", [data], "application/vnd.amazon.eventstream")
    assert '"body":[[0,"",' not in path.read_text(), "by chance it is text"
    (tmp_path / "out").write_bytes(b"".join(redact(open_recording(path), Redaction())))
    (piece,) = body(tmp_path / "out")
    assert piece == frame(json.dumps({"message": message.replace(SECRET, "x" * len(SECRET))}).encode())


def test_what_cannot_be_looked_into_is_taken_out_with_any_field(tmp_path):
    data = b"\xff\xfe\x00" + SECRET.encode() + b"\x00more"
    path = recorded(tmp_path / "r", [data], "application/octet-stream")
    assert redacted(path) == [data.replace(SECRET.encode(), b"x" * len(SECRET))]
    assert redacted(path, "text") == [b"x" * len(data)]


def test_a_reply_that_is_one_document(tmp_path):
    data = json.dumps({"error": {"message": f"bad key {SECRET}", "code": 7}}, indent=1).encode()
    path = recorded(tmp_path / "r", cut(data, [20, 40]), "application/json")
    assert json.loads(b"".join(redacted(path))) == {"error": {"message": f"bad key {'x' * len(SECRET)}", "code": 7}}
    assert json.loads(b"".join(redacted(path, "text")))["error"] == {
        "message": f"xxx xxx {'x' * len(SECRET)}", "code": 7,
    }  # fmt: skip


def test_journals_are_looked_through_as_well(tmp_path):
    line = json.dumps({"seq": 1, "event": {"type": "text_delta", "text": f"It is {SECRET}"}}) + "\n"
    torn = b'{"seq":2,"key":"' + SECRET.encode() + b'"\xff'
    path = tmp_path / "r"
    with Recorder(path, "aionrs") as recorder:
        recorder.aside("note", {"journal": "s", "lines": [line]})
        recorder.aside("note", {"journal": "s", "base64": base64.b64encode(torn).decode()})
    out = tmp_path / "out"
    out.write_bytes(b"".join(redact(open_recording(path), Redaction(["text"]))))
    kept, rest = asides(out, "note")
    assert json.loads(kept["lines"][0])["event"] == {"type": "text_delta", "text": f"xx xx {'x' * len(SECRET)}"}
    assert base64.b64decode(rest["base64"]) == torn.replace(SECRET.encode(), b"x" * len(SECRET))
