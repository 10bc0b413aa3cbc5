"""The official SDKs put the same message together from the same bytes."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from bedrock_service import frame_chunk
from conversing import CASES, chunks_of
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from responses_service import events_of, function_call, message, reasoning

from agentwire.events import Usage
from agentwire.provider import Completion, EventStreamReader
from agentwire_anthropic.stream import MessageReader
from agentwire_bedrock.stream import FrameReader
from agentwire_openai.responses_stream import ResponseReader
from agentwire_openai.stream import ChatReader

Json = dict[str, Any]
Call = tuple[str, str, Any]

# Streams that are well-formed enough for the SDK to read them at all; the others are what the cases are about.
OPENAI_CASES = ["S-a01", "S-a02", "S-a03", "S-a04", "S-a05", "S-a08", "S-a11", "S-a14"]
ANTHROPIC_CASES = ["S-a12", "S-a19"]


def ours(reader: EventStreamReader, chunks: list[bytes]) -> Completion:
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def answering(chunks: list[bytes], media: str = "text/event-stream") -> httpx2.Client:
    """An HTTP client of the SDKs' kind whose every request is answered with these bytes."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": media}, content=iter(chunks))

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def arguments(text: str) -> Any:
    return json.loads(text) if text else {}


def calls_of(completion: Completion) -> list[Call]:
    return [(call.call_id, call.name, arguments(call.arguments_text)) for call in completion.calls]


def agree_openai(chunks: list[bytes]) -> None:
    completion = ours(ChatReader(lambda event: None, model="m", service="s", thinking_tags=False), chunks)
    with (
        answering(chunks) as http,
        openai.OpenAI(api_key="k", base_url="http://test", http_client=http) as client,
        client.chat.completions.stream(model="m", messages=[]) as stream,
    ):
        theirs = stream.get_final_completion()
    message = theirs.choices[0].message
    assert completion.text == (message.content or "") + (message.refusal or "")
    assert calls_of(completion) == [
        (call.id, call.function.name, arguments(call.function.arguments)) for call in message.tool_calls or []
    ]
    assert completion.reasoning == (getattr(message, "reasoning_content", None) or "")
    usage = completion.usage or Usage()
    expected = (theirs.usage.prompt_tokens, theirs.usage.completion_tokens) if theirs.usage else (UNSET, UNSET)
    assert (usage.input_tokens, usage.output_tokens) == expected


def agree_responses(chunks: list[bytes], *, complete: bool = True) -> None:
    completion = ours(ResponseReader(lambda event: None, model="m", service="s"), chunks)
    with (
        answering(chunks) as http,
        openai.OpenAI(api_key="k", base_url="http://test", http_client=http) as client,
        client.responses.stream(model="m", input="x") as stream,
    ):
        theirs = list(stream)[-1].response if not complete else stream.get_final_response()
    parts = [part for item in theirs.output if item.type == "message" for part in item.content]
    assert completion.text == "".join(part.text if part.type == "output_text" else part.refusal for part in parts)
    if all(part.type == "output_text" for part in parts):
        assert completion.text == theirs.output_text
    thoughts = [item for item in theirs.output if item.type == "reasoning"]
    said = [part.text for item in thoughts for part in (*item.summary, *(item.content or [])) if part.text]
    assert completion.reasoning == "\n\n".join(said)
    calls = [item for item in theirs.output if item.type == "function_call"]
    assert [(call.call_id, call.name, call.arguments_text) for call in completion.calls] == [
        (call.call_id, call.name, call.arguments) for call in calls
    ]
    if completion.items:
        added: Any = {"parsed_arguments": True, "content": {"__all__": {"parsed"}}}  # by the SDK
        assert [json.loads(bytes(item)) for item in completion.items[1:]] == [
            item.model_dump(exclude_unset=True, exclude=added, mode="json") for item in theirs.output
        ]
    assert completion.usage
    assert theirs.usage is not None
    assert completion.usage.input_tokens == theirs.usage.input_tokens
    assert completion.usage.output_tokens == theirs.usage.output_tokens
    assert completion.usage.cache_read_tokens == theirs.usage.input_tokens_details.cached_tokens
    assert completion.usage.reasoning_tokens == theirs.usage.output_tokens_details.reasoning_tokens


