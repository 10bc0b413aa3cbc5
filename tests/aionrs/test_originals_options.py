"""What aionrs's configuration means for a server of ours."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from agentwire.config import Config
from agentwire.options import ServeOptions
from agentwire.provider import ConfigError
from agentwire_aionrs.originals.configuration import Configuration
from agentwire_aionrs.originals.options import serve_options

EVERYTHING = """
[default]
provider = "anthropic"
model = "claude-x"
max_tokens = 4096
max_turns = 30
system_prompt = "be brief"

[providers.anthropic]
api_key = "sk-a"
prompt_caching = false

[providers.openai]
api_key = "sk-o"
base_url = "https://openai.example/v1"
[providers.openai.compat]
api_path = "/v4/chat/completions"
max_tokens_field = "max_completion_tokens"
include_stream_options = false
merge_same_role = true
sanitize_schema = false
auto_tool_id = true
effort_levels = ["low"]
strip_patterns = ["x"]

[providers.gateway]
provider = "openai"
model = "g-1"
base_url = "https://gateway.example"
[providers.gateway.compat]
api_path = "/chat"
supports_effort = false

[providers.nowhere]
model = "n"

[profiles.base]
provider = "openai"
model = "p-1"
api_key = "sk-p"
max_tokens = 100
[profiles.base.compat]
api_path = "/profile"

[profiles.child]
extends = "base"
model = "p-2"
max_turns = 3
mcp_servers = ["files"]

[profiles.through]
provider = "gateway"

[profiles.a]
extends = "b"
[profiles.b]
extends = "a"
[profiles.c]
extends = "missing"

[tools]
auto_approve = true
allow_list = ["Read", "Bash"]

[compact]
compaction = "full"

[mcp.servers.files]
transport = "stdio"
command = "npx"
args = ["-y", "files"]
startup_timeout_ms = 500
deferred = true
colour = "blue"

[mcp.servers.web]
transport = "sse"
url = "https://web.example/sse"
"""


def options(text: str = EVERYTHING, profile: str = "", preferred: str = "", **given: Any) -> ServeOptions:
    """What is served with these flags and this configuration."""
    configuration = msgspec.convert(tomllib.loads(text), Configuration)
    return serve_options(ServeOptions(**given), configuration, profile_name=profile, preferred=preferred)


def settings(served: ServeOptions) -> Config:
    """What goes below ``agentwire.toml``."""
    assert served.extra is not None
    return served.extra


def test_nothing_configured_changes_nothing() -> None:
    served = options("", model="m")
    assert served == ServeOptions(provider="anthropic", model="m", extra=Config(providers={"anthropic": {}}))


def test_the_default_table_goes_below_agentwire_toml() -> None:
    served = options()
    assert (served.provider, served.model, served.base_url, served.api_key) == ("anthropic", "", "", "")
    assert (served.max_tokens, served.max_turns) == (UNSET, UNSET)
    extra = settings(served)
    assert (extra.model, extra.max_tokens, extra.max_turns) == ("claude-x", 4096, 30)
    assert (extra.system_prompt, extra.mode, extra.compaction) == ("be brief", "yolo", "full")
    assert extra.providers == {"anthropic": {"api_key": "sk-a", "prompt_caching": False}}


def test_old_tool_names_are_known() -> None:
    assert settings(options()).allow == ["Read", "ExecCommand"]


def test_servers_lose_what_means_nothing_here() -> None:
    assert settings(options()).mcp_servers == {
        "files": {"transport": "stdio", "command": "npx", "args": ["-y", "files"], "startup_timeout_ms": 500},
        "web": {"transport": "sse", "url": "https://web.example/sse"},
    }


def test_the_command_line_wins() -> None:
    served = options(
        provider="openai", model="m", base_url="https://flag.example", api_key="sk-f", max_tokens=7, max_turns=9
    )
    assert (served.provider, served.model) == ("openai", "m")
    assert (served.base_url, served.api_key) == ("https://flag.example", "sk-f")
    assert (served.max_tokens, served.max_turns) == (7, 9)


def test_how_a_service_differs_in_our_words() -> None:
    assert settings(options(provider="openai")).providers == {
        "openai": {
            "api_key": "sk-o",
            "base_url": "https://openai.example/v1",
            "api_path": "/v4/chat/completions",
            "max_tokens_field": "max_completion_tokens",
            "stream_usage": False,
            "merge_messages": True,
            "schema_cleanup": False,
            "make_call_ids": True,
            "effort_levels": ["low"],
        }
    }


def test_a_model_of_another_provider_is_not_taken() -> None:
    assert settings(options(provider="openai")).model == ""
    assert settings(options(EVERYTHING.replace('provider = "anthropic"\nmodel', "model"), provider="openai")).model


def test_the_provider_of_agentwire_toml_goes_before_the_default() -> None:
    assert options(preferred="openai").provider == "openai"
    assert options(preferred="openai", profile="through").provider == "openai"
    assert options(preferred="anthropic", provider="openai").provider == "openai"


def test_an_alias_is_a_choice_and_goes_before_agentwire_toml() -> None:
    served = options(provider="gateway")
    assert (served.provider, served.model) == ("openai", "g-1")
    assert (served.base_url, served.api_key) == ("https://gateway.example", "sk-o")
    entry = settings(served).providers["openai"]
    assert (entry["api_path"], entry["max_tokens_field"]) == ("/chat", "max_completion_tokens")
    assert entry["effort_levels"] == []


def test_an_alias_must_say_what_it_stands_for() -> None:
    with pytest.raises(ConfigError, match="alias 'nowhere' requires a 'provider' field"):
        options(provider="nowhere")


def test_other_providers_are_left_to_whoever_knows_them() -> None:
    assert options(provider="script").provider == "script"


def test_a_profile_is_a_choice_and_inherits() -> None:
    served = options(profile="child")
    assert (served.provider, served.model, served.api_key) == ("openai", "p-2", "sk-p")
    assert (served.base_url, served.max_tokens, served.max_turns) == ("", 100, 3)
    extra = settings(served)
    assert extra.providers["openai"]["api_path"] == "/profile"
    assert extra.providers["openai"]["max_tokens_field"] == "max_completion_tokens"
    assert list(extra.mcp_servers) == ["files"]


def test_a_profile_may_name_an_alias() -> None:
    assert options(profile="through").base_url == "https://gateway.example"


def test_flags_go_before_a_profile() -> None:
    served = options(profile="child", model="m", max_tokens=5, max_turns=6, provider="anthropic")
    assert (served.provider, served.model, served.max_tokens, served.max_turns) == ("anthropic", "m", 5, 6)


def test_a_profiles_key_goes_to_no_other_provider() -> None:
    served = options(profile="child", provider="anthropic")
    assert (served.provider, served.model, served.api_key) == ("anthropic", "", "")
    assert settings(served).providers == {"anthropic": {"api_key": "sk-a", "prompt_caching": False}}


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("x", "Profile 'x' not found in config"),
        ("c", "Profile 'missing' not found in config"),
        ("a", "Circular profile inheritance detected: a -> b -> a"),
    ],
)
def test_profiles_that_cannot_be_followed(profile: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options(profile=profile)


def test_no_limit_by_flag_overrides_every_limit() -> None:
    configuration = msgspec.convert(tomllib.loads(EVERYTHING), Configuration)
    served = serve_options(ServeOptions(max_turns=0), configuration, profile_name="child")
    assert served.max_turns == 0  # settings from the command line win over every file's
