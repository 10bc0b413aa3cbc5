"""Compaction: when the window nears its end the model itself summarises what came before.

The system prompt, prior context and the last messages stay; what is summarised is told to the model as text, long
results cut, so that the request for the summary fits where the conversation does not. A call is never parted from its
result. The log keeps everything: only the fold of it that the next request is made from begins with the summary.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
import trio
from msgspec import UNSET

from agentwire.agent.retry import schedule
from agentwire.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    Image,
    Part,
    RequestSent,
    Text,
    Usage,
)
from agentwire.messages import Message, ToolMessage, UserMessage
from agentwire.provider.contract import ModelRequest, Provider, ProviderError, StreamEvent
from agentwire.tools.output import truncate

if TYPE_CHECKING:
    from agentwire.agent.turn import Turn

logger = logging.getLogger("agentwire.compaction")

Reason = Literal["preflight", "context_overflow"]
"""The next request would come too near to the window's end, or the service refused it as too long."""

CHARACTERS_PER_TOKEN = 4
IMAGE_TOKENS = 1_500
LARGEST_RESERVE = 33_000
"""Tokens of the window that a request leaves free, at most; of a small window a sixth."""
KEPT_SHARE = 4
"""Of the window, the last messages keep one part in so many."""
LEAST_GAIN = 10
"""What is summarised must be at least one part in so many of the conversation."""
SUMMARY_TOKENS = 8_000
PIECES = (4_000, 1_000, 250)
"""Characters of each message that the model is shown to summarise; the first that fits."""
LAST_REQUEST = 8_000
"""Characters of the user's last request that are kept word for word."""
SHORTENINGS = 3
"""How often the request for the summary is halved if it is too long itself."""

INSTRUCTIONS = """\
You are given the record of a conversation between a user and an assistant that works with tools. It has grown too \
long, and your summary will stand in its place: the assistant goes on with nothing else. Write what it needs to go on \
without a break: what the user wants, word for word where wording matters; decisions and their reasons; what was done \
and how it went; files, commands, names, numbers and identifiers that matter; errors met and how they were overcome; \
what is under way and what comes next. Leave out what no longer matters. Write plain text, no preamble."""

HEADING = "[The conversation so far was summarised because it had grown too long]"
REQUEST_HEADING = "[The user's last request before this point, word for word]"
NO_SUMMARY = "the model gave no summary"
STOPPED = "stopped"


def tokens_of(message: Message) -> int:
    """About how many tokens a message is."""
    if isinstance(message, UserMessage):
        return _parts_tokens(message.parts)
    if isinstance(message, ToolMessage):
        return len(message.text) // CHARACTERS_PER_TOKEN + IMAGE_TOKENS * len(message.images) + 8
    called = sum(len(call.name) + len(call.arguments_text) for call in message.calls)
    said = max(len(message.text) + called, sum(len(bytes(item)) for item in message.items))
    return said // CHARACTERS_PER_TOKEN + 8


def _parts_tokens(parts: Sequence[Part]) -> int:
    text = sum(len(part.text) for part in parts if isinstance(part, Text))
    return text // CHARACTERS_PER_TOKEN + IMAGE_TOKENS * sum(isinstance(part, Image) for part in parts) + 8


