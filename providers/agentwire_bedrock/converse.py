"""Converse, Bedrock's interface to every model: what is asked and answered in Messages words, in its own.

Both are the same conversation of blocks under other names, so requests are made from the body of a Messages request,
and replies are read as the Messages stream that says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentwire.provider import ModelRequest, lenient
from agentwire_anthropic.request import NO_TEXT, compose
from agentwire_bedrock.quirks import BedrockQuirks

Json = dict[str, Any]

_STOP_REASONS = {"content_filtered": "content_filter", "guardrail_intervened": "content_filter"}
_COUNTS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheWriteInputTokens": "cache_creation_input_tokens",
}


def build(request: ModelRequest, quirks: BedrockQuirks) -> bytes:
    """The request as JSON. Images must have been loaded."""
    asked = compose(request, quirks)
    body: Json = {
        "messages": [{"role": turn["role"], "content": _blocks(turn["content"])} for turn in asked["messages"]]
    }
    if "system" in asked:
        body["system"] = _blocks(asked["system"])
    if request.max_tokens or quirks.max_tokens or "thinking" in asked:
        body["inferenceConfig"] = {"maxTokens": asked["max_tokens"]}  # else the model's own limit, which may be lower
    if "tools" in asked:
        body["toolConfig"] = {"tools": [_tool(tool) for tool in asked["tools"]]}
    if "thinking" in asked:
        body["additionalModelRequestFields"] = {"thinking": asked["thinking"]}
    return lenient.encode(body | quirks.extra_body)


def _blocks(blocks: list[Json]) -> list[Json]:
    return [_BLOCKS[block["type"]](block) for block in blocks if block["type"] in _BLOCKS]


def _image(block: Json) -> Json:
    source = block["source"]
    return {"image": {"format": source["media_type"].partition("/")[2], "source": {"bytes": source["data"]}}}


def _result(block: Json) -> Json:
    content = _blocks(block["content"]) or [{"text": NO_TEXT}]
    status = "error" if block.get("is_error") else "success"
    return {"toolResult": {"toolUseId": block["tool_use_id"], "content": content, "status": status}}


def _thought(block: Json) -> Json:
    text = {"text": block["thinking"]}
    signed = {**text, "signature": block["signature"]} if block.get("signature") else text
    return {"reasoningContent": {"reasoningText": signed}}


_BLOCKS: dict[str, Callable[[Json], Json]] = {
    "text": lambda block: {"text": block["text"]},
    "image": _image,
    "tool_use": lambda block: {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}},
    "tool_result": _result,
    "thinking": _thought,
    "redacted_thinking": lambda block: {"reasoningContent": {"redactedContent": block["data"]}},
}


def _tool(tool: Json) -> Json:
    described = {name: tool[name] for name in ("name", "description") if name in tool}
    return {"toolSpec": {**described, "inputSchema": {"json": tool["input_schema"]}}}


def _block_start(payload: Json) -> list[Json]:
    match payload.get("start"):
        case {"toolUse": {"toolUseId": call_id, "name": name}}:
            block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
            return [{"type": "content_block_start", "index": _index(payload), "content_block": block}]
    return []


def _block_delta(payload: Json) -> list[Json]:
    match payload.get("delta"):
        case {"text": str(text)}:
            delta: Json = {"type": "text_delta", "text": text}
        case {"toolUse": {"input": str(text)}}:
            delta = {"type": "input_json_delta", "partial_json": text}
        case {"reasoningContent": {"text": str(text)}}:
            delta = {"type": "thinking_delta", "thinking": text}
        case {"reasoningContent": {"signature": str(text)}}:
            delta = {"type": "signature_delta", "signature": text}
        case {"reasoningContent": {"redactedContent": str(data)}}:
            block = {"type": "redacted_thinking", "data": data}
            return [{"type": "content_block_start", "index": _index(payload), "content_block": block}]
        case _:
            return []
    return [{"type": "content_block_delta", "index": _index(payload), "delta": delta}]


def _message_stop(payload: Json) -> list[Json]:
    reason = str(payload.get("stopReason") or "")
    return [{"type": "message_delta", "delta": {"stop_reason": _STOP_REASONS.get(reason, reason)}}]


def _metadata(payload: Json) -> list[Json]:
    match payload.get("usage"):
        case dict(usage):
            counts = {ours: usage[theirs] for theirs, ours in _COUNTS.items() if theirs in usage}
            return [{"type": "message_delta", "usage": counts}, {"type": "message_stop"}]
    return [{"type": "message_stop"}]


def _index(payload: Json) -> int | None:
    index = payload.get("contentBlockIndex")
    return index if isinstance(index, int) else None


TRANSLATIONS: dict[str, Callable[[Json], list[Json]]] = {
    "contentBlockStart": _block_start,
    "contentBlockDelta": _block_delta,
    "messageStop": _message_stop,
    "metadata": _metadata,
}
"""By the name of an event of Converse: gives the events of a Messages stream that say what its payload says."""
