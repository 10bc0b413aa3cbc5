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

from agentwire.agent.compaction import compact, is_due
from agentwire.agent.guard import FailureGuard
from agentwire.agent.planning import PlannedCall
from agentwire.agent.prompt import system_prompt
from agentwire.agent.retry import error_info, schedule
from agentwire.agent.subagents import delegation, run_subagents
from agentwire.events import (
    CallArgumentsDelta,
    CallRef,
    CallStarted,
    ErrorInfo,
    Notice,
    Parked,
    SubagentTask,
    TextDelta,
    Usage,
)
from agentwire.provider.contract import Completion, ModelRequest, Provider, ProviderError, StreamEvent
from agentwire.tools.contract import SubagentReport, Tool, ToolContext
from agentwire.tools.function import tool

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

NO_PROGRESS = (
    "Tool execution repeatedly failed without making progress. Review the latest tool errors and try again after "
    "resolving the blocker."
)
NOT_RUN = "Not run: no tools were offered for this last answer"
PUT_BACK = "The model wrote a tool call badly ({names}); it was put back to it."
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
        turn.instructions = _named(turn) or settings.system_prompt or self.system_prompt
        if not turn.instructions:
            # Once a turn, not once a step: the prompt stays the same, and so does the service's cache of it.
            turn.instructions = await trio.to_thread.run_sync(system_prompt, turn.session.workspace)
        if not turn.session.policy.delegates:
            return await self._answer(turn, limit, self.max_tokens)
        async with delegation(turn, self._answer_beside):
            await self._answer(turn, limit, self.max_tokens)

    async def spawn(self, turn: Turn, tasks: list[SubagentTask]) -> list[SubagentReport]:
        """Run subagents for ``turn``, side by side; used by the Spawn tool."""
        return await run_subagents(turn, tasks, self._answer)

    async def _answer_beside(self, turn: Turn, limit: int, max_tokens: int | UnsetType) -> None:
        """Answer as a delegate: it is told things while it works, and its replies are as long as the agent's own."""
        await self._answer(turn, limit, self.max_tokens if max_tokens is UNSET else max_tokens)

    async def _answer(self, turn: Turn, limit: int, max_tokens: int | UnsetType) -> None:
        policy = turn.session.policy
        if policy.failing_calls == "guard":
            turn.guard = FailureGuard()
        bad, empty, last = BadCalls(turn), 0, ""
        while True:
            if limit and turn.steps >= limit:
                return await self._at_limit(turn, limit, max_tokens)
            completion = await self._step(turn, limit, max_tokens, tools=not last, bad=bad)
            if completion is None or bad.too_many():
                return None
            if completion.calls and not last:
                empty = 0
                if turn.guard is not None and turn.guard.hopeless:
                    last = NO_PROGRESS
                turn.take_joined()
                continue
            if await _something_joined(turn):
                last = ""
                if turn.guard is not None:
                    turn.guard = FailureGuard()
                continue
            if completion.text.strip() or (not last and policy.empty_answer == "end"):
                return None
            empty += 1
            if last:
                return turn.fail(ErrorInfo("provider_error", last, retryable=last == NO_ANSWER))
            if empty >= EMPTY_BEFORE_FINAL:
                last = NO_ANSWER

    async def _at_limit(self, turn: Turn, limit: int, max_tokens: int | UnsetType) -> None:
        if turn.session.policy.step_limit == "one_more":
            completion = await self._step(turn, limit, max_tokens, tools=False)
            if completion is None or not completion.calls:
                return
        turn.limit = "steps"
        if turn.session.policy.step_limit == "error":
            turn.fail(ErrorInfo("provider_error", STEP_LIMIT))

    async def _step(
        self, turn: Turn, limit: int, max_tokens: int | UnsetType, *, tools: bool, bad: BadCalls | None = None
    ) -> Completion | None:
        """One model call and the calls it makes, which without ``tools`` are not run.

        None: it failed, and the turn says so.
        """
        provider = turn.session.provider
        if provider is None:
            turn.fail(ErrorInfo("config_error", "No provider is configured for this agent."))
            return None
        await trio.lowlevel.checkpoint_if_cancelled()  # a turn that was stopped a moment ago begins no step
        turn.begin_step(limit)
        completion = await _complete(turn, provider, lambda: self._request(turn, max_tokens, tools=tools))
        if completion is None:
            return None
        calls, items = _own_ids(turn, completion)
        planned = [turn.plan(call) for call in calls] if tools else []
        turn.finish_step(
            text=completion.text,
            reasoning=completion.reasoning,
            calls=calls,
            usage=completion.usage,
            finish_reason=completion.finish_reason,
            provider=provider.name,
            items=items,
        )
        if not tools:
            turn.close_calls("stopped", NOT_RUN, NOT_RUN)
        if planned:
            await turn.run_calls(planned)
            if bad is not None:
                bad.count(planned)
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