def reserve(window: int, max_tokens: int) -> int:
    """Tokens of the window that a request must leave free: for the reply, and for estimates that are too low."""
    return max(min(LARGEST_RESERVE, window // 6), min(max_tokens, window // 2))


def is_due(request: ModelRequest, counted: tuple[int, int], window: int) -> bool:
    """Whether a request comes too near to the end of the window (tokens).

    ``counted``: what the service itself counted for the conversation's last request with its reply, and how many
    messages that was; what came since is estimated, and all of it if it counted nothing.
    """
    tokens, messages = counted
    if not tokens:
        messages = 0
        tokens = (len(request.system) + len(msgspec.json.encode(request.tools))) // CHARACTERS_PER_TOKEN
    tokens += sum(map(tokens_of, request.messages[messages:]))
    limit = 0 if request.max_tokens is UNSET else request.max_tokens
    return tokens > window - reserve(window, limit)


def first_kept(messages: Sequence[Message], budget: int) -> int:
    """Index of the first message that stays, so that about ``budget`` tokens do; 0: nothing can be summarised.

    Whole turns if any fit, else whole steps; the last step stays in any case.
    """
    kept, cut = 0, len(messages)
    for index in range(len(messages) - 1, -1, -1):
        kept += tokens_of(messages[index])
        if kept > budget and cut < len(messages):
            break
        if not isinstance(messages[index], ToolMessage):
            cut = index
    turns = (index for index in range(cut, len(messages)) if isinstance(messages[index], UserMessage))
    cut = next(turns, cut)
    gone, whole = sum(map(tokens_of, messages[:cut])), sum(map(tokens_of, messages))
    return cut if gone * LEAST_GAIN >= whole else 0


def transcript(messages: Sequence[Message], limit: int) -> str:
    """Messages as text of at most about ``limit`` characters."""
    text = ""
    for longest in PIECES:
        text = "\n\n".join(_told(message, longest) for message in messages)
        if len(text) <= limit:
            return text
    return truncate(text, limit)


def _told(message: Message, longest: int) -> str:
    if isinstance(message, UserMessage):
        return f"USER: {truncate(_text_of(message), longest)}"
    if isinstance(message, ToolMessage):
        return f"{'ERROR' if message.is_error else 'RESULT'} of {message.name}: {truncate(message.text, longest)}"
    calls = [f"CALL of {call.name}: {truncate(call.arguments_text, longest)}" for call in message.calls]
    return "\n".join([*([f"ASSISTANT: {truncate(message.text, longest)}"] if message.text else []), *calls])


def _text_of(message: UserMessage) -> str:
    return "\n".join(
        part.text if isinstance(part, Text) else f"({type(part).__name__.lower()})" for part in message.parts
    )


async def compact(turn: Turn, provider: Provider, reason: Reason, window: int) -> bool:
    """Have the model summarise the beginning of a turn's conversation. False: there was nothing to gain, or it failed,
    and the history stays as it was.
    """
    messages = turn.messages()
    whole = sum(map(tokens_of, messages))
    cut = first_kept(messages, min(window or whole, whole) // KEPT_SHARE)
    if not cut:
        return False
    turn.say(CompactionStarted(reason))
    problem = STOPPED
    try:
        summary = await _summary(turn, provider, messages[:cut], (min(window, whole) if window else whole) // 2)
        problem = "" if summary else NO_SUMMARY
    except ProviderError as error:
        problem = error.message
    finally:
        if problem:
            turn.say(CompactionFailed(reason, problem))
    if problem:
        turn.can_compact = False  # or each of the turn's steps would try in vain
        return False
    requests = [message for message in messages[:cut] if isinstance(message, UserMessage)]
    text = f"{HEADING}\n\n{summary}"
    if requests and not any(isinstance(message, UserMessage) for message in messages[cut:]):
        text += f"\n\n{REQUEST_HEADING}\n\n{truncate(_text_of(requests[-1]), LAST_REQUEST)}"
    turn.say(CompactionFinished(reason, text, len(messages) - cut, cut))
    turn.cache.forget_contents()
    return True


async def _summary(turn: Turn, provider: Provider, messages: Sequence[Message], tokens: int) -> str:
    limit = max(1_000, tokens * CHARACTERS_PER_TOKEN)
    shortened = attempt = 0
    while True:
        request = ModelRequest(
            model=turn.session.model.model,
            messages=[UserMessage([Text(transcript(messages, limit))])],
            system=INSTRUCTIONS,
            max_tokens=SUMMARY_TOKENS,
            session=turn.session.id,
        )
        heard = _Heard(turn)
        answered = False
        try:
            completion = await provider.complete(request, heard)
            answered = True
            turn.add_usage(heard.usage if completion.usage is UNSET else completion.usage)
            return completion.text.strip()
        except ProviderError as error:
            if error.usage is not UNSET:
                heard.usage = error.usage
            if error.kind == "context" and shortened < SHORTENINGS:
                shortened += 1
                limit //= 2
                continue
            attempt += 1
            retry = schedule(error, attempt, shown=False)
            if retry is None:
                raise
        finally:
            # Also when stopped: what the service has counted so far is the turn's.
            if not answered:
                turn.add_usage(heard.usage)
        turn.retry(retry)
        await trio.sleep(retry.delay_ms / 1000)


class _Heard:
    """Takes what a provider tells of the request for a summary: nobody is shown its text, but that it was sent."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.usage = Usage()

    def __call__(self, event: StreamEvent) -> None:
        """Take an event, from any thread."""
        if isinstance(event, Usage):
            self.usage = event
        elif isinstance(event, RequestSent):
            self._turn.say(event)
