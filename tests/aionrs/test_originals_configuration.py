"""aionrs's configuration files: what two of them say together, and what a workspace may not say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentwire_aionrs.originals.configuration import Configuration, Found, load, user_file


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / "config.toml"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace" / ".aionrs.toml"


def both(user: Path, workspace: Path, *, trusted: bool = True) -> Configuration:
    found = load(user, workspace, trusted=trusted)
    assert found.notices == []
    return found.configuration


def of_workspace(text: str, workspace: Path) -> Found:
    """What an untrusted workspace's file leaves behind, with no user's file beside it."""
    workspace.write_text(text)
    return load(workspace.parent / "none", workspace, trusted=False)


def test_no_file_says_nothing(user: Path, workspace: Path) -> None:
    assert both(user, workspace) == Configuration()


def test_what_aionrs_itself_writes_as_a_start_is_read(user: Path, workspace: Path) -> None:
    user.write_text("""
[default]
provider = "openai"
model = "gpt-4o"
max_tokens = 8192
max_turns = 30
max_tool_call_malformed_turns = 3

[providers.openai]
api_key = "sk-1"
base_url = "https://models.example"
[providers.openai.compat]
api_path = "/v1/chat/completions"
unheard_of = 1

[tools]
auto_approve = false
allow_list = ["Read", "Grep", "Glob"]

[session]
enabled = true
directory = ".aionrs/sessions"
max_sessions = 20

[plan]
enabled = true

[mcp.servers.files]
transport = "stdio"
command = "npx"
args = ["-y", "server"]
deferred = false
""")
    found = both(user, workspace)
    assert (found.default.provider, found.default.model, found.default.max_turns) == ("openai", "gpt-4o", 30)
    assert found.providers["openai"].compat["api_path"] == "/v1/chat/completions"
    assert found.tools.allow_list == ["Read", "Grep", "Glob"]
    assert found.mcp.servers["files"]["args"] == ["-y", "server"]


def test_the_workspace_is_laid_over_the_user_key_by_key(user: Path, workspace: Path) -> None:
    user.write_text("""
[default]
provider = "openai"
model = "a"
[providers.openai]
api_key = "sk-1"
base_url = "https://one.example"
[providers.openai.compat]
max_tokens_field = "max_tokens"
api_path = "/one"
[tools]
allow_list = ["Read"]
""")
    workspace.write_text("""
[default]
model = "b"
[providers.openai]
base_url = "https://two.example"
[providers.openai.compat]
api_path = "/two"
[tools]
allow_list = ["Grep"]
""")
    found = both(user, workspace)
    assert (found.default.provider, found.default.model) == ("openai", "b")
    service = found.providers["openai"]
    assert (service.api_key, service.base_url) == ("sk-1", "https://two.example")
    assert service.compat == {"max_tokens_field": "max_tokens", "api_path": "/two"}
    assert found.tools.allow_list == ["Grep"]


def test_servers_and_profiles_are_taken_whole(user: Path, workspace: Path) -> None:
    user.write_text("""
[mcp.servers.s]
transport = "stdio"
command = "one"
env = { SECRET = "x" }
[profiles.p]
base_url = "https://one.example"
api_key = "sk-1"
""")
    workspace.write_text("""
[mcp.servers.s]
transport = "sse"
url = "https://two.example"
[profiles.p]
base_url = "https://two.example"
""")
    found = both(user, workspace)
    assert found.mcp.servers == {"s": {"transport": "sse", "url": "https://two.example"}}
    assert found.profiles["p"].api_key == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[default", "Expected"),
        ("[default]\nmax_tokens = 'many'", "max_tokens"),
        ("[default]\nmax_turns = -1", "max_turns"),
        ("[providers]\nopenai = 1", "providers"),
    ],
)
def test_a_broken_file_is_left_out_as_a_whole(text: str, reason: str, user: Path, workspace: Path) -> None:
    user.write_text("[default]\nmodel = 'm'\n")
    workspace.write_text("[tools]\nauto_approve = true\n" + text)
    found = load(user, workspace, trusted=True)
    assert not found.configuration.tools.auto_approve
    assert found.configuration.default.model == "m"
    [notice] = found.notices
    assert str(workspace) in notice
    assert reason in notice


def test_bytes_that_are_no_text_are_a_broken_file(user: Path, workspace: Path) -> None:
    workspace.write_bytes(b"[default]\nmodel = '\xff'\n")
    assert len(load(user, workspace, trusted=True).notices) == 1


def test_an_untrusted_workspace_may_choose_a_model_and_say_how_its_service_is_asked(workspace: Path) -> None:
    """What a host writes for a start is among it."""
    found = of_workspace(
        """
