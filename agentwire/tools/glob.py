"""The Glob tool (aionrs protocol, section 4.5)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import trio

from agentwire.text import scrub
from agentwire.tools import arguments as args
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult
from agentwire.tools.paths import admit
from agentwire.tools.patterns import Pattern

_MOST = 100
"""Files listed."""


class Glob(Tool):
    """Files by name."""

    name = "Glob"
    description = (
        "Find files whose path matches a pattern, newest first, at most 100. * matches within a name, ** any number "
        "of folders, {a,b} either of two."
    )
    category = "info"
    overlaps = True
    parameters = args.schema(
        ["pattern"],
        pattern=("string", "Such as **/*.py"),
        path=("string", "The folder to search (default: the workspace)"),
    )

    def describe(self, arguments: dict[str, Any]) -> str:
        """``Search for PATTERN``."""
        return f"Search for {args.text(arguments, 'pattern', '*')}"

    def paths(self, arguments: dict[str, Any]) -> list[str]:
        """The folder that would be searched, if it is not the workspace itself."""
        path, pattern = args.text(arguments, "path", ""), args.text(arguments, "pattern", "")
        try:
            roots = {os.path.join(path, one.root) for one in Pattern.parse(pattern)}
        except ValueError:
            return [path] if path else []
        return sorted(roots - {""})

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """List them."""
        pattern, path = args.required(arguments, "pattern"), args.text(arguments, "path", "")
        try:
            patterns = Pattern.parse(pattern)
        except ValueError as error:
            raise ToolError(f"Invalid glob pattern: {error}") from None
        places = [(one, admit(context, os.path.join(path, one.root))) for one in patterns]
        limits = None if context.outside_allowed else Path(os.path.realpath(context.workspace))
        found = await trio.to_thread.run_sync(_find, places, limits, abandon_on_cancel=True)
        if not found:
            return ToolResult("No files matched the pattern")
        return ToolResult(scrub("\n".join(_relative(name, context.workspace) for name in found)))


def _find(places: list[tuple[Pattern, Path]], limits: Path | None) -> list[str]:
    """The first matches as their patterns name them, newest first."""
    found: dict[Path, str] = {}
    for pattern, root in places:
        for name in pattern.walk(root, limits, trio.from_thread.check_cancelled):
            found.setdefault(root / name, os.path.normpath(os.path.join(pattern.root, name)))
            if len(found) == _MOST:
                break
        if len(found) == _MOST:
            break
    return [found[file] for file in sorted(found, key=_modified, reverse=True)]


def _relative(name: str, workspace: Path) -> str:
    """What an absolute pattern found, as seen from the workspace where it lies in it."""
    for root in (workspace, Path(os.path.realpath(workspace))):
        if os.path.isabs(name) and Path(name).is_relative_to(root):
            return os.path.relpath(name, root)
    return name


def _modified(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:  # it was removed since
        return 0
