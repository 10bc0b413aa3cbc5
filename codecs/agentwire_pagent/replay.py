"""A session's messages as ``HistoryReplay`` shows them (section 8), and back again.

The peer shows a conversation as a flat list: texts, images, calls and results, each by itself. What one of our
messages holds becomes a run of such items, in the order in which it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import UNSET, UnsetType

from agentwire import events as bus
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire_pagent import wire

Item = dict[str, Any]

_DATA: Final = "data:"
_BASE64: Final = ";base64,"


def moment(milliseconds: int) -> str:
    """A time as text; empty if it is not known."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds") if milliseconds else ""


def data_url(image: bus.Image) -> str:
    """An image as the wire carries it."""
    return f"{_DATA}{image.mime_type}{_BASE64}{image.data}"


def image(url: Any) -> bus.Image | None:
    """The image in a data URL, if that is what it is."""
    if isinstance(url, str) and url.startswith(_DATA):
        kind, found, data = url[len(_DATA) :].partition(_BASE64)
        if found and kind.startswith("image/"):
            return bus.Image(kind, data)
    return None


# --- to the wire ---------------------------------------------------------------------------------------------


def replay(
    thread_id: str, project_path: str, messages: Iterable[Message], usage: dict[str, Any] | UnsetType = UNSET
) -> wire.HistoryReplay:
    """The parameters of ``HistoryReplay``."""
    items = [item for message in messages for item in _items(message)]
    return wire.HistoryReplay(thread_id, "", project_path, items, usage=usage)


def snapshot(usage: bus.Usage | UnsetType, time: int) -> dict[str, Any] | UnsetType:
    """What the last model call used; nothing, as with the peer, if it is not known what was sent."""
    if isinstance(usage, UnsetType) or isinstance(usage.input_tokens, UnsetType) or usage.input_tokens <= 0:
        return UNSET
    return {
        "prompt_tokens": usage.input_tokens,
        "cached_tokens": _count(usage.cache_read_tokens),
        "cache_write_tokens": _count(usage.cache_write_tokens),
        "completion_tokens": _count(usage.output_tokens),
        "reasoning_tokens": _count(usage.reasoning_tokens),
        "updated_at": moment(time),
    }


def _count(tokens: int | UnsetType) -> int:
    return 0 if isinstance(tokens, UnsetType) else tokens


def _items(message: Message) -> Iterator[Item]:
    if isinstance(message, UserMessage):
        yield from filter(None, map(_part, message.parts))
    elif isinstance(message, AssistantMessage):
        if message.reasoning:
            yield {"kind": "thinking", "role": "assistant", "text": message.reasoning}
        if message.text:
            yield {"kind": "text", "role": "assistant", "text": message.text}
        for call in message.calls:
            yield {
                "kind": "tool_call",
                "tool_call_id": call.call_id,
                "name": call.name,
                "arguments": call.arguments_text,
            }
    else:
        yield {"kind": "tool_result", "tool_call_id": message.call_id, "content": message.text}


def _part(part: bus.Part) -> Item | None:
    if isinstance(part, bus.Text):
        return {"kind": "text", "role": "user", "text": part.text}
    if isinstance(part, bus.Image) and part.data:
        return {"kind": "image", "role": "user", "url": data_url(part)}
    return None


# --- and back ------------------------------------------------------------------------------------------------


def messages(items: Sequence[Item]) -> list[Message]:
    """The messages that a replay shows, as far as the bus has words for them; what is out of shape is left out.

    A text of the model that follows a call or its result belongs to its next reply.
    """
    made: list[Message] = []
    names: dict[str, str] = {}
    for item in items:
        kind, said = item.get("kind"), item.get("text")
        if kind == "tool_call":
            call = _call(item)
            names[call.call_id] = call.name
            _reply(made).calls.append(call)
        elif kind == "tool_result":
            call_id = str(item.get("tool_call_id", ""))
            made.append(ToolMessage(call_id, names.get(call_id, ""), str(item.get("content", ""))))
        elif kind == "image" and (picture := image(item.get("url"))) is not None:
            _said_by_user(made).parts.append(picture)
        elif not isinstance(said, str):
            continue
        elif kind == "thinking":
            made.append(AssistantMessage(reasoning=said))
        elif kind == "text" and item.get("role") == "user":
            made.append(UserMessage([bus.Text(said)]))
        elif kind == "text":
            reply = _reply(made)
            if reply.text or reply.calls:
                made.append(AssistantMessage(said))
            else:
                reply.text = said
    return made


def _call(item: Item) -> bus.CallRef:
    return bus.CallRef(*(str(item.get(name, "")) for name in ("tool_call_id", "name", "arguments")))


def _reply(made: list[Message]) -> AssistantMessage:
    """The reply that goes on, else a new one."""
    last = made[-1] if made else None
    if isinstance(last, AssistantMessage):
        return last
    made.append(new := AssistantMessage())
    return new


def _said_by_user(made: list[Message]) -> UserMessage:
    """The input that goes on, else a new one."""
    last = made[-1] if made else None
    if isinstance(last, UserMessage):
        return last
    made.append(new := UserMessage([]))
    return new
