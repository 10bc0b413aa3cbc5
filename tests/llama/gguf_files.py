"""Writes GGUF files for tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

KINDS = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "str": 8, "u64": 10, "i64": 11,
         "f64": 12}  # fmt: skip
CODES = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f", "bool": "?", "u64": "Q",
         "i64": "q", "f64": "d"}  # fmt: skip
F16 = 1
F16_BYTES = 2

Entry = tuple[str, Any]
"""A kind and a value; a list of values is an array."""


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def one(kind: str, value: Any) -> bytes:
    return text(value) if kind == "str" else struct.pack(f"<{CODES[kind]}", value)


def entry(key: str, kind: str, value: Any) -> bytes:
    if isinstance(value, list):
        packed = b"".join(one(kind, element) for element in value)
        return text(key) + struct.pack("<IIQ", 9, KINDS[kind], len(value)) + packed
    return text(key) + struct.pack("<I", KINDS[kind]) + one(kind, value)


def gguf(
    metadata: Mapping[str, Entry], tensors: Sequence[tuple[int, ...]] = (), *, version: int = 3, alignment: int = 32
) -> bytes:
    """A whole file, its tensors (given by their shapes) 16-bit floats, all zero."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(entry(key, kind, value) for key, (kind, value) in metadata.items())
    data = b""
    for number, shape in enumerate(tensors):
        weights = 1
        for size in shape:
            weights *= size
        head += text(f"blk.{number}.weight") + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", F16, len(data))
        data += bytes(-(-weights * F16_BYTES // alignment) * alignment)
    if not data:
        return head
    return head + bytes(-len(head) % alignment) + data


LLAMA: dict[str, Entry] = {
    "general.architecture": ("str", "llama"),
    "general.name": ("str", "Tiny"),
    "general.file_type": ("u32", 1),
    "llama.block_count": ("u32", 4),
    "llama.context_length": ("u32", 8192),
    "llama.embedding_length": ("u32", 64),
    "llama.attention.head_count": ("u32", 4),
    "llama.attention.head_count_kv": ("u32", 2),
    "tokenizer.ggml.tokens": ("str", ["<s>", "</s>", "a"]),
    "tokenizer.ggml.scores": ("f32", [0.0, 0.0, -1.0]),
}
TINY = gguf(LLAMA, [(64, 32), (64,)])
