"""The Grep tool (aionrs protocol, section 4.6)."""

from __future__ import annotations

import codecs
import os
import shutil
import stat
from typing import Any

from agentwire.children.running import run
from agentwire.tools import arguments as args
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult
from agentwire.tools.files import cause
from agentwire.tools.output import Excerpt, clean
from agentwire.tools.paths import admit

_MOST = 250
"""Lines given back."""
LONGEST = 120.0
"""Seconds that a search may take: an expression can have a program try without end."""

_ERROR_LIMIT = 2_000
"""Characters kept of what the program complains about."""


class Grep(Tool):
    """Lines of files that match a regular expression."""

    name = "Grep"
    description = (
        "Search the contents of files for a regular expression. Gives the matching lines with file and line number, "
        "at most 250."
    )
    category = "info"
    overlaps = True
    output_limit = 20_000
    parameters = args.schema(
        ["pattern"],
        pattern=("string", "The regular expression"),
        path=("string", "The file or folder to search (default: the workspace)"),
        glob=("string", "Search only files with such names, e.g. *.py"),
        case_insensitive=("boolean", "Take upper and lower case as the same (default false)"),
    )

    def describe(self, arguments: dict[str, Any]) -> str:
        """``Grep 'PATTERN' in PATH``."""
        return f"Grep '{args.text(arguments, 'pattern', '')}' in {args.text(arguments, 'path', '.')}"

    def paths(self, arguments: dict[str, Any]) -> list[str]:
        """The file or folder, if it is not the workspace itself."""
        path = args.text(arguments, "path", "")
        return [path] if path else []

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Search with ripgrep where it is installed, else with grep; links to other places are not followed."""
        pattern, path = args.required(arguments, "pattern"), args.text(arguments, "path", "") or "."
        _refuse_special(admit(context, path), path)
        environ = context.child_environ()
        search = environ.get("PATH", os.defpath)
        found = shutil.which("rg", path=search) or shutil.which("grep", path=search)
        if found is None:
            raise ToolError("grep failed: neither rg nor grep is installed")
        program = os.path.basename(found)
        matches, complaints = _Lines(self.output_limit, _MOST), _Lines(_ERROR_LIMIT, None)
        try:
            ended = await run(
                [found, *_options(program, arguments), "-e", pattern, "--", path],
                cwd=context.workspace,
                environ=environ,
                stdout=matches,
                stderr=complaints,
                timeout=LONGEST,
            )
        except OSError as error:
            raise ToolError(f"grep failed: {cause(error)}") from error
        except ValueError as error:  # a NUL, which no argument can hold
            raise ToolError(f"grep failed: {error}") from error
        output = matches.close()
        if ended.timed_out:
            late = f"The search was ended after {LONGEST:g} seconds; search fewer files or for something simpler"
            if not output:
                raise ToolError(late)
            return ToolResult(f"{output}\n[{late}]")
        # A file that could not be read is no reason to keep from the model what was found in the others.
        if output or ended.enough:
            return ToolResult(output)
        if ended.code in (0, 1):
            return ToolResult("No matches found")
        raise ToolError(f"{'rg error' if program == 'rg' else 'grep failed'}: {complaints.close()}")


def _options(program: str, arguments: dict[str, Any]) -> list[str]:
    glob = args.text(arguments, "glob", "")
    if program == "rg":
        options = ["--no-config", "--color=never", "--no-heading", "-n"]
        options += ["--glob", glob] if glob else []
    else:
        # -E: the kind of expression that is nearest to ripgrep's; -I: no binary files; -D skip: no devices, no pipes.
        options = ["-rnEI", "-D", "skip", "--color=never"]
        options += [f"--include={glob}"] if glob else []
    return [*options, "-i"] if args.flag(arguments, "case_insensitive") else options


def _refuse_special(path: os.PathLike[str], given: str) -> None:
    """Neither program would come back from reading a pipe or an endless device."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # the program says it in its own words
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ToolError(f"grep failed: {given} is neither a file nor a folder")


class _Lines:
    """The first lines of an output, as an excerpt."""

    def __init__(self, limit: int, most: int | None) -> None:
        self._left = most
        self._kept = Excerpt(limit)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def __call__(self, chunk: bytes, *, final: bool = False) -> bool:
        if self._left == 0:
            return False
        text = self._decode(chunk, final)
        if self._left is not None:
            pieces = text.split("\n", self._left)
            if len(pieces) > self._left:
                text = "\n".join(pieces[: self._left])
            self._left -= len(pieces) - 1
        self._kept.add(clean(text))
        return self._left != 0

    def close(self) -> str:
        self(b"", final=True)
        return self._kept.text().removesuffix("\n")
