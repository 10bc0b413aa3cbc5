"""Builds the body of a Chat Completions request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from agentwire.events import Image, Text, ToolSpec
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.provider import ModelRequest, acceptable, extra_of, legal_name, lenient, paired, prompt_parts
from agentwire_openai.quirks import OpenAIQuirks
from agentwire_openai.stream import Item

PROVIDER = "openai"
NO_TEXT = "(no text)"
"""Stands for a message without content, which services refuse."""

DETAILS = ("auto", "low", "high", "original")
"""How closely an image can be looked at."""

Json = dict[str, Any]

_items = msgspec.json.Decoder(Item)


def build(request: ModelRequest, quirks: OpenAIQuirks, max_tokens_field: str) -> bytes:
    """The request as JSON. Images must have been loaded."""
    messages = _messages(paired(request.messages), request.model, quirks)
    body: Json = {"model": request.model, "messages": [], "stream": True}
    if request.system.strip():
        body["messages"].append({"role": quirks.system_role, "content": request.system})
    body["messages"] += _merged(messages) if quirks.merge_messages else messages
    if quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    limit = request.max_tokens or quirks.max_tokens
    if limit:
        body[max_tokens_field] = limit
    if request.tools:
        body["tools"] = [_tool(tool, quirks) for tool in request.tools]
    if request.effort:
        body["reasoning_effort"] = request.effort
    if request.thinking:
        body["thinking"] = {"type": request.thinking}
    return lenient.encode(body | quirks.extra_body)


def _messages(messages: Iterable[Message], model: str, quirks: OpenAIQuirks) -> Iterator[Json]:
    for kind, run in groupby(messages, type):
        if kind is ToolMessage:
            yield from _results([message for message in run if isinstance(message, ToolMessage)])
            continue
        for message in run:
            if isinstance(message, UserMessage):
                yield {"role": "user", "content": _content(prompt_parts(message.parts))}
            elif isinstance(message, AssistantMessage) and (message.calls or message.text.strip()):
                yield _assistant(message, model, quirks)


def _merged(messages: Iterable[Json]) -> Iterator[Json]:
    """Neighbouring messages of the user as one, for services that want user and assistant to take turns."""
    for role, run in groupby(messages, lambda message: message["role"]):
        if role != "user":
            yield from run
            continue
        contents = [message["content"] for message in run]
        if all(isinstance(content, str) for content in contents):
            yield {"role": "user", "content": "\n".join(contents)}
        else:
            yield {"role": "user", "content": [part for content in contents for part in _as_parts(content)]}


def _as_parts(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _content(parts: list[Text | Image]) -> str | list[Json]:
    if any(isinstance(part, Image) for part in parts):
        return [_part(part) for part in parts]
    return "\n".join(part.text for part in parts if isinstance(part, Text)) or NO_TEXT


def _part(part: Text | Image) -> Json:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    url = {"url": f"data:{part.mime_type};base64,{part.data}"}
    detail = image_detail(part)
    return {"type": "image_url", "image_url": {**url, "detail": detail} if detail else url}


def image_detail(image: Image) -> str:
    """How closely the model is to look at an image, as the host said it; ``""``: it did not, or in no known word."""
    detail = extra_of(image, "image_url", "detail")
    return detail if detail in DETAILS else ""


def _results(messages: list[ToolMessage]) -> Iterator[Json]:
    """Results in one row, then their images: a tool message cannot hold any, and nothing may come between."""
    seen: list[Text | Image] = []
    for message in messages:
        yield {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        if message.images:
            seen += [Text(f"Images from the result of {legal_name(message.name)}:"), *message.images]
    if seen:
        yield {"role": "user", "content": _content(seen)}


def _assistant(message: AssistantMessage, model: str, quirks: OpenAIQuirks) -> Json:
    text = message.text if message.text.strip() else None
    if not message.calls:
        return {"role": "assistant", "content": text}
    item = _item(message, model)
    result: Json = {"role": "assistant", "content": text}
    field = quirks.reasoning_field
    if field == "auto":
        field = "reasoning_content" if item.reasoning_content else ""
    if field and message.reasoning:
        result[field] = message.reasoning
    result["tool_calls"] = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": legal_name(call.name), "arguments": lenient.object_text(call.arguments_text)},
        }
        for call in message.calls
    ]
    for call, extra in zip(result["tool_calls"], item.extra_content, strict=False):
        if extra is not None:
            call["extra_content"] = extra
    return result


def _item(message: AssistantMessage, model: str) -> Item:
    """What must go back with the calls, if this model made them."""
    if message.provider == PROVIDER and message.items:
        try:
            item = _items.decode(message.items[0])
        except msgspec.DecodeError:
            return Item(model)  # another make of provider under our name
        if item.model == model and len(item.extra_content) in (0, len(message.calls)):
            return item
    return Item(model)


def _tool(tool: ToolSpec, quirks: OpenAIQuirks) -> Json:
    schema = acceptable(tool.parameters) if quirks.schema_cleanup else tool.parameters
    described = {"name": tool.name, "description": tool.description} if tool.description else {"name": tool.name}
    return {"type": "function", "function": {**described, "parameters": schema}}
