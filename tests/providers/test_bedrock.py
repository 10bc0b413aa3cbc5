"""Bedrock: who signs what, where it goes, and how its event streams are read."""

from __future__ import annotations

import base64
import logging
import struct
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from bedrock_service import MEDIA, Json, event_frame, exception_frame, frame, frame_chunk, signature_faults
from botocore.session import Session
from chunk_server import Answer, chunk_server
from conversing import CASES, Heard, ask, converse
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.events import CallRef, Text
from agentwire.messages import AssistantMessage, ToolMessage, UserMessage
from agentwire.provider import ConfigError, Provider, ProviderError, ProviderSettings
from agentwire_bedrock import provider as plugin
from agentwire_bedrock.account import NO_CREDENTIALS
from agentwire_bedrock.service import Bedrock
from agentwire_bedrock.stream import STATUS_OF, FrameReader

KEYS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret-of-mine", "AWS_REGION": "eu-west-1"}
SIGNED = {"key_id": "AKIATEST", "secret": "secret-of-mine", "region": "eu-west-1"}
MODEL = "eu.anthropic.claude-sonnet-4-20250514-v1:0"

EVENTS: list[Json] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "Read"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}},
]
REPLY = Answer([*map(frame_chunk, EVENTS)], headers=MEDIA)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own AWS set-up, and no look at what a cloud would tell."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def make(url: str = "", environ: Json | None = None, **fields: Any) -> Provider:
    return plugin.create(
        ProviderSettings(base_url=url, environ=KEYS if environ is None else environ, options=fields.pop("options", {}))
    )


def read(data: bytes, size: int = 0) -> Heard:
    """What a reader hears of these bytes, ``size`` at a time."""
    heard = Heard()
    reader = FrameReader(heard.hear, service="bedrock.test")
    try:
        for start in range(0, len(data), size or len(data) or 1):
            reader.feed(data[start : start + (size or len(data))])
        heard.completion = reader.finish()
    except ProviderError as error:
        heard.error = error
    return heard


# --- requests ------------------------------------------------------------------------------------------------


async def test_a_signed_request_and_its_reply() -> None:
    async with chunk_server(REPLY) as server:
        heard = await converse(make(server.url), ask(model=MODEL, max_tokens=50, headers={"traceparent": "00-1"}))
        (seen,) = server.requests
    assert seen.path == "/model/eu.anthropic.claude-sonnet-4-20250514-v1%3A0/invoke-with-response-stream"
    assert seen.body == {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 50,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]}
        ],
    }
    assert signature_faults(seen, **SIGNED) == []
    assert seen.headers["accept"] == "application/vnd.amazon.eventstream"
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["traceparent"] == "00-1"
    assert "anthropic-version" not in seen.headers
    assert heard.error is None
    assert heard.completion is not None
    assert heard.completion.calls == [CallRef("t1", "Read", '{"a":1}')]
    assert (heard.thinking, heard.completion.finish_reason) == ("hm", "tool_calls")
    assert len(heard.completion.items) == 2
    assert heard.completion.usage
    assert (heard.completion.usage.input_tokens, heard.completion.usage.output_tokens) == (3, 9)
    assert (heard.sent[0].provider, heard.sent[0].model, heard.sent[0].api) == ("bedrock", MODEL, "messages")


@pytest.mark.parametrize(
    "model", ["arn:aws:bedrock:eu-west-1:1:application-inference-profile/a+b", "a b~c_d.e-f", "ä/%41", "x;y=z"]
)
async def test_any_name_of_a_model_is_signed_as_it_is_sent(model: str) -> None:
    async with chunk_server(REPLY) as server:
        heard = await converse(make(server.url), ask(model=model))
        (seen,) = server.requests
    assert heard.error is None
    assert signature_faults(seen, **SIGNED) == []
    assert seen.path.count("/") == 3


