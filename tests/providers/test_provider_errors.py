"""What a refusing service says, as an error: kind, whether to retry, when, and a message without secrets."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import trio
from chunk_server import HANG, Answer, chunk_server
from conversing import CASES, KEY, Heard, chunks_of, converse, make

from agentwire.provider.errors import MAX_TEXT, redact, retry_after_ms

JSON = {"content-type": "application/json"}


def http_date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


async def refuse(status: int, body: bytes | dict[str, Any] | str, name: str = "openai", **headers: str) -> Heard:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = Answer([data], status, {**JSON, **{key.replace("_", "-"): value for key, value in headers.items()}})
    async with chunk_server(answer) as server:
        heard = await converse(make(name, server.url))
    assert heard.events == []
    assert heard.error is not None
    assert heard.error.status == status
    return heard


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "status", False),
        (401, "auth", False),
        (402, "status", False),
        (403, "auth", False),
        (404, "status", False),
        (408, "status", True),
        (413, "context", False),
        (422, "status", False),
        (429, "rate_limit", True),
        (500, "status", True),
        (502, "status", True),
        (503, "status", True),
        (504, "status", True),
        (529, "status", True),
        (307, "status", False),
    ],
)
async def test_statuses(status: int, kind: str, retryable: bool) -> None:
    heard = await refuse(status, {"error": {"message": "so it is"}})
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == (kind, retryable)
    assert "so it is" in heard.error.message


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "no such model", "code": "model_not_found"}}, "no such model"),
        ({"error": "plain words"}, "plain words"),
        ({"message": "at the top"}, "at the top"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body"], "msg": "field required"}, {"msg": "too long"}]}, "field required; too long"),
        ([{"error": {"code": 404, "message": "in a list"}}], "in a list"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "the real one"}}}, "the real one"),
        ({"error": {"message": {"message": "nested"}}}, "nested"),
        ({"odd": "shape"}, '{"odd": "shape"}'),
        (b"just text\n\n  on lines", "just text on lines"),
        (b"<html><head><style>x{}</style></head><body><h1>404</h1> nginx</body></html>", "404 nginx"),
        (b"\xff\xfe not utf-8", "not utf-8"),
    ],
)
async def test_the_services_own_words(body: bytes | dict[str, Any], text: str) -> None:
    heard = await refuse(404, body)
    assert heard.error is not None
    assert heard.error.message.startswith("API error 404 from 127.0.0.1:")
    assert heard.error.message.endswith(text)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}),
        (400, {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}),
        (400, {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"}),
        (400, {"message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}),
        (413, {"type": "request_too_large", "message": "Request exceeds the maximum size"}),
    ],
)
async def test_a_prompt_that_is_too_long(status: int, error: dict[str, Any]) -> None:
    heard = await refuse(status, {"error": error})
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("context", False)


async def test_an_empty_purse_is_not_a_rate() -> None:
    error = {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}
    heard = await refuse(429, {"error": error})
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("rate_limit", False)
    assert "exceeded your current quota" in heard.error.message


async def test_a_rate_limit_with_a_known_wait() -> None:
    heard = await refuse(429, {"error": {"message": "slow down"}}, retry_after="30")
    assert heard.error is not None
    assert heard.error.message == "Rate limit exceeded. Retry after 30s."
    assert heard.error.retry_after_ms == 30_000


async def test_a_rate_limit_without() -> None:
    heard = await refuse(429, {"error": {"message": "slow down"}})
    assert heard.error is not None
    assert (heard.error.message, heard.error.retry_after_ms) == ("Rate limit exceeded: slow down", None)


async def test_an_overloaded_service_may_say_when() -> None:
    heard = await refuse(529, OVERLOADED, "anthropic", retry_after_ms="1500")
    assert heard.error is not None
    assert (heard.error.retryable, heard.error.retry_after_ms) == (True, 1500)


async def test_s_a20() -> None:
    """429 with an HTTP date, then a reply: what the loop needs to wait and to go on."""
    refusal, reply = CASES["S-a20"]["input"]["responses"]
    headers = {**refusal["headers"], "retry-after": http_date(5)}
    answers = [Answer([refusal["body"].encode()], refusal["status"], headers), Answer(chunks_of(reply))]
    async with chunk_server(*answers) as server:
        heard = await converse(make("openai", server.url))
        assert heard.error is not None
        assert (heard.error.kind, heard.error.retryable) == ("rate_limit", True)
        assert heard.error.retry_after_ms is not None
        assert 2000 <= heard.error.retry_after_ms <= 5000
        heard = await converse(make("openai", server.url))
    assert (heard.text, heard.error) == ("ok", None)


async def test_s_a21() -> None:
    """A break in the middle: the text that came stays said, and the error does not claim that nothing came."""
    broken, whole = (
        Answer(chunks_of(part), end=part.get("end", "clean")) for part in CASES["S-a21"]["input"]["responses"]
    )
    async with chunk_server(broken, whole) as server:
        heard = await converse(make("openai", server.url))
        assert heard.text == "Plan: step one"
        assert heard.error is not None
        assert (heard.error.kind, heard.error.retryable) == ("stream", True)
        heard = await converse(make("openai", server.url))
    assert heard.text == "Plan: step one, step two."


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "1"}, 1000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "70", "retry-after": "1"}, 70),
        ({"x-ms-retry-after-ms": "80"}, 80),
        ({"x-ratelimit-reset-after": "3"}, 3000),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1000),
    ],
)
def test_waits(headers: dict[str, str], wait: int) -> None:
    assert retry_after_ms(headers) == wait


@pytest.mark.parametrize("zone", [" GMT", ""])
def test_waits_until_a_date(zone: str) -> None:
    date = http_date(600).removesuffix(" GMT") + zone
    wait = retry_after_ms({"retry-after": date})
    assert wait is not None
    assert 500_000 <= wait <= 600_000


@pytest.mark.parametrize(
    "value",
    [
        "soon", "", "-1", "nan", "inf", "1e999", "Mon, 30 Nov 2020 10:00:00 GMT", "Mon, 99 Foo 2026 00:00:00 GMT",
        "9" * 400, "٣",
    ],
)  # fmt: skip
def test_no_wait(value: str) -> None:
    wait = retry_after_ms({"retry-after": value})
    assert wait is None or wait >= 0
    if value != "٣":
        assert wait is None


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("Rate limit reached. Please try again in 20s. Visit ...", 20_000),
        ("Please try again in 1.5s", 1500),
        ("try again in 300ms.", 300),
        ("Please retry after 7 seconds", 7000),
        ("try again later", None),
    ],
)
def test_waits_in_words(text: str, wait: int | None) -> None:
    assert retry_after_ms({}, text) == wait


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_a_key_that_is_echoed_is_not_shown(name: str) -> None:
    """Wherever a service may repeat what it was sent."""
    echoes = [
        Answer([json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}."}}).encode()], 401, JSON),
        Answer([f"Unauthorized: {KEY}".encode()], 401, {"content-type": "text/plain"}),
        Answer([f'data: {{"type":"error","error":{{"message":"bad key {KEY}"}}}}\n\n'.encode()]),
        Answer([f"data: not json {KEY}\n\n".encode()]),
        Answer([f"<p>{KEY}</p>".encode()], headers={"content-type": "text/html"}),
        Answer([json.dumps({"odd": KEY}).encode()], headers=JSON),
        Answer([json.dumps({"error": {"message": f"token hunter2-hunter2 {KEY}"}}).encode()], 403, JSON),
    ]
    async with chunk_server(*echoes) as server:
        for _ in range(len(echoes)):
            options = {"headers": {"X-Gateway-Token": "hunter2-hunter2"}}
            heard = await converse(make(name, server.url, options=options))
            assert heard.error is not None
            shown = f"{heard.error} {heard.error!r} {heard.error.message} {heard.error.args}"
            assert KEY not in shown
            assert "hunter2" not in shown
            assert "***" in shown
        assert all(KEY in str(request.headers) for request in server.requests)


def test_what_looks_like_a_key_is_not_shown() -> None:
    assert "abcdefgh" not in redact("key sk-proj-abcdefgh1234 is wrong")
    assert "abcdefgh" not in redact("header Authorization: Bearer abcdefgh1234==")
    assert redact("a sketchy bearer of news") == "a sketchy bearer of news"
    assert redact("model x is unknown", ["x"]) == "model x is unknown"


async def test_a_long_text_is_cut() -> None:
    heard = await refuse(500, {"error": {"message": "long " * 1000}})
    assert heard.error is not None
    assert len(heard.error.message) < MAX_TEXT + 60
    assert heard.error.message.endswith("…")


async def test_an_endless_error_is_cut() -> None:
    async with chunk_server(Answer([b"x" * 65536] * 40, 500, {"content-type": "text/plain"})) as server:
        heard = await converse(make("openai", server.url))
    assert heard.error is not None
    assert (heard.error.status, heard.error.retryable) == (500, True)


async def test_an_error_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentwire.provider.http.ERROR_BODY_PATIENCE", 0.2)
    async with chunk_server(Answer([b'{"error":'], 503, JSON, end=HANG)) as server:
        with trio.fail_after(5):
            heard = await converse(make("openai", server.url))
    assert heard.error is not None
    assert (heard.error.status, heard.error.retryable) == (503, True)


@pytest.mark.parametrize(
    ("event", "kind", "retryable"),
    [
        ({"error": {"type": "overloaded_error", "message": "x"}}, "stream", True),
        ({"error": {"type": "api_error", "message": "x"}}, "stream", True),
        ({"error": {"type": "rate_limit_error", "message": "x"}}, "rate_limit", True),
        ({"error": {"type": "invalid_request_error", "message": "x"}}, "stream", False),
        ({"error": {"type": "authentication_error", "message": "x"}}, "auth", False),
        ({"error": {"type": "timeout_error", "message": "x"}}, "stream", True),
        ({"error": {"code": 502, "message": "x"}}, "stream", True),
        ({"error": {"code": "502", "message": "x"}}, "stream", True),
        ({"error": {"code": 429, "message": "x"}}, "rate_limit", True),
        ({"error": {"code": "context_length_exceeded", "message": "x"}}, "context", False),
        ({"error": {"message": "prompt is too long: x"}}, "context", False),
        ({"error": {"code": True, "message": "x"}}, "stream", False),
        ({"error": "x"}, "stream", False),
        ({"error": {}}, "stream", False),
    ],
)
@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_errors_inside_a_stream(name: str, event: dict[str, Any], kind: str, retryable: bool) -> None:
    data = json.dumps({"type": "error", **event} if name == "anthropic" else event).encode()
    async with chunk_server(Answer([b"data: " + data + b"\n\n"], end=HANG)) as server:
        with trio.fail_after(5):
            heard = await converse(make(name, server.url))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == (kind, retryable)
    assert heard.error.message


async def test_a_failed_request_tells_what_it_used() -> None:
    async with chunk_server(Answer(chunks_of(CASES["S-a07"]["input"]))) as server:
        heard = await converse(make("anthropic", server.url))
    assert heard.error is not None
    assert heard.error.usage
    assert (heard.error.usage.input_tokens, heard.error.usage.output_tokens) == (10, 1)
    assert heard.usages[-1] == heard.error.usage
