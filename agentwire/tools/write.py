"""The Write tool (aionrs protocol, section 4.2)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import trio

from agentwire.events import Diff
from agentwire.text import scrub
from agentwire.tools import arguments as args
from agentwire.tools import files
from agentwire.tools.contract import FileSeen, Tool, ToolContext, ToolError, ToolResult
from agentwire.tools.diff import change
from agentwire.tools.paths import admit, inside

_PREVIEWED = 8 * 1024 * 1024
"""Bytes of an existing file above which no preview is made."""


class Write(Tool):
    """A file with new content, whole."""

    name = "Write"
    description = (
        "Create a file, or replace all of its content. Missing folders are made. "
        "To change part of an existing file use Edit."
    )
    mentions = ("Edit",)
    category = "edit"
    output_limit = 10_000
    parameters = args.schema(
        ["file_path", "content"],
        file_path=("string", "The file, absolute or relative to the workspace"),
        content=("string", "Everything that the file is to hold"),
    )

    def describe(self, arguments: dict[str, Any]) -> str:
        """``Write to P``."""
        return f"Write to {args.text(arguments, 'file_path', 'unknown')}"

    def paths(self, arguments: dict[str, Any]) -> list[str]:
        """The file."""
        path = args.text(arguments, "file_path", "")
        return [path] if path else []

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Diff | None:
        """The change against what the file holds now; none for a file outside the workspace, or a binary one."""
        given, content = arguments.get("file_path"), arguments.get("content")
        if not isinstance(given, str) or not isinstance(content, str):
            return None
        try:
            path = admit(context, given)
            if not inside(context.workspace, path):
                return None
            old = await trio.to_thread.run_sync(_content, context.workspace, path, abandon_on_cancel=True)
        except (ToolError, OSError):  # running it will say what is wrong
            return None
        if old is None or b"\0" in old:
            return None
        return await trio.to_thread.run_sync(
            change, given, old.decode("utf-8", "replace"), content, self.output_limit, abandon_on_cancel=True
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Write it, all at once or not at all."""
        given = args.required(arguments, "file_path")
        content = scrub(args.required(arguments, "content"))
        path = admit(context, given)
        created, stamp = await trio.to_thread.run_sync(
            _write, context.workspace, path, content.encode(), abandon_on_cancel=True
        )
        context.cache.put(str(path), FileSeen(stamp))
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        return ToolResult(f"{'Created' if created else 'Updated'} {given} ({lines} lines)")


def _write(workspace: Path, path: Path, data: bytes) -> tuple[bool, files.Stamp]:
    prepared = False
    try:
        with files.folder_of(workspace, path, create=True) as folder:
            prepared = True
            created = files.status_of(folder, path.name) is None
            trio.from_thread.check_cancelled()  # given up: leave the file alone
            return created, files.stamp(files.replace(folder, path.name, data))
    except OSError as error:
        failed = prepared or isinstance(error, IsADirectoryError)  # the latter if it is the workspace itself
        what = "Failed to write file" if failed else "Failed to create directories"
        raise ToolError(f"{what}: {files.cause(error)}") from error


def _content(workspace: Path, path: Path) -> bytes | None:
    """What the file holds (nothing if there is none); None if that is too long to show."""
    try:
        with files.folder_of(workspace, path) as folder:
            descriptor, status = files.open_to_read(folder, path.name)
    except FileNotFoundError:
        return b""
    try:
        return files.read_all(descriptor, _PREVIEWED) if status.st_size < _PREVIEWED else None
    finally:
        os.close(descriptor)
