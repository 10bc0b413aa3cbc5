"""The history as Chat Completions messages: what ``messages_updated`` carries (section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UnsetType

from agentwire.events import File, Image, Part, Text
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage


def to_wire(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages of the bus as the wire has them."""
    return [_message(message) for message in messages]


def before_answer(messages: Sequence[Message]) -> Sequence[Message]:
    """The history without the final answer, which a client adds itself."""
    last = messages[-1] if messages else None
    return messages[:-1] if isinstance(last, AssistantMessage) and not last.calls else messages


def data_url(image: Image) -> str:
    """An image as the URL that a content part holds."""
    return f"data:{image.mime_type};base64,{image.data}"


def parts_to_wire(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Parts as content parts. A file, and an image of which only the path is known, are named in a text."""
    return [_part(part) for part in parts]


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, UserMessage):
        return {"role": "user", "content": _content(message.parts)}
    if isinstance(message, ToolMessage):
        content: list[Part] = [Text(message.text)] if message.text or not message.images else []
        return {"role": "tool", "tool_call_id": message.call_id, "content": _content([*content, *message.images])}
    if not message.calls:
        return {"role": "assistant", "content": message.text}
    return {
        "role": "assistant",
        "content": message.text or None,
        "tool_calls": [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}
            for call in message.calls
        ],
    }


def _content(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    """A plain string where it will do."""
    text = plain_text(parts)
    return parts_to_wire(parts) if text is None else text


def plain_text(parts: Sequence[Part]) -> str | None:
    """The text that says all that the parts do; None: there is more to say, or nothing."""
    if len(parts) != 1 or not isinstance(parts[0], Text) or not isinstance(parts[0].extra, UnsetType):
        return None
    return parts[0].text


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, File):
        return {"type": "text", "text": part.path}
    extra = {} if isinstance(part.extra, UnsetType) else dict(part.extra)
    if isinstance(part, Text):
        return _with({"type": "text", "text": part.text}, extra)
    if not part.data:
        return {"type": "text", "text": part.path}
    by_url = extra.pop("image_url", None)
    url = _with({"url": data_url(part)}, by_url if isinstance(by_url, dict) else {})
    return _with({"type": "image_url", "image_url": url}, extra)


def _with(made: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """An object with what was said beside; nothing of its own is replaced."""
    return {**made, **extra, **made} if extra else made
