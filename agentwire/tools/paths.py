"""Which file a path of a model means, and whether it lies in the workspace.

Approval asks these before a call may run; :mod:`agentwire.tools.files` makes sure, when a running tool opens
the file, that nobody has put a link in its way since.
"""

from __future__ import annotations

import os
from pathlib import Path

from agentwire.tools.contract import ToolContext, ToolError
from agentwire.tools.output import clean


def resolve(workspace: Path, given: str) -> Path:
    """The absolute path that ``given``, relative to ``workspace``, leads to, all links followed. Never raises.

    Works for what does not exist yet; ``~`` is a name like any other. In what no path can be, for it holds a NUL or
    half of a surrogate pair, these are replaced; a tool that is given such a path fails (:func:`admit`).
    """
    return _real(workspace, given) or Path(os.path.normpath(os.path.join(os.path.realpath(workspace), clean(given))))


def _real(workspace: Path, given: str) -> Path | None:
    try:
        return Path(os.path.realpath(os.path.join(workspace, given)))
    except ValueError:
        return None


def inside(workspace: Path, path: Path) -> bool:
    """Whether the resolved ``path`` is ``workspace`` or lies in it."""
    return path.is_relative_to(os.path.realpath(workspace))


def admit(context: ToolContext, given: str) -> Path:
    """The resolved path for a running call.

    Raises :class:`ToolError` if the call may not go there, or if there can be no such path.
    """
    path = _real(context.workspace, given)
    if path is None:
        raise ToolError(f"Invalid path {given!a}: it holds a character that no file name can have")
    if not context.outside_allowed and not inside(context.workspace, path):
        raise ToolError(f"{given} is outside the workspace (it leads to {path})")
    return path
