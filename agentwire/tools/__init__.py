"""What an agent can call: the tool contract, the built-in tools, tools made from functions.

The built-in tools are those of the aionrs protocol, section 4. None of their modules is imported before
:func:`builtin_tools` is called.
"""

from __future__ import annotations

from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult
from agentwire.tools.function import tool
from agentwire.tools.output import post_process

__all__ = ["Tool", "ToolContext", "ToolError", "ToolResult", "builtin_tools", "delegate_tools", "post_process", "tool"]


def delegate_tools() -> list[Tool]:
    """The four tools for subagents that work beside the turn: start, write to, stop, list."""
    from agentwire.tools.delegates import delegate_tools as make

    return make()


def builtin_tools() -> list[Tool]:
    """The eight built-in tools, in the order in which models are told of them. They hold no state of their own."""
    from agentwire.tools.edit import Edit
    from agentwire.tools.exec_command import ExecCommand
    from agentwire.tools.glob import Glob
    from agentwire.tools.grep import Grep
    from agentwire.tools.read import Read
    from agentwire.tools.spawn import Spawn
    from agentwire.tools.view_image import ViewImage
    from agentwire.tools.write import Write

    return [Read(), Write(), Edit(), ExecCommand(), Glob(), Grep(), Spawn(), ViewImage()]
