"""Responses streams as OpenAI sends them, made from output items; and what a strict service refuses in a request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]
Cut = Callable[[str], list[str]]

USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 0},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 8},
    "total_tokens": 42,
}


def message(*texts: str, refusal: str = "", number: int = 1, **fields: Any) -> Json:
    """A message item."""
    parts: list[Json] = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in texts]
    parts += [{"type": "refusal", "refusal": refusal}] if refusal else []
    item = {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": parts}
    return item | fields


def reasoning(*summaries: str, clear: str = "", number: int = 1, encrypted: str = "gAAA") -> Json:
    """A reasoning item."""
    item: Json = {
        "id": f"rs_{number}",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summaries],
    }
    item |= {"content": [{"type": "reasoning_text", "text": clear}]} if clear else {}
    return item | ({"encrypted_content": encrypted} if encrypted else {})


def function_call(name: str, arguments: str, number: int = 1) -> Json:
    """A call of a tool."""
    item = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": f"call_{number}"}
    return item | {"name": name, "arguments": arguments}


def response(items: list[Json], status: str = "completed", **fields: Any) -> Json:
    """The response object."""
    body = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status, "output": items}
    body |= {"error": None, "incomplete_details": None, "parallel_tool_calls": True, "tool_choice": "auto"}
    return body | {"tools": [], "usage": USAGE if status in ("completed", "incomplete") else None} | fields


def events_of(items: list[Json], cut: Cut = lambda text: [text], **end: Any) -> list[Json]:
    """The whole stream. ``cut`` cuts a text into the deltas that it is streamed in."""
    last = response(items, **end)
    events = [
        {"type": "response.created", "response": response([], "in_progress")},
        {"type": "response.in_progress", "response": response([], "in_progress")},
    ]
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        begun = {**item, "status": "in_progress"}
        begun |= {name: empty for name, empty in _EMPTY[item["type"]].items() if name in item}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        for event in _STREAMED[item["type"]](item, cut):
            events.append({**event, **place})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{last['status']}", "response": last})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def chunks_of(events: list[Json]) -> list[bytes]:
    """The events as they are sent."""
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


_EMPTY: dict[str, Json] = {
    "message": {"content": []},
    "reasoning": {"summary": [], "content": [], "encrypted_content": "gA"},
    "function_call": {"arguments": ""},
    "web_search_call": {},
}


def _message(item: Json, cut: Cut) -> Iterator[Json]:
    for number, part in enumerate(item["content"]):
        place = {"content_index": number}
        kind, field = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
        yield {"type": "response.content_part.added", "part": {**part, field: ""}, **place}
        for piece in cut(part[field]):
            yield {"type": f"response.{kind}.delta", "delta": piece, "logprobs": [], **place}
        yield {"type": f"response.{kind}.done", field: part[field], "logprobs": [], **place}
        yield {"type": "response.content_part.done", "part": part, **place}


def _reasoning(item: Json, cut: Cut) -> Iterator[Json]:
    for number, part in enumerate(item["summary"]):
        place = {"summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", "part": {**part, "text": ""}, **place}
        for piece in cut(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", "delta": piece, **place}
        yield {"type": "response.reasoning_summary_text.done", "text": part["text"], **place}
        yield {"type": "response.reasoning_summary_part.done", "part": part, **place}
    for number, part in enumerate(item.get("content", [])):
        for piece in cut(part["text"]):
            yield {"type": "response.reasoning_text.delta", "delta": piece, "content_index": number}
        yield {"type": "response.reasoning_text.done", "text": part["text"], "content_index": number}


def _function_call(item: Json, cut: Cut) -> Iterator[Json]:
    for piece in cut(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}


_STREAMED: dict[str, Callable[[Json, Cut], Iterator[Json]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "web_search_call": lambda item, cut: iter([{"type": "response.web_search_call.completed"}]),
}

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def faults(body: Json) -> Iterator[str]:
    """What a strict service that keeps nothing refuses in a request, in words."""
    if (body.get("stream"), body.get("store")) != (True, False):
        yield "not streamed, or stored"
    items = body["input"]
    if not items:
        yield "no input"
    waiting: list[str] = []
    for position, item in enumerate(items):
        match item.get("type", "message"):
            case "function_call_output":
                if item["call_id"] not in waiting:
                    yield f"a result without its call: {item['call_id']}"
                else:
                    waiting.remove(item["call_id"])
                if not isinstance(item["output"], str) and not item["output"]:
                    yield "a result that is an empty list"
                continue
            case "function_call":
                waiting.append(item["call_id"])
                if not _NAME.fullmatch(item["name"]):
                    yield f"bad tool name {item['name']!r}"
                if not isinstance(json.loads(item["arguments"]), dict):
                    yield f"the arguments of a call are no object: {item['arguments']}"
                continue
            case "reasoning":
                if not item.get("encrypted_content") and not item.get("content"):
                    yield f"reasoning {item['id']} is not found: nothing is stored"
                if position + 1 == len(items) or items[position + 1].get("role") == "user":
                    yield f"reasoning {item['id']} without what followed it"
                continue
            case "message":
                content = item["content"]
                texts = [content] if isinstance(content, str) else [part.get("text", "image") for part in content]
                if not texts or any(not text for text in texts):
                    yield f"a message without text: {content!r}"
        if item.get("role") == "user" and waiting:
            yield f"calls without a result: {waiting}"
    if waiting:
        yield f"calls without a result at the end: {waiting}"
    for tool in body.get("tools", []):
        if tool.get("strict") is not False:
            yield "a tool is strict"
    for text in _strings(body):
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            yield f"a character that cannot be sent: {text!r}"


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for part in pair for text in _strings(part))
    elif isinstance(value, list):
        yield from (text for part in value for text in _strings(part))
