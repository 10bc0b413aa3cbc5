"""Whatever a service sends, the outcome is a reply or a ``ProviderError``, and what was streamed is what is kept."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from bedrock_service import event_frame, frame_chunk
from conversing import Heard
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.provider import Completion, EventStreamReader, ProviderError
from agentwire_anthropic.stream import MessageReader
from agentwire_bedrock.stream import FrameReader
from agentwire_openai.responses_stream import ResponseReader
from agentwire_openai.stream import ChatReader

OPENAI_KEYS = "choices delta message content reasoning_content reasoning reasoning_details tool_calls index id function"
OPENAI_KEYS += " name arguments extra_content finish_reason usage prompt_tokens error x_groq function_call refusal text"
ANTHROPIC_KEYS = "type index delta content_block message usage error text thinking signature partial_json stop_reason"
ANTHROPIC_KEYS += " input id name input_tokens output_tokens content data"
KINDS = (
    "text thinking redacted_thinking tool_use server_tool_use text_delta thinking_delta input_json_delta message_start"
)
KINDS += " message_delta message_stop content_block_start content_block_delta content_block_stop ping error message"
RESPONSES_KEYS = (
    "type delta output_index content_index summary_index item_id item response error text refusal arguments"
)
RESPONSES_KEYS += " id call_id name content summary output status usage input_tokens input_tokens_details code message"
RESPONSES_KEYS += " incomplete_details reason phase encrypted_content"
RESPONSES_KINDS = "created completed incomplete failed output_item.added output_item.done output_text.delta"
RESPONSES_KINDS += " output_text.done refusal.delta refusal.done reasoning_summary_text.delta reasoning_text.delta"
RESPONSES_KINDS += " reasoning_summary_text.done function_call_arguments.delta function_call_arguments.done"
CONVERSE_KEYS = (
    "start delta toolUse toolUseId name input reasoningContent text signature redactedContent usage stopReason"
)
CONVERSE_KEYS += " contentBlockIndex inputTokens outputTokens role"
CONVERSE_KINDS = "messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop metadata other"


def anything(keys: str, words: str) -> st.SearchStrategy[Any]:
    scalars = (
        st.none()
        | st.booleans()
        | st.integers(-2, 2)
        | st.sampled_from([0.5, float("nan"), float("inf"), 2**70])
        | st.sampled_from(
            ["", "x", "<think>", "</think>", "{", '{"a":1}', "\ud83d", "\0", "stop", "tool_calls", "length"]
        )
        | st.sampled_from(words.split())
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys.split()), inner, max_size=5),
        max_leaves=20,
    )


def shaped(keys: str, words: str, *path: str | int) -> st.SearchStrategy[Any]:
    """Anything at the end of a path of keys, so that it gets past the first look."""

    def wrap(value: Any) -> Any:
        for step in reversed(path):
            value = [value] if isinstance(step, int) else {step: value}
        return value

    return anything(keys, words).map(wrap)


OPENAI_EVENTS = st.one_of(
    anything(OPENAI_KEYS, "x"),
    shaped(OPENAI_KEYS, "x", "choices", 0),
    shaped(OPENAI_KEYS, "x", "choices", 0, "delta"),
    shaped(OPENAI_KEYS, "x", "choices", 0, "delta", "tool_calls"),
    shaped(OPENAI_KEYS, "x", "choices", 0, "delta", "tool_calls", 0),
)


_BLOCK_FIELDS = st.dictionaries(st.sampled_from(ANTHROPIC_KEYS.split()), anything(ANTHROPIC_KEYS, KINDS), max_size=5)
ANTHROPIC_EVENTS = _BLOCK_FIELDS | st.builds(
    lambda event, kind: {**event, "type": kind}, _BLOCK_FIELDS, st.sampled_from(KINDS.split())
)
RESPONSES_WORDS = "message reasoning function_call output_text refusal completed failed max_output_tokens"
_FIELDS = st.dictionaries(
    st.sampled_from(RESPONSES_KEYS.split()), anything(RESPONSES_KEYS, RESPONSES_WORDS), max_size=4
)
_RESPONSES_KINDS = st.sampled_from([f"response.{kind}" for kind in RESPONSES_KINDS.split()])
RESPONSES_EVENTS = st.one_of(
    anything(RESPONSES_KEYS, RESPONSES_WORDS),
    st.builds(lambda event, kind: {**event, "type": kind}, _FIELDS, _RESPONSES_KINDS),
    st.builds(lambda event, kind, item: {**event, "item": item, "type": kind}, _FIELDS, _RESPONSES_KINDS, _FIELDS),
    st.builds(lambda kind, response: {"response": response, "type": kind}, _RESPONSES_KINDS, _FIELDS),
)
FRAMES = st.one_of(
    ANTHROPIC_EVENTS.map(frame_chunk),
    st.builds(
        event_frame,
        st.sampled_from(CONVERSE_KINDS.split()),
        st.dictionaries(st.sampled_from(CONVERSE_KEYS.split()), anything(CONVERSE_KEYS, CONVERSE_KINDS), max_size=4),
    ),
)


def play(reader: EventStreamReader, *chunks: bytes) -> Completion:
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def survive(reader: EventStreamReader, heard: Heard, events: list[Any]) -> None:
    data = [event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode() for event in events]
    try:
        completion = play(reader, *data)
    except ProviderError as error:
        msgspec.json.encode(error.message)
    else:
        assert (completion.text, completion.reasoning) == (heard.text, heard.thinking)
        ids = [call.call_id for call in completion.calls if call.call_id]
        assert all(call_id in ids for call_id, _, _ in heard.shown_calls)
        msgspec.json.encode(completion)
    finally:
        msgspec.json.encode(heard.events)
        assert reader.usage == (heard.usages[-1] if heard.usages else msgspec.UNSET)


@settings(max_examples=24, deadline=None)
@given(st.lists(OPENAI_EVENTS, max_size=5))
def test_chat(events: list[Any]) -> None:
    heard = Heard()
    survive(ChatReader(heard.events.append, model="m", service="s"), heard, events)


@settings(max_examples=24, deadline=None)
@given(st.lists(ANTHROPIC_EVENTS, max_size=5))
def test_messages(events: list[Any]) -> None:
    heard = Heard()
    survive(MessageReader(heard.events.append, service="s"), heard, events)


@settings(max_examples=24, deadline=None)
@given(st.lists(RESPONSES_EVENTS, max_size=5))
def test_responses(events: list[Any]) -> None:
    heard = Heard()
    survive(ResponseReader(heard.events.append, model="m", service="s"), heard, events)


@settings(max_examples=24, deadline=None)
@given(st.lists(FRAMES, max_size=5))
def test_frames(events: list[Any]) -> None:
    heard = Heard()
    survive(FrameReader(heard.events.append, service="s"), heard, events)


def readers() -> list[EventStreamReader]:
    return [
        ChatReader(lambda e: None, model="m", service="s"),
        ResponseReader(lambda e: None, model="m", service="s"),
        MessageReader(lambda e: None, service="s"),
        FrameReader(lambda e: None, service="s"),
    ]


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=60), st.sampled_from([b"", b"data: ", b"event: error\ndata: "]))
def test_bytes(data: bytes, before: bytes) -> None:
    for reader in readers():
        with suppress(ProviderError):
            play(reader, before + data + b"\n\n")


@settings(max_examples=20, deadline=None)
@given(anything(OPENAI_KEYS, "x") | anything(ANTHROPIC_KEYS, KINDS) | anything(RESPONSES_KEYS, "failed"))
def test_whole_bodies(body: Any) -> None:
    for reader in readers():
        with suppress(ProviderError):
            reader.whole(json.dumps(body).encode())
            reader.finish()


@pytest.mark.parametrize("depth", [500, 100_000])
def test_depth(depth: int) -> None:
    data = b'data: {"choices":' + b"[" * depth + b"]" * depth + b"}\n\n"
    for reader in readers()[:3]:
        with pytest.raises(ProviderError, match=r"not JSON|broke off"):
            play(reader, data)
