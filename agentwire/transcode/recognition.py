"""Telling which wire a log is of, by the shape of its lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentwire import registry
from agentwire.codec.contract import Codec
from agentwire.codec.jsontext import BadJson, parse

LOOKS_AT: Final = 100_000
"""Lines, at most."""


class Unrecognised(LookupError):
    """No installed codec knows these lines."""


def recognise(lines: Iterable[bytes], codecs: Iterable[Codec] | None = None) -> str:
    """The name of the codec whose wire an agent's lines are; it looks no further than it must.

    Lines that fit several wires do not tell them apart; the first that does decides. If none does (a log that broke off
    early), what there is means the same on each, and the first by name is taken. ``codecs``: all that are installed.
    Raises :class:`Unrecognised`.
    """
    known = _installed() if codecs is None else list(codecs)
    votes = {codec.name: 0 for codec in known if codec.recognises is not None}
    best: list[str] = []
    for _, line in zip(range(LOOKS_AT), lines, strict=False):
        try:
            value = parse(line)
        except BadJson:
            continue
        if not isinstance(value, dict):
            continue
        for codec in known:
            if codec.recognises is not None and codec.recognises(value):
                votes[codec.name] += 1
        most = max(votes.values(), default=0)
        best = [name for name, count in votes.items() if most and count == most]
        if len(best) == 1:
            return best[0]
    if not best:
        raise Unrecognised(f"no installed codec knows these lines; say which it is ({', '.join(votes)})")
    return min(best)


def _installed() -> list[Codec]:
    return [registry.load_codec(name) for name in registry.names(registry.CODECS)]
