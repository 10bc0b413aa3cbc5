"""A workspace, and the built-in tools at work in it."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from agentwire.events import ImageInput, SubagentTask
from agentwire.tools import Tool, ToolContext, ToolError, ToolResult, builtin_tools
from agentwire.tools.contract import ReadCache, SubagentReport


class Bench:
    """Runs built-in tools as the agent loop does: with one read cache, errors as results."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.tools: dict[str, Tool] = {tool.name: tool for tool in builtin_tools()}
        self.cache = ReadCache()
        self.live: list[tuple[str, str]] = []
        self.outside_allowed = False
        self.environ: dict[str, str] | None = None
        self.image_input: ImageInput = "unknown"
        self.spawn: Callable[[list[SubagentTask]], Awaitable[list[SubagentReport]]] | None = None

    def context(self) -> ToolContext:
        return ToolContext(
            workspace=self.workspace,
            cache=self.cache,
            outside_allowed=self.outside_allowed,
            image_input=self.image_input,
            environ=self.environ,
            output=lambda text, stream: self.live.append((stream, text)),
            spawn=self.spawn,
        )

    async def __call__(self, name: str, **arguments: Any) -> ToolResult:
        try:
            return await self.tools[name].run(arguments, self.context())
        except ToolError as error:
            return ToolResult(str(error), is_error=True)

    async def fails(self, name: str, **arguments: Any) -> str:
        """The text of an error."""
        result = await self(name, **arguments)
        assert result.is_error, result.output
        return result.output

    async def works(self, name: str, **arguments: Any) -> str:
        """The output of a success."""
        result = await self(name, **arguments)
        assert not result.is_error, result.output
        return result.output

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def write_all(self, files: dict[str, str]) -> None:
        """Files as the failure cases list them: name to base64."""
        for name, content in files.items():
            self.write(name, base64.b64decode(content))

    @staticmethod
    async def threads_end() -> None:
        """Wait for threads that were left behind by a cancelled call."""
        limiter = trio.to_thread.current_default_thread_limiter()
        with trio.fail_after(5):
            while limiter.borrowed_tokens:  # noqa: ASYNC110 - an abandoned thread ends without an event
                await trio.sleep(0.01)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return Bench(workspace)


NOBODY = 65534


@pytest.fixture
def plain_user(bench: Bench) -> Iterator[None]:
    """The test is done by somebody whom file modes hold back: by another user if root runs it."""
    if os.geteuid() != 0:
        yield
        return
    bench.workspace = Path(tempfile.mkdtemp())
    os.chown(bench.workspace, NOBODY, NOBODY)
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        shutil.rmtree(bench.workspace)
