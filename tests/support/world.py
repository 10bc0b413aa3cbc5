"""A server with one session in this process: a model and tools that do what they are told, without a wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from agentwire.agent.loop import Agent
from agentwire.commands import Command, Outcome
from agentwire.events import CallRef, CallStarted, SessionOpened, TextDelta, Usage
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.policy import Policy
from agentwire.provider.contract import Completion, Emit, ModelRequest, ProviderError
from agentwire.server.runtime import make_runner
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult


@dataclass
class Reply:
    """What the model does when it is asked."""

    text: str = ""
    calls: list[str] = field(default_factory=list)
    fails: str = ""


class Model:
    """A provider that does what it is told, with a pause at every piece."""

    name = "model"
    model = "m"
    thinking = True
    effort_levels = ("low",)

    def __init__(self, replies: list[Reply], pause: float) -> None:
        self.replies = replies
        self.pause = pause
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        reply = self.replies[len(self.requests) % len(self.replies)] if self.replies else Reply("end")
        if len(self.requests) > 30:
            reply = Reply("enough")
        self.requests.append(request)
        emit(Usage(input_tokens=1))
        for piece in reply.text:
            await trio.sleep(self.pause)
            emit(TextDelta(piece))
        refs = []
        for index, name in enumerate(reply.calls):
            await trio.sleep(self.pause)
            emit(CallStarted(f"call_{index}", name))
            refs.append(CallRef(f"call_{index}", name, "{}"))
        if reply.fails:
            raise ProviderError("it broke", kind=reply.fails, retryable=True)  # type: ignore[arg-type]
        return Completion(reply.text, calls=refs, usage=Usage(1, 1), finish_reason="tool_calls" if refs else "stop")

    async def aclose(self) -> None:
        pass


class Slow(Tool):
    """A tool that takes its time and counts how often it runs."""

    def __init__(self, name: str, category: str, overlaps: bool, outcome: str) -> None:
        self.name, self.category, self.overlaps, self.outcome = name, category, overlaps, outcome  # type: ignore[assignment]
        self.started = self.running = self.most = 0

    def describe(self, arguments: dict[str, Any]) -> str:
        return self.name

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        self.started += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            context.output("some output", "stdout")
            await trio.sleep(0.05)
        finally:
            self.running -= 1
        if self.outcome == "error":
            raise ToolError("no")
        if self.outcome == "bug":
            raise ZeroDivisionError
        return ToolResult("done")


def tools() -> list[Slow]:
    return [
        Slow("look", "info", True, "ok"),
        Slow("change", "edit", False, "ok"),
        Slow("run", "exec", False, "error"),
        Slow("bug", "mcp", False, "bug"),
    ]


class World:
    """A server with one session, driven by commands as a host would."""

    def __init__(
        self, nursery: trio.Nursery, replies: list[Reply], policy: Policy, workspace: Path, pause: float = 0.01
    ) -> None:
        self.model = Model(replies, pause)
        self.tools = tools()
        self.session = Session(
            "s", SessionLog(None), History(), settings=SessionSettings(workspace=str(workspace)), policy=policy,
            provider=self.model, ephemeral=True,
        )  # fmt: skip
        self.server = Server(nursery)
        self.server.add(
            make_runner(self.session, Agent(tools=self.tools, builtins=False, system_prompt="Be brief."), nursery)
        )
        self.cursor = self.session.log.cursor(after=0)
        self.outcomes: list[tuple[Command, list[Outcome]]] = []

    def open(self) -> Record:
        """Say that the session is open, as a server does."""
        return self.session.append(SessionOpened("s", capabilities=self.session.capabilities()))

    def send(self, command: Command) -> Outcome | None:
        """Send a command; its outcome, or None if that comes later."""
        replies: list[Outcome] = []
        self.outcomes.append((command, replies))
        self.server.dispatch(command, "s", replies.append)
        return replies[0] if replies else None

    def records(self) -> list[Record]:
        """The whole log."""
        cursor = self.session.log.cursor(after=0)
        found = []
        while batch := cursor.take():
            found += batch
        return found