def _named(turn: Turn) -> str:
    """The instructions of the agent that the prompt named, or of the first one; ``""`` if the session has none."""
    agents = turn.session.settings.agents
    return agents.get(turn.agent, "") if turn.agent else next(iter(agents.values()), "")


async def _something_joined(turn: Turn) -> bool:
    """Whether there is more to answer: what the user added, or the report of a subagent, which is waited for."""
    if turn.take_joined():
        return True
    if turn.delegates is None or not turn.delegates.working:
        return False
    turn.say(Parked())
    while turn.delegates.working:
        await turn.news.wait()
        if turn.take_joined():
            return True
    return False


class BadCalls:
    """Counts the steps of a turn in which the model wrote a call badly, and says when it is to be given up."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._bound = turn.session.settings.max_bad_calls
        self._steps = self._in_a_row = 0

    def count(self, calls: Sequence[PlannedCall]) -> None:
        """These are a step's calls. With a bound set, the person at the host is told of each one put back."""
        badly = [call for call in calls if call.malformed]
        self._steps += bool(badly)
        self._in_a_row = self._in_a_row + 1 if all(not call.ref.name for call in calls) else 0
        if badly and self._bound is not UNSET and self._steps <= self._bound:
            names = ", ".join(repr(call.ref.name) for call in badly)
            self._turn.say(Notice(PUT_BACK.format(names=names), "warning"))

    def too_many(self) -> bool:
        """Whether the turn ends here; then it says so."""
        if self._bound is not UNSET:
            if self._steps > self._bound:
                self._turn.limit = "bad_calls"
            return self._steps > self._bound
        if self._in_a_row >= MALFORMED_ROUNDS:
            self._turn.fail(ErrorInfo("provider_error", MALFORMED.format(n=self._in_a_row)))
        return self._in_a_row >= MALFORMED_ROUNDS


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


async def _complete(turn: Turn, provider: Provider, make: Callable[[], ModelRequest]) -> Completion | None:
    """Send a request, again if that is right. None: the failure stands and was told.

    A history that has grown too long is compacted: once before, if the window is known, and once when the service
    says so; then the request is made anew.
    """
    attempt = 0
    window = turn.session.settings.context_window
    request = make()
    due = window and turn.can_compact and is_due(request, turn.counted, window)
    if due and await compact(turn, provider, "preflight", window):
        request = make()
    compacted = False
    while True:
        stream = _Stream(turn)
        answered = False
        retry = None
        try:
            if turn.session.tracer is not None:
                request.headers = turn.session.tracer.headers(origin=turn.origin)
            completion = await provider.complete(request, stream)
            answered = True
        except ProviderError as error:
            failure = error
            attempt += 1
            if error.usage is not UNSET:
                stream.usage = error.usage
            retry = schedule(error, attempt, shown=stream.shown)
        else:
            turn.stream_ids = stream.ids
            return completion
        finally:
            # Also when stopped: what the service has counted so far is the turn's.
            if not answered and stream.usage is not UNSET:
                turn.add_usage(stream.usage)
        if retry is not None:
            turn.retry(retry)
            await trio.sleep(retry.delay_ms / 1000)
        elif (
            failure.kind == "context"
            and not compacted
            and not stream.shown
            and (await compact(turn, provider, "context_overflow", window))
        ):
            compacted = True
            request = make()
        else:
            turn.fail(error_info(failure))
            return None


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
