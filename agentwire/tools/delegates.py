"""The delegate tools: subagents that work beside the turn, started, told, stopped and listed one by one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from agentwire.tools import arguments as args
from agentwire.tools.contract import Delegates, Gate, Tool, ToolContext, ToolError, ToolResult

DEFAULT_NAME = "worker"


class _DelegateTool(Tool):
    """What the four have in common: they do nothing that needs an approval, their subagents' calls do."""

    category = "exec"
    gate: Gate = "free"
    starts_subagents = True

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Do it at once; nothing waits for a subagent."""
        if context.delegates is None:
            raise ToolError("Subagents are not available in this session")
        return ToolResult(self._do(context.delegates, arguments))

    @abstractmethod
    def _do(self, delegates: Delegates, arguments: dict[str, Any]) -> str:
        """Do it, and say what the model reads."""


class DispatchSubagent(_DelegateTool):
    """Starts a subagent."""

    name = "dispatch_subagent"
    description = (
        "Give a task to a subagent, which begins at once and works beside you. It sees nothing of this conversation: "
        "the task must say all that is needed. Its report reaches you as a message when it is done; do not wait for "
        "it with other tools, go on with other work or just answer."
    )
    parameters = args.schema(
        ["task"],
        name=("string", "A short name for the subagent, for people to tell it from others"),
        task=("string", "Everything that the subagent has to know and do"),
    )

    def describe(self, arguments: dict[str, Any]) -> str:
        """Whom the task is given to."""
        return f"Dispatch subagent: {args.text(arguments, 'name', DEFAULT_NAME)}"

    def _do(self, delegates: Delegates, arguments: dict[str, Any]) -> str:
        task = args.required(arguments, "task")
        if not task.strip():
            raise ToolError("The task is empty")
        return delegates.dispatch(args.text(arguments, "name", "").strip() or DEFAULT_NAME, task)


class MessageSubagent(_DelegateTool):
    """Tells a subagent something."""

    name = "message_subagent"
    description = "Tell a running subagent something more. It reads the message before its next step."
    parameters = args.schema(
        ["run_id", "message"],
        run_id=("string", "The run id that dispatch_subagent gave"),
        message=("string", "What to tell it"),
    )
    mentions = ("dispatch_subagent",)

    def describe(self, arguments: dict[str, Any]) -> str:
        """Who is told."""
        return f"Message subagent: {args.text(arguments, 'run_id', 'unknown')}"

    def _do(self, delegates: Delegates, arguments: dict[str, Any]) -> str:
        return delegates.message(args.required(arguments, "run_id"), args.required(arguments, "message"))


class StopSubagent(_DelegateTool):
    """Ends a subagent."""

    name = "stop_subagent"
    description = "End a subagent whose work is not needed any more. It gives no report."
    parameters = args.schema(["run_id"], run_id=("string", "The run id that dispatch_subagent gave"))
    mentions = ("dispatch_subagent",)

    def describe(self, arguments: dict[str, Any]) -> str:
        """Which one."""
        return f"Stop subagent: {args.text(arguments, 'run_id', 'unknown')}"

    def _do(self, delegates: Delegates, arguments: dict[str, Any]) -> str:
        return delegates.stop(args.required(arguments, "run_id"))


class ListSubagents(_DelegateTool):
    """Says how the subagents are."""

    name = "list_subagents"
    description = "List your subagents: run id, name, and whether each works, waits for a place, or has ended."
    overlaps = True

    def describe(self, arguments: dict[str, Any]) -> str:
        """Always the same."""
        return "List subagents"

    def _do(self, delegates: Delegates, arguments: dict[str, Any]) -> str:
        return delegates.listing()


def delegate_tools() -> list[Tool]:
    """The four, in the order in which models are told of them. They hold no state of their own."""
    return [DispatchSubagent(), MessageSubagent(), StopSubagent(), ListSubagents()]