def agree_anthropic(chunks: list[bytes]) -> None:
    completion = ours(MessageReader(lambda event: None, service="s"), chunks)
    with (
        answering(chunks) as http,
        anthropic.Anthropic(api_key="k", base_url="http://test", http_client=http) as client,
        client.messages.stream(model="m", max_tokens=1, messages=[]) as stream,
    ):
        theirs = stream.get_final_message()
    agree_on(completion, theirs)


def agree_bedrock(chunks: list[bytes]) -> None:
    completion = ours(FrameReader(lambda event: None, service="s"), chunks)
    with (
        answering(chunks, "application/vnd.amazon.eventstream") as http,
        anthropic.AnthropicBedrock(api_key="k", aws_region="r", base_url="http://test", http_client=http) as client,
        client.messages.stream(model="m", max_tokens=1, messages=[]) as stream,
    ):
        theirs = stream.get_final_message()
    agree_on(completion, theirs)


def agree_on(completion: Completion, theirs: anthropic.types.Message) -> None:
    blocks = [block.model_dump(exclude_none=True) for block in theirs.content]
    assert completion.text == "".join(block.text for block in theirs.content if block.type == "text")
    assert completion.reasoning == "".join(block.thinking for block in theirs.content if block.type == "thinking")
    assert calls_of(completion) == [
        (block.id, block.name, block.input) for block in theirs.content if block.type == "tool_use"
    ]
    if completion.items:
        assert [json.loads(bytes(item)) for item in completion.items] == blocks
    counts = theirs.usage
    assert completion.usage
    assert completion.usage.output_tokens == counts.output_tokens
    assert completion.usage.input_tokens == (
        counts.input_tokens + (counts.cache_creation_input_tokens or 0) + (counts.cache_read_input_tokens or 0)
    )


@pytest.mark.parametrize("case", OPENAI_CASES)
def test_openai_cases(case: str) -> None:
    agree_openai(chunks_of(CASES[case]["input"]))


@pytest.mark.parametrize("case", ANTHROPIC_CASES)
def test_anthropic_cases(case: str) -> None:
    agree_anthropic(chunks_of(CASES[case]["input"]))


def test_anthropic_signed_thinking() -> None:
    agree_anthropic(chunks_of(CASES["S-a18"]["input"]["reply"]))


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_PIECES = st.lists(_TEXT, max_size=4)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_ARGUMENTS = st.dictionaries(_TEXT, _JSON, max_size=3)
_NAMES = st.text("abcXYZ_-", min_size=1, max_size=8)


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    """``text`` in pieces."""
    ends = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


@st.composite
def cut_bytes(draw: st.DrawFn, data: bytes) -> list[bytes]:
    ends = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


@st.composite
def openai_streams(draw: st.DrawFn) -> list[bytes]:
    def chunk(finish: str | None = None, **delta: Any) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return {**head, "choices": [choice]}

    events = [chunk(role="assistant", content="")]
    events += [chunk(reasoning_content=piece) for piece in draw(_PIECES)]
    events += [chunk(content=piece) for piece in draw(_PIECES)]
    calls = draw(st.lists(st.tuples(_NAMES, _ARGUMENTS), max_size=3))
    for index, (name, values) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        events.append(chunk(tool_calls=[{"index": index, "id": f"c{index}", "type": "function", "function": function}]))
        for piece in draw(cut(json.dumps(values, ensure_ascii=draw(st.booleans())))):
            events.append(chunk(tool_calls=[{"index": index, "function": {"arguments": piece}}]))
    events.append(chunk("tool_calls" if calls else "stop"))
    if draw(st.booleans()):
        usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
        events.append({**events[0], "choices": [], "usage": usage})
    return draw(cut_bytes(_stream(draw, events, named=False) + b"data: [DONE]\n\n"))


