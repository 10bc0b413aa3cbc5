"""What a strict model service refuses: the rules that, broken once, make every later request of a session fail.

Each function gives the faults of one request body in words; none means it is accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .replies import JsonObject

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _common(body: JsonObject) -> Iterator[str]:
    if body.get("stream") is not True:
        yield "stream is not true"
    if not body.get("model"):
        yield "no model"
    if not body.get("messages"):
        yield "no messages"
    for text in _strings(body):
        if "\0" in text:
            yield f"U+0000 in a string: {text[:80]!r}"
        if any("\ud800" <= character <= "\udfff" for character in text):
            yield f"half a surrogate pair in a string: {text[:80]!r}"


def _names(names: list[str]) -> Iterator[str]:
    for name in names:
        if not _TOOL_NAME.fullmatch(name):
            yield f"bad tool name {name!r}"
    if len(set(names)) != len(names):
        yield f"a tool is offered twice: {names}"


def _unanswered(wanted: list[str], got: list[str]) -> Iterator[str]:
    if len(set(wanted)) != len(wanted):
        yield f"call ids repeat within one message: {wanted}"
    if sorted(wanted) != sorted(got):
        yield f"calls {wanted} are followed by results for {got}"


def openai_faults(body: JsonObject) -> list[str]:
    """Faults of a Chat Completions request."""
    return [*_common(body), *_openai(body)]


def _openai(body: JsonObject) -> Iterator[str]:
    yield from _names([tool["function"]["name"] for tool in body.get("tools", [])])
    if "tools" in body and not body["tools"]:
        yield "tools is an empty list"
    messages: list[JsonObject] = body.get("messages", [])
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            yield f"a tool result for {message.get('tool_call_id')} without its call before it"
            continue
        if role not in ("system", "developer", "user", "assistant"):
            yield f"unknown role {role!r}"
        calls = message.get("tool_calls")
        if calls == []:
            yield "tool_calls is an empty list"
        texts = [content] if isinstance(content, str) else [p["text"] for p in content or [] if p["type"] == "text"]
        if any(not text.strip() for text in texts) or (not content and not calls):
            yield f"a message of role {role} without text: {content!r}"
        if not calls:
            continue
        for call in calls:
            yield from _names([call["function"]["name"]])
            yield from _arguments(call["function"]["arguments"])
        results = []
        while position < len(messages) and messages[position].get("role") == "tool":
            results.append(messages[position]["tool_call_id"])
            if not isinstance(messages[position].get("content"), str | list):
                yield f"a tool result of type {type(messages[position].get('content')).__name__}"
            position += 1
        yield from _unanswered([call["id"] for call in calls], results)


def _arguments(text: Any) -> Iterator[str]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        value = None
    if not isinstance(value, dict):
        yield f"the arguments of a call are no JSON object: {text!r}"


def anthropic_faults(body: JsonObject) -> list[str]:
    """Faults of a Messages request."""
    return [*_common(body), *_anthropic(body)]


def _anthropic(body: JsonObject) -> Iterator[str]:
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        yield f"max_tokens is {limit!r}"
    elif body.get("thinking", {}).get("type") == "enabled" and body["thinking"]["budget_tokens"] >= limit:
        yield "max_tokens is not above thinking.budget_tokens"
    yield from _names([tool["name"] for tool in body.get("tools", [])])
    if json.dumps(body).count('"cache_control"') > 4:
        yield "more than four cache marks"
    messages: list[JsonObject] = body.get("messages", [])
    if messages and messages[0]["role"] != "user":
        yield "the first message is not the user's"
    if messages and messages[-1]["role"] != "user":
        yield "the last message is not the user's"
    pending: list[str] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [block["type"] for block in blocks]
        if not blocks:
            yield f"a message of role {message['role']} without content"
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            yield f"a text block of white space in a message of role {message['role']}"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        yield from _unanswered(pending, results)
        if kinds[: len(results)] != ["tool_result"] * len(results):
            yield "tool results do not come first in their message"
        uses = [block for block in blocks if block["type"] == "tool_use"]
        for block in uses:
            yield from _names([block["name"]])
            if not isinstance(block["input"], dict):
                yield f"the input of a call is no object: {block['input']!r}"
        pending = [block["id"] for block in uses]
    yield from _unanswered(pending, [])
