"""A session in this process whose model says what a test wrote down, driven by commands as a host would."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import trio

from agentwire.agent.loop import Agent
from agentwire.commands import Command, Done, Outcome, Prompt, Refusal
from agentwire.events import CallRef, CallStarted, HostTool, RequestSent, Text, TextDelta, Usage
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.log.waiting import next_records
from agentwire.messages import UserMessage
from agentwire.policy import Policy
from agentwire.provider.contract import Completion, Emit, ModelRequest, ProviderError
from agentwire.server.runtime import make_runner
from agentwire.server.server import Server
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult

E = TypeVar("E")

PATIENCE = 10.0


@dataclass
class Call:
    """A call the model makes. ``arguments`` may be text that is no JSON."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str = ""

    def ref(self, number: int) -> CallRef:
        text = self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)
        return CallRef(self.id or f"call-{number}", self.name, text)


SPENT = Usage(input_tokens=5, output_tokens=2)


@dataclass
class Reply:
    """What the model does when it is asked: waits at a gate, speaks, calls, fails."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    usage: Usage = SPENT
    gate: trio.Event | None = None
    fails: ProviderError | None = None
    finish_reason: str = ""


def calling(name: str, arguments: dict[str, Any] | str | None = None, **more: Any) -> Reply:
    return Reply(calls=[Call(name, {} if arguments is None else arguments)], **more)


Script = list[Reply] | Callable[[ModelRequest], Reply]


class Model:
    """A provider with a script for each conversation, found by what its first message says (``""``: any other)."""

    name = "model"
    model = "m"
    thinking = False
    effort_levels = ()

    def __init__(self, *replies: Reply, scripts: dict[str, Script] | None = None) -> None:
        self.scripts: dict[str, Script] = {"": list(replies), **(scripts or {})}
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        self.requests.append(request)
        first = request.messages[0]
        script = self.scripts.get(text_of(first) if isinstance(first, UserMessage) else "", self.scripts[""])
        reply = script(request) if callable(script) else script.pop(0)
        emit(RequestSent("model", request.model))
        if reply.gate is not None:
            await reply.gate.wait()
        for word in reply.text.split(" ") if reply.text else ():
            await trio.lowlevel.checkpoint()
            emit(TextDelta(word))
        refs = [call.ref(len(self.requests)) for call in reply.calls]
        for index, ref in enumerate(refs):
            ref.call_id += f".{index}" if index else ""
            emit(CallStarted(ref.call_id, ref.name))
        if reply.fails is not None:
            raise reply.fails
        reason = reply.finish_reason or ("tool_calls" if refs else "stop")
        return Completion(reply.text, calls=refs, usage=reply.usage, finish_reason=reason)

    async def aclose(self) -> None:
        pass


def text_of(message: UserMessage) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text))


class Probe(Tool):
    """A tool that notes how it is called, and fails or waits if a test says so."""

    def __init__(self, name: str, category: str = "exec", *, fails: str = "", gate: trio.Event | None = None) -> None:
        self.name, self.category = name, category  # type: ignore[assignment]
        self.fails, self.gate = fails, gate
        self.calls: list[dict[str, Any]] = []

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        self.calls.append(arguments)
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise ToolError(self.fails)
        return ToolResult(f"{self.name} done")


class Bench:
    """One session at work."""

    def __init__(
        self,
        nursery: trio.Nursery,
        model: Model,
        workspace: Path,
        *,
        policy: Policy = Policy(),  # noqa: B008 - frozen
        tools: Iterable[Tool] = (),
        host: Iterable[HostTool] = (),
        max_steps: int = 0,
        **settings: Any,
    ) -> None:
        self.model = model
        self.session = Session(
            "s", SessionLog(None), History(), policy=policy, provider=model, ephemeral=True,
            settings=SessionSettings(workspace=str(workspace), builtins=False, **settings),
        )  # fmt: skip
        agent = Agent(tools=list(tools), system_prompt="Be brief.", max_steps=max_steps)
        self.runner = make_runner(self.session, agent, nursery)
        self.server = Server(nursery)
        self.server.add(self.runner)
        if host := list(host):
            self.runner.declare(host)
        self.cursor = self.session.log.cursor()
        self._unread: list[Record] = []

    def send(self, command: Command) -> Done | Refusal | None:
        """Carry out a command; None: its outcome comes later."""
        replies: list[Outcome] = []
        self.server.dispatch(command, "s", replies.append)
        return replies[0].result if replies else None

    async def until(self, kind: type[E], **fields: Any) -> E:
        """The next event of that kind with those fields."""
        return (await self.record(kind, **fields)).event  # type: ignore[return-value]

    async def record(self, kind: type, **fields: Any) -> Record:
        """The next record whose event is of that kind and has those fields; all before it count as read."""
        with trio.fail_after(PATIENCE):
            while True:
                while self._unread:
                    record = self._unread.pop(0)
                    event = record.event
                    if isinstance(event, kind) and all(getattr(event, name) == fields[name] for name in fields):
                        return record
                self._unread += await next_records(self.cursor)

    async def finish(self, text: str = "go") -> list[Any]:
        """Send a prompt and wait until its turn is over: all its events."""
        self.send(Prompt(text))
        with trio.fail_after(PATIENCE):
            await self.server.idle()
        return self.turn()

    def turn(self) -> list[Any]:
        """The events of the latest turn so far."""
        return [record.event for record in self.records() if record.turn == self.session.turns]

    def records(self) -> list[Record]:
        """The whole log."""
        cursor = self.session.log.cursor(after=0)
        found: list[Record] = []
        while batch := cursor.take():
            found += batch
        cursor.close()
        return found


@asynccontextmanager
async def bench(model: Model, workspace: Path, **options: Any) -> AsyncIterator[Bench]:
    """A session at work; leaving the block ends what runs."""
    async with trio.open_nursery() as nursery:
        yield Bench(nursery, model, workspace, **options)
        nursery.cancel_scope.cancel()


def of(kind: type[E] | tuple[type[E], ...], events: Iterable[Any]) -> list[E]:
    """Those of a kind."""
    return [event for event in events if isinstance(event, kind)]


def kinds(events: Iterable[Any], *wanted: type) -> list[str]:
    """Their names, of those wanted."""
    return [type(event).__name__ for event in events if not wanted or isinstance(event, wanted)]
