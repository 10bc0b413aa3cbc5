"""Telling a line of this wire by its keys (section 1)."""

from __future__ import annotations

from typing import Any, Final

_KEYS: Final[dict[str, frozenset[str]]] = {
    "ready": frozenset({"capabilities"}),
    "stream_start": frozenset({"msg_id"}),
    "text_delta": frozenset({"text"}),
    "thinking": frozenset({"text"}),
    "tool_request": frozenset({"call_id", "tool"}),
    "tool_running": frozenset({"call_id"}),
    "tool_result": frozenset({"call_id"}),
    "tool_cancelled": frozenset({"call_id"}),
    "stream_end": frozenset({"msg_id"}),
    "error": frozenset({"error"}),
    "info": frozenset({"message"}),
    "config_changed": frozenset({"capabilities"}),
    "mcp_ready": frozenset({"name", "tools"}),
    "pong": frozenset(),
}
"""What a line of each type has at least, also from old agents and forks."""


def fits(line: dict[str, Any]) -> bool:
    """Whether a decoded line may be an agent's on this wire."""
    kind = line.get("type")
    wanted = _KEYS.get(kind) if isinstance(kind, str) else None
    return wanted is not None and wanted <= line.keys()
