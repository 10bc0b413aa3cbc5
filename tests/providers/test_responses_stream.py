"""Responses replies: as OpenAI streams them, with anything left out that is said twice, and as they go wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conversing import Heard
from msgspec import UNSET
from responses_service import USAGE, Json, chunks_of, events_of, function_call, message, reasoning, response

from agentwire.events import CallRef
from agentwire.provider import Completion, ProviderError
from agentwire_openai.responses_stream import ResponseReader

ITEMS = [
    reasoning("First.", "Second.", number=1),
    message("Let me ", "look.", number=2),
    function_call("Read", '{"path":"a.txt"}', number=3),
    function_call("Glob", "{}", number=4),
]


def read(*events: Json | bytes, **options: Any) -> tuple[Heard, Completion]:
    heard = Heard()
    reader = ResponseReader(heard.hear, model="m", service="service", **options)
    for event in events:
        reader.feed(event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode())
    return heard, reader.finish()


def pairs(text: str) -> list[str]:
    return [text[start : start + 2] for start in range(0, len(text), 2)]


def check(heard: Heard, completion: Completion) -> None:
    assert completion.text == heard.text == "Let me look."
    assert completion.reasoning == heard.thinking == "First.\n\nSecond."
    assert completion.calls == [CallRef("call_3", "Read", '{"path":"a.txt"}'), CallRef("call_4", "Glob", "{}")]
    assert heard.shown_calls == [(call.call_id, call.name, call.arguments_text) for call in completion.calls]
    assert completion.finish_reason == "tool_calls"
    assert completion.usage
    assert completion.usage.input_tokens == 30
    assert completion.usage.cache_read_tokens == 20
    assert completion.usage.output_tokens == 12
    assert completion.usage.reasoning_tokens == 8
    assert completion.usage.extra == USAGE
    assert [json.loads(bytes(item)) for item in completion.items] == [{"api": "responses", "model": "m"}, *ITEMS]


def test_a_whole_reply() -> None:
    check(*read(*events_of(ITEMS, pairs)))


def test_it_is_streamed_as_it_comes() -> None:
    heard, _ = read(*events_of([message("abcd")], pairs))
    assert [type(event).__name__ for event in heard.events] == ["TextDelta", "TextDelta", "Usage"]


def test_one_byte_at_a_time() -> None:
    data = b"".join(chunks_of(events_of(ITEMS, pairs)))
    check(*read(*(data[i : i + 1] for i in range(len(data)))))


_DELTAS = {event["type"] for event in events_of(ITEMS) if event["type"].endswith(".delta")}
_DONE = {event["type"] for event in events_of(ITEMS) if event["type"].endswith(".done")}
_ADDED = {event["type"] for event in events_of(ITEMS) if event["type"].endswith(".added")}
_PARTS_DONE = _DONE - {"response.output_item.done"}


@pytest.mark.parametrize(
    "left_out",
    [
        _DELTAS,
        _DONE,
        _ADDED,
        _PARTS_DONE,
        _DELTAS | _PARTS_DONE,
        _DELTAS | _ADDED,
        _DONE | _ADDED,
        _DELTAS | _DONE | _ADDED,
        {"response.output_item.added", "response.output_item.done"},
        {"response.created", "response.in_progress"},
    ],
    ids=lambda kinds: f"{len(kinds)} kinds",
)
def test_what_is_said_twice_may_be_left_out_once(left_out: set[str]) -> None:
    check(*read(*(event for event in events_of(ITEMS, pairs) if event["type"] not in left_out)))


@pytest.mark.parametrize("missing", ["item_id", "output_index", "sequence_number"])
def test_an_event_that_does_not_say_where_it_belongs(missing: str) -> None:
    check(*read(*({key: value for key, value in event.items() if key != missing} for event in events_of(ITEMS))))


def test_names_of_the_events_alone_are_enough() -> None:
    events = events_of(ITEMS)
    named = [
        f"event: {event['type']}\ndata: {json.dumps({k: v for k, v in event.items() if k != 'type'})}\n\n".encode()
        for event in events
    ]
    check(*read(*named))


def test_item_ids_that_are_new_in_every_event() -> None:
    events = [
        event | ({"item_id": f"x{number}"} if "item_id" in event else {})
        for number, event in enumerate(events_of(ITEMS))
    ]
    check(*read(*events))


def test_indices_with_gaps() -> None:
    moved = [
        event | ({"output_index": event["output_index"] + 3} if "output_index" in event else {})
        for event in events_of(ITEMS)
    ]
    check(*read(*moved))


def test_calls_that_are_streamed_side_by_side() -> None:
    calls = [function_call("A", '{"x":1}', 1), function_call("B", '{"y":2}', 2)]
    events = events_of(calls, pairs)
    one = [event for event in events if event.get("output_index") == 0]
    two = [event for event in events if event.get("output_index") == 1]
    mixed = [event for both in zip(one, two, strict=True) for event in both]
    heard, completion = read(events[0], *mixed, events[-1])
    assert completion.calls == [CallRef("call_1", "A", '{"x":1}'), CallRef("call_2", "B", '{"y":2}')]
    assert heard.shown_calls == [("call_1", "A", '{"x":1}'), ("call_2", "B", '{"y":2}')]


def test_one_call_id_for_two_calls() -> None:
    calls = [function_call("A", "{}", 1), function_call("B", "{}", 2) | {"call_id": "call_1"}]
    _, completion = read(*events_of(calls))
    assert [call.call_id for call in completion.calls] == ["call_1", "call_1_2"]


def test_a_call_without_a_call_id() -> None:
    nameless = {key: value for key, value in function_call("A", "{}").items() if key not in ("call_id", "id")}
    end = {"type": "response.completed", "response": response([nameless])}
    assert read(end)[1].calls == [CallRef("", "A", "{}")]
    assert read(end, make_call_ids=True)[1].calls == [CallRef("call_0", "A", "{}")]
    assert read({"type": "response.completed", "response": response([nameless | {"id": "fc_1"}])})[1].calls == [
        CallRef("fc_1", "A", "{}")
    ]


def test_arguments_that_come_as_an_object() -> None:
    call = function_call("A", "") | {"arguments": {"x": 1}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": call}
    heard, completion = read(done, {"type": "response.completed", "response": response([call])})
    assert completion.calls == [CallRef("call_1", "A", '{"x":1}')]
    assert heard.shown_calls == [("call_1", "A", '{"x":1}')]


def test_arguments_that_are_other_when_they_are_done() -> None:
    events = events_of([function_call("A", '{"x":1}')])
    events[-2]["item"]["arguments"] = '{"x":2}'
    _, completion = read(*events)
    assert completion.calls[0].arguments_text == '{"x":2}'


def test_what_was_shown_is_not_taken_back() -> None:
    events = events_of([message("shown")])
    events = [event for event in events if not event["type"].endswith("text.done")]
    events[-2]["item"]["content"][0]["text"] = "filtered"
    heard, completion = read(*events)
    assert (heard.text, completion.text) == ("shown", "shown")


def test_reasoning_in_the_clear() -> None:
    items = [reasoning(clear="hm", encrypted="", number=1), reasoning(clear="so", encrypted="", number=2), message("x")]
    heard, completion = read(*events_of(items))
    assert heard.thinking == completion.reasoning == "hm\n\nso"
    assert len(completion.items) == 4


@pytest.mark.parametrize(
    ("items", "kept"),
    [
        ([message("x")], False),
        ([message("x"), function_call("A", "{}")], False),
        ([message("x", phase="commentary"), function_call("A", "{}")], True),
        ([{"type": "web_search_call", "id": "ws_1", "status": "completed"}, message("x")], True),
        ([reasoning(), message("x")], True),
    ],
)
def test_what_is_kept_to_go_back_as_it_came(items: list[Json], kept: bool) -> None:
    _, completion = read(*events_of(items))
    assert [json.loads(bytes(item)) for item in completion.items[1:]] == (items if kept else [])


def test_a_refusal() -> None:
    heard, completion = read(*events_of([message(refusal="I will not.")], pairs))
    assert (heard.text, completion.text, completion.finish_reason) == ("I will not.", "I will not.", "refusal")


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "content_filter"}, "content_filter"),
        ({"reason": "steered"}, "steered"),
        (None, "length"),
    ],
)
def test_an_incomplete_reply(details: Json | None, reason: str) -> None:
    items = [message("cut off"), function_call("A", '{"x":')]
    _, completion = read(*events_of(items, status="incomplete", incomplete_details=details))
    assert (completion.text, completion.finish_reason) == ("cut off", reason)
    assert completion.calls == [CallRef("call_1", "A", '{"x":')]


@pytest.mark.parametrize(
    ("event", "retryable", "status"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "went wrong"}, True, 429),
        ({"type": "error", "error": {"type": "server_error", "message": "went wrong"}}, True, 500),
        ({"error": {"message": "went wrong"}}, False, 0),
        (
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "server_error", "message": "went wrong"}},
            },
            True,
            500,
        ),
        (
            {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "went wrong"}}},
            False,
            0,
        ),
        (
            {"type": "response.completed", "response": {"status": "failed", "error": {"message": "went wrong"}}},
            False,
            0,
        ),
        (b'event: error\ndata: {"message":"went wrong"}\n\n', False, 0),
    ],
)
def test_errors_after_the_status_said_that_all_is_well(event: Json | bytes, retryable: bool, status: int) -> None:
    heard = Heard()
    reader = ResponseReader(heard.hear, model="m", service="service")
    reader.feed(b"".join(chunks_of(events_of([message("par")])[:5])))
    with pytest.raises(ProviderError, match="API error from service: went wrong") as caught:
        reader.feed(event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode())
    assert (caught.value.retryable, caught.value.status) == (retryable, status)
    assert heard.text == "par"


def test_a_failure_that_only_the_events_name_tells_of() -> None:
    with pytest.raises(ProviderError, match="the response was failed"):
        read(b'event: response.failed\ndata: {"response":{}}\n\n')


def test_a_failure_without_a_word() -> None:
    with pytest.raises(ProviderError, match="the response was cancelled"):
        read({"type": "response.cancelled", "response": {"status": "cancelled"}})


def test_usage_of_a_reply_that_failed() -> None:
    heard = Heard()
    reader = ResponseReader(heard.hear, model="m", service="service")
    with pytest.raises(ProviderError):
        reader.feed(*chunks_of([{"type": "response.failed", "response": {"usage": USAGE, "error": {"message": "x"}}}]))
    assert reader.usage == heard.usages[0]


def test_a_stream_that_breaks_off() -> None:
    with pytest.raises(ProviderError, match="broke off") as caught:
        read(*events_of([message("x")])[:-1])
    assert (caught.value.kind, caught.value.retryable) == ("stream", True)


def test_done_is_an_end_too() -> None:
    _, completion = read(*events_of([message("x")])[:-1], b"data: [DONE]\n\n")
    assert (completion.text, completion.finish_reason, completion.usage) == ("x", "stop", UNSET)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "response.output_text.delta", "delta": "x", "output_index": "0", "content_index": 0.0},
        {"type": "response.output_text.delta", "delta": "x", "output_index": -1, "item_id": 7},
        {"type": "response.output_text.delta", "delta": "x", "item": "no", "response": [], "arguments": 1},
        {"type": "response.output_text.done", "text": "x", "refusal": {}},
        {"type": "response.output_item.done", "item": {"type": "message", "content": [None, 1, {"text": "x"}]}},
        b'data: {"type":"response.output_text.delta","delta":"x","logprobs":NaN}\n\n',
        b'data: {"type":"response.output_text.delta","delta":"x","\xff":1}\n\n',
        b'data: {"type":"response.output_text.delta",\ndata: "delta":"x"}\n\n',
    ],
)
def test_one_odd_field_costs_only_itself(odd: Json | bytes) -> None:
    heard, completion = read(odd, {"type": "response.completed", "response": {"output": None}})
    assert (heard.text, completion.text) == ("x", "x")


@pytest.mark.parametrize(
    "nothing", ["null", "1", '"ping"', "true", "[]", "{}", "", " ", '{"type":"response.new.thing"}']
)
def test_json_that_says_nothing(nothing: str) -> None:
    events = chunks_of(events_of([message("x")]))
    assert read(*events[:3], f"data: {nothing}\n\n".encode(), *events[3:])[1].text == "x"


@pytest.mark.parametrize(
    "garbage", ["Internal Server Error", '{"type":"response.output_text.delta","del', "{" * 100_000]
)
def test_what_is_no_json_is_an_error(garbage: str) -> None:
    with pytest.raises(ProviderError) as caught:
        read(f"data: {garbage}\n\n".encode())
    assert (caught.value.kind, caught.value.retryable) == ("bad_reply", False)


def test_a_service_that_does_not_stream() -> None:
    heard = Heard()
    reader = ResponseReader(heard.hear, model="m", service="service")
    reader.whole(json.dumps(response(ITEMS), indent=1).encode())
    check(heard, reader.finish())


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "no"}}, "no"),
        (response([], "failed", error={"message": "no", "code": "x"}), "no"),
        ({"ok": 1}, '"ok": 1'),
        ("", "not JSON"),
    ],
)
def test_json_that_is_no_reply(body: Any, text: str) -> None:
    reader = ResponseReader(lambda event: None, model="m", service="service")
    with pytest.raises(ProviderError, match=text):
        reader.whole(json.dumps(body).encode() if body else b"")
