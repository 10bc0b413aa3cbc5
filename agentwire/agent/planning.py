"""A call before it is judged: which tool it is, what it touches, and what it may use when it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from agentwire.agent.toolbox import UNAVAILABLE
from agentwire.events import CallOutputDelta, CallReady, CallRef, Category, Location, Notice, SubagentTask
from agentwire.text import scrub
from agentwire.tools.contract import SubagentReport, Tool, ToolContext, ToolResult
from agentwire.tools.paths import inside, resolve

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

logger = logging.getLogger("agentwire.calls")

R = TypeVar("R")

LIVE_OUTPUT_LIMIT = 1024 * 1024
"""Characters of live output shown per call; the result is not affected."""

MALFORMED_NAME = (
    "Malformed tool call: empty function name. Issue the call again with the name of one of the available tools."
)
MALFORMED_ARGUMENTS = (
    "Malformed tool call: the arguments of '{name}' are not a JSON object. Issue the call again with valid arguments."
)


class PlannedCall:
    """One call of a step and how far it has come."""

    __slots__ = (
        "arguments", "barred", "category", "duration_ms", "malformed", "outside", "path", "ref", "result", "state",
        "tool",
    )  # fmt: skip

    def __init__(self, ref: CallRef, tool: Tool | None, arguments: dict[str, Any], category: Category) -> None:
        self.ref = ref
        self.tool = tool
        self.arguments = arguments
        self.category = category
        self.outside = False
        """One of its paths resolves to somewhere outside the workspace."""
        self.path = ""
        """The first path it names, resolved."""
        self.malformed = False
        """The model wrote it badly: it has no name, or its arguments are no object."""
        self.barred = False
        self.state: Literal["planned", "asked", "approved", "running", "done"] = "planned"
        self.result = ToolResult("")
        self.duration_ms: int | UnsetType = UNSET

    @property
    def overlaps(self) -> bool:
        """May run beside any other call."""
        return self.tool is None or self.tool.overlaps


def parse_arguments(text: str) -> dict[str, Any] | None:
    """The model's argument text as an object; None if it is none. Empty text is an empty object."""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def plan(turn: Turn, ref: CallRef) -> PlannedCall:
    """Find the tool of a call and show the call (``CallReady``)."""
    arguments = parse_arguments(ref.arguments_text)
    tool = turn.toolbox.find(ref.name)
    category: Category = tool.category if tool else "exec"
    call = PlannedCall(ref, tool, arguments or {}, category)
    call.malformed = not ref.name or arguments is None
    why = "" if ref.name else MALFORMED_NAME
    if arguments is None and turn.session.settings.max_bad_calls is not UNSET:
        why = why or MALFORMED_ARGUMENTS.format(name=ref.name)
    if not why and tool is not None and not ask_tool(tool, tool.available, False, context_for(turn, call)):
        why = UNAVAILABLE.format(name=ref.name)
    if why:
        call.barred, call.result = True, ToolResult(why, is_error=True)
    locations = []
    paths = ask_tool(tool, tool.paths, None, call.arguments) if tool else []
    if paths is None:  # a tool that cannot say where it goes may go anywhere
        call.outside = True
    for given in paths or ():
        where = resolve(turn.session.workspace, given)
        locations.append(Location(scrub(str(where))))
        call.path = call.path or scrub(str(where))
        call.outside = call.outside or not inside(turn.session.workspace, where)
    turn.say(
        CallReady(
            ref.call_id,
            ref.name,
            ref.arguments_text,
            UNSET if arguments is None else Raw(msgspec.json.encode(arguments, order="sorted")),
            category,
            scrub(ask_tool(tool, tool.describe, ref.name, call.arguments)) if tool else "",
            locations,
            call.barred,
        )
    )
    turn.open_calls[ref.call_id] = ref.name
    return call


def ask_tool(tool: Tool, method: Callable[..., R], otherwise: R, *arguments: object) -> R:
    """What a tool says of itself; ``otherwise`` if it cannot: its bug is no reason to lose the turn."""
    try:
        return method(*arguments)
    except Exception:  # anybody's tool
        logger.exception("the tool %s does not keep to the contract", tool.name)
        return otherwise


def context_for(turn: Turn, call: PlannedCall, *, live: bool = False) -> ToolContext:
    """What a call may use. ``live``: it is about to run, and may be shown, leave the workspace and ask the host."""

    async def spawn(tasks: list[SubagentTask]) -> list[SubagentReport]:
        return await turn.toolbox.spawn(turn, tasks)

    async def call_host(name: str, arguments: dict[str, Any]) -> ToolResult:
        return await turn.toolbox.host.request(turn, call.ref.call_id, name, arguments)

    session = turn.session
    tracer = session.tracer
    trace = tracer.headers(call.ref.call_id) if live and tracer is not None else {}
    return ToolContext(
        workspace=session.workspace,
        cache=turn.cache,
        # A running call was allowed to go where it said it would; if that has moved since, the tool refuses.
        outside_allowed=live and call.outside,
        image_input=session.model.image_input,
        compaction=session.model.compaction,
        output=_LiveOutput(turn, call.ref.call_id) if live else None,
        spawn=spawn if turn.toolbox.can_spawn(turn) else None,
        delegates=turn.delegates,
        call_host=call_host if live else None,
        call_id=call.ref.call_id,
        session=session.id,
        trace=trace,
    )


class _LiveOutput:
    """Shows what a running tool prints, up to the limit."""

    def __init__(self, turn: Turn, call_id: str) -> None:
        self._turn = turn
        self._call_id = call_id
        self._left = LIVE_OUTPUT_LIMIT

    def __call__(self, delta: str, stream: str) -> None:
        """Take a piece, from any thread; ``stream`` is ``stdout`` or ``stderr``."""
        self._turn.in_own_thread(self._show, delta, stream)

    def _show(self, delta: str, stream: str) -> None:
        if self._left <= 0 or not delta or self._call_id not in self._turn.open_calls:
            return
        delta = scrub(delta)[: self._left]
        self._left -= len(delta)
        self._turn.say(CallOutputDelta(self._call_id, delta, stream))
        if self._left <= 0:
            self._turn.say(Notice("Live output of this call stops here; its result follows when it is done."))
