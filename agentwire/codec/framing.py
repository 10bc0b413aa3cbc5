"""Lines out of bytes: the one framer of every wire and of both sides, sans-IO.

It cannot be broken from inside a line: bytes are split at the line feed and nowhere else (not at U+2028, U+0085 or
a lone carriage return), every line is checked to be UTF-8 by itself, and a line that is too long is skipped to its
end, after which reading goes on. The result does not depend on how the bytes were cut into chunks.
"""

from __future__ import annotations

from typing import Final, Literal, final

from msgspec import Struct

HOST_LIMIT: Final = 64 * 1024 * 1024
"""Longest line in bytes that a host reads from an agent, on every wire."""

_BOM: Final = b"\xef\xbb\xbf"
_SMALL: Final = 4096


@final
class LineFault(Struct, frozen=True):
    """Stands in the place of a line that cannot be read.

    Ask for it with ``type(line) is LineFault``: msgspec makes ``isinstance`` slow where the answer is no.
    """

    kind: Literal["too_long", "not_utf8"]
    message: str
    """For a person; quotes nothing of the line."""
    size: int = 0
    """Bytes of the line, without its line feed."""


class Framer:
    """Cuts a stream of bytes into lines.

    A line is what stands before a line feed, less one carriage return at its end; the very first line also loses a
    byte order mark. Blank lines are lines: whether they mean something is the wire's affair.

    ``limit`` is the longest line in bytes, without its line feed. No more than that is ever held, besides the chunk
    that is being fed.
    """

    __slots__ = ("_first", "_limit", "_parts", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes | bytearray] = []  # the beginning of a line; emptied when the line grows too long
        self._size = 0  # bytes of that line so far, held or not
        self._first = True

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes | LineFault]:
        """Take the next bytes, in any portion; give the lines that they complete."""
        data = bytes(data)  # costs nothing for bytes
        start = data.find(b"\n") + 1  # much faster than split() where a line is long
        if not start:
            self._hold(data)
            return []
        lines: list[bytes | LineFault] = []
        if self._first or self._size:
            self._hold(data[: start - 1])
            lines.append(self._close())
        else:
            start = 0
        end = data.rfind(b"\n") + 1
        if start < end:
            lines += self._whole(data[start : end - 1])
        if end < len(data):
            self._hold(data[end:])
        return lines

    def finish(self) -> list[bytes | LineFault]:
        """The stream ended: a last line without a line feed counts as one."""
        return [self._close()] if self._size else []

    def _hold(self, piece: bytes) -> None:
        """Keep a piece of a line, or only count it once the line is too long."""
        self._size += len(piece)
        if self._size > self._limit:
            self._parts.clear()
        elif len(piece) >= _SMALL:
            self._parts.append(piece)
        elif self._parts and isinstance(last := self._parts[-1], bytearray):
            last += piece  # many small pieces must not cost an object each
        else:
            self._parts.append(bytearray(piece))

    def _close(self) -> bytes | LineFault:
        """End the line that was held."""
        line, size, first = b"".join(self._parts), self._size, self._first
        self._parts.clear()
        self._size = 0
        self._first = False
        if size > self._limit:
            return self._too_long(size)
        if first:
            line = line.removeprefix(_BOM)
        return _checked(line.removesuffix(b"\r"))

    def _whole(self, block: bytes) -> list[bytes | LineFault]:
        """Whole lines with line feeds between them: what can be asked of all at once is."""
        if len(block) > self._limit or not _utf8(block):
            return [
                self._too_long(len(line)) if len(line) > self._limit else _checked(line.removesuffix(b"\r"))
                for line in block.split(b"\n")
            ]
        lines = block.split(b"\n")
        if b"\r" in block:
            lines = [line.removesuffix(b"\r") for line in lines]
        return [*lines]

    def _too_long(self, size: int) -> LineFault:
        return LineFault("too_long", f"line too long: {size} bytes, at most {self._limit} are read", size)


def _utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _checked(line: bytes) -> bytes | LineFault:
    """The line, if it is UTF-8."""
    if line.isascii():
        return line
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return LineFault("not_utf8", f"line is not UTF-8: {error.reason} at byte {error.start}", len(line))
    return line
