"""Making a provider: addresses, keys, options, and what it costs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest
from chunk_server import Answer, chunk_server
from conversing import CASES, KEY, PLUGINS, ask, chunks_of, make

import agentwire.provider
from agentwire.provider import ConfigError, ProviderPlugin, ProviderSettings, acceptable, endpoint
from agentwire.provider.address import is_local
from agentwire_anthropic.service import Anthropic
from agentwire_openai.service import OpenAI

OPENAI_REPLY = Answer(chunks_of(CASES["S-a01"]["input"]))
ANTHROPIC_REPLY = Answer(chunks_of(CASES["S-a19"]["input"]))


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/", "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
        ("http://localhost:11434", "http://localhost:11434/v1/chat/completions"),
        ("https://x.test/api/paas/v4", "https://x.test/api/paas/v4/chat/completions"),
        ("https://x.test/v1beta/openai", "https://x.test/v1beta/openai/chat/completions"),
        ("https://x.test/v1beta2", "https://x.test/v1beta2/chat/completions"),
        ("https://x.test/api", "https://x.test/api/v1/chat/completions"),
        ("https://x.test/vision", "https://x.test/vision/v1/chat/completions"),
        ("https://x.test/v1/chat/completions", "https://x.test/v1/chat/completions"),
        ("https://x.test/api/chat/completions", "https://x.test/api/chat/completions"),
        ("https://x.test/openai/v1?api-version=1", "https://x.test/openai/v1/chat/completions?api-version=1"),
        ("  https://x.test/v1\n", "https://x.test/v1/chat/completions"),
        ("http://[::1]:8080", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_the_version_is_put_in_and_never_doubled(base: str, url: str) -> None:
    assert endpoint(base, "/chat/completions") == url
    assert endpoint(url, "/chat/completions") == url


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1/messages"),
    ],
)
def test_messages_addresses(base: str, url: str) -> None:
    assert endpoint(base, "/messages") == url


def test_a_path_set_by_hand_is_put_behind_the_base_as_it_is() -> None:
    assert endpoint("https://x.test/a", "/b/chat", verbatim=True) == "https://x.test/a/b/chat"
    assert endpoint("https://x.test", "chat", verbatim=True) == "https://x.test/chat"


@pytest.mark.parametrize(
    "base",
    ["localhost:8080", "api.openai.com", "ftp://x.test", "https://", "http://x.test:port", "http://x y.test", "x"],
)
def test_what_is_no_address(base: str) -> None:
    with pytest.raises(ConfigError, match="base URL"):
        OpenAI(ProviderSettings(base_url=base))


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        endpoint("ftp://me:pa55word@x.test", "/p")
    assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1", True),
        ("http://127.0.0.1", True),
        ("http://127.8.8.8", True),
        ("http://[::1]:1", True),
        ("http://a.localhost", True),
        ("http://localhost.example.test", False),
        ("http://192.168.0.1", False),
        ("https://api.openai.com", False),
    ],
)
def test_this_machine(url: str, local: bool) -> None:
    assert is_local(url) is local


@pytest.mark.parametrize(
    ("make_provider", "variable", "official"),
    [
        (OpenAI, "OPENAI_API_KEY", "https://api.openai.com/v1"),
        (Anthropic, "ANTHROPIC_API_KEY", "https://api.anthropic.com"),
    ],
)
def test_keys(make_provider: Any, variable: str, official: str) -> None:
    for settings in (
        ProviderSettings(),
        ProviderSettings(base_url=official),
        ProviderSettings(environ={variable: " "}),
    ):
        with pytest.raises(ConfigError) as caught:
            make_provider(settings)
        assert str(caught.value) == f"{variable} not set"
    make_provider(ProviderSettings(api_key="k"))
    make_provider(ProviderSettings(environ={variable: "k\n"}))
    make_provider(ProviderSettings(base_url="http://localhost:1"))
    make_provider(ProviderSettings(environ={variable.replace("API_KEY", "BASE_URL"): "http://localhost:1"}))
    with pytest.raises(ConfigError, match=f"^{variable} holds characters") as caught:
        make_provider(ProviderSettings(api_key="secr\u00e9t"))
    assert "secr" not in str(caught.value)
    with pytest.raises(ConfigError):
        make_provider(ProviderSettings(api_key="two\nlines"))


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_what_is_sent(name: str) -> None:
    reply = OPENAI_REPLY if name == "openai" else ANTHROPIC_REPLY
    variable = f"{name.upper()}_API_KEY"
    async with chunk_server(*[reply] * 4) as server:
        from_environ = {variable: "from-environ", f"{name.upper()}_BASE_URL": server.url}
        providers = [
            PLUGINS[name].create(ProviderSettings(environ=from_environ)),
            PLUGINS[name].create(ProviderSettings(base_url=server.url, api_key=KEY, environ=from_environ)),
            PLUGINS[name].create(ProviderSettings(base_url=server.url)),
            make(name, server.url, options={"auth_header": "Api-Key", "headers": {"X-Y": "z"}, "api_path": "/p"}),
        ]
        for provider in providers:
            await provider.complete(ask(headers={"traceparent": "00-1"}), lambda event: None)
            await provider.aclose()
        paths = [request.path for request in server.requests]
        headers = [request.headers for request in server.requests]
    usual = "/v1/chat/completions" if name == "openai" else "/v1/messages"
    assert paths == [usual, usual, usual, "/p"]
    field, prefix = ("authorization", "Bearer ") if name == "openai" else ("x-api-key", "")
    assert [sent.get(field) for sent in headers] == [f"{prefix}from-environ", f"{prefix}{KEY}", None, None]
    assert (headers[3]["api-key"], headers[3]["x-y"]) == (KEY, "z")
    for sent in headers:
        assert sent["content-type"] == "application/json"
        assert sent["accept"] == "text/event-stream"
        assert sent["traceparent"] == "00-1"
        assert ("anthropic-version" in sent) == (name == "anthropic")


@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=lambda plugin: plugin.name)
def test_options(plugin: ProviderPlugin) -> None:
    def create(**options: Any) -> Any:
        return plugin.create(ProviderSettings(base_url="http://localhost:1", options=options))

    create(max_tokens="5", schema_cleanup="false", headers={"a": "b"})
    with pytest.raises(
        ConfigError, match=f"provider {plugin.name} has no option 'max_token', 'nope'; it has .*max_tokens"
    ):
        create(max_token=1, nope=2, headers={})
    for wrong in ({"max_tokens": "many"}, {"headers": {"a\n": "b"}}, {"headers": {"a": "b\r\nc"}}, {"max_tokens": 0}):
        with pytest.raises(ConfigError, match=f"option of provider {plugin.name}"):
            create(**wrong)


def test_what_providers_say_of_themselves() -> None:
    openai, anthropic = make("openai", "http://localhost:1"), make("anthropic", "http://localhost:1")
    assert (openai.name, openai.model, openai.thinking) == ("openai", "gpt-4o", False)
    assert openai.effort_levels == ("low", "medium", "high")
    assert (anthropic.name, anthropic.model, anthropic.thinking) == ("anthropic", "claude-sonnet-4-20250514", True)
    assert anthropic.effort_levels == ()
    assert make("openai", "http://localhost:1", model="mine").model == "mine"
    assert make("openai", "http://localhost:1", options={"effort_levels": ["max"]}).effort_levels == ("max",)


async def test_the_limit_field_of_the_service_itself() -> None:
    limits = {"options": {"max_tokens": 3}}
    async with chunk_server(OPENAI_REPLY, OPENAI_REPLY) as server:
        for options in (limits, {"options": {"max_tokens": 3, "max_tokens_field": "max_completion_tokens"}}):
            provider = make("openai", server.url, **options)
            await provider.complete(ask(), lambda event: None)
            await provider.aclose()
        bodies = [request.body for request in server.requests]
    assert [body.get("max_tokens") for body in bodies] == [3, None]
    assert [body.get("max_completion_tokens") for body in bodies] == [None, 3]
    assert OpenAI(ProviderSettings(api_key="k"))._max_tokens_field == "max_completion_tokens"


def test_providers_are_found_by_their_entry_points() -> None:
    found = {point.name: point.load() for point in entry_points(group="agentwire.providers")}
    for name in ("openai", "anthropic", "bedrock", "vertex", "script"):
        assert found[name].name == name
        assert found[name].summary
        assert found[name].default_model


def test_every_public_name_is_there() -> None:
    for name in agentwire.provider.__all__:
        assert getattr(agentwire.provider, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        agentwire.provider.no_such_name  # noqa: B018


HEAVY = ("httpx", "httpcore", "h11", "mcp", "pydantic", "rich", "asyncio", "anyio", "openai", "anthropic", "email")
HEAVY += ("botocore", "google.auth", "requests", "urllib3")


def loaded(program: str) -> set[str]:
    """The heavy modules that a program has loaded at its end."""
    code = f"{program}\nimport sys\nprint(*(name for name in {(*HEAVY, 'trio')!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_making_a_provider_imports_nothing_heavy() -> None:
    program = """
