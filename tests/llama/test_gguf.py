"""Reading GGUF headers: what is there is read, and nothing that is not there is believed."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest
from gguf_files import CODES, LLAMA, TINY, Entry, entry, gguf, text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentwire_llama import gguf as module
from agentwire_llama.gguf import MAX_KEPT, MAX_TEXT, GgufError, Header, read
from agentwire_llama.plan import cache_per_token


def header_of(folder: Path, data: bytes) -> Header:
    path = folder / "m.gguf"
    path.write_bytes(data)
    return read(path)


def test_what_a_model_is(tmp_path: Path) -> None:
    header = header_of(tmp_path, TINY)
    assert header.version == 3
    assert (header.architecture, header.name, header.file_type) == ("llama", "Tiny", "F16")
    assert (header.blocks, header.context_length) == (4, 8192)
    assert (header.tensors, header.parameters) == (2, 64 * 32 + 64)
    assert header.size == len(TINY)
    assert header.missing == 0
    assert "tokenizer.ggml.tokens" not in header.metadata
    assert header.metadata["tokenizer.ggml.scores"] == (0.0, 0.0, -1.0)


def test_a_download_that_was_cut_off_is_seen(tmp_path: Path) -> None:
    # The last tensor is padded: what it needs ends before the file does.
    padding = -(64 * 2) % 32
    assert header_of(tmp_path, TINY[:-1]).missing == 1 - padding
    assert header_of(tmp_path, TINY[:-100]).missing == 100 - padding


def test_the_cache_that_a_token_takes(tmp_path: Path) -> None:
    # 4 layers, 2 heads of keys and values, 64 / 4 numbers each for a key and a value, 2 bytes a number
    assert cache_per_token(header_of(tmp_path, TINY)) == 4 * 2 * (16 + 16) * 2
    other: dict[str, Entry] = {
        **LLAMA,
        "llama.attention.head_count_kv": ("i32", [1, 0, 2, 3, 99]),
        "llama.attention.key_length": ("u32", 10),
        "llama.attention.value_length": ("u32", 6),
    }
    assert cache_per_token(header_of(tmp_path, gguf(other))) == (1 + 0 + 2 + 3) * (10 + 6) * 2
    assert cache_per_token(header_of(tmp_path, gguf({"general.architecture": ("str", "mamba")}))) == 0


def test_a_kind_that_came_later_and_a_model_that_says_nothing(tmp_path: Path) -> None:
    assert header_of(tmp_path, gguf({"general.file_type": ("u32", 999)})).file_type == "type 999"
    empty = header_of(tmp_path, gguf({}))
    assert (empty.architecture, empty.name, empty.file_type, empty.blocks) == ("", "", "", 0)
    strange = header_of(tmp_path, gguf({"general.architecture": ("u32", 1), "general.name": ("bool", True)}))
    assert (strange.architecture, strange.name) == ("", "")


def test_long_texts_are_cut_and_long_arrays_left_out(tmp_path: Path) -> None:
    header = header_of(
        tmp_path,
        gguf({
            "a": ("str", "ä" * MAX_TEXT),
            "b": ("u8", [1] * (MAX_KEPT + 1)),
            "c": ("u8", [1] * MAX_KEPT),
            "d": ("str", ["x" * 1000] * 3000),  # more than is read at once
            "e": ("u32", 5),
        }),
    )  # fmt: skip
    assert header.metadata["a"] == "ä" * (MAX_TEXT // 2)
    assert set(header.metadata) == {"a", "c", "e"}


RANGES = {"u8": (0, 2**8 - 1), "i8": (-(2**7), 2**7 - 1), "u16": (0, 2**16 - 1), "i16": (-(2**15), 2**15 - 1),
          "u32": (0, 2**32 - 1), "i32": (-(2**31), 2**31 - 1), "u64": (0, 2**64 - 1),
          "i64": (-(2**63), 2**63 - 1)}  # fmt: skip


def values(kind: str) -> st.SearchStrategy[Any]:
    if kind == "bool":
        return st.booleans()
    if kind == "str":
        return st.text(max_size=20)
    if kind in RANGES:
        return st.integers(*RANGES[kind])
    return st.floats(width=32 if kind == "f32" else 64, allow_nan=False)


ENTRIES = st.sampled_from([*CODES, "str"]).flatmap(
    lambda kind: st.tuples(st.just(kind), values(kind) | st.lists(values(kind), max_size=5))
)
FILES = st.tuples(
    st.dictionaries(st.text(max_size=12), ENTRIES, max_size=8),
    st.lists(st.lists(st.integers(1, 9), max_size=4).map(tuple), max_size=4),
    st.sampled_from([2, 3]),
)
MODEST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@MODEST
@given(file=FILES)
def test_whatever_is_written_is_read(tmp_path: Path, file: tuple[dict[str, Entry], list[Any], int]) -> None:
    metadata, tensors, version = file
    metadata.pop("general.alignment", None)
    header = header_of(tmp_path, gguf(metadata, tensors, version=version))
    expected = {
        key: tuple(value) if isinstance(value, list) else value
        for key, (kind, value) in metadata.items()
        if not (kind == "str" and isinstance(value, list))
    }
    assert header.metadata == expected
    assert header.parameters == sum(map(math.prod, tensors))
    assert header.missing == 0


@MODEST
@given(file=FILES, cut=st.floats(0, 1))
def test_a_header_that_is_cut_off_is_never_taken_for_whole(
    tmp_path: Path, file: tuple[dict[str, Entry], list[Any], int], cut: float
) -> None:
    metadata, _, version = file
    data = gguf(metadata, version=version)
    with pytest.raises(GgufError):
        header_of(tmp_path, data[: int(cut * (len(data) - 1))])


@MODEST
@given(file=FILES, changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_file_that_was_tampered_with_is_read_or_refused(
    tmp_path: Path, file: tuple[dict[str, Entry], list[Any], int], changes: list[tuple[float, int]]
) -> None:
    metadata, tensors, version = file
    data = bytearray(gguf(metadata, tensors, version=version))
    for place, value in changes:
        data[int(place * (len(data) - 1))] = value
    try:
        header = header_of(tmp_path, bytes(data))
    except GgufError:
        return
    assert header.parameters >= 0
    assert header.blocks >= 0
    assert cache_per_token(header) >= 0


HUGE = 2**63
HOSTILE = {
    "nothing": b"",
    "not even a magic": b"GG",
    "another format": b"GGML" + bytes(100),
    "version 1": gguf({}, version=1),
    "version 4": gguf({}, version=4),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "so many tensors": b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0),
    "so many entries": b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE),
    "a long key": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, HUGE) + bytes(50),
    "a long text": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IQ", 8, HUGE) + bytes(50),
    "a long array": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 0, HUGE) + bytes(50),
    "long texts": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQQ", 9, 8, 2, HUGE) + bytes(50),
    "unknown type": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77) + bytes(50),
    "array of arrays": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1) + bytes(50),
    "dimensions": b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<I", 2**31) + bytes(50),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(GgufError):
        header_of(tmp_path, HOSTILE[name])


def test_weights_without_number_overflow_nothing(tmp_path: Path) -> None:
    shape = struct.pack("<I4Q", 4, *[2**64 - 1] * 4)
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + shape + struct.pack("<IQ", 1, 2**64 - 1)
    header = header_of(tmp_path, data)
    assert header.parameters == (2**64 - 1) ** 4
    assert header.missing > 2**64


def test_a_header_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file: it has the size that it says, and not one text in it."""
    monkeypatch.setattr(module, "MAX_HEADER", limit := 4 * 1024 * 1024)
    path = tmp_path / "m.gguf"
    count = limit // 4
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, count))
    with path.open("r+b") as file:
        file.truncate(10 * limit)
    with pytest.raises(GgufError, match="header is too large"):
        read(path)


def test_an_alignment_of_nothing_divides_nothing(tmp_path: Path) -> None:
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("general.alignment", "u32", 0)
    assert header_of(tmp_path, data).missing == 0
