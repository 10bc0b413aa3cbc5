"""The script of a fake model service, in no service's words.

A :class:`Reply` is one streamed answer: a row of parts, each delivered as its own network chunk. Time never
passes by itself in a script; a :class:`Gate` holds the stream until the test opens it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call. ``arguments`` may be a string to send what is not JSON; it is streamed in two pieces."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)

    @property
    def pieces(self) -> tuple[str, str]:
        """The arguments' text, cut in the middle."""
        text = self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)
        return text[: len(text) // 2], text[len(text) // 2 :]


class Gate:
    """Holds the stream until :meth:`open`. ``reached`` is set once everything before it was sent."""

    def __init__(self) -> None:
        self.reached = trio.Event()
        self.opened = trio.Event()

    def open(self) -> None:
        """Let the stream go on."""
        self.opened.set()


@dataclass(frozen=True, slots=True)
class Bytes:
    """Raw bytes of the body, one network chunk."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends here, before the reply does; ``reset``: with a TCP reset."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the service reports as used. ``cached`` and ``written`` are parts of ``input``."""

    input: int = 10
    output: int = 5
    cached: int | None = None
    written: int | None = None


Part = Text | Thinking | ToolCall | Gate | Bytes | Cut


class Reply:
    """One streamed answer with status 200."""

    def __init__(self, *parts: Part | str, tokens: Tokens | None = None, finish: str = "", framed: bool = True) -> None:
        self.parts: tuple[Part, ...] = tuple(Text(part) if isinstance(part, str) else part for part in parts)
        self.tokens = tokens or Tokens()
        self.finish = finish
        """The service's own word for why it ended; empty: by what the parts are."""
        self.framed = framed
        """False: the body is the parts alone, without the service's opening and closing frames."""

    @property
    def has_calls(self) -> bool:
        """Whether a tool is called."""
        return any(isinstance(part, ToolCall) for part in self.parts)


def raw(*chunks: bytes) -> Reply:
    """A body of exactly these chunks."""
    return Reply(*(Bytes(chunk) for chunk in chunks), framed=False)


@dataclass(frozen=True)
class Refused:
    """An answer without a stream: an error status with a body."""

    status: int
    message: str = "refused"
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Reply | Refused
Chooser = Callable[[JsonObject], Answer]
"""Makes the answer from the request's body."""

Frame = bytes | Gate | Cut
"""What a rendered reply is made of."""


def sse(data: JsonObject, event: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "surrogatepass")


def openai_frames(reply: Reply, request: JsonObject) -> Iterator[Frame]:
    """The reply as OpenAI's Chat Completions API streams it."""

    def chunk(choices: list[JsonObject], **more: Any) -> bytes:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": request.get("model")}
        return sse({**head, "choices": choices, **more})

    def delta(fields: JsonObject, finish: str | None = None) -> bytes:
        return chunk([{"index": 0, "delta": fields, "finish_reason": finish}])

    if reply.framed:
        yield delta({"role": "assistant", "content": ""})
    index = -1
    for part in reply.parts:
        match part:
            case Text(text):
                yield delta({"content": text})
            case Thinking(text):
                yield delta({"reasoning_content": text})
            case ToolCall():
                index += 1
                function = {"name": part.name, "arguments": ""}
                yield delta({"tool_calls": [{"index": index, "id": part.id, "type": "function", "function": function}]})
                for piece in part.pieces:
                    yield delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            case Bytes(data):
                yield data
            case _:
                yield part
    if not reply.framed:
        return
    yield delta({}, reply.finish or ("tool_calls" if reply.has_calls else "stop"))
    if request.get("stream_options", {}).get("include_usage"):
        tokens = reply.tokens
        usage: JsonObject = {"prompt_tokens": tokens.input, "completion_tokens": tokens.output}
        usage["total_tokens"] = tokens.input + tokens.output
        if tokens.cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": tokens.cached}
        yield chunk([], usage=usage)
    yield b"data: [DONE]\n\n"


def anthropic_frames(reply: Reply, request: JsonObject) -> Iterator[Frame]:
    """The reply as Anthropic's Messages API streams it."""

    def event(kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, **fields}, kind)

    def close(kind: str) -> Iterator[bytes]:
        if kind == "thinking":
            yield event("content_block_delta", index=index, delta={"type": "signature_delta", "signature": "c2ln"})
        if kind:
            yield event("content_block_stop", index=index)

    tokens = reply.tokens
    if reply.framed:
        usage = {"input_tokens": tokens.input - (tokens.cached or 0) - (tokens.written or 0), "output_tokens": 1}
        if tokens.cached is not None:
            usage["cache_read_input_tokens"] = tokens.cached
        if tokens.written is not None:
            usage["cache_creation_input_tokens"] = tokens.written
        message: JsonObject = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": request.get("model"),
            "content": [],
        }
        yield event("message_start", message={**message, "stop_reason": None, "usage": usage})
    index, kind = -1, ""
    for part in reply.parts:
        match part:
            case Text(text) | Thinking(text):
                wanted = "text" if isinstance(part, Text) else "thinking"
                if kind != wanted:
                    yield from close(kind)
                    index, kind = index + 1, wanted
                    yield event("content_block_start", index=index, content_block={"type": wanted, wanted: ""})
                yield event("content_block_delta", index=index, delta={"type": f"{wanted}_delta", wanted: text})
            case ToolCall():
                yield from close(kind)
                index, kind = index + 1, "tool_use"
                block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
                yield event("content_block_start", index=index, content_block=block)
                for piece in part.pieces:
                    delta = {"type": "input_json_delta", "partial_json": piece}
                    yield event("content_block_delta", index=index, delta=delta)
            case Bytes(data):
                yield data
            case _:
                yield part
    if not reply.framed:
        return
    yield from close(kind)
    stop = reply.finish or ("tool_use" if reply.has_calls else "end_turn")
    yield event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": tokens.output})
    yield event("message_stop")
