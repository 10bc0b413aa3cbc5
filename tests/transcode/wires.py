"""Recordings of real peers, every installed wire, and the short ways between lines, logs and reports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agentwire import events as bus
from agentwire import registry
from agentwire.codec import Answered, Codec, Heard, Record
from agentwire.codec.fidelity import Declaration, Fidelity, tag
from agentwire.recording import Entry, entries_of, open_recording
from agentwire.transcode import LogWriter, Report, account, read_log, transcode
from agentwire.transcode.logbook import Logbooks
from agentwire.transcode.steps import At

RECORDINGS = Path(__file__).parent.parent / "pagent" / "recordings"

WIRES = {name: registry.load_codec(name) for name in registry.names(registry.CODECS)}

Logs = dict[str, list[Record]]


def split(stream: bytes) -> list[bytes]:
    """A stream's lines, cut at line feeds alone."""
    assert stream == b"" or stream.endswith(b"\n")
    return stream.split(b"\n")[:-1]


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in split((RECORDINGS / name).read_bytes())]


def streams() -> dict[str, tuple[str, bytes]]:
    """Every recorded stream of an agent, by name, with its wire; those that were kept in rows are unwrapped."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        wire = "pagent-v4" if path.stem.startswith("v4_") else "pagent"
        if path.stem.startswith("v4_stdio"):
            told = [row["line"] for row in _rows(path.name) if row["stream"] == "stdout"]
            found[path.stem] = wire, "".join(told).encode()
        elif path.stem == "http_demo":
            for row in _rows(path.name):
                if "chunks" in row["response"]:
                    found[f"http_demo: {row['case']}"] = wire, "".join(row["response"]["chunks"]).encode()
        elif path.stem != "decode_probes":
            found[path.stem] = wire, path.read_bytes()
    return found


STREAMS = streams()


def entries(stream: bytes) -> list[Entry]:
    """A log of an agent's output as a recording's entries."""
    return list(entries_of((line + b"\n" for line in split(stream)), plain=True))


def two_ways(told: Iterable[tuple[str, bytes | Mapping[str, Any]]]) -> list[Entry]:
    """Lines of host and agent, as bytes or as the objects they hold."""
    lines = []
    for at, (who, line) in enumerate(told):
        text = line if isinstance(line, bytes) else json.dumps(line).encode()
        lines.append(Entry(at * 1000, who, text.decode() + "\n", wall=1_764_468_000_000 + at))  # type: ignore[arg-type]
    return lines


def logs_of(codec: Codec, recorded: Iterable[Entry]) -> Logs:
    """The logs that a recording tells, by session."""
    logs: Logs = {}
    for item in read_log(recorded, codec):
        logs.setdefault(item.session, []).append(item.record)
    return logs


def hear(codec: Codec, stream: bytes) -> list[Heard]:
    """What a host hears of a whole stream, its end included."""
    host = codec.host()
    said: list[Heard | Answered] = [item for line in split(stream) for item in host.receive(line)] + host.close()
    assert all(isinstance(item, Heard) for item in said)
    return said  # type: ignore[return-value]


def written(heard: Iterable[Heard]) -> Logs:
    """What was heard, as logs."""
    books, logs = Logbooks(), {}
    logged = [entry for item in heard for entry in books.hear(item, At(0, 0))]
    for entry in [*logged, *books.close(At(0, 0))]:
        logs.setdefault(entry.session, []).append(entry.record)
    return logs


def rendered(codec: Codec, logs: Mapping[str, Sequence[Record]]) -> tuple[bytes, LogWriter]:
    """Logs as an agent's output."""
    writer, out = LogWriter(codec), b""
    for session, records in logs.items():
        for record in records:
            out += writer.write(session, record)
    return out + writer.close(), writer


def contents(logs: Mapping[str, Sequence[Record]]) -> list[list[Record]]:
    """Logs without their times and without their names: not every wire tells those, or not from the first line on."""
    return [[msgspec.structs.replace(record, time=0) for record in records] for records in logs.values()]


def through(directory: Path, stream: bytes, source: str, target: str, **options: Any) -> tuple[bytes, Report]:
    """A file of one wire transcoded into another, by the library's own way."""
    path = directory / "in.jsonl"
    path.write_bytes(stream)
    out = bytearray()
    report = transcode(open_recording(path), WIRES[source], WIRES[target], out.extend, **options)
    return bytes(out), report


