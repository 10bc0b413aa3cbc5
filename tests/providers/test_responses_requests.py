"""Responses requests: whatever the history, a strict service that keeps nothing takes them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from chunk_server import Answer, chunk_server
from conversing import KEY, ask, converse, make
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from responses_service import Json, chunks_of, events_of, faults, function_call, message, reasoning
from test_requests import _REQUESTS, PNG, READ, call, user

from agentwire.events import CallRef, Image, Text
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.provider import Completion, ModelRequest
from agentwire_openai.quirks import OpenAIQuirks
from agentwire_openai.responses_request import build
from agentwire_openai.responses_stream import ResponseReader


def body_of(request: ModelRequest, **options: Any) -> Json:
    body = build(request, OpenAIQuirks(**options))
    assert b"\n" not in body
    decoded: Json = json.loads(body.decode("utf-8"))
    return decoded


def reply(*items: Json, model: str = "test-model") -> Completion:
    reader = ResponseReader(lambda event: None, model=model, service="s")
    for chunk in chunks_of(events_of(list(items))):
        reader.feed(chunk)
    return reader.finish()


def remembered(completion: Completion, **changes: Any) -> AssistantMessage:
    """The reply as the history holds it, after a trip through the journal."""
    said = AssistantMessage(completion.text, completion.reasoning, completion.calls, "openai", completion.items)
    stored = msgspec.json.encode(msgspec.structs.replace(said, **changes))
    assert b"\n" not in stored
    return msgspec.json.decode(stored, type=AssistantMessage)


@st.composite
def replies(draw: st.DrawFn) -> AssistantMessage:
    """What this provider may find in a history, of its own and of others."""
    kinds = draw(st.lists(st.sampled_from(["reasoning", "message", "call", "search"]), max_size=4))
    items: list[Json] = []
    for number, kind in enumerate(kinds):
        encrypted = draw(st.sampled_from(["gAAA", ""]))
        items.append(
            {
                "reasoning": reasoning("s", number=number, encrypted=encrypted),
                "message": message(draw(st.sampled_from(["hi", "你好"])), number=number),
                "call": function_call("Read", draw(st.sampled_from(["{}", '{"a":', "[]", ""])), number=number),
                "search": {"type": "web_search_call", "id": f"ws_{number}", "status": "completed"},
            }[kind]
        )
    kept = reply(*items, model=draw(st.sampled_from(["m", "another"])))
    left_out = draw(st.booleans()) and len(kept.calls) > 1
    return remembered(kept, calls=kept.calls[1:] if left_out else kept.calls)


@settings(max_examples=60, deadline=None)
@given(_REQUESTS, st.lists(replies(), max_size=2))
def test_any_history_is_taken_by_a_strict_service(request: ModelRequest, said: list[AssistantMessage]) -> None:
    request.messages[1:1] = said
    before = repr(request)
    assert list(faults(body_of(request))) == []
    assert repr(request) == before


def test_a_conversation() -> None:
    history: list[Message] = [
        user("one"),
        AssistantMessage("looking", "in the clear", calls=[call("c1"), call("c2", arguments='{"b":')]),
        ToolMessage("c1", "Read", "first"),
        ToolMessage("c2", "Read", "second", is_error=True),
        AssistantMessage("two"),
        user("three"),
    ]
    body = body_of(ask(*history, system="be good", tools=[READ], max_tokens=50, effort="low", thinking="enabled"))
    assert body == {
        "model": "test-model",
        "instructions": "be good",
        "input": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "looking"},
            {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"a":1}'},
            {"type": "function_call", "call_id": "c2", "name": "Read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "first"},
            {"type": "function_call_output", "call_id": "c2", "output": "second"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"},
        ],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 50,
        "tools": [
            {"type": "function", "name": "Read", "description": "Reads", "parameters": READ.parameters, "strict": False}
        ],
        "reasoning": {"effort": "low", "summary": "auto"},
    }


def test_nothing_is_said_that_was_not_asked_for() -> None:
    assert body_of(ask(), encrypted_reasoning=False) == {
        "model": "test-model",
        "input": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "store": False,
    }


def test_options() -> None:
    body = body_of(
        ask(effort="high"), max_tokens=9, reasoning_summary="detailed", extra_body={"store": True, "top_p": 1}
    )
    assert (body["max_output_tokens"], body["store"], body["top_p"]) == (9, True, 1)
    assert body["reasoning"] == {"effort": "high", "summary": "detailed"}


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        ("gpt-5", True),
        ("gpt-5.1-codex", True),
        ("o3", True),
        ("openai/gpt-oss-120b", True),
        ("my-own", True),
        ("gpt-4o", False),
        ("gpt-4.1-mini", False),
        ("openai/gpt-4o", False),
        ("ft:gpt-4o-2024-08-06:me::x", False),
        ("gpt-3.5-turbo", False),
        ("chatgpt-4o-latest", False),
        ("gpt-5-chat-latest", False),
    ],
)
def test_who_is_asked_for_encrypted_reasoning(model: str, reasons: bool) -> None:
    assert ("include" in body_of(ask(model=model))) is reasons
    assert "include" in body_of(ask(model=model), encrypted_reasoning=True)
    assert "include" not in body_of(ask(model=model), encrypted_reasoning=False)


def test_images() -> None:
    history: list[Message] = [
        UserMessage([Text("look"), PNG]),
        AssistantMessage(calls=[call("c1"), call("c2")]),
        ToolMessage("c1", "Shot", "one", images=[PNG]),
        ToolMessage("c2", "Shot", "", images=[PNG]),
    ]
    asked, _, _, first, second = body_of(ask(*history))["input"]
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}
    assert asked["content"] == [{"type": "input_text", "text": "look"}, image]
    assert first["output"] == [{"type": "input_text", "text": "one"}, image]
    assert second["output"] == [image]
    closely = Image("image/png", "aGk=", extra={"image_url": {"detail": "low"}, "cache_control": {}})
    assert body_of(ask(UserMessage([closely])))["input"][0]["content"] == [{**image, "detail": "low"}]


ITEMS = [reasoning("Need the file."), message("Looking.", number=2), function_call("Read", '{"a":1}', number=3)]


def test_a_reply_goes_back_as_it_came_and_in_its_order() -> None:
    said = remembered(reply(*ITEMS))
    body = body_of(ask(user("one"), said, ToolMessage("call_3", "Read", "text")))
    assert body["input"][1:4] == ITEMS
    assert body["input"][4] == {"type": "function_call_output", "call_id": "call_3", "output": "text"}


def test_with_the_id_that_the_loop_gave_the_call() -> None:
    renamed = CallRef("call_3-2", "Read", '{"a":1}')
    said = remembered(reply(*ITEMS), calls=[renamed])
    body = body_of(ask(user("one"), said, ToolMessage("call_3-2", "Read", "text")))
    assert body["input"][1:4] == [*ITEMS[:2], {**ITEMS[2], "call_id": "call_3-2"}]
    assert body["input"][4]["call_id"] == "call_3-2"


MADE = [
    {"role": "assistant", "content": "Looking."},
    {"type": "function_call", "call_id": "call_3", "name": "Read", "arguments": '{"a":1}'},
]


@pytest.mark.parametrize(
    "changes",
    [
        {"provider": "anthropic"},
        {"items": []},
        {"items": [Raw(b'{"model":"test-model","reasoning_content":true}')]},
        {"items": [Raw(b'{"type":"thinking"}')]},
        {"items": [Raw(b"[]")]},
        {"calls": [CallRef("call_3", "Read", '{"a":1}'), CallRef("x", "Read", "{}")]},
    ],
)
def test_only_to_whom_it_came_from(changes: Json) -> None:
    said = remembered(reply(*ITEMS), **changes)
    assert body_of(ask(user("one"), said))["input"][1:3] == MADE


def test_another_model_gets_no_thoughts_of_this_one() -> None:
    said = remembered(reply(*ITEMS))
    assert body_of(ask(user("one"), said, model="gpt-4o"))["input"][1:3] == MADE


def test_reasoning_that_was_not_given_away_is_left_out_with_its_ids() -> None:
    said = remembered(reply(reasoning(encrypted=""), *ITEMS[1:]))
    assert body_of(ask(user("one"), said))["input"][1:3] == MADE


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    said = remembered(reply(message("x"), reasoning("and then", number=2)))
    assert body_of(ask(user("one"), said, user("two")))["input"][1:] == [
        message("x"),
        {"role": "user", "content": "two"},
    ]
    nothing = remembered(reply(reasoning("hm")))
    assert body_of(ask(user("one"), nothing, user("two")))["input"][1:] == [{"role": "user", "content": "two"}]


def test_reasoning_in_the_clear_goes_back() -> None:
    items = [reasoning(clear="hm", encrypted=""), *ITEMS[1:]]
    assert body_of(ask(user("one"), remembered(reply(*items))))["input"][1:4] == items


async def test_over_a_real_connection() -> None:
    answers = [Answer(chunks_of(events_of(ITEMS))), Answer(chunks_of(events_of([message("It says hello.")])))]
    async with chunk_server(*answers) as server:
        first = await converse(make("openai", server.url, options={"api": "responses"}))
        assert first.completion is not None
        history = [user("Hello"), remembered(first.completion), ToolMessage("call_3", "Read", "hello")]
        second = await converse(make("openai", server.url, options={"api": "responses"}), ask(*history))
        assert [request.path for request in server.requests] == ["/v1/responses"] * 2
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert server.requests[1].body["input"][1:4] == ITEMS
        assert list(faults(server.requests[1].body)) == []
    assert (second.text, first.sent[0].api) == ("It says hello.", "responses")


async def test_the_other_form_takes_over_the_history() -> None:
    said = remembered(reply(*ITEMS))
    done = Answer([b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'])
    async with chunk_server(done) as server:
        heard = await converse(make("openai", server.url), ask(user("one"), said, ToolMessage("call_3", "Read", "x")))
        assistant = server.requests[0].body["messages"][1]
    assert heard.error is None
    assert set(assistant) == {"role", "content", "tool_calls"}


@pytest.mark.parametrize("cut", [1, 7, 100])
async def test_an_error_in_the_stream_of_a_good_status(cut: int) -> None:
    failed = {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Slow down, try again in 2s"}}
    whole = b"".join(chunks_of([*events_of([message("x")])[:2], {"type": "response.failed", "response": failed}]))
    chunks = [whole[i : i + cut] for i in range(0, len(whole), cut)]
    async with chunk_server(Answer(chunks)) as server:
        heard = await converse(make("openai", server.url, options={"api": "responses"}))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable, heard.error.retry_after_ms) == ("rate_limit", True, 2000)
