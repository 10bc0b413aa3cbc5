"""Reads the header of a GGUF file: what a model is, without loading it.

The format (versions 2 and 3, little-endian): the magic, a version, the numbers of tensors and of metadata entries,
then the entries (key, type, value), then for each tensor its name, shape, type and place. Strings and counts are
prefixed with 64 bits. A file may be cut off or hostile: nothing is believed that the file has no room for, and at
most :data:`MAX_HEADER` bytes are read.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from agentwire_llama.locate import MAGIC

MAX_HEADER = 32 * 1024 * 1024
"""Bytes: twice what the largest vocabularies take."""

MAX_TEXT = 4096
"""Bytes of a text that are kept; chat templates and licences are not needed here."""

MAX_KEPT = 1024
"""Elements of the longest array of numbers that is kept: a value for each layer."""

_FIRST_READ = 1024 * 1024
_MOST_DIMENSIONS = 8
_ALIGNMENT = 32

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_LEAST_ENTRY = 8 + 4 + 1
_LEAST_TENSOR = 8 + 4 + 4 + 8

_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
    20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
    28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip
"""``general.file_type``: how most of the weights are stored."""

_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54),
    35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""By a tensor's type: how many weights make a block, and its bytes. Types that are not here are not measured."""

Value = int | float | bool | str | tuple[int | float, ...]


class GgufError(ValueError):
    """Not a GGUF header that can be read: what is wrong, in a few words."""


class Header(Struct, frozen=True):
    """What a file's header says."""

    version: int
    size: int
    """Bytes that the file has."""
    needed: int
    """Bytes that it should have at least, as far as the types of its tensors are known."""
    tensors: int
    parameters: int
    """How many weights there are in this file."""
    metadata: dict[str, Value]
    """Single values and short arrays of numbers; texts are cut at :data:`MAX_TEXT` bytes."""

    @property
    def architecture(self) -> str:
        """``llama``, ``qwen3``, ...; empty if the file does not say."""
        return self._text("general.architecture")

    @property
    def name(self) -> str:
        """What its makers call it."""
        return self._text("general.name")

    @property
    def file_type(self) -> str:
        """How most of the weights are stored: ``Q4_K_M`` and the like; empty if the file does not say."""
        number = self.metadata.get("general.file_type")
        if not isinstance(number, int):
            return ""
        return _FILE_TYPES.get(number, f"type {number}")

    @property
    def blocks(self) -> int:
        """Layers."""
        return self.number("block_count")

    @property
    def context_length(self) -> int:
        """Tokens that it was trained for; 0 if the file does not say."""
        return self.number("context_length")

    @property
    def missing(self) -> int:
        """Bytes that a download did not bring."""
        return max(0, self.needed - self.size)

    def number(self, key: str) -> int:
        """A number that the file says under its architecture's name; 0 if it does not."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        return value if isinstance(value, int) and value > 0 else 0

    def numbers(self, key: str) -> list[int]:
        """The same for each layer, where layers may differ; empty if the file does not say."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, tuple):
            return [max(0, int(one)) for one in value[: self.blocks]]
        return [self.number(key)] * min(self.blocks, MAX_KEPT) if self.number(key) else []

    def _text(self, key: str) -> str:
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""


