"""The command that adds our own MCP server (:mod:`support.mcp_server`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from .replies import JsonObject

SERVER = str(Path(__file__).with_name("mcp_server.py"))


def add_server(name: str, *options: str, **more: Any) -> JsonObject:
    """Add our test server under ``name``, with options of :mod:`support.mcp_server`."""
    return {
        "type": "add_mcp_server", "name": name, "transport": "stdio", "command": sys.executable,
        "args": [SERVER, *options], **more,
    }  # fmt: skip
