"""An agent of the aionrs wire that answers every line with a pong, as fast as a process can."""

import json
import os

CAPABILITIES = {
    "tool_approval": True, "image_input": "unknown", "thinking": False, "effort": False, "effort_levels": [],
    "modes": ["default", "auto_edit", "yolo"], "current_mode": "default", "mcp": False,
}  # fmt: skip
PONG = b'{"type":"pong"}\n'

os.write(1, json.dumps({"type": "ready", "version": "0.2.0", "capabilities": CAPABILITIES}).encode() + b"\n")
rest = b""
while chunk := os.read(0, 65536):
    *lines, rest = (rest + chunk).split(b"\n")
    os.write(1, PONG * len(lines))
