"""The Read tool (aionrs protocol, section 4.1)."""

from __future__ import annotations

import codecs
import os
from pathlib import Path
from typing import Any

import trio

from agentwire.tools import arguments as args
from agentwire.tools import files
from agentwire.tools.contract import FileSeen, Tool, ToolContext, ToolError, ToolResult
from agentwire.tools.output import Excerpt
from agentwire.tools.paths import admit

_CHUNK = 1 << 20
_SNIFFED = 8192
"""A NUL within this many bytes makes a file binary."""

UNCHANGED = (
    "File unchanged since last read. The content from the earlier Read tool_result in this conversation is still "
    "current — refer to that instead of re-reading."
)


class Read(Tool):
    """Lines of a text file, numbered from 1."""

    name = "Read"
    description = (
        "Read a text file. Every line comes with its number and a tab before it, which are not part of the file. "
        "For a long file give offset and limit. Read a file before you edit it."
    )
    category = "info"
    overlaps = True
    output_limit = 100_000
    parameters = args.schema(
        ["file_path"],
        file_path=("string", "The file, absolute or relative to the workspace"),
        offset=("integer", "How many lines to skip (default 0)"),
        limit=("integer", "How many lines to read (default: all)"),
    )

    def describe(self, arguments: dict[str, Any]) -> str:
        """``Read P``."""
        return f"Read {args.text(arguments, 'file_path', 'unknown')}"

    def paths(self, arguments: dict[str, Any]) -> list[str]:
        """The file."""
        path = args.text(arguments, "file_path", "")
        return [path] if path else []

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Read it; a file that the conversation already holds unchanged is only pointed to."""
        given = args.required(arguments, "file_path")
        wanted = args.count(arguments, "offset") or 0, args.count(arguments, "limit")
        path = admit(context, given)
        seen = context.cache.get(str(path))
        known = seen.stamp if seen is not None and seen.shown == wanted else None
        try:
            text, stamp = await trio.to_thread.run_sync(
                _read, context.workspace, path, wanted, known, self.output_limit, abandon_on_cancel=True
            )
        except OSError as error:
            raise ToolError(f"Failed to read file {given}: {files.cause(error)}") from error
        context.cache.put(str(path), FileSeen(stamp, wanted))
        return ToolResult(text)


def _read(
    workspace: Path, path: Path, wanted: tuple[int, int | None], known: files.Stamp | None, limit: int
) -> tuple[str, files.Stamp]:
    with files.folder_of(workspace, path) as folder:
        descriptor, status = files.open_to_read(folder, path.name)
    try:
        stamp = files.stamp(status)
        if stamp == known:
            return UNCHANGED, stamp
        chunk = os.read(descriptor, _CHUNK)
        if b"\0" in chunk[:_SNIFFED]:
            return f"(binary file, {max(status.st_size, len(chunk))} bytes)", stamp
        lines = _Numbered(*wanted, Excerpt(limit))
        while chunk and lines.feed(chunk):
            trio.from_thread.check_cancelled()  # given up: stop reading
            chunk = os.read(descriptor, _CHUNK)
        lines.end()
        return lines.out.text(), stamp
    finally:
        os.close(descriptor)


class _Numbered:
    """Picks and numbers lines out of bytes that come in chunks; neither the file nor a line need fit in memory."""

    def __init__(self, offset: int, limit: int | None, out: Excerpt) -> None:
        self.out = out
        self._first = offset
        self._end = None if limit is None else offset + limit
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._line = 0
        self._begun = False
        self._held = ""

    def feed(self, chunk: bytes, *, final: bool = False) -> bool:
        """Take a chunk; False if no further one can matter."""
        text = self._held + self._decode(chunk, final)
        self._held = ""
        if text.endswith("\r") and not final:  # perhaps the first half of a line end
            text, self._held = text[:-1], "\r"
        pieces = text.split("\n")
        rest = pieces.pop()
        found: list[str] = []
        for piece in pieces:
            self._add(found, piece.removesuffix("\r"))
            self._line += 1
            self._begun = False
        if rest:
            self._add(found, rest)
        self.out.add("".join(found))
        return self._end is None or self._line < self._end

    def end(self) -> None:
        """The file has ended."""
        self.feed(b"", final=True)

    def _add(self, found: list[str], piece: str) -> None:
        if self._line < self._first or (self._end is not None and self._line >= self._end):
            return
        if not self._begun:
            self._begun = True
            found.append(f"{'' if self._line == self._first else chr(10)}{self._line + 1:6}\t")
        found.append(piece)
