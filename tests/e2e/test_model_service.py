"""The scripted model service itself, read by the services' official SDKs: a fake that they misread proves nothing."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
import trio
from support.model_service import ModelService, wait_for
from support.replies import Gate, Refused, Reply, Thinking, Tokens, ToolCall

CALL = ToolCall("t1", "Write", {"file_path": "/a", "content": "ü\n"})
REPLY = Reply(Thinking("Let me "), Thinking("see."), "Hel", "lo", CALL, tokens=Tokens(100, 7, cached=60))


async def test_the_openai_sdk_reads_it(model: ModelService) -> None:
    model.script(REPLY)

    def ask() -> openai.types.chat.ChatCompletion:
        client = openai.OpenAI(base_url=model.url, api_key="k", max_retries=0)
        with client.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": "go"}], stream_options={"include_usage": True}
        ) as stream:
            return stream.get_final_completion()

    done = await trio.to_thread.run_sync(ask)
    message = done.choices[0].message
    assert message.content == "Hello"
    assert message.tool_calls
    (call,) = message.tool_calls
    assert call.type == "function"
    assert (call.id, call.function.name) == ("t1", "Write")
    assert call.function.arguments == '{"file_path": "/a", "content": "\\u00fc\\n"}'
    assert done.choices[0].finish_reason == "tool_calls"
    assert done.usage
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (100, 7)
    assert model.requests[0].texts("user") == ["go"]


async def test_the_anthropic_sdk_reads_it(model: ModelService) -> None:
    model.script(REPLY)

    def ask() -> anthropic.types.Message:
        client = anthropic.Anthropic(base_url=model.url.removesuffix("/v1"), api_key="k", max_retries=0)
        with client.messages.stream(model="m", max_tokens=100, messages=[{"role": "user", "content": "go"}]) as stream:
            return stream.get_final_message()

    done = await trio.to_thread.run_sync(ask)
    thinking, text, call = done.content
    assert thinking.type == "thinking"
    assert thinking.thinking == "Let me see."
    assert text.type == "text"
    assert text.text == "Hello"
    assert call.type == "tool_use"
    assert call.input == CALL.arguments
    assert done.stop_reason == "tool_use"
    assert (done.usage.input_tokens, done.usage.cache_read_input_tokens, done.usage.output_tokens) == (40, 60, 7)


async def test_it_is_strict_and_says_why(nursery: trio.Nursery) -> None:
    service = ModelService()
    await nursery.start(service.serve)

    def ask(*messages: Any) -> None:
        client = openai.OpenAI(base_url=service.url, api_key="k", max_retries=0)
        client.chat.completions.create(model="m", messages=list(messages), stream=True)

    orphan = {"role": "tool", "tool_call_id": "t1", "content": "x"}
    with pytest.raises(openai.BadRequestError, match="without its call"):
        await trio.to_thread.run_sync(ask, {"role": "user", "content": "go"}, orphan)
    assert len(service.faults) == 1


async def test_statuses_gates_and_hanging_up(model: ModelService) -> None:
    gate = Gate()
    model.script(Refused(429, "later", {"retry-after": "7"}), Reply("a", gate, "b"))

    def ask() -> openai.Stream[openai.types.chat.ChatCompletionChunk]:
        client = openai.OpenAI(base_url=model.url, api_key="k", max_retries=0)
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}], stream=True)

    with pytest.raises(openai.RateLimitError) as refused:
        await trio.to_thread.run_sync(ask)
    assert refused.value.response.headers["retry-after"] == "7"
    stream = await trio.to_thread.run_sync(ask)
    await wait_for(gate.reached, "everything before the gate is sent")
    assert not model.requests[1].answered.is_set()
    await trio.to_thread.run_sync(stream.close)
    await wait_for(model.requests[1].disconnected, "the client hung up")
