"""An MCP server over stdio in a few lines: ``echo`` answers, ``vanish`` ends the process in the middle of the call."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("echo", "vanish")]


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "flaky", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if params["name"] == "vanish":
        sys.stdout.write('{"jsonrpc":"2.0","id":')
        sys.stdout.flush()
        os._exit(3)
    return {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer = {
            "jsonrpc": "2.0",
            "id": message["id"],
            "result": result_of(message["method"], message.get("params") or {}),
        }
        print(json.dumps(answer), flush=True)
