"""Chat Completions replies as services really send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conversing import Heard
from msgspec import UNSET

from agentwire.provider import Completion, ProviderError
from agentwire_openai.stream import ChatReader, usage_of

Json = dict[str, Any]


def read(*events: Json | str | bytes, **options: Any) -> tuple[Heard, Completion]:
    heard = Heard()
    reader = ChatReader(heard.events.append, model="m", service="service", **options)
    for event in events:
        data = event if isinstance(event, bytes) else f"data: {event if isinstance(event, str) else json.dumps(event)}"
        reader.feed(data if isinstance(data, bytes) else data.encode() + b"\n\n")
    return heard, reader.finish()


def delta(finish: str | None = None, **fields: Any) -> Json:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(arguments: Any = None, name: Any = None, **fields: Any) -> Json:
    return delta(tool_calls=[{**fields, "function": {"name": name, "arguments": arguments}}])


STOP = delta("stop")


def calls_of(*events: Json | str | bytes, **options: Any) -> list[tuple[str, str, str]]:
    heard, completion = read(*events, STOP, **options)
    calls = [(ref.call_id, ref.name, ref.arguments_text) for ref in completion.calls]
    assert completion.finish_reason == "tool_calls"
    # Streamed as they came, which need not be the model's order.
    assert sorted(heard.shown_calls) == sorted(ref for ref in calls if ref[0] and ref[1])
    return calls


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [
                call("", "A", index=0, id="a"),
                call("{", index=0),
                call("", "B", index=1, id="b"),
                call("{}", index=1),
                call("}", index=0),
            ],
            [("a", "A", "{}"), ("b", "B", "{}")],
            id="interleaved by index",
        ),
        pytest.param(
            [call("{}", "B", index=1, id="b"), call("{}", "A", index=0, id="a")],
            [("a", "A", "{}"), ("b", "B", "{}")],
            id="the model's order is the index",
        ),
        pytest.param(
            [call('{"x":', "A", index=0, id="a"), call("1}", index=0), call("{}", "B", index=0, id="b")],
            [("a", "A", '{"x":1}'), ("b", "B", "{}")],
            id="every call under index 0",
        ),
        pytest.param(
            [call("{}", "A", index=0, id="call_0"), call("{}", "B", index=1, id="call_0")],
            [("call_0", "A", "{}"), ("call_0_2", "B", "{}")],
            id="one id for several calls",
        ),
        pytest.param(
            [call("{", "A", id="a"), call("{", "B", id="b"), call("}", id="a"), call("}", id="b")],
            [("a", "A", "{}"), ("b", "B", "{}")],
            id="no index, interleaved by id",
        ),
        pytest.param([call("{}", "A"), call("{}", "B")], [("", "A", "{}"), ("", "B", "{}")], id="neither index nor id"),
        pytest.param([call("", None, index=0, id="a"), call("{}", "A", index=0)], [("a", "A", "{}")], id="name later"),
        pytest.param([call("{", "A", index=0), call("}", index=0, id="a")], [("a", "A", "{}")], id="id later"),
        pytest.param([call("{}", "", index=0, id="a")], [("a", "", "{}")], id="no name"),
        pytest.param([call("{}", "A", index=0, id="")], [("", "A", "{}")], id="empty id"),
        pytest.param([call(None, "A", index=0, id="a")], [("a", "A", "")], id="no arguments"),
        pytest.param([call({"x": 1}, "A", index=0, id="a")], [("a", "A", '{"x":1}')], id="arguments as an object"),
        pytest.param([call("{}", "A", index="0", id="a"), call("", index=0.0)], [("a", "A", "{}")], id="odd indexes"),
        pytest.param(
            [delta(tool_calls={"id": "a", "function": {"name": "A", "arguments": "{}"}})],
            [("a", "A", "{}")],
            id="not a list",
        ),
        pytest.param(
            [delta(function_call={"name": "A", "arguments": "{"}), delta(function_call={"arguments": "}"})],
            [("call_0", "A", "{}")],
            id="the legacy field",
        ),
        pytest.param(
            [delta(tool_calls=[{"index": 0, "id": "a", "function": None}]), call("{}", "A", index=0)],
            [("a", "A", "{}")],
            id="null function",
        ),
    ],
)
def test_calls(events: list[Json], expected: list[tuple[str, str, str]]) -> None:
    assert calls_of(*events) == expected


def test_ids_are_made_on_request() -> None:
    assert calls_of(call("{}", "A", index=0), call("{}", "B", index=1, id=""), make_call_ids=True) == [
        ("call_0", "A", "{}"),
        ("call_1", "B", "{}"),
    ]


@pytest.mark.parametrize(
    ("streamed", "kept"),
    [
        ('{"a":"line\nbreak"}', '{"a":"line\\nbreak"}'),
        ('{"a":"half \\ud83d"}', '{"a":"half \ufffd"}'),
        ('{"a":NaN}', '{"a":null}'),
        ('{"a":1', '{"a":1'),
        ('{"a":1}}', '{"a":1}}'),
        ("[1]", "[1]"),
        ("{" * 5000, "{" * 5000),
        (' {"a": 1} ', ' {"a": 1} '),
    ],
)
def test_arguments_are_kept_unless_only_their_json_is_loose(streamed: str, kept: str) -> None:
    _, completion = read(call(streamed, "A", index=0, id="a"), STOP)
    assert completion.calls[0].arguments_text == kept


@pytest.mark.parametrize(
    ("finish", "with_calls", "expected"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("tool_calls", True, "tool_calls"),
        ("tool_calls", False, "tool_calls"),
        ("function_call", True, "tool_calls"),
        ("length", True, "length"),
        ("length", False, "length"),
        ("content_filter", False, "content_filter"),
        ("eos", False, "eos"),
        ("eos", True, "tool_calls"),
    ],
)
def test_finish_reasons(finish: str, with_calls: bool, expected: str) -> None:
    events = [call("{}", "A", index=0, id="a")] if with_calls else [delta(content="x")]
    assert read(*events, delta(finish))[1].finish_reason == expected


def test_done_alone_is_an_end() -> None:
    assert read(delta(content="x"), "[DONE]")[1].finish_reason == "stop"
    assert read(call("{}", "A", index=0, id="a"), " [DONE] ")[1].finish_reason == "tool_calls"


@pytest.mark.parametrize("finish", ["error", "network_error"])
def test_a_finish_that_is_a_failure(finish: str) -> None:
    with pytest.raises(ProviderError, match=finish) as caught:
        read(delta(content="x"), delta(finish))
    assert (caught.value.kind, caught.value.retryable) == ("stream", True)


def test_reasoning_comes_before_the_text_of_its_chunk() -> None:
    heard, completion = read(delta(content="text", reasoning_content="thought"), STOP)
    assert [type(event).__name__ for event in heard.events] == ["ReasoningDelta", "TextDelta"]
    assert (completion.reasoning, completion.text) == ("thought", "text")


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "t"},
        {"reasoning": "t"},
        {"reasoning": "t", "reasoning_content": "t"},
        {"reasoning": "t", "reasoning_content": ""},
        {"reasoning_details": [{"type": "reasoning.text", "text": "t"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "t"}]},
        {"reasoning": "t", "reasoning_details": [{"text": "t"}, {"type": "reasoning.encrypted", "data": "x"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}]},
        {"content": [{"type": "thinking", "thinking": "t"}]},
    ],
)
def test_reasoning_is_heard_once(fields: Json) -> None:
    heard, completion = read(delta(**fields), delta(content="a"), STOP)
    assert (heard.thinking, heard.text) == ("t", "a")
    assert (completion.reasoning, completion.text) == ("t", "a")


def test_tags_stay_text_where_the_service_tells_reasoning_apart() -> None:
    heard, _ = read(delta(reasoning="t"), delta(content="<think>"), delta(content="a</think>"), STOP)
    assert (heard.thinking, heard.text) == ("t", "<think>a</think>")


def test_tags_stay_text_on_request() -> None:
    heard, _ = read(delta(content="<think>a</think>b"), STOP, thinking_tags=False)
    assert (heard.thinking, heard.text) == ("", "<think>a</think>b")


def test_what_was_held_back_is_shown_with_the_finish() -> None:
    heard = Heard()
    reader = ChatReader(heard.events.append, model="m", service="service")
    reader.feed(b'data: {"choices":[{"delta":{"content":"<thi"}}]}\n\n')
    assert heard.text == ""
    reader.feed(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
    assert heard.text == "<thi"
    assert reader.finish().text == "<thi"


def test_a_refusal() -> None:
    heard, completion = read(delta(refusal="I will "), delta(refusal="not."), STOP)
    assert (heard.text, completion.text, completion.finish_reason) == ("I will not.", "I will not.", "refusal")


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": [{"delta": {"content": "x", "role": 7, "tool_calls": "no"}}]},
        {"choices": [{"delta": {"content": "x", "reasoning": {"effort": 1}}}]},
        {"choices": [{"delta": {"content": [{"type": "text", "text": "x"}]}}]},
        {"choices": [{"delta": {"content": "x"}, "finish_reason": 0}, "rubbish"]},
        {"choices": [{"message": {"content": "x"}}]},
        {"choices": [{"delta": {"content": "x"}}], "usage": "none", "x_groq": []},
        b'data: {"choices":[{"delta":{"content":"x"}}],"logprobs":NaN}\n\n',
        b'data: [{"choices":[{"delta":{"content":"x"}}]}]\n\n',
        b'data: {"choices":[{"delta":{"content":"x","\xff":1}}]}\n\n',
        b'data: {"choices":\ndata: [{"delta":{"content":"x"}}]}\n\n',
    ],
)
def test_one_odd_field_costs_only_itself(odd: Json | bytes) -> None:
    heard, completion = read(odd, STOP)
    assert (heard.text, completion.text) == ("x", "x")


@pytest.mark.parametrize("nothing", ["null", "1", '"ping"', "true", "[]", "{}", '{"choices":null}', "", " "])
def test_json_that_says_nothing(nothing: str) -> None:
    assert read(delta(content="x"), nothing, STOP)[1].text == ("x")


@pytest.mark.parametrize("garbage", ["Internal Server Error", '{"choices":[{"delta":{"content":"x"', "{" * 100_000])
def test_what_is_no_json_is_an_error(garbage: str) -> None:
    with pytest.raises(ProviderError) as caught:
        read(delta(content="x"), garbage, STOP)
    assert (caught.value.kind, caught.value.retryable) == ("bad_reply", False)
    assert garbage[:20] in caught.value.message


@pytest.mark.parametrize(
    "event",
    [
        b'event: error\ndata: {"message":"went wrong"}\n\n',
        b'event: error\ndata: "went wrong"\n\n',
        b"event: error\ndata: went wrong\n\n",
        b'data: {"object":"error","message":"went wrong","code":500}\n\n',
        b'data: [{"error":{"message":"went wrong"}}]\n\n',
        b'data: {"choices":[],"error":{"message":"went wrong"}}\n\n',
    ],
)
def test_errors_in_other_shapes(event: bytes) -> None:
    with pytest.raises(ProviderError, match="went wrong"):
        read(delta(content="x"), event, STOP)


@pytest.mark.parametrize(
    ("reported", "counts"),
    [
        ({"prompt_tokens": 12, "completion_tokens": 3}, (12, 3, UNSET, UNSET, UNSET)),
        (
            {
                "prompt_tokens": 12,
                "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 4},
                "cached_tokens": 9,
            }
            | {"completion_tokens_details": {"reasoning_tokens": 2}},
            (12, 3, 4, UNSET, 2),
        ),
        ({"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 0}, (1, 2, 0, UNSET, UNSET)),
        ({"prompt_tokens": 1, "completion_tokens": 2, "prompt_cache_hit_tokens": 5}, (1, 2, 5, UNSET, UNSET)),
        (
            {"prompt_tokens": 1, "prompt_tokens_details": None, "completion_tokens": None},
            (1, UNSET, UNSET, UNSET, UNSET),
        ),
        ({"prompt_tokens_details": {"cached_tokens": None, "cache_write_tokens": 7}}, (UNSET, UNSET, UNSET, 7, UNSET)),
        ({"input_tokens": 5, "output_tokens": 6}, (5, 6, UNSET, UNSET, UNSET)),
        ({"prompt_tokens": 5.0, "completion_tokens": True, "cached_tokens": -1}, (5, UNSET, UNSET, UNSET, UNSET)),
        ({"prompt_tokens": float("inf"), "completion_tokens": float("nan")}, (UNSET,) * 5),
    ],
)
def test_usage(reported: Json, counts: tuple[Any, ...]) -> None:
    usage = usage_of(reported)
    found = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )
    assert found == counts
    assert usage.extra == reported


USAGE = {"prompt_tokens": 7, "completion_tokens": 1}


@pytest.mark.parametrize(
    "event",
    [
        {"choices": [], "usage": USAGE},
        {"usage": USAGE},
        {"choices": [{"delta": {}, "finish_reason": "stop", "usage": USAGE}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": USAGE}},
    ],
)
def test_wherever_usage_stands(event: Json) -> None:
    heard, completion = read(delta(content="x"), STOP, event, {"choices": [], "usage": None}, "[DONE]")
    assert completion.usage
    assert completion.usage.extra == USAGE
    assert heard.usages == [completion.usage]


def test_no_usage_is_not_zero() -> None:
    assert read(delta(content="x"), STOP)[1].usage is UNSET


def test_a_service_that_does_not_stream() -> None:
    heard = Heard()
    reader = ChatReader(heard.events.append, model="m", service="service")
    message = {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"id": "a", "function": {"name": "A", "arguments": "{}"}}],
    }
    body = {
        "object": "chat.completion",
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": USAGE,
    }
    reader.whole(json.dumps(body, indent=1).encode())
    completion = reader.finish()
    assert (heard.text, heard.shown_calls) == ("x", [("a", "A", "{}")])
    assert (completion.text, completion.finish_reason) == ("x", "tool_calls")
    assert completion.usage


@pytest.mark.parametrize(
    ("body", "text"), [({"error": {"message": "no"}}, "no"), ({"ok": 1}, '"ok": 1'), ("", "no event stream")]
)
def test_json_that_is_no_reply(body: Any, text: str) -> None:
    reader = ChatReader(lambda event: None, model="m", service="service")
    with pytest.raises(ProviderError, match=text):
        reader.whole(json.dumps(body).encode() if body else b"")
