"""A small MCP server over stdio, hand-written so that it starts in no time: run it as a program.

Every tool answers with its name and arguments. Options choose what it is to do wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", default="tool_a,tool_b", help="names of the tools, with commas")
    parser.add_argument("--failing", default="", help="names of tools that report an error")
    parser.add_argument("--mute", action="store_true", help="read all, answer nothing")
    parser.add_argument("--wait-for", type=Path, help="answer nothing until this file exists")
    parser.add_argument("--record", type=Path, help="append own process id and the environment, as JSON, to this file")
    return parser.parse_args()


def answer(options: argparse.Namespace, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of one request; None for a method that this server does not know."""
    names = [name for name in options.tools.split(",") if name]
    if method == "initialize":
        info = {"name": "test-tools", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "ping":
        return {}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"q": {"type": "integer"}}}
        return {"tools": [{"name": name, "description": f"Does {name}.", "inputSchema": schema} for name in names]}
    if method == "tools/call":
        text = f"{params['name']} {json.dumps(params.get('arguments'), sort_keys=True)}"
        failed = params["name"] in options.failing.split(",")
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    return None


def main() -> None:
    """Serve until the input ends."""
    options = parse()
    if options.record:
        with options.record.open("a") as record:
            record.write(json.dumps({"pid": os.getpid(), "environ": dict(os.environ)}) + "\n")
    for line in sys.stdin:
        while options.wait_for and not options.wait_for.exists():
            time.sleep(0.01)
        request = json.loads(line)
        if options.mute or "id" not in request or "method" not in request:
            continue
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        result = answer(options, request["method"], request.get("params") or {})
        if result is None:
            reply["error"] = {"code": -32601, "message": f"Method not found: {request['method']}"}
        else:
            reply["result"] = result
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