# --- what really got lost, measured without any table --------------------------------------------------------


def values(events: Iterable[bus.Event]) -> dict[tuple[str, str], list[bytes]]:
    """Of every kind of event and field, the values in their order."""
    found: dict[tuple[str, str], list[bytes]] = {}
    for event in events:
        for name in event.__struct_fields__:
            value = msgspec.json.encode(msgspec.to_builtins(getattr(event, name), enc_hook=_unset), order="sorted")
            found.setdefault((tag(type(event)), name), []).append(value)
    return found


def _unset(value: Any) -> Any:
    return "<unset>" if value is msgspec.UNSET else bytes(value).decode()


def counted(events: Iterable[bus.Event]) -> Counter[str]:
    return Counter(tag(type(event)) for event in events)


class Told:
    """Events, counted by kind, and the values of their fields."""

    def __init__(self, events: Iterable[bus.Event]) -> None:
        told = list(events)
        self.kinds = counted(told)
        self.values = values(told)


def elsewhere(fidelity: Fidelity) -> set[Declaration]:
    """Entries of a table about events that do not arrive as such, but as others."""
    entries = list(fidelity.declarations())
    with_fields = {(entry.event, entry.when) for entry in entries if entry.field}
    return {entry for entry in entries if entry.verdict == "moved" and (entry.event, entry.when) not in with_fields}


def unlisted(
    before: Told,
    after: Told,
    lost: Mapping[Declaration, int],
    *,
    others: Container[Declaration] = (),
    strict: bool = True,
) -> list[str]:
    """What is different after, and no entry says so; and what an entry says and is not so. Each begins with what it is
    about: an event's tag, or that and a field."""
    faults = []
    told, heard = before.kinds, after.kinds
    listed = Counter[tuple[str, str]]()
    gone, absent = Counter[str](), Counter[str]()
    for entry, count in lost.items():
        listed[entry.event, entry.field] += count
        if not entry.field and entry.verdict in ("absent", "moved"):
            gone[entry.event] += count
            absent[entry.event] += count if entry.verdict == "absent" or entry in others else 0
    for name in {*told, *heard}:
        if heard[name] < told[name] - gone[name]:
            faults.append(f"{name}: {told[name]} told, {heard[name]} heard, {gone[name]} listed")
    were, are = before.values, after.values
    for name, field in {*were, *are}:
        told_as, heard_as = were.get((name, field), []), are.get((name, field), [])
        old, new = Counter(told_as), Counter(heard_as)
        if heard[name] == told[name] and not absent[name]:
            if old != new and not listed[name, field]:
                faults.append(f"{name}.{field} differs and is not listed")
            if strict and told_as == heard_as and listed[name, field] and not gone[name]:
                faults.append(f"{name}.{field} is listed and the same")
        elif heard[name] <= told[name] - gone[name] and new - old and not listed[name, field]:
            faults.append(f"{name}.{field} has new values and is not listed")
    return faults


class Crossing:
    """Logs written on a wire, and what a host really hears of them."""

    def __init__(self, codec: Codec, logs: Mapping[str, Sequence[Record]]) -> None:
        stream, writer = rendered(codec, logs)
        self.logs = writer.logs
        self.heard = [item.event for item in hear(codec, stream)]
        self.before = Told(record.event for records in self.logs.values() for record in records)
        self.after = Told(self.heard)

    def losses(self, fidelity: Fidelity) -> list[Counter[Declaration]]:
        return [fidelity.losses(records) for records in self.logs.values()]

    def faults(self, fidelity: Fidelity) -> list[str]:
        """Where a table's account is not what really became of the logs."""
        lost, passages = account(fidelity, self.logs)
        heard = self.after.kinds
        found = [
            f"{name}: {passage.heard} said to arrive, {heard[name]} did"
            for name, passage in passages.items()
            if passage.heard != heard[name]
        ]
        found += [f"{name}: arrives unannounced" for name in heard if name not in passages]
        survive = [item for session, records in self.logs.items() for item in fidelity.surviving(records, session)]
        if len(self.logs) <= 1 and [item.event for item in survive] != self.heard:
            found.append("what arrives is not what survives")
        return found + unlisted(self.before, self.after, lost, others=elsewhere(fidelity))


def faults(codec: Codec, logs: Mapping[str, Sequence[Record]]) -> list[str]:
    """Where a report on these logs would say something else than what really becomes of them."""
    return Crossing(codec, logs).faults(codec.fidelity())
