"""Secrets, and the contents of chosen fields, out of a model service's replies as they stand in a recording.

A body is looked through as a whole, wherever it was cut: a secret may lie across two pieces. Afterwards it is cut at
the same places. Bytes that are not UTF-8 (a body may end within a character) are characters of their own meanwhile.
JSON is understood where it stands alone, in an event stream (the ``data`` lines) and in the frames of AWS, whose
checksums are made anew.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable, Iterator
from typing import Final
from zlib import crc32

import msgspec

from agentwire.recording import Chunk, HttpReply

FRAMES: Final = "application/vnd.amazon.eventstream"

Change = Callable[[str], str]
"""Gives a text, or JSON, without what is to be taken out, character for character."""

_FILL: Final = {1: "x", 2: "\u02e3", 3: "\uff58", 4: "\U0001d5d1"}
_DATA: Final = re.compile(r"(data: ?)(.*)", re.DOTALL)
_LENGTHS: Final = struct.Struct("!II")
_PRELUDE, _CHECKSUM = 12, 4


def pieces(replies: list[HttpReply], change: Change, *, emptied: bool) -> Iterator[tuple[Chunk, bytes]]:
    """Give every piece of the replies' bodies with what it is to be, of the same length and in their order.

    ``emptied``: what cannot be understood is taken out altogether. Raises
    :class:`agentwire.recording.RecordingError` for a damaged piece.
    """
    for reply in replies:
        data = [chunk.data for chunk in reply.body]
        media = dict(reply.headers).get("content-type", "").partition(";")[0].strip().lower()
        body = _body(b"".join(data), media, change, emptied)
        begin = 0
        for chunk, was in zip(reply.body, data, strict=True):
            yield chunk, body[begin : begin + len(was)]
            begin += len(was)


def _body(body: bytes, media: str, change: Change, emptied: bool) -> bytes:
    if media == FRAMES:
        return b"".join(_frames(body, change, emptied))
    text = _characters(body)
    if text.lstrip()[:1] in ("{", "["):
        return _bytes(_text(text, change, emptied))
    return _bytes("\n".join(_line(line, change, emptied) for line in text.split("\n")))


def _line(line: str, change: Change, emptied: bool) -> str:
    """One line of an event stream, or of any text."""
    if found := _DATA.fullmatch(line):
        return found[1] + _text(found[2], change, emptied)
    return _text(line, change, emptied and not line.startswith(("event:", "id:", "retry:")))


def _text(text: str, change: Change, emptied: bool) -> str:
    if emptied and text.strip() != "[DONE]" and not _is_json(text):
        return "".join(char if char.isspace() else filled(char) for char in change(text))
    return change(text)


def _frames(body: bytes, change: Change, emptied: bool) -> Iterator[bytes]:
    """Each frame with another payload; what is no whole frame at the end, as what cannot be understood."""
    begin = 0
    while begin + _PRELUDE <= len(body):
        length, head = _LENGTHS.unpack_from(body, begin)
        end = begin + length
        if not _PRELUDE + head + _CHECKSUM <= length <= len(body) - begin:
            break
        start = begin + _PRELUDE + head
        changed = body[begin:start] + _payload(body[start : end - _CHECKSUM], change, emptied)
        yield changed + struct.pack("!I", crc32(changed))
        begin = end
    yield _bytes(_text(_characters(body[begin:]), change, emptied))


def _payload(payload: bytes, change: Change, emptied: bool) -> bytes:
    """What a frame holds: JSON, in which an event of the model's own may stand as base64."""
    try:
        told = msgspec.json.decode(payload)
        inner = base64.b64decode(told["bytes"], validate=True).decode()
    except (msgspec.DecodeError, KeyError, TypeError, binascii.Error, UnicodeDecodeError):
        return _bytes(_text(_characters(payload), change, emptied))
    made = base64.b64encode(_bytes(_text(inner, change, emptied)))
    return payload.replace(told["bytes"].encode(), made, 1)


def filled(char: str) -> str:
    """A character that says nothing, as long in UTF-8 as ``char``."""
    return _FILL[len(char.encode("utf-8", "replace"))]


def _characters(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def replies_of(row: str) -> list[HttpReply]:
    """The replies in a line of a recording's file; none if it holds none, or is no entry."""
    if '"http":[' not in row:
        return []
    try:
        return msgspec.json.decode(row.encode(), type=_Entry).about.http
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return []


class _About(msgspec.Struct):
    http: list[HttpReply] = []


class _Entry(msgspec.Struct):
    about: _About
