"""Converse: the same conversations in Bedrock's own words, for every model there is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bedrock_service import MEDIA, Json, event_frame, signature_faults
from chunk_server import Answer, chunk_server
from conversing import Heard, ask, converse
from hypothesis import given, settings
from msgspec import Raw
from test_bedrock import KEYS, SIGNED, make, read
from test_requests import _REQUESTS, PNG, READ, call, user

from agentwire.events import CallRef, Text
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.provider import Completion, ModelRequest
from agentwire_bedrock.converse import build
from agentwire_bedrock.quirks import BedrockQuirks


def body_of(request: ModelRequest, **options: Any) -> Json:
    decoded: Json = json.loads(build(request, BedrockQuirks(**options)).decode("utf-8"))
    return decoded


def stream(*events: tuple[str, Json]) -> bytes:
    return b"".join(event_frame(name, payload) for name, payload in events)


def delta(index: int, **fields: Any) -> tuple[str, Json]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": fields}


USAGE = {
    "inputTokens": 30,
    "outputTokens": 10,
    "totalTokens": 40,
    "cacheReadInputTokens": 5,
    "cacheWriteInputTokens": 2,
}
END: list[tuple[str, Json]] = [
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 5}}),
]
REPLY = stream(
    ("messageStart", {"role": "assistant"}),
    delta(0, reasoningContent={"text": "hm"}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    delta(1, reasoningContent={"redactedContent": "b3BhcXVl"}),
    ("contentBlockStop", {"contentBlockIndex": 1}),
    delta(2, text="Let me "),
    delta(2, text="look."),
    ("contentBlockStop", {"contentBlockIndex": 2}),
    ("contentBlockStart", {"contentBlockIndex": 3, "start": {"toolUse": {"toolUseId": "t1", "name": "Read"}}}),
    delta(3, toolUse={"input": '{"a"'}),
    delta(3, toolUse={"input": ":1}"}),
    ("contentBlockStop", {"contentBlockIndex": 3}),
    *END,
)


def completed(heard: Heard) -> Completion:
    assert heard.error is None
    assert heard.completion is not None
    return heard.completion


def check(heard: Heard) -> None:
    completion = completed(heard)
    assert completion.text == heard.text == "Let me look."
    assert completion.reasoning == heard.thinking == "hm"
    assert completion.calls == [CallRef("t1", "Read", '{"a":1}')]
    assert heard.shown_calls == [("t1", "Read", '{"a":1}')]
    assert completion.finish_reason == "tool_calls"
    assert completion.usage
    assert (completion.usage.input_tokens, completion.usage.output_tokens) == (37, 10)
    assert (completion.usage.cache_read_tokens, completion.usage.cache_write_tokens) == (5, 2)


def test_a_reply() -> None:
    check(read(REPLY))
    check(read(REPLY, 1))


def test_a_reply_that_ends_without_its_usage() -> None:
    completion = completed(read(stream(delta(0, text="x"), ("messageStop", {"stopReason": "end_turn"}))))
    assert (completion.text, completion.finish_reason) == ("x", "stop")


def test_a_reply_that_breaks_off() -> None:
    error = read(stream(delta(0, text="x"), ("contentBlockStop", {"contentBlockIndex": 0}))).error
    assert error is not None
    assert (error.kind, error.retryable) == ("stream", True)


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("content_filtered", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        ("something_new", "something_new"),
    ],
)
def test_why_it_ended(reason: str, ours: str) -> None:
    assert completed(read(stream(delta(0, text="x"), ("messageStop", {"stopReason": reason})))).finish_reason == ours


@pytest.mark.parametrize(
    "odd",
    [
        ("contentBlockStart", {"start": None}),
        ("contentBlockStart", {}),
        ("contentBlockDelta", {"delta": {"image": {"source": {}}}}),
        ("contentBlockDelta", {"delta": 7}),
        ("contentBlockDelta", {"delta": {"toolUse": {"input": 3}}}),
        ("contentBlockDelta", {"contentBlockIndex": "0", "delta": {"citation": {}}}),
    ],
)
def test_what_is_odd_or_new_says_nothing(odd: tuple[str, Json]) -> None:
    assert completed(read(stream(delta(0, text="x"), odd, *END))).text == "x"


def test_a_conversation() -> None:
    items = [
        Raw(b'{"type":"thinking","thinking":"t","signature":"s"}'),
        Raw(b'{"type":"redacted_thinking","data":"d"}'),
        Raw(b'{"type":"tool_use","id":"c1","name":"Read","input":{"a":1}}'),
        Raw(b'{"type":"tool_use","id":"c2","name":"Read","input":{}}'),
    ]
    history: list[Message] = [
        UserMessage([Text("one"), PNG]),
        AssistantMessage("", "t", [call("c1"), call("c2", arguments="{}")], "bedrock", items),
        ToolMessage("c1", "Read", "first", images=[PNG]),
        ToolMessage("c2", "Read", "", is_error=True),
        user("and also"),
    ]
    image = {"image": {"format": "png", "source": {"bytes": "aGk="}}}
    assert body_of(ask(*history, system="be good", tools=[READ], max_tokens=5)) == {
        "messages": [
            {"role": "user", "content": [{"text": "one"}, image]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}}},
                    {"reasoningContent": {"redactedContent": "d"}},
                    {"toolUse": {"toolUseId": "c1", "name": "Read", "input": {"a": 1}}},
                    {"toolUse": {"toolUseId": "c2", "name": "Read", "input": {}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "c1", "content": [{"text": "first"}, image], "status": "success"}},
                    {"toolResult": {"toolUseId": "c2", "content": [{"text": "(no text)"}], "status": "error"}},
                    {"text": "and also"},
                ],
            },
        ],
        "system": [{"text": "be good"}],
        "inferenceConfig": {"maxTokens": 5},
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "Read", "description": "Reads", "inputSchema": {"json": READ.parameters}}}]
        },
    }


def test_nothing_is_said_that_was_not_asked_for() -> None:
    assert body_of(ask()) == {"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}


def test_options() -> None:
    body = body_of(ask(thinking="enabled"), max_tokens=9, extra_body={"performanceConfig": {"latency": "optimized"}})
    assert body["inferenceConfig"] == {"maxTokens": 10_009}
    assert body["additionalModelRequestFields"] == {"thinking": {"type": "enabled", "budget_tokens": 10_000}}
    assert body["performanceConfig"] == {"latency": "optimized"}


def _serialized() -> Any:
    """botocore's own serializer with its own validation of what ConverseStream takes."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    model = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))
    return model.operation_model("ConverseStream").input_shape, ParamValidator()


@settings(max_examples=32, deadline=None)
@given(_REQUESTS)
def test_any_history_is_what_botocore_takes(request: ModelRequest) -> None:
    shape, validator = _SHAPE
    report = validator.validate({"modelId": "m", **_with_bytes(body_of(request))}, shape)
    assert not report.has_errors(), report.generate_report()


_SHAPE = _serialized()


def _with_bytes(value: Any) -> Any:
    """As botocore has it before it makes JSON: bytes where that has base64."""
    if isinstance(value, dict):
        return {
            key: item.encode() if key in ("bytes", "redactedContent") else _with_bytes(item)
            for key, item in value.items()
        }
    return [_with_bytes(item) for item in value] if isinstance(value, list) else value


async def test_over_a_real_connection() -> None:
    async with chunk_server(Answer([REPLY[:100], REPLY[100:]], headers=MEDIA)) as server:
        heard = await converse(make(server.url, KEYS, options={"api": "converse"}), ask(model="us.meta.llama4:0"))
        (seen,) = server.requests
    check(heard)
    assert seen.path == "/model/us.meta.llama4%3A0/converse-stream"
    assert signature_faults(seen, **SIGNED) == []
    assert heard.sent[0].api == "converse"
