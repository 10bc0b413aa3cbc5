"""The Edit tool (aionrs protocol, sections 1.7 and 4.3)."""

from __future__ import annotations

import codecs
import os
from pathlib import Path
from typing import Any, NamedTuple

import trio

from agentwire.events import Diff
from agentwire.text import scrub
from agentwire.tools import arguments as args
from agentwire.tools import files
from agentwire.tools.contract import FileSeen, Tool, ToolContext, ToolError, ToolResult
from agentwire.tools.diff import change
from agentwire.tools.paths import admit, inside

_LARGEST = 256 * 1024 * 1024
_SNIFFED = 8192
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_LF = b"\n"
_CRLF = b"\r\n"


class Edit(Tool):
    """Another text in place of one that a file holds."""

    name = "Edit"
    description = (
        "Replace text in a file that you have read. old_string must be the file's own text, without line numbers, "
        "and must occur once; give more of its surroundings if it does not, or set replace_all."
    )
    category = "edit"
    output_limit = 10_000
    parameters = args.schema(
        ["file_path", "old_string", "new_string"],
        file_path=("string", "The file, absolute or relative to the workspace"),
        old_string=("string", "The text to be replaced"),
        new_string=("string", "The text to put in its place"),
        replace_all=("boolean", "Replace every occurrence (default false)"),
    )

    def describe(self, arguments: dict[str, Any]) -> str:
        """``Edit P``."""
        return f"Edit {args.text(arguments, 'file_path', 'unknown')}"

    def paths(self, arguments: dict[str, Any]) -> list[str]:
        """The file."""
        path = args.text(arguments, "file_path", "")
        return [path] if path else []

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Diff | None:
        """The change as it would be made now; none if it would fail or lies outside the workspace."""
        try:
            order = _order(arguments)
            path = admit(context, order.given)
            if not inside(context.workspace, path):
                return None
            edited = await trio.to_thread.run_sync(_plan, context.workspace, path, order, None, abandon_on_cancel=True)
            return await self._shown(order, edited)
        except (ToolError, OSError):  # running it will say what is wrong
            return None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Make the change, all at once or not at all."""
        order = _order(arguments)
        path = admit(context, order.given)
        seen = context.cache.get(str(path))
        if seen is None:
            raise ToolError(
                f"You must Read {order.given} before editing. "
                "Use the Read tool first so the file content is loaded into context."
            )
        edited, stamp = await trio.to_thread.run_sync(
            _edit, context.workspace, path, order, seen.stamp, abandon_on_cancel=True
        )
        # The model knows all of the file now only if it knew all of it before.
        context.cache.put(str(path), FileSeen(stamp, (0, None) if seen.shown == (0, None) else None))
        return ToolResult(
            f"Edited {order.given}: replaced {edited.times} occurrence(s)",
            display=await self._shown(order, edited),
            metadata={"file_path": order.given},
        )

    async def _shown(self, order: _Order, edited: _Edited) -> Diff:
        def work() -> Diff:
            old, new = (side.decode("utf-8", "replace") for side in (edited.old, edited.new))
            return change(order.given, old, new, self.output_limit)

        return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


class _Order(NamedTuple):
    given: str
    old: bytes
    new: bytes
    everywhere: bool


class _Edited(NamedTuple):
    old: bytes
    new: bytes
    times: int


def _order(arguments: dict[str, Any]) -> _Order:
    given, old, new = (args.required(arguments, name) for name in ("file_path", "old_string", "new_string"))
    return _Order(given, scrub(old).encode(), scrub(new).encode(), args.flag(arguments, "replace_all"))


def _edit(workspace: Path, path: Path, order: _Order, known: files.Stamp) -> tuple[_Edited, files.Stamp]:
    edited = _plan(workspace, path, order, known)
    try:
        with files.folder_of(workspace, path) as folder:
            trio.from_thread.check_cancelled()  # given up: leave the file alone
            return edited, files.stamp(files.replace(folder, path.name, edited.new, unchanged=known))
    except files.FileChangedError:
        raise _modified(order) from None
    except OSError as error:
        raise ToolError(f"Failed to write file: {files.cause(error)}") from error


def _plan(workspace: Path, path: Path, order: _Order, known: files.Stamp | None) -> _Edited:
    """What the file holds and what it is to hold. Raises :class:`ToolError`."""
    try:
        with files.folder_of(workspace, path) as folder:
            descriptor, status = files.open_to_read(folder, path.name)
        try:
            if known is not None and files.stamp(status) != known:
                raise _modified(order)
            if status.st_size > _LARGEST:
                raise ToolError(f"Failed to read file {order.given}: it is too large to edit ({status.st_size} bytes)")
            content = files.read_all(descriptor, _LARGEST)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ToolError(f"Failed to read file {order.given}: {files.cause(error)}") from error
    if b"\0" in content[:_SNIFFED] or content.startswith(_UTF_16):
        raise ToolError(f"Cannot edit {order.given}: it is not a text file that tools can edit (binary or UTF-16)")
    return _replaced(content, order)


def _modified(order: _Order) -> ToolError:
    return ToolError(
        f"File {order.given} has been modified externally since last read. "
        "Read the file again to see the current content before editing."
    )


def _replaced(content: bytes, order: _Order) -> _Edited:
    """Bytes are replaced, not characters: what the file holds elsewhere, valid UTF-8 or not, stays as it is."""
    old = _match(content, order.old)
    new = _ended(content, old, order.new)
    if old == new:
        raise ToolError("old_string and new_string are identical, also in their line endings: nothing to change")
    if not new.isascii() and not _is_utf8(content):
        raise ToolError(f"Cannot edit {order.given}: it is not UTF-8, so new_string may only hold ASCII characters")
    if not old:  # an empty file
        return _Edited(content, new, 1)
    count = content.count(old)
    if not order.everywhere and (count > 1 or content.find(old, content.find(old) + 1) >= 0):
        raise ToolError(f"Multiple matches found ({max(count, 2)}). Use replace_all or provide more context.")
    return _Edited(content, content.replace(old, new), count)


def _match(content: bytes, old: bytes) -> bytes:
    """``old`` as it stands in the file: exactly, or with the other line endings."""
    missing = ToolError("old_string not found in file")
    if not old:
        if content:
            raise missing
        return old
    if old in content:
        return old
    found = [form for form in {_with_lf(old), _with_crlf(old)} if form in content]
    if not found:
        raise missing
    if len(found) > 1:
        raise ToolError(
            "Ambiguous line-ending match: old_string matches both LF and CRLF text. Provide more surrounding context."
        )
    return found[0]


def _ended(content: bytes, old: bytes, new: bytes) -> bytes:
    """``new`` with the line endings of what it replaces; if that has none, with the file's if all are CRLF."""
    pattern = old if _LF in old else content
    if _LF not in pattern or _LF not in new:
        return new
    if pattern.count(_LF) == pattern.count(_CRLF):
        return _with_crlf(new)
    if pattern is old and _CRLF not in pattern:
        return _with_lf(new)
    return new


def _with_lf(text: bytes) -> bytes:
    return text.replace(_CRLF, _LF)


def _with_crlf(text: bytes) -> bytes:
    return _with_lf(text).replace(_LF, _CRLF)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