def read(path: Path) -> Header:
    """The header of a file. Raises :class:`GgufError`, and :class:`OSError` if it cannot be opened."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        return _parse(_Window(file, size))


class _Window:
    """The beginning of a file, as much of it as was needed so far."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size
        self.data = b""
        self.at = 0

    def need(self, count: int) -> int:
        """See to it that ``count`` more bytes are there, and go past them; gives where they begin."""
        start, end = self.at, self.at + count
        if end > self.size:
            raise GgufError("it is cut off within its header")
        if end > MAX_HEADER:
            raise GgufError("its header is too large")
        if end > len(self.data):
            wanted = min(MAX_HEADER, max(end, 2 * len(self.data), _FIRST_READ))
            self.data += self._file.read(wanted - len(self.data))
            if end > len(self.data):
                raise GgufError("it became shorter while it was read")
        self.at = end
        return start

    def unpack(self, shape: struct.Struct) -> tuple[int | float, ...]:
        start = self.need(shape.size)
        return shape.unpack_from(self.data, start)

    def u32(self) -> int:
        return int(self.unpack(_U32)[0])

    def u64(self) -> int:
        return int(self.unpack(_U64)[0])

    def count(self, least: int) -> int:
        """How many of something follow, each of which takes ``least`` bytes or more."""
        number = self.u64()
        if number * least > self.size - self.at:
            raise GgufError("it is cut off within its header, or says that it holds more than it can")
        return number

    def text(self) -> str:
        length = self.count(1)
        start = self.need(length)
        return self.data[start : start + min(length, MAX_TEXT)].decode("utf-8", "replace")

    def skip_texts(self, number: int) -> None:
        """Go past so many texts: half a million in a large vocabulary, hence no call for each."""
        read = _U64.unpack_from
        for _ in range(number):
            if self.at + 8 > len(self.data):
                self.at = self.need(8)
            self.at += 8 + read(self.data, self.at)[0]
        self.need(0)


def _parse(window: _Window) -> Header:
    window.need(len(MAGIC))
    if not window.data.startswith(MAGIC):
        raise GgufError("it does not begin as a GGUF file does")
    version = window.u32()
    if version not in (2, 3):
        raise GgufError(
            "it is for big-endian machines" if version in (2 << 24, 3 << 24) else f"it is of version {version}"
        )
    tensors = window.count(_LEAST_TENSOR)
    entries = window.count(_LEAST_ENTRY)
    metadata: dict[str, Value] = {}
    for _ in range(entries):
        key = window.text()
        value = _value(window, window.u32())
        if value is not None:
            metadata[key] = value
    parameters = end = 0
    for _ in range(tensors):
        weights, last = _tensor(window)
        parameters += weights
        end = max(end, last)
    alignment = metadata.get("general.alignment")
    if not isinstance(alignment, int) or alignment <= 0:
        alignment = _ALIGNMENT
    data = -(-window.at // alignment) * alignment
    return Header(version, window.size, data + end if end else window.at, tensors, parameters, metadata)


def _value(window: _Window, kind: int) -> Value | None:
    """One value; None for what is not kept."""
    if kind == _STRING:
        return window.text()
    if kind == _ARRAY:
        return _array(window)
    return _scalars(window, kind, 1)[0]


def _array(window: _Window) -> Value | None:
    kind = window.u32()
    if kind == _STRING:
        window.skip_texts(window.count(8))
        return None
    if kind not in _SCALARS:
        raise GgufError(f"it holds an array of an unknown type ({kind})")  # arrays of arrays are not in use
    width = struct.calcsize(f"<{_SCALARS[kind]}")
    number = window.count(width)
    if number > MAX_KEPT:
        window.need(number * width)
        return None
    return _scalars(window, kind, number)


def _scalars(window: _Window, kind: int, number: int) -> tuple[int | float, ...]:
    code = _SCALARS.get(kind)
    if code is None:
        raise GgufError(f"it holds a value of an unknown type ({kind})")
    return window.unpack(struct.Struct(f"<{number}{code}"))


def _tensor(window: _Window) -> tuple[int, int]:
    """How many weights a tensor has, and where its bytes end; 0 if its type is not known."""
    window.text()
    dimensions = window.u32()
    if dimensions > _MOST_DIMENSIONS:
        raise GgufError(f"it holds a tensor of {dimensions} dimensions")
    weights = math.prod(window.u64() for _ in range(dimensions))
    block, width = _BLOCKS.get(window.u32(), (0, 0))
    offset = window.u64()
    return weights, offset + -(-weights // block) * width if block else 0
