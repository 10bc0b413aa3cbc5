"""Recordings of real peers, and the short ways between logs, lines and what is heard of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentwire import events as bus
from agentwire.codec import Answered, Codec, Heard, Record
from agentwire_pagent import codec, codec_v4

RECORDINGS = Path(__file__).parent / "recordings"

CODECS = {"classic": codec, "v4": codec_v4}


class NoView:
    """Nothing is open, nothing runs, and only a thread that is to be taken up makes this wire look whether it does."""

    def has_session(self, session: str) -> bool:
        return True

    def turn_active(self, session: str = "") -> bool:
        assert not session
        return False

    def pending(self, request: str, session: str = "") -> bool:
        raise AssertionError

    def active_session(self) -> str:
        raise AssertionError

    def is_directory(self, path: str) -> bool:
        raise AssertionError


class Running(NoView):
    """A run is under way."""

    def turn_active(self, session: str = "") -> bool:
        return True


def split(stream: bytes) -> list[bytes]:
    """A stream's lines, cut at line feeds alone."""
    assert stream == b"" or stream.endswith(b"\n")
    return stream.split(b"\n")[:-1]


def methods(stream: bytes) -> list[str]:
    return [json.loads(line)["method"] for line in split(stream)]


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in split((RECORDINGS / name).read_bytes())]


def streams() -> dict[str, tuple[Codec, bytes]]:
    """Every recorded stream of an agent, by name; those that were kept in rows are unwrapped."""
    found: dict[str, tuple[Codec, bytes]] = {}
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        dialect = codec_v4 if path.stem.startswith("v4_") else codec
        if path.stem.startswith("v4_stdio"):
            told = [row["line"] for row in rows(path.name) if row["stream"] == "stdout"]
            found[path.stem] = dialect, "".join(told).encode()
        elif path.stem == "http_demo":
            for row in rows(path.name):
                if "chunks" in row["response"]:
                    found[f"http_demo: {row['case']}"] = dialect, "".join(row["response"]["chunks"]).encode()
        elif path.stem != "decode_probes":
            found[path.stem] = dialect, path.read_bytes()
    return found


def recorded(name: str) -> bytes:
    return streams()[name][1]


def hear(dialect: Codec, stream: bytes) -> list[Heard | Answered]:
    """What a host makes of a whole stream, its end included."""
    host = dialect.host()
    return [said for line in split(stream) for said in host.receive(line)] + host.close()


def logged(said: Iterable[Heard | Answered]) -> list[Record]:
    """What a host heard, as a log."""
    turns: dict[object, int] = {None: 0}
    records = []
    for n, heard in enumerate(said, 1):
        assert isinstance(heard, Heard)
        turn = turns.setdefault(heard.ref, len(turns))
        records.append(Record(n, 0, heard.event, turn))  # type: ignore[arg-type]
    return records


def render(dialect: Codec, records: Sequence[Record]) -> bytes:
    out = bytearray()
    assert dialect.agent().render("s", records, out) is None
    return bytes(out)


def turn(*events: bus.Event) -> list[Record]:
    """Events of one turn as records."""
    return [Record(n, 0, event, 1) for n, event in enumerate(events, 1)]  # type: ignore[arg-type]
