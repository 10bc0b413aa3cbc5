"""What was sent is told right before it is sent, once for each request, as hashes that anybody can compute anew."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from bedrock_service import MEDIA, frame_chunk
from chunk_server import Answer, ChunkServer, chunk_server
from conversing import CASES, ask, chunks_of, converse
from hypothesis import given, settings
from hypothesis import strategies as st
from responses_service import chunks_of as response_chunks
from responses_service import events_of, message
from test_requests import READ

import agentwire
from agentwire.events import (
    CallRef,
    Image,
    RequestSent,
    RetryScheduled,
    SentImage,
    StepStarted,
    Text,
    TextDelta,
    ToolSpec,
)
from agentwire.messages import AssistantMessage, ToolMessage, UserMessage
from agentwire.provider import Provider, ProviderSettings, provenance
from agentwire.registry import load_provider

CHAT = Answer(chunks_of(CASES["S-a01"]["input"]))
MESSAGES = Answer(chunks_of(CASES["S-a19"]["input"]))
RESPONSES = Answer(response_chunks(events_of([message("x")])))
FRAMES = Answer(
    [frame_chunk({"type": "message_delta", "delta": {}}), frame_chunk({"type": "message_stop"})], headers=MEDIA
)
ENVIRON = {"VERTEX_PROJECT_ID": "p", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"}


def sha256(value: Any) -> str:
    """Over JSON with the keys sorted at every level, as the standard library writes it."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def make(name: str, url: str, **options: Any) -> Provider:
    key = "" if name == "bedrock" else "k"
    return load_provider(name).create(ProviderSettings(base_url=url, api_key=key, environ=ENVIRON, options=options))


@pytest.mark.parametrize(
    ("name", "options", "answer", "api"),
    [
        ("openai", {}, CHAT, "chat"),
        ("openai", {"api": "responses"}, RESPONSES, "responses"),
        ("anthropic", {}, MESSAGES, "messages"),
        ("bedrock", {}, FRAMES, "messages"),
        ("bedrock", {"api": "converse"}, FRAMES, "converse"),
        ("vertex", {}, MESSAGES, "messages"),
    ],
)
async def test_what_is_told_is_what_is_sent(name: str, options: dict[str, Any], answer: Answer, api: str) -> None:
    async with chunk_server(answer, answer) as server:
        told = []
        for tools in ([READ], []):
            heard = await converse(make(name, server.url, **options), ask(tools=tools, system="grüß dich"))
            assert heard.error is None
            (sent,) = heard.sent
            told.append(sent)
        for sent, seen, tools in zip(told, server.requests, (True, False), strict=True):
            body = {key: value for key, value in seen.body.items() if key not in ("stream", "stream_options")}
            assert (sent.provider, sent.model, sent.api) == (name, "test-model", api)
            assert (sent.request_sha256, sent.body_bytes) == (sha256(body), len(seen.raw))
            offered = body.get("toolConfig" if api == "converse" else "tools")
            assert sent.tools_sha256 == (sha256(offered) if tools else "")


PIXELS = [bytes([n]) * (3 + n) for n in range(4)]
"""Of four images, each of its own."""


def image(n: int) -> Image:
    return Image("image/png", base64.b64encode(PIXELS[n]).decode())


