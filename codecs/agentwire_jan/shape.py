"""Telling a line of either surface by its keys (sections 1.2, 1.7 and 4.1)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentwire_jan import stream_wire, wire

_RESULT: Final = frozenset({"is_error", "stop_reason", "usage"})


def _required(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind) if field.required)


_ITEMS: Final = {tag: _required(item) for tag, item in wire.ITEMS.items()}

_STREAM: Final = {
    **_ITEMS,
    "init": _required(stream_wire.Init),
    "permission_decision": _required(stream_wire.PermissionDecision),
    "input_error": _required(stream_wire.InputError),
    "result": _RESULT,
}


def fits(line: dict[str, Any]) -> bool:
    """Whether a decoded line may be an agent's on the RPC."""
    if line.get("jsonrpc") != "2.0":
        return False
    method = line.get("method")
    if method is None:
        return "id" in line and ("result" in line or "error" in line)
    return isinstance(method, str) and (method == "turn/completed" or method.startswith("item/"))


def fits_stream(line: dict[str, Any]) -> bool:
    """Whether a decoded line may be an agent's on stream-json."""
    kind = line.get("type")
    wanted = _STREAM.get(kind) if isinstance(kind, str) else None
    return wanted is not None and wanted <= line.keys()
