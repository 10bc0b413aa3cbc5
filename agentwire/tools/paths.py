"""Which file a path of a model means, and whether it lies in the workspace.

Approval asks these before a call may run; :mod:`agentwire.tools.files` makes sure, when a running tool opens
the file, that nobody has put a link in its way since.
"""

from __future__ import annotations

import os
from pathlib import Path

from agentwire.tools.contract import ToolContext, ToolError


def resolve(workspace: Path, given: str) -> Path:
    """The absolute path that ``given``, relative to ``workspace``, leads to, all links followed.

    Works for what does not exist yet; ``~`` is a name like any other. Raises :class:`ToolError` for what no path
    can be (a NUL in it).
    """
    try:
        return Path(os.path.realpath(os.path.join(workspace, given)))
    except ValueError:
        raise ToolError(f"Invalid path {given!a}: it holds a character that no file name can have") from None


def inside(workspace: Path, path: Path) -> bool:
    """Whether the resolved ``path`` is ``workspace`` or lies in it."""
    return path.is_relative_to(os.path.realpath(workspace))


def admit(context: ToolContext, given: str) -> Path:
    """Resolve ``given`` for a running call; :class:`ToolError` if it is outside and the call may not go there."""
    path = resolve(context.workspace, given)
    if not context.outside_allowed and not inside(context.workspace, path):
        raise ToolError(f"{given} is outside the workspace (it leads to {path})")
    return path
