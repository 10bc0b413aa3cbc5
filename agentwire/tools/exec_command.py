"""The ExecCommand tool (aionrs protocol, section 4.4)."""

from __future__ import annotations

import codecs
import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentwire.children.running import run
from agentwire.tools import arguments as args
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult
from agentwire.tools.files import cause
from agentwire.tools.output import Excerpt, clean

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000

_POWERSHELL = ("-NoProfile", "-NonInteractive", "-Command")
_SHELLS: dict[str, tuple[str, ...]] = {
    "bash": ("-c",),
    "zsh": ("-c",),
    "sh": ("-c",),
    "pwsh": _POWERSHELL,
    "powershell": _POWERSHELL,
    "cmd": ("/C",),
}
"""Shells by name, and how each is given a command."""

_USUAL = ("pwsh", "powershell", "cmd") if os.name == "nt" else ("bash", "zsh", "sh")
"""The shells that are taken if none is asked for, the preferred one first."""


class ExecCommand(Tool):
    """A shell command."""

    name = "ExecCommand"
    description = (
        "Run a shell command in the workspace. The result holds its exit code and its output. It gets no input "
        "and is ended after the timeout. Prefer Read, Write, Edit, Glob and Grep where they can do the work."
    )
    mentions = ("Read", "Write", "Edit", "Glob", "Grep")
    category = "exec"
    parameters = args.schema(  # noqa: S604 - no shell is run here, one argument is called so
        ["cmd"],
        cmd=("string", "The command line"),
        shell=("string", "auto (the default), bash, zsh, sh, pwsh, powershell, cmd, or the path of a shell"),
        timeout=("integer", "Milliseconds it may take (default 120000, at most 600000)"),
    )

    def describe(self, arguments: dict[str, Any]) -> str:
        """``Execute: CMD``, the command cut to 80 bytes of UTF-8."""
        cmd = args.text(arguments, "cmd", "")
        return "Execute: " + cmd.encode("utf-8", "surrogatepass")[:80].decode("utf-8", "ignore")

    def command(self, arguments: dict[str, Any]) -> str:
        """The command, with the shell before it if it is no usual one."""
        cmd, shell = args.text(arguments, "cmd", ""), args.text(arguments, "shell", "auto")
        return cmd if shell == "auto" or shell in _SHELLS else f"{shlex.quote(shell)} -c {shlex.quote(cmd)}"

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run it to its end, its time limit or its cancellation; nothing of it runs on after the latter two."""
        cmd = args.required(arguments, "cmd")
        environ = context.child_environ()
        shell = shell_command(args.text(arguments, "shell", "auto"), context.workspace, environ)
        timeout = min(args.count(arguments, "timeout") or DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS)
        stdout = _Output("stdout", self.output_limit, context.output)
        stderr = _Output("stderr", self.output_limit, context.output)
        try:
            ended = await run(
                [*shell, cmd],
                cwd=context.workspace,
                environ=environ,
                stdout=stdout,
                stderr=stderr,
                timeout=timeout / 1000,
            )
        except OSError as error:
            raise ToolError(f"Failed to execute command: {cause(error)}") from error
        except ValueError as error:  # a NUL, which no argument can hold
            raise ToolError(f"Failed to execute command: {error}") from error
        code = max(ended.code, -1)  # a signal is reported as -1
        whole = Excerpt(self.output_limit)
        whole.add(f"Command timed out after {timeout}ms" if ended.timed_out else f"Exit code: {code}")
        whole.add("\nSTDOUT:\n")
        whole.extend(stdout.close())
        whole.add("\nSTDERR:\n")
        whole.extend(stderr.close())
        return ToolResult(whole.text(), is_error=ended.timed_out or code != 0)


def shell_command(shell: str, workspace: Path, environ: Mapping[str, str]) -> list[str]:
    """What to put before a command line so that ``shell`` (a name, ``auto`` or a path) runs it.

    Raises :class:`ToolError` for a shell that is not there.
    """
    search = environ.get("PATH", os.defpath)
    if shell == "auto":
        own = environ.get("SHELL", "")
        if _kind(own) in _USUAL and shutil.which(own):
            return [own, *_SHELLS[_kind(own)]]
        for name in _USUAL:
            if found := shutil.which(name, path=search):
                return [found, *_SHELLS[name]]
        raise ToolError(f"Invalid shell: none of {', '.join(_USUAL)} was found")
    if shell in _SHELLS:
        found = shutil.which(shell, path=search)
    elif os.sep in shell and "\0" not in shell:
        found = shutil.which(os.path.join(workspace, shell))
    else:
        raise ToolError(f"Invalid shell: unknown shell {shell!a} (expected auto, {', '.join(_SHELLS)} or a path)")
    if found is None:
        raise ToolError(f"Invalid shell: {shell} was not found or cannot be run")
    return [found, *_SHELLS.get(_kind(found), ("-c",))]


def _kind(shell: str) -> str:
    return os.path.basename(shell).lower().removesuffix(".exe")


class _Output:
    """One stream of a command: decoded as it comes, passed on live, kept as an excerpt."""

    def __init__(self, name: str, limit: int, live: Callable[[str, str], None]) -> None:
        self._name = name
        self._live = live
        self._kept = Excerpt(limit)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def __call__(self, chunk: bytes, *, final: bool = False) -> bool:
        text = clean(self._decode(chunk, final))
        if text:
            self._kept.add(text)
            self._live(text, self._name)
        return True

    def close(self) -> Excerpt:
        self(b"", final=True)
        return self._kept