from agentwire.provider import ProviderSettings
import agentwire_openai, agentwire_anthropic, agentwire_bedrock, agentwire_vertex, agentwire_script
for package in (agentwire_openai, agentwire_anthropic, agentwire_bedrock, agentwire_vertex):
    package.provider.create(ProviderSettings(api_key="k", environ={"VERTEX_PROJECT_ID": "p"}))
"""
    assert loaded(program) <= {"trio"}


def test_naming_a_provider_does_not_even_import_trio() -> None:
    names = ("openai", "anthropic", "bedrock", "vertex", "script")
    assert loaded("import agentwire.provider\n" + "\n".join(f"import agentwire_{name}" for name in names)) == set()


# --- tool schemas --------------------------------------------------------------------------------------------

GOOD = {"type": "object", "properties": {"q": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (GOOD, GOOD),
        ({"properties": {}}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        (None, {"type": "object", "properties": {}}),
        ({"type": "string"}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": {}, "anyOf": []}, {"type": "object", "properties": {}}),
        (
            {
                "anyOf": [
                    {"type": "object", "properties": {"a": {"type": "integer"}, "c": {}}, "required": ["a", "c"]},
                    {"type": "object", "properties": {"b": {"type": "integer"}, "c": {}}, "required": ["c", "b"]},
                ]
            },
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "c": {}, "b": {"type": "integer"}},
                "required": ["c"],
            },
        ),
        (
            {
                "type": "object",
                "properties": {"x": {}},
                "required": ["x"],
                "allOf": [{"$ref": "#/$defs/A"}, {"required": ["x"]}],
                "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/B"}}, "required": ["a"]}, "B": {}},
            },
            {
                "type": "object",
                "properties": {"x": {}, "a": {"$ref": "#/$defs/B"}},
                "required": ["x", "a"],
                "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/B"}}, "required": ["a"]}, "B": {}},
            },
        ),
        (
            {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "elsewhere"}], "$defs": {"A": {"$ref": "#/$defs/A"}}},
            {"type": "object", "properties": {}, "$defs": {"A": {"$ref": "#/$defs/A"}}},
        ),
    ],
)
def test_schemas(schema: Any, expected: Any) -> None:
    before = repr(schema)
    assert acceptable(schema) == expected
    assert repr(schema) == before


def test_s_f05_good_schemas_are_sent_unchanged_and_in_place() -> None:
    servers = CASES["S-f05"]["input"]["servers"]["mix"]
    sent = {tool["name"]: acceptable(tool["inputSchema"]) for tool in servers}
    assert sent["good"] == servers[0]["inputSchema"]
    assert all(
        schema["type"] == "object" and not {"anyOf", "oneOf", "allOf"} & schema.keys() for schema in sent.values()
    )
    assert sent["with_ref"] == servers[4]["inputSchema"]
    assert set(sent["top_anyof"]["properties"]) == {"a", "b"}