@pytest.mark.parametrize(
    ("name", "options", "answer"),
    [
        ("openai", {}, CHAT),
        ("openai", {"merge_messages": True}, CHAT),
        ("openai", {"api": "responses"}, RESPONSES),
        ("anthropic", {}, MESSAGES),
        ("bedrock", {"api": "converse"}, FRAMES),
        ("vertex", {}, MESSAGES),
    ],
)
async def test_the_images_that_are_told_are_those_in_the_body(
    name: str, options: dict[str, Any], answer: Answer, tmp_path: Path
) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(PIXELS[3])
    messages = [
        UserMessage([Text("look"), image(0)]),
        AssistantMessage("", calls=[CallRef("a", "Read", "{}"), CallRef("b", "Read", "{}")]),
        # Out of order, with something said between them: every service has its own way to put that right.
        ToolMessage("b", "Read", "B", images=[image(2)]),
        UserMessage([Image("image/png", path=str(path)), Image("image/png", path="/no/such.png"), Text("and?")]),
        ToolMessage("a", "Read", "A", images=[image(1), image(0)]),
    ]
    async with chunk_server(answer) as server:
        heard = await converse(make(name, server.url, **options), ask(*messages))
        assert heard.error is None
        body = server.requests[0].raw.decode()
    (sent,) = heard.sent
    there = [
        base64.b64decode(data)
        for data in re.findall(r'"(?:data:image/png;base64,)?((?:AAAA|AQEB|AgIC|AwMD)[\w+/=]*)"', body)
    ]
    assert there == [PIXELS[n] for n in (0, 1, 0, 2, 3)]
    assert sent.images == [
        SentImage(hashlib.sha256(data).hexdigest(), "image/png", len(data), call_id)
        for data, call_id in zip(there, ("", "a", "a", "b", ""), strict=True)
    ]


def test_what_is_no_base64_is_told_as_the_text_that_is_sent() -> None:
    sent = provenance(
        b"{}", provider="p", model="m", messages=[UserMessage([Image("image/png", "A"), Image("x/y", "")])]
    )
    assert sent.images == [SentImage(hashlib.sha256(b"A").hexdigest(), "image/png", 1)]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('abcé\x7f"', max_size=2), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "stream", "stream_options", "tools", "é"]), _JSON), st.randoms())
def test_the_order_of_keys_and_the_transport_do_not_count(body: dict[str, Any], random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shuffled(item) for key, item in random.sample(list(value.items()), len(value))}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    hashed = {key: value for key, value in body.items() if not key.startswith("stream")}
    sent = provenance(json.dumps(shuffled(body)).encode(), provider="p", model="m")
    assert sent.request_sha256 == sha256(hashed)
    assert sent.tools_sha256 == (sha256(body["tools"]) if body.get("tools") else "")


async def test_the_script_tells_too(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"text":"x"}\n')
    sent = []
    for request in (
        ask(tools=[READ]),
        ask(tools=[READ], session="another", headers={"traceparent": "00-1"}),
        ask(tools=[READ], system="other"),
        ask(tools=[ToolSpec("Read", "Reads", {"properties": READ.parameters["properties"], "type": "object"})]),
        ask(UserMessage([Text("\ud83d"), Image("image/png", "aGk=")])),
    ):
        heard = await converse(load_provider("script").create(ProviderSettings(base_url=str(path))), request)
        assert heard.error is None
        sent += heard.sent
    first, same, other, ordered, odd = sent
    assert (first.provider, first.model, first.api) == ("script", "test-model", "")
    assert len(first.request_sha256) == len(first.tools_sha256) == 64
    assert first.body_bytes > 0
    assert same == first
    assert other.request_sha256 != first.request_sha256
    assert other.tools_sha256 == first.tools_sha256
    assert ordered == first
    assert odd.tools_sha256 == ""


async def events_of_a_turn(server: ChunkServer, workspace: Path) -> list[Any]:
    agent = agentwire.Agent(make("openai", server.url), model="test-model")
    async with agentwire.open_session(agent, workspace=str(workspace)) as session:
        return [event async for event in session.prompt("hello")]


async def test_in_the_log_it_stands_between_the_step_and_the_reply_and_once_for_each_try(tmp_path: Path) -> None:
    refused = Answer([b'{"error":{"message":"busy"}}'], 503, {"content-type": "application/json", "retry-after": "0"})
    async with chunk_server(refused, CHAT) as server:
        events = await events_of_a_turn(server, tmp_path)
        bodies = [seen.body for seen in server.requests]
    told = [event for event in events if isinstance(event, StepStarted | RequestSent | RetryScheduled | TextDelta)]
    kinds = [type(event) for event in told]
    assert kinds[:4] == [StepStarted, RequestSent, RetryScheduled, RequestSent]
    assert set(kinds[4:]) == {TextDelta}
    assert told[1] == told[3]
    assert bodies[0] == bodies[1]
    assert told[1].tools_sha256 == sha256(bodies[0]["tools"])
