"""The built-in agent: ask the model, run what it calls, ask again, until it answers.

It works with a :class:`~agentwire.agent.turn.Turn` as any other agent does and has no access that another has not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import UNSET, Raw, UnsetType

from agentwire.agent.prompt import system_prompt
from agentwire.agent.retry import error_info, schedule
from agentwire.agent.subagents import run_subagents
from agentwire.events import (
    CallArgumentsDelta,
    CallRef,
    CallStarted,
    ErrorInfo,
    SubagentTask,
    TextDelta,
    Usage,
)
from agentwire.provider.contract import Completion, ModelRequest, Provider, ProviderError, StreamEvent
from agentwire.tools.contract import SubagentReport, Tool, ToolContext
from agentwire.tools.function import tool

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

STEP_LIMIT = "Stopped after reaching the turn budget before the model produced a final answer."
NO_ANSWER = "The model finished without visible answer text after one retry."
MALFORMED_ROUNDS = 3
MALFORMED = "provider repeatedly returned tool-call malformed outputs ({n}/{n}); stopped to avoid wasting tokens"
EMPTY_BEFORE_FINAL = 2
"""Empty answers after which the model is asked once more, without tools."""


class Agent:
    """A model with tools.

    ``provider`` is a name (``"openai"``), a :class:`~agentwire.provider.contract.Provider`, or None for what the
    command line or :func:`agentwire.serve` says. ``tools`` (or functions that can be made into some) come before the
    built-in ones (``builtins=False``: they are all there is). ``max_steps`` bounds the model calls of one turn; 0 is
    no bound.
    """

    def __init__(
        self,
        provider: str | Provider | None = None,
        *,
        model: str = "",
        tools: Sequence[Tool | Callable[..., Any]] = (),
        builtins: bool = True,
        system_prompt: str = "",
        max_steps: int = 0,
        max_tokens: int | UnsetType = UNSET,
    ) -> None:
        self.provider = provider
        self.model = model
        self.tools = [entry if isinstance(entry, Tool) else tool(entry) for entry in tools]
        self.builtins = builtins
        self.system_prompt = system_prompt
        self.max_steps = max_steps
        self.max_tokens = max_tokens

    async def run(self, turn: Turn) -> None:
        """Answer one user input."""
        settings = turn.session.settings
        limit = self.max_steps if settings.max_steps is UNSET else settings.max_steps
        turn.instructions = settings.system_prompt or self.system_prompt
        if not turn.instructions:
            # Once a turn, not once a step: the prompt stays the same, and so does the service's cache of it.
            turn.instructions = await trio.to_thread.run_sync(system_prompt, turn.session.workspace)
        await self._answer(turn, limit, self.max_tokens)

    async def spawn(self, turn: Turn, tasks: list[SubagentTask]) -> list[SubagentReport]:
        """Run subagents for ``turn``, side by side; used by the Spawn tool."""
        return await run_subagents(turn, tasks, self._answer)

    async def _answer(self, turn: Turn, limit: int, max_tokens: int | UnsetType) -> None:
        malformed = empty = 0
        while True:
            if limit and turn.steps >= limit:
                return self._limit_reached(turn)
            completion = await self._step(turn, limit, max_tokens, tools=empty < EMPTY_BEFORE_FINAL)
            if completion is None:
                return None
            if completion.calls:
                malformed = malformed + 1 if all(not call.name for call in completion.calls) else 0
                if malformed >= MALFORMED_ROUNDS:
                    return turn.fail(ErrorInfo("provider_error", MALFORMED.format(n=malformed)))
                empty = 0
                turn.take_joined()
                continue
            if turn.take_joined():
                continue
            if completion.text.strip() or turn.session.policy.empty_answer == "end":
                return None
            empty += 1
            if empty > EMPTY_BEFORE_FINAL:
                return turn.fail(ErrorInfo("provider_error", NO_ANSWER, retryable=True))

    def _limit_reached(self, turn: Turn) -> None:
        turn.limit_reached = True
        if turn.session.policy.step_limit == "error":
            turn.fail(ErrorInfo("provider_error", STEP_LIMIT))

    async def _step(self, turn: Turn, limit: int, max_tokens: int | UnsetType, *, tools: bool) -> Completion | None:
        """One model call and the calls it makes. None: it failed, and the turn says so."""
        provider = turn.session.provider
        if provider is None:
            turn.fail(ErrorInfo("config_error", "No provider is configured for this agent."))
            return None
        turn.begin_step(limit)
        completion = await _complete(turn, provider, self._request(turn, max_tokens, tools=tools))
        if completion is None:
            return None
        calls, items = _own_ids(turn, completion)
        planned = [turn.plan(call) for call in calls]
        turn.finish_step(
            text=completion.text,
            reasoning=completion.reasoning,
            calls=calls,
            usage=completion.usage,
            finish_reason=completion.finish_reason,
            provider=provider.name,
            items=items,
        )
        if planned:
            await turn.run_calls(planned)
        return completion

    def _request(self, turn: Turn, max_tokens: int | UnsetType, *, tools: bool) -> ModelRequest:
        session = turn.session
        context = ToolContext(workspace=session.workspace, cache=turn.cache, image_input=session.model.image_input)
        limit = session.settings.max_tokens if session.settings.max_tokens is not UNSET else max_tokens
        if turn.origin:
            limit = max_tokens
        return ModelRequest(
            model=session.model.model,
            messages=turn.messages(),
            system="\n\n".join([turn.instructions, *turn.context]),
            tools=turn.toolbox.offered(context, spawn=not turn.origin) if tools else [],
            max_tokens=limit,
            thinking=session.model.thinking,
            thinking_budget=session.model.thinking_budget,
            effort=session.model.effort,
            session=session.id,
        )


class _Stream:
    """Takes what a provider tells: puts it into the log at once, and remembers whether an answer was shown."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.shown = False
        self.usage: Usage | UnsetType = UNSET
        self.ids: dict[str, str] = {}
        self._thread = threading.get_ident()

    def __call__(self, event: StreamEvent) -> None:
        """Take an event, from any thread."""
        if threading.get_ident() == self._thread:
            self._take(event)
        else:
            self._turn.in_own_thread(self._take, event)

    def _take(self, event: StreamEvent) -> None:
        # The class itself, not isinstance: nearly all there is are text deltas, and this is asked of each.
        if type(event) is TextDelta:
            if not isinstance(event.text, str):
                raise TypeError(f"a text delta must hold text, not {event.text!r}")
            self.shown = True
        elif isinstance(event, Usage):
            self.usage = event
            return
        elif isinstance(event, CallStarted):
            self.shown = True
            event.call_id = self._own_id(event.call_id)
            self._turn.open_calls[event.call_id] = event.name
        elif isinstance(event, CallArgumentsDelta):
            event.call_id = self.ids.get(event.call_id, event.call_id)
        self._turn.stream(event)

    def _own_id(self, given: str) -> str:
        self.ids[given] = own = self._turn.unique_call_id(given)
        return own


