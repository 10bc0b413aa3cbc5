"""Host tools: what the host runs for the agent, and the requests that wait for it.

The model is offered them like any tool. A call is checked against the schema that the host declared, judged, asked
about if need be, and then put to the host (``HostToolRequested``); the host's answer is the call's result. A request
is withdrawn (``HostToolCancelled``) when its turn is stopped or the host is gone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio
from msgspec import UNSET, Raw, UnsetType

from agentwire.events import Category, HostTool, HostToolCancelled, HostToolRequested, Image, Part, Text
from agentwire.tools.contract import Gate, Tool, ToolContext, ToolError, ToolResult

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

Withdrawal = Literal["stopped", "client_gone"]
"""Why the host need not answer any more."""

GATES: dict[str, Gate] = {"read": "free", "actuator": "always", "": "judged"}
"""Who is asked about a call, by what the tool is declared to do. Where the host decides itself nobody is."""

MISMATCH = "arguments for host tool '{name}' do not match its schema: {problem}"
WITHDRAWN: dict[Withdrawal, str] = {
    "stopped": "host tool '{name}' was cancelled before it answered",
    "client_gone": "host tool '{name}' was not answered: the client is gone",
}
"""What the model reads, if it reads on."""

IMAGE = "(image)"
"""What stands for the text of a result that has none."""

_NUMBERS = itertools.count(1)
"""Request ids are never used twice in a process, whichever session asks."""


class HostTools:
    """The host tools of one session."""

    __slots__ = ("_waiting", "absent", "declared", "owner_is_host", "tools")

    def __init__(self, *, owner_is_host: bool = False) -> None:
        self.owner_is_host = owner_is_host
        """The host itself decides about calls of its tools. Takes effect with the next :meth:`set`."""
        self.declared: list[HostTool] = []
        self.tools: dict[str, Tool] = {}
        """By the name that the model knows."""
        self.absent = False
        """There is no host to answer: every request is withdrawn at once."""
        self._waiting: dict[str, _Request] = {}

    def set(self, tools: Iterable[HostTool]) -> None:
        """Replace the set. Between turns: a call under way keeps the tool it found."""
        self.declared = list(tools)
        self.tools = {tool.name: HostToolCall(tool, owner_is_host=self.owner_is_host) for tool in self.declared}

    # --- requests ---

    def pending(self, request_id: str) -> bool:
        """Whether that request waits for an answer."""
        request = self._waiting.get(request_id)
        return request is not None and not request.turn.cancelled

    @property
    def open(self) -> list[str]:
        """Ids of the requests that wait, oldest first."""
        return list(self._waiting)

    def answer(
        self, request_id: str, content: Sequence[Part], is_error: bool = False, details: Raw | UnsetType = UNSET
    ) -> Literal["settled", "unknown"]:
        """Give a request its result. ``unknown``: it was answered, withdrawn or never made."""
        request = self._waiting.get(request_id)
        if request is None or request.turn.cancelled:  # what is being stopped is withdrawn in a moment
            return "unknown"
        del self._waiting[request_id]
        request.settle(_result(content, is_error, details))
        return "settled"

    def withdraw_all(self, reason: Withdrawal, turn: Turn | None = None) -> None:
        """Withdraw every request that waits, or those of one turn, oldest first."""
        for request_id, request in list(self._waiting.items()):
            if turn is None or request.turn is turn:
                self._withdraw(request_id, reason)

    async def request(self, turn: Turn, call_id: str, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Have the host run its tool ``name`` and wait for the result.

        Raises :class:`~agentwire.tools.contract.ToolError` if the request is withdrawn and the turn goes on.
        """
        request_id = f"host-{next(_NUMBERS)}"
        # Before the host can read of it: a fast one finds it waiting.
        self._waiting[request_id] = request = _Request(turn, call_id)
        try:
            raw = Raw(msgspec.json.encode(arguments, order="sorted"))
            turn.say(HostToolRequested(request_id, call_id, name, raw, turn.origin))
            if self.absent:
                self._withdraw(request_id, "client_gone")
            await request.settled.wait()
        finally:
            self._withdraw(request_id, "stopped")
        if request.withdrawn:
            raise ToolError(WITHDRAWN[request.withdrawn].format(name=name))
        return request.result

    def _withdraw(self, request_id: str, reason: Withdrawal) -> None:
        request = self._waiting.pop(request_id, None)
        if request is None:
            return
        request.withdrawn = reason
        request.settled.set()
        if not request.turn.over:
            request.turn.say(HostToolCancelled(request_id, reason, request.call_id))


class _Request:
    """A call that waits for the host."""

    __slots__ = ("call_id", "result", "settled", "turn", "withdrawn")

    def __init__(self, turn: Turn, call_id: str) -> None:
        self.turn = turn
        self.call_id = call_id
        self.settled = trio.Event()
        self.result = ToolResult("")
        self.withdrawn: Withdrawal | Literal[""] = ""

    def settle(self, result: ToolResult) -> None:
        self.result = result
        self.settled.set()


def _result(content: Sequence[Part], is_error: bool, details: Raw | UnsetType) -> ToolResult:
    text = "\n".join(part.text for part in content if isinstance(part, Text))
    images = [part for part in content if isinstance(part, Image)]
    return ToolResult(text or (IMAGE if images else ""), is_error, images=images, details=details)


class HostToolCall(Tool):
    """One host tool as a tool of the agent."""

    category: Category = "mcp"
    output_limit = 0

    def __init__(self, declared: HostTool, *, owner_is_host: bool = False) -> None:
        self.name = declared.name
        self.declared = declared.declared or declared.name
        """The host's own name for it."""
        self.description = declared.description
        self.parameters = declared.parameters
        self.overlaps = declared.capability == "read"
        self.gate = "free" if owner_is_host else GATES[declared.capability]
        self._problem: Callable[[Any], str] | None = None

    async def check(self, arguments: dict[str, Any] | None) -> str:
        """Check the arguments against the schema as the host declared it."""
        if self._problem is None:
            self._problem = await trio.to_thread.run_sync(_checker, self.parameters)
        problem = self._problem(arguments)
        return MISMATCH.format(name=self.declared, problem=problem) if problem else ""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Ask the host."""
        if context.call_host is None:
            raise ToolError(WITHDRAWN["client_gone"].format(name=self.declared))
        return await context.call_host(self.declared, arguments)


def _checker(schema: dict[str, Any]) -> Callable[[Any], str]:
    """Made on a worker thread: the library takes a moment to import."""
    from agentwire.tools.schema_check import checker

    return checker(schema)
