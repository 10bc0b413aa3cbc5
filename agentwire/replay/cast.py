"""Those who play the parts of a recording: a model and tools that give what was given, at the time it was given.

Time is the recording's: microseconds since it began, on the event loop's own clock from :attr:`Parts.zero`. With a
clock that jumps while nobody has anything to do, hours pass in no time and yet in order.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import trio
from msgspec import Struct

from agentwire.agent.witness import FACTS, stands_in
from agentwire.commands import SessionState
from agentwire.events import Diff
from agentwire.provider.contract import Completion, Emit, ModelRequest, ProviderError
from agentwire.provider.hearing import Reading
from agentwire.recording import RecordingError
from agentwire.replay.places import Placed
from agentwire.replay.rereading import Reply, Reread, Rereading, reader
from agentwire.tools.contract import Tool, ToolContext, ToolError, ToolResult


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


class Told(Struct):
    """The set-up as a server was told it; what it makes of options and configuration is read later."""

    options: dict[str, Any] = {}
    config: dict[str, Any] = {}
    agent: str = ""
    sessions: str = ""
    workspace: str = ""
    notice: str = ""


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
        self.journals: dict[str, bytearray] = {}
        """Stored sessions, as they were when they were taken up."""
        self.stored: deque[list[SessionState]] = deque()
        """Which sessions were stored, each time that a host asked."""
        self.zero = 0.0
        """The event loop's time at which the recording begins."""
        self.differs: Callable[[Reply, Reread], None] = lambda reply, found: None
        """Told of a reply that is read otherwise than it was."""
        self.same_session: Callable[[str, str], bool] = lambda then, now: then == now
        """Whether a session of the recording is one of now."""
        self._readings: dict[str, Reading] = {}
        self._calls: dict[tuple[str, str], Facts] = {}
        self._by_call: dict[str, deque[Facts]] = {}
        self._by_name: dict[str, Facts] = {}

    def learn(self, place: Placed) -> None:
        """Take an entry. Raises :class:`agentwire.recording.RecordingError` for one that makes no sense."""
        about, entry = place.entry.about, place.entry
        try:
            if entry.who == "note" and "setup" in about:
                msgspec.convert(about["setup"], Told)
                self.setup = about["setup"]
            elif entry.who == "note" and "provider" in about:
                maker = msgspec.convert(about["provider"], Maker)
                self.makers.setdefault(maker.asked, maker)
            elif entry.who == "note" and "journal" in about:
                journal = self.journals.setdefault(msgspec.convert(about["journal"], str), bytearray())
                journal += "".join(about.get("lines", ())).encode() + base64.b64decode(about.get("base64", ""))
            elif entry.who == "note" and "stored" in about:
                self.stored.append(msgspec.convert(about["stored"], list[SessionState]))
            elif entry.who == "model":
                reply = _decoded(about, Reply)
                reply.began = entry.at - reply.took
                reply.line = place.line
                if (reading := reply.reading) is not None:
                    self._readings[repr(reading)] = reading
                self.replies[reply.request] = reply
            elif entry.who == "tool":
                self._learn_call(about, entry.at)
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
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

    def can_read(self) -> None:
        """Raise :class:`agentwire.recording.RecordingError` if there is nobody here who can read the replies."""
        for reading in self._readings.values():
            reader(reading)

    def next_reply(self, session: str) -> Reply | None:
        """The reply to a session's next request: of those that are left its first, else the first of all."""
        own = [number for number, reply in self.replies.items() if self.same_session(reply.session, session)]
        first = min(own or self.replies, default=0)
        return self.replies.pop(first, None)

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
        reply = self._parts.next_reply(request.session)
        if reply is None:
            raise ProviderError("The recording holds no reply to this request", kind="config")
        if (reading := reply.reading) is not None:
            again = Rereading(reply, self._parts.until, lambda found: self._parts.differs(reply, found))
            return await again.complete(reading, request, emit)
        for after, event in reply.heard():
            await self._parts.until(reply.began + after)
            emit(event)
        if reply.completion is None and reply.error is None and reply.crashed is None:
            await trio.sleep_forever()  # it was cut off: by a stop, which comes
        await self._parts.until(reply.began + reply.took)
        if reply.error is not None:
            raise reply.error.raised()
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


def _crash(told: tuple[str, str] | None) -> Exception:
    name, text = told or ("RuntimeError", "")
    made: Exception = type(name, (Exception,), {})(text)
    return made
