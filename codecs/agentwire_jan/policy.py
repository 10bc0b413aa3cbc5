"""How Jan's engine behaves, as data."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from agentwire.policy import Policy

TOOL_NAMES: Final = MappingProxyType({
    "Read": "read",
    "Write": "write",
    "Edit": "edit",
    "ExecCommand": "shell",
    "Glob": "glob",
    "Grep": "grep",
    "ViewImage": "",
    "Spawn": "",
})  # fmt: skip
"""Jan has no tool to look at an image, and four tools in the place of the one that starts subagents."""

POLICY: Final = Policy(
    name="jan",
    calls="reads_together",
    can_ask=True,
    free=frozenset({"info"}),
    always_covers="tool",
    empty_answer="end",
    when_busy="refuse",
    busy_scope="process",
    on_eof="cancel",
    shows_subagents=True,
    tool_names=TOOL_NAMES,
    delegates=True,
)
"""Reads need no question; the other calls of a step run in order, each asked about when it is reached, and the results
come after the batch. One turn runs in the whole process; the end of standard input stops it."""
