"""Vertex AI: tokens from a real (and a false) token service, and where requests go."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
import trio
from chunk_server import Answer, ChunkServer, chunk_server
from conversing import CASES, ask, chunks_of, converse
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agentwire.provider import ConfigError, Provider, ProviderSettings
from agentwire_vertex import provider as plugin
from agentwire_vertex.service import Vertex

REPLY = Answer(chunks_of(CASES["S-a19"]["input"]))
NOTHING: Mapping[str, str] = {}
JSON = {"content-type": "application/json"}
MODEL = "claude-sonnet-4@20250514"

KEY_FILE = (
    rsa.generate_private_key(65537, 2048)
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode()
)


def token(number: int = 1, lifetime: int = 3600) -> Answer:
    """What the token service answers."""
    body = {"access_token": f"ya29.token-{number}", "expires_in": lifetime, "token_type": "Bearer"}
    return Answer([json.dumps(body).encode()], headers=JSON)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own set-up, and no look at what a cloud would tell."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def account(server: ChunkServer, path: Path, **fields: Any) -> None:
    """Put the file of a service account, whose token service is ``server``, into the environment."""
    file = path / "account.json"
    content = {
        "type": "service_account",
        "project_id": "project-of-the-key",
        "private_key_id": "1",
        "private_key": KEY_FILE,
        "client_email": "me@project.test",
        "token_uri": f"{server.url}/token",
    }
    file.write_text(json.dumps(content | fields))
    os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(file)


def make(url: str, environ: Mapping[str, str] = NOTHING, **fields: Any) -> Provider:
    return plugin.create(ProviderSettings(base_url=url, environ=environ, **fields))


async def test_a_token_is_fetched_and_used_until_it_expires(tmp_path: Path) -> None:
    async with chunk_server(token(1), REPLY, REPLY) as server:
        account(server, tmp_path)
        provider = make(server.url, {"VERTEX_REGION": "europe-west4", "VERTEX_PROJECT_ID": "mine"})
        for _ in range(2):
            completion = await provider.complete(
                ask(model=MODEL, max_tokens=50, headers={"traceparent": "00-1"}), lambda event: None
            )
        await provider.aclose()
        asked, first, second = server.requests
    assert (completion.text, completion.finish_reason) != ("", "")
    assert asked.path == "/token"
    assert b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer" in asked.raw
    for seen in (first, second):
        assert seen.path == (
            "/v1/projects/mine/locations/europe-west4/publishers/anthropic/models/"
            "claude-sonnet-4@20250514:streamRawPredict"
        )
        assert seen.headers["authorization"] == "Bearer ya29.token-1"
        assert seen.headers["traceparent"] == "00-1"
        assert "anthropic-version" not in seen.headers
        assert seen.body["anthropic_version"] == "vertex-2023-10-16"
        assert (seen.body["stream"], seen.body["max_tokens"]) == (True, 50)
        assert "model" not in seen.body


async def test_a_token_is_renewed_before_it_expires(tmp_path: Path) -> None:
    async with chunk_server(token(1, lifetime=60), REPLY, token(2), REPLY) as server:
        account(server, tmp_path)
        provider = make(server.url)
        for _ in range(2):
            await provider.complete(ask(), lambda event: None)
        await provider.aclose()
        used = [seen.headers.get("authorization") for seen in server.requests]
    assert used[1::2] == ["Bearer ya29.token-1", "Bearer ya29.token-2"]


async def test_one_token_for_all_who_ask_at_once(tmp_path: Path) -> None:
    async with chunk_server(token(1), REPLY, REPLY, REPLY) as server:
        account(server, tmp_path)
        provider = make(server.url)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(provider.complete, ask(), lambda event: None)
        await provider.aclose()
        paths = [seen.path for seen in server.requests]
    assert paths.count("/token") == 1
    assert len(paths) == 4


async def test_the_project_of_the_credentials(tmp_path: Path) -> None:
    async with chunk_server(token(), REPLY) as server:
        account(server, tmp_path)
        heard = await converse(make(server.url))
        path = server.requests[1].path
    assert heard.error is None
    assert path.startswith("/v1/projects/project-of-the-key/locations/us-central1/publishers/anthropic/models/")
    assert (heard.sent[0].provider, heard.sent[0].api) == ("vertex", "messages")


async def test_a_token_that_is_ready_to_be_used() -> None:
    environ = {"VERTEX_PROJECT_ID": "mine", "VERTEX_ACCESS_TOKEN": "ya29.given"}
    async with chunk_server(REPLY) as server:
        heard = await converse(make(server.url, environ))
        (seen,) = server.requests
    assert heard.error is None
    assert seen.headers["authorization"] == "Bearer ya29.given"


@pytest.mark.parametrize(
    ("answer", "kind", "retryable", "text"),
    [
        (
            Answer([b'{"error":"invalid_grant","error_description":"account not found"}'], 400, JSON),
            "auth",
            False,
            "account not found",
        ),
        (Answer([b"<html>Bad gateway</html>"], 502, {"content-type": "text/html"}), "auth", False, "Bad gateway"),
        (Answer([b'{"expires_in":3600}'], 200, JSON), "auth", False, "No access token"),
        (Answer([], end="cut"), "connect", True, "cannot be reached"),
    ],
)
async def test_a_token_service_that_gives_none(
    answer: Answer, kind: str, retryable: bool, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("google.auth._exponential_backoff._DEFAULT_INITIAL_INTERVAL_SECONDS", 0.001)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    async with chunk_server(*[answer] * 8) as server:
        account(server, tmp_path)
        heard = await converse(make(server.url))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable, heard.sent) == (kind, retryable, [])
    assert text in heard.error.message


async def test_no_token_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    refusal = Answer(
        [b'[{"error":{"code":401,"message":"bad ya29.token-1 of mine","status":"UNAUTHENTICATED"}}]'], 401, JSON
    )
    with caplog.at_level(logging.DEBUG):
        async with chunk_server(token(), refusal) as server:
            account(server, tmp_path)
            heard = await converse(make(server.url))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.status) == ("auth", 401)
    assert "bad *** of mine" in heard.error.message
    assert "ya29" not in caplog.text
    assert "PRIVATE KEY" not in caplog.text


@pytest.mark.parametrize("content", ["", "{}", '{"type":"nothing_known"}', '{"type":"service_account"}'])
async def test_credentials_that_are_none(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "account.json"
    file.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    heard = await converse(make("http://127.0.0.1:9"))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("config", False)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [({"private_key": "no key"}, "config"), ({"token_uri": "http://[bad/token"}, "connect")],
)
async def test_an_account_that_cannot_be_used(changes: dict[str, str], kind: str, tmp_path: Path) -> None:
    async with chunk_server() as server:
        account(server, tmp_path, **changes)
        heard = await converse(make(server.url))
    assert heard.error is not None
    assert heard.error.kind == kind
    assert "Google" in heard.error.message


async def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path))
    heard = await converse(make("http://127.0.0.1:9"))
    assert heard.error is not None
    assert heard.error.kind == "config"


async def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file")
    heard = await converse(make("http://127.0.0.1:9"))
    assert heard.error is not None
    assert heard.error.kind == "config"
    assert "/no/such/file" in heard.error.message


async def test_no_credentials_at_all() -> None:
    heard = await converse(make("http://127.0.0.1:9"))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.message[:22]) == ("config", "No Google credentials:")


async def test_credentials_without_a_project(tmp_path: Path) -> None:
    async with chunk_server(token()) as server:
        account(server, tmp_path, project_id="")
        heard = await converse(make(server.url))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.message[:21]) == ("config", "VERTEX_PROJECT_ID not")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (ProviderSettings(environ={"VERTEX_REGION": "x/y"}), "no Google Cloud region"),
        (ProviderSettings(options={"regio": "x"}), "provider vertex has no option 'regio'; it has .*region"),
        (ProviderSettings(base_url="vertex"), "base URL"),
        (ProviderSettings(api_key="two words"), "VERTEX_ACCESS_TOKEN holds"),
        (ProviderSettings(api_key="ya29.x"), "VERTEX_PROJECT_ID not set"),
    ],
)
def test_what_cannot_be_set_up(settings: ProviderSettings, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        plugin.create(settings)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("agentwire.provider.extras.find_spec", missing)
    with pytest.raises(ConfigError, match=r"needs google.auth.*pip install 'agentwire\[vertex\]'"):
        make("")


@pytest.mark.parametrize("region", ["us-central1", "europe-west1", "global", "us", "eu"])
@pytest.mark.parametrize("model", [MODEL, "claude-opus-4-1@20250805", "my model/x"])
async def test_the_address_is_the_one_that_the_sdk_uses(region: str, model: str) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"")

    with (
        httpx2.Client(transport=httpx2.MockTransport(answer)) as http,
        anthropic.AnthropicVertex(region=region, project_id="p", access_token="t", http_client=http) as client,
    ):
        client.messages.create(model=model, max_tokens=1, messages=[], stream=True)
    environ = {"VERTEX_PROJECT_ID": "p", "VERTEX_REGION": region, "VERTEX_ACCESS_TOKEN": "t"}
    provider = make("", environ)
    assert isinstance(provider, Vertex)
    target = await provider._target(ask(model=model), b"{}")
    assert httpx2.URL(target.url) == httpx2.URL(asked[0])
    by_hand = make("https://x.test/gateway", environ, options={"api_path": "/predict"})
    assert isinstance(by_hand, Vertex)
    assert (await by_hand._target(ask(model=model), b"{}")).url == "https://x.test/gateway/predict"