@st.composite
def responses_streams(draw: st.DrawFn) -> tuple[list[bytes], bool]:
    items = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from(["reasoning", "message", "call"]), max_size=4))):
        texts = draw(st.lists(_TEXT, max_size=2))
        match kind:
            case "reasoning":
                items.append(reasoning(*texts, clear=draw(_TEXT), number=number, encrypted=draw(_TEXT)))
            case "message":
                items.append(message(*texts, refusal=draw(_TEXT), number=number))
            case "call":
                items.append(function_call(draw(_NAMES), json.dumps(draw(_ARGUMENTS)), number=number))
    complete = draw(st.booleans())
    end: Json = {} if complete else {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    events = events_of(items, lambda text: draw(cut(text)), **end)
    return draw(cut_bytes(_stream(draw, events, named=True))), complete


@st.composite
def anthropic_streams(draw: st.DrawFn) -> list[bytes]:
    return draw(cut_bytes(_stream(draw, draw(anthropic_events()), named=True)))


@st.composite
def bedrock_streams(draw: st.DrawFn) -> list[bytes]:
    return draw(cut_bytes(b"".join(map(frame_chunk, draw(anthropic_events())))))


@st.composite
def anthropic_events(draw: st.DrawFn) -> list[Json]:
    usage = {"input_tokens": draw(st.integers(0, 50)), "output_tokens": 1}
    if draw(st.booleans()):
        usage |= {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 6}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[Json] = [{"type": "message_start", "message": message}]
    kinds = draw(st.lists(st.sampled_from(["text", "thinking", "tool_use", "redacted_thinking"]), max_size=4))
    for index, kind in enumerate(kinds):
        blocks: dict[str, Json] = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "tool_use": {"id": f"t{index}", "name": draw(_NAMES), "input": {}},
            "redacted_thinking": {"data": "b3BhcXVl"},
        }
        events.append({"type": "content_block_start", "index": index, "content_block": {"type": kind, **blocks[kind]}})
        deltas: list[Json] = []
        match kind:
            case "text":
                deltas = [{"type": "text_delta", "text": piece} for piece in draw(_PIECES)]
            case "thinking":
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in draw(_PIECES)]
                deltas.append({"type": "signature_delta", "signature": "c2lnLTE="})
            case "tool_use":
                text = draw(st.just("") | _ARGUMENTS.map(json.dumps))
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in draw(cut(text))]
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
        if draw(st.booleans()):
            events.append({"type": "ping"})
    reason = "tool_use" if "tool_use" in kinds else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}})
    events.append({"type": "message_stop"})
    return events


def _stream(draw: st.DrawFn, events: list[Json], *, named: bool) -> bytes:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    for event in events:
        lines += [f"event: {event['type']}"] if named else []
        lines += [f"data: {json.dumps(event, ensure_ascii=draw(st.booleans()))}", ""]
    return "".join(line + newline for line in lines).encode()


@settings(max_examples=16, deadline=None)
@given(openai_streams())
def test_any_openai_stream(chunks: list[bytes]) -> None:
    agree_openai(chunks)


@settings(max_examples=24, deadline=None)
@given(responses_streams())
def test_any_responses_stream(stream: tuple[list[bytes], bool]) -> None:
    chunks, complete = stream
    agree_responses(chunks, complete=complete)


@settings(max_examples=12, deadline=None)
@given(bedrock_streams())
def test_any_bedrock_stream(chunks: list[bytes]) -> None:
    agree_bedrock(chunks)


@settings(max_examples=16, deadline=None)
@given(anthropic_streams())
def test_any_anthropic_stream(chunks: list[bytes]) -> None:
    agree_anthropic(chunks)
