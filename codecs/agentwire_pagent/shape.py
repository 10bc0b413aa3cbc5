"""Telling a line of this wire, and of which dialect it is, by its keys (sections 1, 2 and 8)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentwire_pagent import wire

_Keys = tuple[frozenset[str], frozenset[str]]
"""What the parameters of a method have at least, and at most."""


def _keys(params: type[msgspec.Struct]) -> _Keys:
    fields = msgspec.structs.fields(params)
    return frozenset(field.name for field in fields if field.required), frozenset(field.name for field in fields)


_METHODS: Final[dict[wire.Dialect, dict[str, _Keys]]] = {
    "classic": {method: _keys(params) for method, params in wire.EVENTS["classic"].items()},
    "v4": {method: _keys(params) for method, params in {**wire.EVENTS["v4"], **wire.CONTROL}.items()},
}


def fits(dialect: wire.Dialect, line: dict[str, Any]) -> bool:
    """Whether a decoded line may be an agent's in that dialect; many lines may be either's."""
    method, params = line.get("method"), line.get("params")
    if line.get("jsonrpc") != "2.0" or "id" in line or not isinstance(method, str) or not isinstance(params, dict):
        return False
    keys = _METHODS[dialect].get(method)
    return keys is not None and keys[0] <= params.keys() <= keys[1]