@pytest.mark.parametrize("model", [MODEL, "arn:aws:bedrock:eu-west-1:1:application-inference-profile/a+b"])
async def test_the_address_is_the_one_that_botocore_uses(model: str) -> None:
    class Caught(Exception):
        pass

    def catch(request: Any, **kwargs: Any) -> None:
        raise Caught(request.url)

    client = Session().create_client(
        "bedrock-runtime", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    client.meta.events.register("before-send", catch)
    with pytest.raises(Caught) as caught:
        client.invoke_model_with_response_stream(modelId=model, body=b"{}")
    provider = make()
    assert isinstance(provider, Bedrock)
    target = await provider._target(ask(model=model), b"{}")
    assert target.url == str(caught.value)


async def test_a_session_token_is_sent_and_signed() -> None:
    async with chunk_server(REPLY) as server:
        await converse(make(server.url, {**KEYS, "AWS_SESSION_TOKEN": "token-of-mine"}))
        (seen,) = server.requests
    assert seen.headers["x-amz-security-token"] == "token-of-mine"
    assert "x-amz-security-token" in seen.headers["authorization"]
    assert signature_faults(seen, **SIGNED) == []


@pytest.mark.parametrize(
    ("environ", "options", "key_id", "region"),
    [
        ({"AWS_PROFILE": "work"}, {}, "AKIAWORK", "ap-south-1"),
        ({"AWS_PROFILE": "work", "AWS_REGION": "us-west-2"}, {}, "AKIAWORK", "us-west-2"),
        ({"AWS_PROFILE": "work", "AWS_DEFAULT_REGION": "us-west-2"}, {"region": "us-east-2"}, "AKIAWORK", "us-east-2"),
        ({**KEYS, "AWS_PROFILE": "work"}, {}, "AKIATEST", "eu-west-1"),
        (KEYS, {"profile": "work"}, "AKIAWORK", "eu-west-1"),
        ({}, {}, "AKIADEFAULT", "us-east-1"),
    ],
)
async def test_where_the_credentials_and_the_region_come_from(
    environ: Json, options: Json, key_id: str, region: str, tmp_path: Path
) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id=AKIADEFAULT\naws_secret_access_key=secret-of-mine\n"
        "[work]\naws_access_key_id=AKIAWORK\naws_secret_access_key=secret-of-mine\n"
    )
    (tmp_path / "config").write_text("[profile work]\nregion=ap-south-1\n")
    async with chunk_server(REPLY) as server:
        heard = await converse(make(server.url, environ, options=options))
        (seen,) = server.requests
    assert heard.error is None
    assert signature_faults(seen, key_id=key_id, secret="secret-of-mine", region=region) == []


async def test_credentials_are_renewed_before_they_expire(tmp_path: Path) -> None:
    script = tmp_path / "give.py"
    script.write_text(
        "import datetime, json, pathlib\n"
        "count = pathlib.Path(__file__).with_name('count')\n"
        "number = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (number + 1))\n"
        "soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=12)\n"
        "given = {'Version': 1, 'AccessKeyId': f'AKIA{number}', 'SecretAccessKey': 's', 'SessionToken': 't'}\n"
        "print(json.dumps({**given, 'Expiration': soon.isoformat()}))\n"
    )
    process = f"credential_process = {sys.executable} {script}"
    (tmp_path / "config").write_text(f"[profile work]\nregion = eu-west-1\n{process}\n")
    async with chunk_server(REPLY, REPLY) as server:
        provider = make(server.url, {"AWS_PROFILE": "work"})
        for _ in range(2):
            await provider.complete(ask(), lambda event: None)
        await provider.aclose()
        ids = [seen.headers["authorization"].partition("Credential=")[2].partition("/")[0] for seen in server.requests]
        latest = server.requests[1]
    assert ids[0] != ids[1]
    assert signature_faults(latest, key_id=ids[1], secret="s", region="eu-west-1") == []


async def test_credentials_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile work]\ncredential_process = false\n")
    heard = await converse(make("http://127.0.0.1:9", {"AWS_PROFILE": "work"}))
    assert heard.error is not None
    assert (heard.error.kind, heard.sent) == ("auth", [])


async def test_a_key_of_bedrocks_own_needs_no_signature() -> None:
    async with chunk_server(REPLY) as server:
        heard = await converse(make(server.url, {**KEYS, "AWS_BEARER_TOKEN_BEDROCK": "ABSK-key"}))
        (seen,) = server.requests
    assert heard.error is None
    assert seen.headers["authorization"] == "Bearer ABSK-key"
    assert not any(name.startswith("x-amz-") for name in seen.headers)


async def test_without_credentials() -> None:
    heard = await converse(make("http://127.0.0.1:9", {}))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.message, heard.sent) == ("config", NO_CREDENTIALS, [])


