"""A history made fit to be sent: what every service insists on, before it is put into one service's words.

The fold of the log keeps calls and results together already; what is mended here costs nothing when there is
nothing to mend, and a single unanswered call would make a service refuse every later request of the session.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from agentwire.events import CallRef, File, Image, Part, Text
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage

MAX_IMAGE = 20 * 1024 * 1024
"""Bytes of an image file that is sent; services take less."""

LOST_RESULT = "The call was interrupted; there is no result."

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def paired(messages: Iterable[Message]) -> list[Message]:
    """``messages`` with every call answered exactly once, in order, right after the message that made it.

    A missing result becomes an error result. A result nobody asked for becomes something the user says: its text
    may be all that is left of the work.
    """
    result: list[Message] = []
    calls: dict[str, CallRef] = {}
    answers: dict[str, ToolMessage] = {}
    others: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            result += [*_answers(calls, answers), *others, message]
            calls, answers, others = {call.call_id: call for call in message.calls}, {}, []
        elif not isinstance(message, ToolMessage):
            others.append(message)
        elif message.call_id in calls and message.call_id not in answers:
            answers[message.call_id] = message
        else:
            others.append(UserMessage([Text(f"[result of {message.name}] {message.text}"), *message.images]))
    return [*result, *_answers(calls, answers), *others]


def _answers(calls: dict[str, CallRef], answers: dict[str, ToolMessage]) -> list[ToolMessage]:
    return [
        answers.get(call_id) or ToolMessage(call_id, call.name, LOST_RESULT, is_error=True)
        for call_id, call in calls.items()
    ]


def prompt_parts(parts: Sequence[Part]) -> list[Text | Image]:
    """The parts of a user message without empty texts; files the host attached are listed after the text."""
    found: list[Text | Image] = []
    files: list[str] = []
    last_text = -1
    for part in parts:
        if isinstance(part, File):
            files.append(part.path)
        elif isinstance(part, Image):
            found.append(part)
        elif part.text.strip():
            last_text = len(found)
            found.append(part)
    if files:
        listed = "\n".join(["[Attached files]", *files])
        said = found.pop(last_text) if last_text >= 0 else Text("")
        text = f"{said.text.strip()}\n\n{listed}" if isinstance(said, Text) and said.text else listed
        found.insert(last_text if last_text >= 0 else len(found), Text(text, said.extra))
    return found


def extra_of(part: Text | Image, *path: str) -> Any:
    """What a host's content part said beside its text or image, by a path of keys; None if it did not."""
    found: Any = part.extra
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def legal_name(name: str) -> str:
    """A tool name that services take in a history, whatever the model made up."""
    return _NOT_IN_NAMES.sub("_", name)[:64] or "unnamed"


def legal_id(call_id: str) -> str:
    """A call id of letters, digits, ``_`` and ``-``; two that differ stay different."""
    legal = _NOT_IN_NAMES.sub("_", call_id)
    return legal if legal == call_id and legal else f"{legal}_{crc32(call_id.encode('utf-8', 'replace')):08x}"


def merge_runs(messages: Iterable[Message]) -> list[Message]:
    """``messages`` with neighbouring user messages joined into one."""
    result: list[Message] = []
    for message in messages:
        if isinstance(message, UserMessage) and result and isinstance(before := result[-1], UserMessage):
            result[-1] = UserMessage(before.parts + message.parts)
        else:
            result.append(message)
    return result


async def load_images(messages: Iterable[Message]) -> list[Message]:
    """``messages`` with every image that is only a path read in; one that cannot be read becomes a short note."""
    result: list[Message] = []
    for message in messages:
        if isinstance(message, UserMessage) and any(map(_is_unread, message.parts)):
            message = UserMessage([await _loaded(part) for part in message.parts])
        elif isinstance(message, ToolMessage) and any(map(_is_unread, message.images)):
            loaded = [await _loaded(image) for image in message.images]
            notes = "".join(f"\n{part.text}" for part in loaded if isinstance(part, Text))
            images = [part for part in loaded if isinstance(part, Image)]
            message = replace(message, text=message.text + notes, images=images)
        result.append(message)
    return result


def _is_unread(part: Part) -> bool:
    return isinstance(part, Image) and not part.data


async def _loaded(part: Part) -> Part:
    if not isinstance(part, Image) or part.data:
        return part
    import trio

    try:
        data = await trio.to_thread.run_sync(_read, Path(part.path))
    except (OSError, ValueError) as error:
        return Text(f"[image {part.path} could not be read: {error}]")
    return Image(part.mime_type, base64.b64encode(data).decode(), extra=part.extra)


def _read(path: Path) -> bytes:
    if not path.is_file():  # a device may have no end
        raise ValueError("it is no file")
    size = path.stat().st_size
    if size > MAX_IMAGE:
        raise ValueError(f"{size} bytes are too many")
    return path.read_bytes()