async def _complete(turn: Turn, provider: Provider, request: ModelRequest) -> Completion | None:
    """Send a request, again if that is right. None: the failure stands and was told."""
    attempt = 0
    while True:
        stream = _Stream(turn)
        answered = False
        try:
            completion = await provider.complete(request, stream)
            answered = True
        except ProviderError as error:
            attempt += 1
            if error.usage is not UNSET:
                stream.usage = error.usage
            retry = schedule(error, attempt, shown=stream.shown)
            if retry is None:
                turn.fail(error_info(error))
                return None
        else:
            turn.stream_ids = stream.ids
            return completion
        finally:
            # Also when stopped: what the service has counted so far is the turn's.
            if not answered and stream.usage is not UNSET:
                turn.add_usage(stream.usage)
        turn.retry(retry)
        await trio.sleep(retry.delay_ms / 1000)


def _own_ids(turn: Turn, completion: Completion) -> tuple[list[CallRef], list[Raw]]:
    """The completion's calls under ids that are unique in this session, in its verbatim blocks too."""
    renamed: dict[str, str] = {}
    calls = []
    for call in completion.calls:
        own = turn.stream_ids.pop(call.call_id, None) or turn.unique_call_id(call.call_id)
        if own != call.call_id:
            renamed[call.call_id] = own
        calls.append(CallRef(own, call.name, call.arguments_text))
    if not renamed:
        return calls, completion.items
    return calls, [_renamed(item, renamed) for item in completion.items]


def _renamed(item: Raw, names: dict[str, str]) -> Raw:
    block: Any = msgspec.json.decode(item)
    if not isinstance(block, dict) or block.get("id") not in names:
        return item
    block["id"] = names[block["id"]]
    return Raw(msgspec.json.encode(block))
