"""Laws that hold for any log and any bytes, over generated whole logs."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from strategies import logs

from agentwire.codec.contract import Answered, Heard
from agentwire.log.record import Record
from agentwire_aionrs import codec
from agentwire_aionrs.fidelity import FIDELITY


def rendered(records: Sequence[Record]) -> bytes:
    out = bytearray()
    assert codec.agent().render("s", records, out) is None
    return bytes(out)


def heard(stream: bytes) -> list[Heard | Answered]:
    host = codec.host()
    return [said for line in stream.splitlines_at_lf() for said in host.receive(line)]


def lines(stream: bytes) -> list[bytes]:
    assert stream == b"" or stream.endswith(b"\n")
    return stream.split(b"\n")[:-1]


def decode(stream: bytes) -> list[Heard | Answered]:
    host = codec.host()
    return [said for line in lines(stream) for said in host.receive(line)]


@settings(max_examples=150, deadline=None)
@given(logs())
def test_a_host_hears_exactly_what_is_declared_to_survive(records: list[Record]) -> None:
    assert decode(rendered(records)) == FIDELITY.surviving(records)
