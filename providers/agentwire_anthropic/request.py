"""Builds the body of a Messages request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from agentwire.events import Image, Text, ToolSpec
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.provider import (
    ModelRequest,
    acceptable,
    extra_of,
    legal_id,
    legal_name,
    lenient,
    paired,
    prompt_parts,
)
from agentwire_anthropic.quirks import AnthropicQuirks

FAMILY = frozenset(("anthropic", "bedrock", "vertex"))
"""Providers that are sent Messages blocks; what the models sign is good with all of them."""

NO_TEXT = "(no text)"
"""Stands for a message without content, which the service refuses."""

GO_ON = "(the conversation so far was summarised; go on)"
"""Stands before a history that begins with the model's words."""

MIN_BUDGET = 1024
"""Least thinking budget that the service takes."""

DEFAULT_MAX_TOKENS = 8192
"""The service wants a limit; thinking comes on top of it."""

THOUGHTS = frozenset(("thinking", "redacted_thinking"))

Json = dict[str, Any]

_MARK = {"type": "ephemeral"}

_LONGEST = "1h"
_LIFETIMES = ("5m", _LONGEST)
"""How long what is marked may be kept."""

MARKS_OF_HOST = 2
"""As many as a host may set, the last ones: the service takes four in all."""


def build(request: ModelRequest, quirks: AnthropicQuirks, **head: Any) -> bytes:
    """The request as JSON: ``head``, what is asked, and the person's own fields. Images must have been loaded.

    ``head`` is what a service is told beside the question: the model, its version of the interface.
    """
    return lenient.encode(head | compose(request, quirks) | quirks.extra_body)


def compose(request: ModelRequest, quirks: AnthropicQuirks) -> Json:
    """What is asked: the fields that every service of the family takes."""
    messages = paired(request.messages)
    turns = _turns(messages)
    body: Json = {
        "max_tokens": request.max_tokens or quirks.max_tokens or DEFAULT_MAX_TOKENS,
        "messages": turns,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system}]
    if request.tools:
        body["tools"] = [_tool(tool, quirks) for tool in request.tools]
    elif used := _used_tools(messages):
        # Calls in the history are refused where no tool is defined; none of these can be called.
        body["tools"] = [_tool(tool, quirks) for tool in used]
        body["tool_choice"] = {"type": "none"}
    if request.thinking == "enabled" and not _unthinking(turns):
        budget = max(request.thinking_budget, MIN_BUDGET)
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        if not request.max_tokens or body["max_tokens"] <= budget:
            body["max_tokens"] += budget
    _mark(body, quirks)
    return body


def _turns(messages: Iterable[Message]) -> list[Json]:
    """The messages in the service's words: roles take turns, the user begins and has the last word."""
    turns: list[Json] = []
    for is_assistant, run in groupby(messages, lambda message: isinstance(message, AssistantMessage)):
        blocks = [block for message in run for block in _blocks(message)]
        role = "assistant" if is_assistant else "user"
        if is_assistant and not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": GO_ON}]})
    for turn in turns:
        # Results must come first; the stable sort leaves everything else in its order.
        turn["content"].sort(key=lambda block: block["type"] != "tool_result" if turn["role"] == "user" else 0)
        turn["content"] = turn["content"] or [{"type": "text", "text": NO_TEXT}]
    return turns


def _blocks(message: Message) -> Iterator[Json]:
    if isinstance(message, UserMessage):
        yield from map(_part, prompt_parts(message.parts))
    elif isinstance(message, ToolMessage):
        yield _result(message)
    elif message.items and message.provider in FAMILY:
        yield from _verbatim(message)
    else:
        yield from _made(message)


