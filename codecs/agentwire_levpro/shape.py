"""Telling a line of this wire by its keys (section 3)."""

from __future__ import annotations

from typing import Any, Final

_KEYS: Final[dict[str, frozenset[str]]] = {
    "event": frozenset({"id", "event"}),
    "result": frozenset({"id", "result"}),
    "error": frozenset({"id", "code", "message"}),
}


def fits(line: dict[str, Any]) -> bool:
    """Whether a decoded line may be a core's on this wire."""
    kind = line.get("type")
    wanted = _KEYS.get(kind) if isinstance(kind, str) else None
    return wanted is not None and wanted <= line.keys()
