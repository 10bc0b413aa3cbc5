"""What a reply leaves for the next request: reasoning and signed thoughts go back as they came."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from chunk_server import Answer, chunk_server
from conversing import CASES, ask, chunks_of, make

from agentwire.events import Text
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.provider import Completion

HELLO = UserMessage([Text("Hello")])
DONE = Answer([b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n', b"data: [DONE]\n\n"])


def remembered(name: str, completion: Completion, **changes: Any) -> AssistantMessage:
    """The reply as the history holds it, after a trip through the journal."""
    message = AssistantMessage(completion.text, completion.reasoning, completion.calls, name, completion.items)
    stored = msgspec.json.encode(msgspec.structs.replace(message, **changes))
    assert b"\n" not in stored
    return msgspec.json.decode(stored, type=AssistantMessage)


async def next_request(case: str, model: str = "test-model", **changes: Any) -> dict[str, Any]:
    """Play the case's reply, then send its tool result; gives the second request's body."""
    given = CASES[case]["input"]
    name, result = given["provider"], given["tool_result"]
    options = changes.pop("options", {})
    async with chunk_server(Answer(chunks_of(given["reply"])), DONE) as server:
        provider = make(name, server.url, options=options)
        completion = await provider.complete(ask(), lambda event: None)
        await provider.aclose()
        history: list[Message] = [
            HELLO,
            remembered(name, completion, **changes),
            ToolMessage(result["id"], completion.calls[0].name, result["text"]),
        ]
        again = make(name, server.url, options=options)
        if name == "openai":
            await again.complete(ask(*history, model=model), lambda event: None)
        else:
            server.answers[0] = Answer(chunks_of(CASES["S-a19"]["input"]))
            await again.complete(ask(*history, model=model), lambda event: None)
        await again.aclose()
        body: dict[str, Any] = server.requests[1].body
    return body


async def test_s_a17() -> None:
    expected = CASES["S-a17"]["expect"]
    body = await next_request("S-a17")
    assistant, tool = body["messages"][-2:]
    assert tool == expected["next_request.messages[-1]"]
    assert assistant.pop("content") is None
    assert assistant == expected["next_request.messages[-2]"]


@pytest.mark.parametrize(
    "changes", [{"model": "another-model"}, {"provider": "anthropic"}, {"options": {"reasoning_field": ""}}]
)
async def test_s_a17_not_to_whom_does_not_take_it(changes: dict[str, Any]) -> None:
    body = await next_request("S-a17", **changes)
    assert "reasoning_content" not in body["messages"][-2]
    assert "Need the file." not in str(body)


async def test_s_a17_under_another_name() -> None:
    body = await next_request("S-a17", options={"reasoning_field": "reasoning"})
    assert body["messages"][-2]["reasoning"] == "Need the file."


async def test_s_a17_not_without_calls() -> None:
    thinking = b'data: {"choices":[{"delta":{"reasoning_content":"hm","content":"x"},"finish_reason":"stop"}]}\n\n'
    async with chunk_server(Answer([thinking]), DONE) as server:
        provider = make("openai", server.url)
        completion = await provider.complete(ask(), lambda event: None)
        await provider.complete(ask(HELLO, remembered("openai", completion), HELLO), lambda event: None)
        await provider.aclose()
        assert completion.reasoning == "hm"
        assert server.requests[1].body["messages"][1] == {"role": "assistant", "content": "x"}


async def test_what_a_service_puts_beside_a_call_goes_back_with_it() -> None:
    extra = '{"google":{"thought_signature":"c2ln"}}'
    function = '{"name":"Read","arguments":"{}"}'
    calls = (
        b'data: {"choices":[{"delta":{"tool_calls":['
        + f'{{"index":0,"id":"a","function":{function},"extra_content":{extra}}},'.encode()
        + f'{{"index":1,"id":"b","function":{function}}}]}},"finish_reason":"tool_calls"}}]}}\n\n'.encode()
    )
    async with chunk_server(Answer([calls]), DONE) as server:
        provider = make("openai", server.url)
        completion = await provider.complete(ask(), lambda event: None)
        results = [ToolMessage("a", "Read", "x"), ToolMessage("b", "Read", "y")]
        await provider.complete(ask(HELLO, remembered("openai", completion), *results), lambda event: None)
        await provider.aclose()
        first, second = server.requests[1].body["messages"][1]["tool_calls"]
    assert first["extra_content"] == {"google": {"thought_signature": "c2ln"}}
    assert "extra_content" not in second


async def test_s_a18() -> None:
    expected = CASES["S-a18"]["expect"]
    body = await next_request("S-a18")
    assistant, user = body["messages"][-2:]
    assert assistant == expected["next_request.messages[-2]"]
    wanted = expected["next_request.messages[-1]"]
    assert user["role"] == wanted["role"]
    assert user["content"][0].items() >= wanted["content[0]"].items()


async def test_s_a18_only_back_to_the_service_it_came_from() -> None:
    body = await next_request("S-a18", provider="openai")
    assert [block["type"] for block in body["messages"][-2]["content"]] == ["tool_use"]
    assert "Look at" not in str(body)


async def test_s_a18_with_the_id_that_the_loop_gave_the_call() -> None:
    given = CASES["S-a18"]["input"]
    async with chunk_server(Answer(chunks_of(given["reply"])), Answer(chunks_of(CASES["S-a19"]["input"]))) as server:
        provider = make("anthropic", server.url)
        completion = await provider.complete(ask(), lambda event: None)
        (call,) = completion.calls
        renamed = msgspec.structs.replace(call, call_id="toolu_9#2")
        message = remembered("anthropic", completion, calls=[renamed])
        await provider.complete(ask(HELLO, message, ToolMessage("toolu_9#2", "Read", "x")), lambda event: None)
        await provider.aclose()
        assistant, user = server.requests[1].body["messages"][-2:]
    thinking, use = assistant["content"]
    assert thinking == CASES["S-a18"]["expect"]["next_request.messages[-2]"]["content"][0]
    assert use["id"] == user["content"][0]["tool_use_id"] != "toolu_9"