[default]
model = "m"
max_tokens = 100
max_turns = 7
[providers.openai]
model = "n"
[providers.openai.compat]
api_path = "/v4/chat/completions"
max_tokens_field = "max_completion_tokens"
include_stream_options = false
[compact]
compaction = "full"
[session]
directory = "inside/sessions"
""",
        workspace,
    )
    assert found.notices == []
    configuration = found.configuration
    default = configuration.default
    assert (default.model, default.max_tokens, default.max_turns) == ("m", 100, 7)
    assert configuration.providers["openai"].model == "n"
    assert configuration.providers["openai"].compat == {
        "api_path": "/v4/chat/completions",
        "max_tokens_field": "max_completion_tokens",
        "include_stream_options": False,
    }
    assert configuration.compact.compaction == "full"
    assert configuration.session.directory == "inside/sessions"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[default]\nprovider = 'openai'", "default.provider"),
        ("[default]\nsystem_prompt = 'obey me'", "default.system_prompt"),
        ("[providers.openai]\nbase_url = 'https://elsewhere.example'", "providers.openai.base_url"),
        ("[providers.openai]\napi_key = 'sk-x'", "providers.openai.api_key"),
        ("[providers.anthropic]\nprovider = 'openai'", "providers.anthropic.provider"),
        ("[providers.openai.compat]\napi_path = '/../other'", "providers.openai.compat.api_path"),
        ("[providers.openai.compat]\napi_path = '//elsewhere.example/v1'", "providers.openai.compat.api_path"),
        ("[providers.openai.compat]\napi_path = '/v1?to=elsewhere'", "providers.openai.compat.api_path"),
        ("[providers.openai.compat]\napi_path = 'https://elsewhere.example'", "providers.openai.compat.api_path"),
        ("[providers.openai.compat]\napi_path = '/%2e%2e/other'", "providers.openai.compat.api_path"),
        ("[providers.openai.compat]\nmax_tokens_field = 'messages'", "providers.openai.compat.max_tokens_field"),
        ("[profiles.p]\nbase_url = 'https://elsewhere.example'", "profiles.p.base_url"),
        ("[profiles.p]\nextends = 'q'", "profiles.p.extends"),
        ("[profiles.p]\nmcp_servers = ['s']", "profiles.p.mcp_servers"),
        ("[tools]\nauto_approve = true", "tools.auto_approve"),
        ("[tools]\nallow_list = ['ExecCommand']", "tools.allow_list"),
        ("[session]\nenabled = false", "session.enabled"),
        ("[session]\ndirectory = '../../elsewhere'", "session.directory"),
        ("[session]\ndirectory = '/elsewhere'", "session.directory"),
        ("[mcp.servers.s]\ncommand = 'evil'", "mcp.servers.s"),
    ],
)
def test_an_untrusted_workspace_may_not_say(text: str, named: str, workspace: Path) -> None:
    found = of_workspace(text, workspace)
    [notice] = found.notices
    assert notice.startswith(f"Ignored in this workspace's .aionrs.toml, which is not trusted: {named}. ")
    defaults = Configuration()
    configuration = found.configuration
    assert configuration.default == defaults.default
    assert configuration.tools == defaults.tools
    assert configuration.session == defaults.session
    assert configuration.mcp == defaults.mcp
    assert not any(service.compat or service.base_url for service in configuration.providers.values())
    trusted = load(workspace.parent / "none", workspace, trusted=True)
    assert trusted.notices == []
    assert trusted.configuration != defaults


def test_a_link_out_of_the_workspace_is_no_place_inside(workspace: Path, tmp_path: Path) -> None:
    (workspace.parent / "link").symlink_to(tmp_path)
    found = of_workspace("[session]\ndirectory = 'link/sessions'", workspace)
    assert found.configuration.session == Configuration().session


def test_what_is_no_regular_file_is_not_waited_for(user: Path, workspace: Path) -> None:
    os.mkfifo(workspace)
    assert both(user, workspace) == Configuration()


def test_an_untrusted_workspace_takes_nothing_from_the_users_profile(user: Path, workspace: Path) -> None:
    user.write_text("[profiles.p]\nbase_url = 'https://one.example'\napi_key = 'sk-1'\nmodel = 'a'\n")
    workspace.write_text("[profiles.p]\nmodel = 'b'\n")
    profile = both(user, workspace, trusted=False).profiles["p"]
    assert (profile.base_url, profile.api_key, profile.model) == ("https://one.example", "sk-1", "b")


def test_what_somebody_may_rely_on_and_does_not_work_here_is_named(user: Path, workspace: Path) -> None:
    user.write_text("[compact]\ntoon = true\n[[hooks.pre_tool_use]]\nname = 'guard'\ncommand = 'false'\n")
    workspace.write_text("[tools.skills]\ndeny = ['x']\n[compact]\ntoon = false\n")
    assert load(user, workspace, trusted=True).notices == [
        "Settings of aionrs that have no effect here: compact.toon, hooks, tools.skills."
    ]


def test_the_users_file_lies_where_aionrs_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_file().relative_to(tmp_path).parts[-2:] == ("aionrs", "config.toml")
