"""The Spawn tool (aionrs protocol, section 4.7)."""

from __future__ import annotations

from typing import Any

from msgspec import UnsetType

from agentwire.events import SubagentTask
from agentwire.tools import arguments as args
from agentwire.tools.contract import SubagentReport, Tool, ToolContext, ToolError, ToolResult

_MOST = 5


class Spawn(Tool):
    """Subagents, each with a task and a conversation of its own."""

    name = "Spawn"
    description = (
        "Hand up to 5 independent tasks to subagents that work at the same time. They see nothing of this "
        "conversation: each prompt must say all that is needed. The result holds their final answers."
    )
    category = "exec"
    starts_subagents = True
    parameters = args.schema(
        ["tasks"],
        tasks={
            "type": "array",
            "description": "The tasks, 1 to 5",
            "items": args.schema(
                ["name", "prompt"],
                name=("string", "A short name for the task"),
                prompt=("string", "Everything that the subagent has to know and do"),
            ),
        },
    )

    def describe(self, arguments: dict[str, Any]) -> str:
        """Always the same."""
        return "Spawn: sub-agent"

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run them and join their answers; an error only if none of them succeeded."""
        tasks = _tasks(arguments)
        if context.spawn is None:
            raise ToolError("Sub-agents are not available in this session")
        reports = await context.spawn(tasks)
        return ToolResult(
            "\n\n---\n\n".join(_rendered(report) for report in reports),
            is_error=not any(report.ok for report in reports),
        )


def _tasks(arguments: dict[str, Any]) -> list[SubagentTask]:
    given = arguments.get("tasks")
    if not isinstance(given, list):
        raise ToolError("Missing or invalid 'tasks' array")
    tasks: list[SubagentTask] = []
    for one in given:
        values = one if isinstance(one, dict) else {}
        for key in ("name", "prompt"):
            if not isinstance(values.get(key), str):
                raise ToolError(f"Each task must have a '{key}' string")
        tasks.append(SubagentTask(values["name"], values["prompt"]))
    if not tasks:
        raise ToolError("No tasks provided")
    if len(tasks) > _MOST:
        raise ToolError(f"Too many sub-agents: {len(tasks)} (max {_MOST})")
    return tasks


def _rendered(report: SubagentReport) -> str:
    status = "OK" if report.ok else "ERROR"
    spent, made = _number(report.usage.input_tokens), _number(report.usage.output_tokens)
    return f"## {report.name} [{status}]\n{report.text}\n[turns: {report.turns} | tokens: {spent} in / {made} out]"


def _number(tokens: int | UnsetType) -> str:
    return "?" if isinstance(tokens, UnsetType) else str(tokens)
