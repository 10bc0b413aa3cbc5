"""Messages replies: blocks, their order, their signatures, their counts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from conversing import Heard
from msgspec import UNSET

from agentwire.provider import Completion, ProviderError
from agentwire_anthropic.stream import MessageReader, usage_of

Json = dict[str, Any]


def event(kind: str, **fields: Any) -> Json:
    return {"type": kind, **fields}


def start(index: int, kind: str, **fields: Any) -> Json:
    return event("content_block_start", index=index, content_block={"type": kind, **fields})


def delta(index: int, kind: str, text: str) -> Json:
    field = {"text": "text", "thinking": "thinking", "signature": "signature", "input_json": "partial_json"}[kind]
    return event("content_block_delta", index=index, delta={"type": f"{kind}_delta", field: text})


def stop(reason: str | None = "end_turn", **usage: Any) -> list[Json]:
    return [event("message_delta", delta={"stop_reason": reason}, usage=usage), event("message_stop")]


def read(*events: Json | bytes) -> tuple[Heard, Completion]:
    heard = Heard()
    reader = MessageReader(heard.events.append, service="service")
    for item in events:
        if isinstance(item, bytes):
            reader.feed(item)
        else:
            reader.feed(f"event: {item['type']}\ndata: {json.dumps(item)}\n\n".encode())
    return heard, reader.finish()


def items(completion: Completion) -> list[Json]:
    assert all(b"\n" not in bytes(item) for item in completion.items)
    return [msgspec.json.decode(item) for item in completion.items]


def test_plain_blocks_need_no_items() -> None:
    heard, completion = read(
        start(0, "text", text=""),
        delta(0, "text", "Hi "),
        delta(0, "text", "there"),
        event("content_block_stop", index=0),
        start(1, "tool_use", id="t1", name="Read", input={}),
        delta(1, "input_json", '{"a":'),
        delta(1, "input_json", "1}"),
        start(2, "tool_use", id="t2", name="List", input={}),
        delta(2, "input_json", ""),
        *stop("tool_use", output_tokens=9),
    )
    assert (heard.text, completion.text) == ("Hi there", "Hi there")
    assert [(c.call_id, c.name, c.arguments_text) for c in completion.calls] == [
        ("t1", "Read", '{"a":1}'),
        ("t2", "List", "{}"),
    ]
    assert heard.shown_calls == [("t1", "Read", '{"a":1}'), ("t2", "List", "")]
    assert (completion.finish_reason, completion.items) == ("tool_calls", [])


def test_thinking_makes_the_whole_reply_verbatim() -> None:
    heard, completion = read(
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking", " \u2028 think\n"),
        delta(0, "signature", "c2ln"),
        delta(0, "signature", "LTE="),
        start(1, "redacted_thinking", data="b3BhcXVl"),
        start(2, "text", text=""),
        delta(2, "text", "Now "),
        start(3, "thinking", thinking="again", signature="czI="),
        start(4, "tool_use", id="t1", name="Read", input={}),
        delta(4, "input_json", '{"file_path":\n"a"}'),
        *stop("tool_use"),
    )
    assert items(completion) == [
        {"type": "thinking", "thinking": " \u2028 think\n", "signature": "c2lnLTE="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "Now "},
        {"type": "thinking", "thinking": "again", "signature": "czI="},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}},
    ]
    assert heard.thinking == completion.reasoning == " \u2028 think\nagain"


def test_blocks_nobody_knows_yet_are_kept() -> None:
    _, completion = read(
        start(0, "server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json", '{"query":"x"}'),
        start(1, "web_search_tool_result", tool_use_id="s1", content=[{"title": "t"}]),
        start(2, "text", text=""),
        delta(2, "text", "found"),
        event("content_block_delta", index=2, delta={"type": "citations_delta", "citation": {"url": "u"}}),
        event("something_new", content=1),
        *stop(),
    )
    assert (completion.text, completion.calls) == ("found", [])
    assert items(completion)[:2] == [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": "t"}]},
    ]


def test_input_that_comes_with_the_start() -> None:
    _, completion = read(start(0, "tool_use", id="t", name="A", input={"a": 1}), *stop("tool_use"))
    assert completion.calls[0].arguments_text == '{"a":1}'


def test_text_that_comes_with_the_start() -> None:
    heard, completion = read(start(0, "text", text="Hello"), delta(0, "text", "!"), *stop())
    assert heard.text == completion.text == "Hello!"


@pytest.mark.parametrize("index", [0, None])
def test_deltas_without_a_start(index: int | None) -> None:
    said = delta(0, "text", "a")
    said["index"] = index
    assert read(said, said, *stop())[1].text == "aa"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause_turn"),
        (None, "stop"),
    ],
)
def test_stop_reasons(reason: str | None, expected: str) -> None:
    assert read(*stop(reason))[1].finish_reason == expected


@pytest.mark.parametrize(
    ("reported", "counts"),
    [
        ({"input_tokens": 5, "output_tokens": 2}, (5, 2, UNSET, UNSET)),
        ({"input_tokens": 5, "cache_read_input_tokens": 100}, (105, UNSET, 100, UNSET)),
        ({"input_tokens": 0, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 0}, (7, UNSET, 0, 7)),
        ({"output_tokens": 2}, (UNSET, 2, UNSET, UNSET)),
        ({"input_tokens": "5", "output_tokens": None}, (UNSET, UNSET, UNSET, UNSET)),
    ],
)
def test_usage(reported: Json, counts: tuple[Any, ...]) -> None:
    usage = usage_of(reported)
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == counts
    assert usage.extra == reported


def test_counts_are_cumulative() -> None:
    begun = {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 100, "service_tier": None}
    heard, completion = read(
        event("message_start", message={"usage": begun}),
        event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 8, "input_tokens": 0}),
        *stop(output_tokens=15, input_tokens=None, cache_read_input_tokens=None, server_tool_use={"web": 1}),
    )
    assert completion.usage
    assert completion.usage.extra == {
        "input_tokens": 25,
        "output_tokens": 15,
        "cache_read_input_tokens": 100,
        "server_tool_use": {"web": 1},
    }
    assert [usage.output_tokens for usage in heard.usages] == [1, 8, 15]


@pytest.mark.parametrize(
    "odd",
    [
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x","n":NaN}}\n\n',
        b'data: {"type":"content_block_delta","index":"0","delta":{"type":"text_delta","text":"x"}}\n\n',
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x","thinking":7}}\n\n',
        b'event: content_block_delta\ndata: {"index":0,"delta":{"text":"x"}}\n\n',
        b'data:{"delta":{"text":"x"},"type":"content_block_delta"}\r\n\r\n',
    ],
)
def test_one_odd_field_costs_only_itself(odd: bytes) -> None:
    assert read(start(0, "text", text=""), odd, *stop())[1].text == "x"


@pytest.mark.parametrize("nothing", [b"data: null\n\n", b"data: []\n\n", b"event: ping\ndata: {}\n\n", b"data: 7\n\n"])
def test_json_that_says_nothing(nothing: bytes) -> None:
    assert read(delta(0, "text", "x"), nothing, *stop())[1].text == "x"


def test_half_a_surrogate_pair() -> None:
    odd = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half \\ud83d"}}\n\n'
    assert read(odd, *stop())[1].text == "half \ufffd"


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(ProviderError, match="upstream gone") as caught:
        read(b"data: upstream gone\n\n")
    assert caught.value.kind == "bad_reply"


@pytest.mark.parametrize(
    "data", [b'event: error\ndata: {"message":"went wrong"}\n\n', b'event: error\ndata: "went wrong"\n\n']
)
def test_errors_in_other_shapes(data: bytes) -> None:
    with pytest.raises(ProviderError, match="went wrong"):
        read(data)


def test_a_service_that_does_not_stream() -> None:
    heard = Heard()
    reader = MessageReader(heard.events.append, service="service")
    blocks = [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "t", "name": "A", "input": {"a": 1}}]
    body = {"type": "message", "content": blocks, "stop_reason": "tool_use", "usage": {"input_tokens": 3}}
    reader.whole(json.dumps(body).encode())
    completion = reader.finish()
    assert (heard.text, completion.text) == ("x", "x")
    assert completion.calls[0].arguments_text == '{"a":1}'
    assert completion.finish_reason == "tool_calls"
    assert completion.usage


@pytest.mark.parametrize(("body", "text"), [(b'{"error":{"message":"no"}}', "no"), (b'{"ok":1}', "ok"), (b"<", "<")])
def test_json_that_is_no_reply(body: bytes, text: str) -> None:
    with pytest.raises(ProviderError, match=text):
        MessageReader(lambda event: None, service="service").whole(body)
