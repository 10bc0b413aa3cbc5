"""Builds the body of a Responses request: stateless, so that the service keeps nothing and the history is ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from agentwire.events import Image, Text, ToolSpec
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.provider import ModelRequest, acceptable, legal_name, lenient, paired, prompt_parts
from agentwire_openai.quirks import OpenAIQuirks
from agentwire_openai.request import NO_TEXT, PROVIDER, image_detail
from agentwire_openai.responses_stream import Head

Json = dict[str, Any]

ENCRYPTED_REASONING = "reasoning.encrypted_content"

_NOT_REASONING = re.compile(r"(?:^|[/:])(?:gpt-3|gpt-4|chatgpt-)|-chat(?:-|$)", re.IGNORECASE)
"""In the names of OpenAI's models that refuse a request for encrypted reasoning."""

_head = msgspec.json.Decoder(Head)


def build(request: ModelRequest, quirks: OpenAIQuirks) -> bytes:
    """The request as JSON. Images must have been loaded."""
    body: Json = {
        "model": request.model,
        "input": list(_items(paired(request.messages), request.model)),
        "stream": True,
        "store": False,
    }
    if request.system.strip():
        body["instructions"] = request.system
    if _asks_for_reasoning(request.model, quirks):
        body["include"] = [ENCRYPTED_REASONING]
    if limit := request.max_tokens or quirks.max_tokens:
        body["max_output_tokens"] = limit
    if request.tools:
        body["tools"] = [_tool(tool, quirks) for tool in request.tools]
    summary = quirks.reasoning_summary or ("auto" if request.thinking == "enabled" else "")
    reasoning = {name: value for name, value in (("effort", request.effort), ("summary", summary)) if value}
    if reasoning:
        body["reasoning"] = reasoning
    return lenient.encode(body | quirks.extra_body)


def _asks_for_reasoning(model: str, quirks: OpenAIQuirks) -> bool:
    if quirks.encrypted_reasoning is None:
        return not _NOT_REASONING.search(model)
    return quirks.encrypted_reasoning


def _items(messages: Iterable[Message], model: str) -> Iterator[Json]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield {"role": "user", "content": _content(prompt_parts(message.parts)) or NO_TEXT}
        elif isinstance(message, ToolMessage):
            said = [Text(message.text)] if message.text.strip() else []
            output = _content([*said, *message.images]) if message.images else message.text
            yield {"type": "function_call_output", "call_id": message.call_id, "output": output}
        else:
            yield from _verbatim(message, model) or _made(message)


def _content(parts: list[Text | Image]) -> str | list[Json]:
    if any(isinstance(part, Image) for part in parts):
        return [_part(part) for part in parts]
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _part(part: Text | Image) -> Json:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    detail = image_detail(part) or "auto"
    return {"type": "input_image", "detail": detail, "image_url": f"data:{part.mime_type};base64,{part.data}"}


def _made(message: AssistantMessage) -> list[Json]:
    items: list[Json] = [{"role": "assistant", "content": message.text}] if message.text.strip() else []
    for call in message.calls:
        items.append(
            {
                "type": "function_call",
                "call_id": call.call_id,
                "name": legal_name(call.name),
                "arguments": lenient.object_text(call.arguments_text),
            }
        )
    return items


def _verbatim(message: AssistantMessage, model: str) -> list[Json]:
    """The reply's items as they came, if this model made them and can have them back; else none.

    Only a call's id may have become another one since. Reasoning that the service keeps to itself is not to be had
    back, and what followed it does not stand without it.
    """
    if message.provider != PROVIDER or not message.items:
        return []
    try:
        head = _head.decode(message.items[0])
    except msgspec.DecodeError:
        return []  # kept by the other form of this provider, or by another make under our name
    if (head.api, head.model) != ("responses", model):
        return []
    items: list[Json] = [msgspec.json.decode(item) for item in message.items[1:]]
    if any(item.get("type") == "reasoning" and not _portable(item) for item in items):
        return []
    while items and items[-1].get("type") == "reasoning":
        items.pop()  # cut off before it led to anything, and not taken without
    calls = [item for item in _made(message) if item.get("type") == "function_call"]
    if sum(item.get("type") == "function_call" for item in items) != len(calls):
        return []
    return [item | calls.pop(0) if item.get("type") == "function_call" else item for item in items]


def _portable(reasoning: Json) -> bool:
    """Whether all of it is in the item: encrypted, or in the clear as open models have it."""
    return bool(reasoning.get("encrypted_content") or reasoning.get("content"))


def _tool(tool: ToolSpec, quirks: OpenAIQuirks) -> Json:
    schema = acceptable(tool.parameters) if quirks.schema_cleanup else tool.parameters
    described = {"name": tool.name, "description": tool.description} if tool.description else {"name": tool.name}
    # What is not said to be lenient is strict here, and takes a much smaller language of schemas.
    return {"type": "function", **described, "parameters": schema, "strict": False}
