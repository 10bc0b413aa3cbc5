"""What every play finds: a directory with a file, and a program that is a tool server."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agentwire.codec.kit import DIRECTORY, PYTHON, TOOL_SERVER, UNIQUE

SERVER: Final = Path(__file__).with_name("tool_server.py")
FILE: Final = "agentwire.txt"


def with_files(argv: Sequence[str], files: Mapping[str, Any], directory: Path) -> list[str]:
    """A command with the paths of these files in the places that name them; the files are written."""
    words = list(argv)
    for name, content in files.items():
        path = directory / f"{name}.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        words = [word.replace(f"{{{name}}}", str(path)) for word in words]
    return words


def provide(directory: Path) -> dict[str, Any]:
    """Prepare a run's directory, and give what plays know by name."""
    (directory / FILE).write_text("one\n", encoding="utf-8")
    return {
        DIRECTORY.name: str(directory),
        TOOL_SERVER.name: str(SERVER),
        PYTHON.name: sys.executable,
        UNIQUE.name: f"agentwire-check-{secrets.token_hex(6)}",
    }