def _part(part: Text | Image) -> Json:
    if isinstance(part, Text):
        block: Json = {"type": "text", "text": part.text}
    else:
        block = {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": part.data}}
    if extra_of(part, "cache_control", "type") == _MARK["type"]:
        lifetime = extra_of(part, "cache_control", "ttl")
        block["cache_control"] = {**_MARK, "ttl": lifetime} if lifetime in _LIFETIMES else _MARK
    return block


def _result(message: ToolMessage) -> Json:
    content: list[Json] = [{"type": "text", "text": message.text}] if message.text.strip() else []
    content += map(_part, message.images)
    block: Json = {"type": "tool_result", "tool_use_id": legal_id(message.call_id), "content": content}
    return {**block, "is_error": True} if message.is_error else block


def _made(message: AssistantMessage) -> Iterator[Json]:
    if message.text.strip():
        yield {"type": "text", "text": message.text}
    for call in message.calls:
        yield {
            "type": "tool_use",
            "id": legal_id(call.call_id),
            "name": legal_name(call.name),
            "input": lenient.as_object(call.arguments_text) or {},
        }


def _verbatim(message: AssistantMessage) -> Iterator[Json]:
    """The reply's blocks as they came; only a call's id may have become another one since."""
    made = list(_made(message))
    calls = [block for block in made if block["type"] == "tool_use"]
    blocks: list[Json] = [msgspec.json.decode(item) for item in message.items]
    if sum(block.get("type") == "tool_use" for block in blocks) != len(calls):
        yield from (block for block in blocks if block.get("type") in THOUGHTS)
        yield from made
        return
    for block in blocks:
        if block.get("type") == "tool_use":
            yield {**block, **calls.pop(0)}
        elif block.get("type") != "text" or str(block.get("text", "")).strip():
            yield block


def _unthinking(turns: list[Json]) -> bool:
    """Whether the model is in the middle of its calls and began them without a thought.

    The service then refuses to think: an answer that thinks has to begin with it.
    """
    if len(turns) < 2 or turns[-1]["content"][0]["type"] != "tool_result":
        return False
    return turns[-2]["content"][0]["type"] not in THOUGHTS


def _used_tools(messages: Iterable[Message]) -> list[ToolSpec]:
    """Stand-ins for the tools that the history tells of."""
    calls = [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
    schema: Json = {"type": "object", "properties": {}}
    return [ToolSpec(name, "", schema) for name in sorted({legal_name(call.name) for call in calls})]


def _tool(tool: ToolSpec, quirks: AnthropicQuirks) -> Json:
    schema = acceptable(tool.parameters) if quirks.schema_cleanup else tool.parameters
    described = {"name": tool.name, "description": tool.description} if tool.description else {"name": tool.name}
    return {**described, "input_schema": schema}


def _mark(body: Json, quirks: AnthropicQuirks) -> None:
    """Up to four marks: behind the tools, the system prompt, and the last two user turns.

    What the host marked itself takes the place of the first two, for whatever stands before it is kept with it.
    """
    turns: list[Json] = body["messages"]
    hosts_own = list(_marked(turns))
    for block in hosts_own[:-MARKS_OF_HOST] if quirks.prompt_caching else hosts_own:
        del block["cache_control"]
    if not quirks.prompt_caching:
        return
    for name in ("tools", "system"):
        if name in body and not hosts_own:
            body[name][-1]["cache_control"] = _MARK
    for turn in [turn for turn in turns if turn["role"] == "user"][-2:]:
        turn["content"][-1] = {"cache_control": _MARK, **turn["content"][-1]}
    if hosts_own:
        _shorten(turns)


def _marked(turns: list[Json]) -> Iterator[Json]:
    """The blocks that are marked, in order, also those inside results."""
    for turn in turns:
        for block in turn["content"]:
            if block["type"] == "tool_result":
                yield from (inner for inner in block["content"] if "cache_control" in inner)
            if "cache_control" in block:
                yield block


def _shorten(turns: list[Json]) -> None:
    """Nothing is kept longer than what stands before it: the service refuses that."""
    short = False
    for block in _marked(turns):
        if short:
            block["cache_control"] = _MARK
        short = short or block["cache_control"].get("ttl") != _LONGEST
