"""Every recording of the real peer into every other wire, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from wires import (
    STREAMS,
    WIRES,
    Told,
    contents,
    entries,
    faults,
    hear,
    logs_of,
    rendered,
    split,
    through,
    unlisted,
    written,
)

from agentwire.recording import open_recording
from agentwire.transcode import broken_laws, recognise

pytestmark = pytest.mark.slow

CROSSINGS = [
    pytest.param(name, target, id=f"{name} to {target}")
    for name, (source, _) in STREAMS.items()
    for target in WIRES
    if target != source
]


@pytest.mark.parametrize("name", STREAMS)
def test_what_is_read_is_a_log_in_order(name: str) -> None:
    source, stream = STREAMS[name]
    for records in logs_of(WIRES[source], entries(stream)).values():
        assert broken_laws(records) == []


@pytest.mark.parametrize("name", STREAMS)
def test_its_own_wire_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    source, stream = STREAMS[name]
    again, _ = through(tmp_path, stream, source, source)
    assert again == stream


@pytest.mark.parametrize("name", STREAMS)
def test_the_wire_is_told_by_its_lines(name: str) -> None:
    source, stream = STREAMS[name]
    found = recognise(split(stream))
    assert found == source or (name == "v4_error_mid_stream_provider" and found == "pagent")


@pytest.mark.parametrize(("name", "target"), CROSSINGS)
def test_over_and_back_less_what_the_reports_list(name: str, target: str, tmp_path: Path) -> None:
    source, stream = STREAMS[name]
    there, first = through(tmp_path, stream, source, target)
    assert first.violations == []
    before = logs_of(WIRES[source], entries(stream))
    _, over = rendered(WIRES[target], before)
    between = logs_of(WIRES[target], entries(there))
    survives = [item for key, records in over.logs.items() for item in WIRES[target].fidelity().surviving(records, key)]
    assert contents(between) == contents(written(survives))
    assert faults(WIRES[target], before) == []

    back, second = through(tmp_path, there, target, source)
    assert second.violations == []
    _, home = rendered(WIRES[source], between)
    survives = [item for key, records in home.logs.items() for item in WIRES[source].fidelity().surviving(records, key)]
    assert contents(logs_of(WIRES[source], entries(back))) == contents(written(survives))
    listed = {f"{loss.event}.{loss.field}".rstrip(".") for loss in [*first.losses, *second.losses]}
    original = Told(record.event for records in before.values() for record in records)
    for difference in unlisted(original, Told(item.event for item in hear(WIRES[source], back)), {}):
        about = difference.split()[0].rstrip(":")
        assert {about, about.partition(".")[0]} & listed, difference


@pytest.mark.parametrize(("name", "target"), CROSSINGS)
def test_with_the_originals_kept_the_way_back_is_byte_for_byte(name: str, target: str, tmp_path: Path) -> None:
    source, stream = STREAMS[name]
    there, _ = through(tmp_path, stream, source, target, keep_original=True)
    back, report = through(tmp_path, there, target, source)
    assert back == stream
    assert report.restored
    plain, _ = through(tmp_path, stream, source, target)
    (tmp_path / "kept.jsonl").write_bytes(there)
    recording = open_recording(tmp_path / "kept.jsonl")
    assert recording.header.codec == target
    assert b"".join(entry.data for entry in recording if entry.who == "agent") == plain