async def test_a_profile_that_is_not_there() -> None:
    heard = await converse(make("http://127.0.0.1:9", {"AWS_PROFILE": "nobody"}))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("config", False)
    assert "nobody" in heard.error.message


async def test_no_secret_is_told(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("botocore").setLevel(logging.NOTSET)  # as in a process that has signed nothing yet
    environ = {**KEYS, "AWS_SESSION_TOKEN": "token-of-mine"}
    told = b'{"message":"The canonical string should have been x-amz-security-token:token-of-mine secret-of-mine"}'
    refusal = Answer([told], 403, {"content-type": "application/json", "x-amzn-errortype": "InvalidSignatureException"})
    with caplog.at_level(logging.DEBUG):
        async with chunk_server(refusal) as server:
            heard = await converse(make(server.url, environ))
    assert heard.error is not None
    assert heard.error.kind == "auth"
    assert "The canonical string" in heard.error.message
    for secret in ("token-of-mine", "secret-of-mine"):
        assert secret not in heard.error.message
        assert secret not in caplog.text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (ProviderSettings(environ={"AWS_REGION": "eu-west-1/x"}), "no AWS region"),
        (ProviderSettings(options={"regio": "x"}), "provider bedrock has no option 'regio'; it has .*region"),
        (ProviderSettings(options={"api": "chat"}), "option of provider bedrock"),
        (ProviderSettings(base_url="bedrock"), "base URL"),
        (ProviderSettings(api_key="two words"), "AWS_BEARER_TOKEN_BEDROCK holds"),
    ],
)
def test_what_cannot_be_set_up(settings: ProviderSettings, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        plugin.create(settings)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentwire.provider.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs botocore.*pip install 'agentwire\[bedrock\]'"):
        make()


async def test_its_own_thoughts_go_back_and_so_do_those_of_its_cousins() -> None:
    async with chunk_server(REPLY, REPLY, REPLY) as server:
        provider = make(server.url)
        completion = await provider.complete(ask(), lambda event: None)
        for name in ("bedrock", "anthropic"):
            said = AssistantMessage(completion.text, completion.reasoning, completion.calls, name, completion.items)
            history = [UserMessage([Text("a")]), said, ToolMessage("t1", "Read", "x")]
            await provider.complete(ask(*history), lambda event: None)
        await provider.aclose()
        for seen in server.requests[1:]:
            assert seen.body["messages"][1]["content"] == [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": 1}},
            ]


# --- streams -------------------------------------------------------------------------------------------------

S_A22 = CASES["S-a22"]
VARIANTS = {name: b"".join(map(base64.b64decode, chunks)) for name, chunks in S_A22["input"]["variants"].items()}
EXCEPTION = exception_frame("throttlingException", {"message": "Too many tokens, slow down"})


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("cut", ["as given", "whole", "every byte"])
async def test_s_a22(variant: str, cut: str) -> None:
    data = VARIANTS[variant]
    chunks = {
        "as given": [*map(base64.b64decode, S_A22["input"]["variants"][variant])],
        "whole": [data],
        "every byte": [data[i : i + 1] for i in range(len(data))],
    }[cut]
    given = S_A22["input"]["http"]
    api = {"converse-stream": "converse", "invoke-with-response-stream": "invoke"}[variant]
    async with chunk_server(Answer(chunks, given["status"], given["headers"], S_A22["input"]["end"])) as server:
        heard = await converse(make(server.url, options={"api": api}))
        assert server.requests[0].path.endswith(f"/{variant}")
    expected = S_A22["expect"]["result"]
    assert heard.text == expected["text"]
    assert heard.completion is None
    assert heard.error is not None
    assert heard.error.retryable is expected["error"]["retryable"]
    assert all(part in heard.error.message for part in expected["error"]["message_contains"])
    assert (heard.error.kind, heard.error.status) == ("rate_limit", 429)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", [*S_A22["expect"]["also"], *STATUS_OF, "NewException"])
def test_s_a22_other_exceptions(variant: str, name: str) -> None:
    data = VARIANTS[variant]
    assert data.endswith(EXCEPTION)
    heard = read(data.removesuffix(EXCEPTION) + exception_frame(name, {"message": "went wrong"}))
    assert heard.text == "Par"
    assert heard.error is not None
    assert "went wrong" in heard.error.message
    status = STATUS_OF.get(name, 0)
    expected = {"retryable true": True, "retryable false": False, None: status in (408, 424, 429, 500, 503)}
    assert heard.error.retryable is expected[S_A22["expect"]["also"].get(name)]
    assert heard.error.status == status


def test_a_prompt_that_is_too_long() -> None:
    heard = read(exception_frame("validationException", {"message": "Input is too long for requested model."}))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("context", False)


@pytest.mark.parametrize(
    "data",
    [
        frame(b"", message_type="error", error_code="InternalError", error_message="went wrong"),
        frame(b'{"Message":"went wrong"}', message_type="exception", exception_type="x"),
        frame_chunk({"type": "error", "error": {"type": "overloaded_error", "message": "went wrong"}}),
    ],
)
def test_errors_in_other_shapes(data: bytes) -> None:
    heard = read(frame_chunk(EVENTS[0]) + data)
    assert heard.error is not None
    assert "went wrong" in heard.error.message


@pytest.mark.parametrize("payload", [b"", b"not json", b"[]"])
def test_an_exception_without_words_is_named(payload: bytes) -> None:
    heard = read(frame(payload, message_type="exception", exception_type="throttlingException"))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("rate_limit", True)


def test_cut_anywhere_it_is_the_same_reply() -> None:
    data = b"".join(map(frame_chunk, EVENTS))
    whole = read(data)
    assert whole.completion is not None
    for size in (1, 2, 3, 11, 12, 13, 100):
        assert read(data, size) == whole


@pytest.mark.parametrize("size", [1, 12, 10_000])
def test_a_stream_that_breaks_off_inside_a_frame(size: int) -> None:
    data = b"".join(map(frame_chunk, EVENTS[:-1]))
    for end in (len(data), len(data) - 1, len(data) - 40):
        heard = read(data[:end], size)
        assert heard.error is not None
        assert (heard.error.kind, heard.error.retryable) == ("stream", True)


def test_frames_that_say_nothing() -> None:
    nothing = [
        event_frame("initial-response", {}),
        event_frame("chunk", {}),
        event_frame("chunk", {"bytes": ""}),
        event_frame("messageStart", {"role": "assistant"}),
        event_frame("somethingNew", {"a": 1}),
        frame(b"", message_type="event", event_type="heartbeat"),
        frame(b"[]", event_type="somethingNew"),
    ]
    events = [*map(frame_chunk, EVENTS)]
    assert read(b"".join([*nothing, *events, *nothing])) == read(b"".join(events))


@pytest.mark.parametrize(
    "bad",
    [
        b"data: {}\n\n" * 3,
        b"<html><body>502</body></html>",
        event_frame("chunk", {"bytes": "e30="})[:-1] + b"\0",
        event_frame("chunk", {"bytes": "not base64"}),
        event_frame("chunk", {"bytes": 7}),
        frame(b"not json", message_type="event", event_type="chunk"),
        frame(b"not json", message_type="event", event_type="contentBlockDelta"),
        event_frame("chunk", {"bytes": base64.b64encode(b"not json").decode()}),
    ],
)
def test_what_is_no_event_stream(bad: bytes) -> None:
    heard = read(frame_chunk(EVENTS[0]) + bad)
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("bad_reply", False)
    assert len(heard.usages) == 1


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=80), st.booleans(), st.sampled_from([b"", b"\0\0\0\x10\0\0\0\0", b"\0\0\0\0\0\0\0\0"]))
def test_any_bytes(data: bytes, framed: bool, before: bytes) -> None:
    if framed:
        data = frame(data, message_type="event", event_type="chunk")
    heard = read(before + data)
    assert heard.error is not None
    assert heard.error.kind in ("bad_reply", "stream")


def test_headers_that_make_no_sense_under_a_right_checksum() -> None:
    for head in (b"\x01a\x2a", b"\x05ab", b"\x01a\x07\x00\x02\xff\xfe", b"\x01a\x00\x01a\x00"):
        prelude = struct.pack("!II", 16 + len(head), len(head))
        prelude += struct.pack("!I", crc32(prelude))
        heard = read(prelude + head + struct.pack("!I", crc32(prelude + head)))
        assert heard.error is not None
        assert heard.error.kind == "bad_reply"
    prelude = struct.pack("!II", 3, 0)
    assert (error := read(prelude + struct.pack("!I", crc32(prelude)) + b"x" * 20).error) is not None
    assert error.kind == "bad_reply"
