"""An MCP server's tool as a tool of the agent."""

from __future__ import annotations

from typing import Any

from agentwire.events import Category
from agentwire.mcp.content import compact, tool_result
from agentwire.mcp.errors import McpCallError
from agentwire.mcp.server import ListedTool, McpServer
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult


class McpTool(Tool):
    """One tool of one server, under the name it is registered by (aionrs protocol, section 1.5, category mcp)."""

    category: Category = "mcp"

    def __init__(self, server: McpServer, listed: ListedTool, name: str) -> None:
        self.server = server
        self.raw_name = listed.name
        """The name the server knows it by."""
        self.name = name
        self.description = listed.description
        self.parameters = listed.parameters

    def describe(self, arguments: dict[str, Any]) -> str:
        """One line that names server, tool and arguments."""
        return f"MCP {self.server.name}/{self.raw_name}: {compact(arguments)}".replace("\n", " ")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Call the server. Progress it reports is live output; being cancelled tells it so and keeps the connection."""

        def progress(done: float, total: float | None, message: str) -> None:
            amount = f"{done:g}" if total is None else f"{done:g}/{total:g}"
            context.output(f"{message} ({amount})\n" if message else f"{amount}\n", "stdout")

        try:
            answer = await self.server.call(
                self.raw_name,
                arguments,
                progress,
                timeout_ms=self.server.spec.call_timeout_ms,
                trace=context.trace,
            )
        except McpCallError as error:
            raise ToolError(f"MCP tool error: {error}") from error
        return tool_result(answer, context.image_input)
