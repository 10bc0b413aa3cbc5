"""An MCP server over standard input and output with one tool, which repeats what it is given.

Run as a program by the agent under check, with whatever environment that agent gives it: it needs nothing but the
standard library, and starts in no time.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = "agentwire_probe"

MUTE = "mute"
"""As an argument: read everything, answer nothing."""


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of one request; None for a method that this server does not know."""
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-03-26"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "agentwire-check", "version": "1"},
        }
    if method == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return {"tools": [{"name": TOOL, "description": "Repeats a text.", "inputSchema": schema}]}
    if method == "tools/call":
        text = str((params.get("arguments") or {}).get("text", ""))
        return {"content": [{"type": "text", "text": f"agentwire-check says {text}"}], "isError": False}
    return {} if method == "ping" else None


def main() -> None:
    """Serve until the input ends."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if MUTE in sys.argv or "id" not in request or "method" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        unknown = {"error": {"code": -32601, "message": f"Method not found: {request['method']}"}}
        reply = {"jsonrpc": "2.0", "id": request["id"], **(unknown if result is None else {"result": result})}
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
