"""Those who play the parts of a recording: a model and tools that give what was given, at the time it was given.

Time is the recording's: microseconds since it began, on the event loop's own clock from :attr:`Parts.zero`. With a
clock that jumps while nobody has anything to do, hours pass in no time and yet in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
import trio
from msgspec import UNSET, Struct, UnsetType

from agentwire.agent.witness import FACTS, stands_in
from agentwire.events import (
    CallArgumentsDelta,
    CallStarted,
    Diff,
    ReasoningDelta,
    RequestSent,
    TextDelta,
    Usage,
)
from agentwire.provider.contract import Completion, ConfigError, Emit, ModelRequest, ProviderError
from agentwire.recording import RecordingError
from agentwire.replay.places import Placed
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult

_KINDS: Final[dict[str, Any]] = {
    "text_delta": TextDelta,
    "reasoning_delta": ReasoningDelta,
    "call_started": CallStarted,
    "call_arguments_delta": CallArgumentsDelta,
    "request_sent": RequestSent,
    "usage": Usage,
}


class Failure(Struct):
    """Why a request failed."""

    message: str
    kind: Any
    retryable: bool = False
    status: int = 0
    retry_after_ms: int | None = None
    usage: Usage | UnsetType = UNSET
    config_kind: str = ""


class Reply(Struct):
    """A model's reply as it was recorded."""

    request: int
    took: int
    events: list[tuple[int, str, dict[str, Any]]] = []
    completion: Completion | None = None
    error: Failure | None = None
    crashed: tuple[str, str] | None = None
    began: int = 0


class Facts(Struct):
    """A tool as a call found it, and what it gave."""

    planned: dict[str, Any] = {}
    problem: str = ""
    command: str = ""
    preview: Diff | None = None
    result: ToolResult | None = None
    error: str | None = None
    crashed: tuple[str, str] | None = None
    output: list[tuple[int, str, str]] = []
    took: int = 0
    began: int = 0


class Maker(Struct):
    """A provider as sessions see it."""

    asked: str
    serves: str
    name: str
    model: str
    thinking: bool
    effort_levels: list[str]


class Parts:
    """What a recording holds beside the wire."""

    def __init__(self) -> None:
        self.setup: dict[str, Any] = {}
        self.makers: dict[str, Maker] = {}
        self.replies: dict[int, Reply] = {}
        self.zero = 0.0
        """The event loop's time at which the recording begins."""
        self._calls: dict[tuple[str, str], Facts] = {}
        self._by_call: dict[str, deque[Facts]] = {}
        self._by_name: dict[str, Facts] = {}
        self._asked = 0

    def learn(self, place: Placed) -> None:
        """Take an entry. Raises :class:`agentwire.recording.RecordingError` for one that makes no sense."""
        about, entry = place.entry.about, place.entry
        try:
            if entry.who == "note" and "setup" in about:
                self.setup = about["setup"]
            elif entry.who == "note" and "provider" in about:
                maker = msgspec.convert(about["provider"], Maker)
                self.makers.setdefault(maker.asked, maker)
            elif entry.who == "model":
                reply = _decoded(about, Reply)
                reply.began = entry.at - reply.took
                self.replies[reply.request] = reply
            elif entry.who == "tool":
                self._learn_call(about, entry.at)
        except (msgspec.MsgspecError, KeyError) as error:
            raise RecordingError(f"line {place.line} of the recording makes no sense: {error}") from None

    def _learn_call(self, about: dict[str, Any], at: int) -> None:
        key = about["session"], about["call_id"]
        facts = _decoded(about, Facts)
        known = self._calls.get(key)
        if "planned" in about or known is None:
            self._calls[key] = facts
            self._by_call.setdefault(about["call_id"], deque()).append(facts)
            self._by_name.setdefault(about["name"], facts)
            known = facts
        for name in about.keys() & set(Facts.__struct_fields__):
            setattr(known, name, getattr(facts, name))
        if "took" in about:
            known.began = at - known.took

    def next_reply(self) -> Reply | None:
        """The reply to the next request."""
        self._asked += 1
        return self.replies.pop(self._asked, None)

    def call(self, call_id: str) -> Facts:
        """What is known of a call."""
        waiting = self._by_call.get(call_id)
        return waiting.popleft() if waiting else Facts()

    def tool(self, name: str, found: Tool | None) -> Tool | None:
        """Who plays a tool; None if the recording knows of no such tool."""
        if not stands_in(found):
            return found
        facts = self._by_name.get(name)
        return PlayedTool(name, facts.planned, self) if facts is not None else None

    async def until(self, at: int) -> None:
        """Wait for a time of the recording."""
        await trio.sleep_until(max(self.zero + at / 1e6, trio.current_time()))


class PlayedModel:
    """A provider that gives the recorded replies, one for each request, in the order of the requests."""

    def __init__(self, parts: Parts, maker: Maker) -> None:
        self._parts = parts
        self.name, self.model, self.thinking = maker.name, maker.model, maker.thinking
        self.effort_levels = tuple(maker.effort_levels)

    async def complete(self, request: ModelRequest, emit: Emit) -> Completion:
        """Play a reply."""
        reply = self._parts.next_reply()
        if reply is None:
            raise ProviderError("The recording holds no reply to this request", kind="config")
        for after, kind, event in reply.events:
            await self._parts.until(reply.began + after)
            emit(msgspec.convert({**event, "type": kind} if kind != "usage" else event, _KINDS[kind]))
        if reply.completion is None and reply.error is None and reply.crashed is None:
            await trio.sleep_forever()  # it was cut off: by a stop, which comes
        await self._parts.until(reply.began + reply.took)
        if reply.error is not None:
            raise _failure(reply.error)
        if reply.completion is None:
            raise _crash(reply.crashed)
        return reply.completion

    async def aclose(self) -> None:
        """Nothing is open."""


class PlayedTool(Tool):
    """A tool that says and gives what was recorded of the call. It runs nothing."""

    def __init__(self, name: str, planned: dict[str, Any], parts: Parts) -> None:
        for fact in FACTS:
            if fact in planned:
                setattr(self, fact, planned[fact])
        self.name = name
        self._parts = parts
        self._facts = Facts()

    def available(self, context: ToolContext) -> bool:
        """Find out which call this is."""
        self._facts = self._parts.call(context.call_id)
        return bool(self._facts.planned.get("available", True))

    def paths(self, arguments: dict[str, Any]) -> list[str]:
        """As it was said."""
        found = self._facts.planned.get("paths", [])
        if found is None:
            raise ValueError("it could not say")
        return list(found)

    def describe(self, arguments: dict[str, Any]) -> str:
        """As it was said."""
        return str(self._facts.planned.get("description", self.name))

    async def check(self, arguments: dict[str, Any] | None) -> str:
        """As it was said."""
        return self._facts.problem

    def command(self, arguments: dict[str, Any]) -> str:
        """As it was said."""
        return self._facts.command

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Diff | None:
        """As it was shown."""
        return self._facts.preview

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Give the recorded result."""
        facts = self._facts
        if not facts.planned:
            raise ToolError("The recording holds no result of this call")
        for after, delta, stream in facts.output:
            await self._parts.until(facts.began + after)
            context.output(delta, stream)
        if facts.result is None and facts.error is None and facts.crashed is None:
            await trio.sleep_forever()  # it was stopped, perhaps before it began
        await self._parts.until(facts.began + facts.took)
        if facts.error is not None:
            raise ToolError(facts.error)
        if facts.result is None:
            raise _crash(facts.crashed)
        return facts.result


def _decoded(about: dict[str, Any], type_: Callable[..., Any]) -> Any:
    """Again from JSON: what was kept as raw JSON becomes so again."""
    return msgspec.json.decode(msgspec.json.encode(about), type=type_)


def _failure(told: Failure) -> ProviderError:
    error = ProviderError(
        told.message, kind=told.kind, retryable=told.retryable, status=told.status,
        retry_after_ms=told.retry_after_ms, usage=told.usage,
    )  # fmt: skip
    if told.config_kind:
        error.__cause__ = ConfigError(told.message, told.config_kind)
    return error


def _crash(told: tuple[str, str] | None) -> Exception:
    name, text = told or ("RuntimeError", "")
    made: Exception = type(name, (Exception,), {})(text)
    return made
