"""``config.yaml``: what is understood of it, what is wrong with it, and what a file that is not trusted may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from agentwire.options import ServeOptions
from agentwire.provider import ConfigError
from agentwire_levpro.configuration import SETTINGS, Core, read, serve_options

WHOLE = """
app:
  max_parse_errors: 3
  max-steps: 12
llama-server:
  path: bin/llama-server
  port: 8081
  extra_args: [--flash-attn, 1]
model:
  path: models/tiny.gguf
  context_size: 8192
  gpu_layers: auto
agents:
  - name: main
    system_prompt: Be brief.
    model: models/tiny.gguf
  - id: coder
    prompt: You write code.
mcp:
  servers:
    - name: weather
      command: [uvx, weather]
      args: [--units, metric]
      env: {KEY: x}
memory:
  enabled: true
"""


def core(path: Path, text: str, *, trusted: bool = True) -> Core:
    path = path / "config.yaml"
    path.write_text(text)
    found = read(path, trusted=trusted)
    assert found is not None
    return found


def test_a_whole_file(tmp_path: Path) -> None:
    found = core(tmp_path, WHOLE)
    assert found.settings == {
        "binary": str(tmp_path / "bin/llama-server"),
        "model_file": str(tmp_path / "models/tiny.gguf"),
        "context_size": 8192,
        "gpu_layers": -1,
        "port": 8081,
        "extra_args": ["--flash-attn", "1"],
        "max_parse_errors": 3,
        "max_steps": 12,
    }
    assert found.agents == {"main": "Be brief.", "coder": "You write code."}
    assert found.servers == {
        "weather": {"command": "uvx", "args": ["weather", "--units", "metric"], "env": {"KEY": "x"}}
    }
    assert found.free == ("mcp",)
    assert [notice.rpartition(": ")[2] for notice in found.notices] == ["memory."]


def test_what_it_means_for_a_server(tmp_path: Path) -> None:
    found = core(tmp_path, WHOLE)
    options = serve_options(ServeOptions(codec="levpro", provider_options={"port": 0}), found)
    assert options.provider == "llama"
    assert options.provider_options["binary"] == str(tmp_path / "bin/llama-server")
    assert options.provider_options["port"] == 0  # the command line wins
    assert (options.max_turns, options.max_bad_calls) == (12, 3)
    assert list(options.agents) == ["main", "coder"]
    assert options.allow == ("mcp",)
    assert options.extra is not None
    assert list(options.extra.mcp_servers) == ["weather"]
    assert len(options.notices) == 1


def test_another_provider_takes_nothing_that_is_llamas(tmp_path: Path) -> None:
    found = core(tmp_path, WHOLE)
    options = serve_options(ServeOptions(provider="script", provider_options={"script": "s"}, max_turns=2), found)
    assert (options.provider, options.provider_options, options.model) == ("script", {"script": "s"}, "")
    assert (options.max_turns, list(options.agents)) == (2, ["main", "coder"])


def test_a_file_that_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "config.yaml", trusted=True) is None
    found = core(tmp_path, "# nothing\n")
    assert found == Core()
    options = serve_options(ServeOptions(), found)
    assert (options.provider, options.max_turns, options.max_bad_calls) == ("llama", UNSET, UNSET)


PLACES = [(name, place) for name, setting in SETTINGS.items() for place in setting.places]


@pytest.mark.parametrize(("name", "place"), PLACES, ids=[f"{name} at {place}" for name, place in PLACES])
def test_every_place_of_a_setting(tmp_path: Path, name: str, place: str) -> None:
    value: Any = {str: "x", int: 7, float: 1.5}.get(SETTINGS[name].kind, ["x"])  # type: ignore[call-overload]
    *section, key = place.split(".")
    text = f"{section[0]}:\n  {key}: {value}\n" if section else f"{key}: {value}\n"
    assert core(tmp_path, text).settings == {name: value}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1", "cannot be read"),
        ("- a\n", "keys and values"),
        ("just words", "keys and values"),
        ("a: !!python/object/apply:os.getcwd []", "cannot be read"),
        ("\x00", "cannot be read"),
        ("app: {max_parse_errors: two}", "app.max_parse_errors must be a whole number, not 'two'"),
        ("app: {max_parse_errors: true}", "must be a whole number"),
        ("model: {path: 7}", "model.path must be text"),
        ("llama: {extra_args: --x}", "llama.extra_args must be a list of texts"),
        ("agents: [{prompt: x}]", "every agent needs a name of its own, not ''"),
        ("agents: [{name: a}, {name: a}]", "not 'a'"),
        ("mcp: {servers: [{command: x}]}", "every MCP server needs a name"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        core(tmp_path, text)
    assert says in str(raised.value)
    assert str(tmp_path / "config.yaml") in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.kind == "config_missing"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "config.yaml", trusted=True)


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        ("agents: [main, coder]", {"main": "", "coder": ""}),
        ("agents: {main: Be brief., coder: {instructions: Code.}}", {"main": "Be brief.", "coder": "Code."}),
        ("agents: none", {}),
    ],
)
def test_ways_to_write_agents(tmp_path: Path, agents: str, expected: dict[str, str]) -> None:
    assert core(tmp_path, agents).agents == expected


def test_models_of_agents(tmp_path: Path) -> None:
    """The first agent's is the model if the file names no other; one serves them all."""
    agents = "agents: [{name: a, model: a.gguf}, {name: b, model: b.gguf}]"
    found = core(tmp_path, agents)
    assert found.settings == {"model_file": str(tmp_path / "a.gguf")}
    found = core(tmp_path, f"model: c.gguf\n{agents}")
    assert found.settings == {"model_file": str(tmp_path / "c.gguf")}
    assert "one model serves every agent" in found.notices[0]


@pytest.mark.parametrize(
    ("given", "found"), [("llama-server", "llama-server"), ("~/llama", "~/llama"), ("/opt/llama", "/opt/llama")]
)
def test_programs_by_name_and_by_path(tmp_path: Path, given: str, found: str) -> None:
    assert core(tmp_path, f"llama: {{binary: {given}}}").settings == {"binary": found}


APPROVALS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "none marked": ("{a: {command: x}, b: {command: y, requires_approval: false}}", ("mcp",), 0),
    "one server marked": ("{a: {command: x, requires_approval: true}}", (), 0),
    "one of two": ("{a: {command: x, requires_approval: true}, b: {command: y}}", (), 1),
    "one of two, whose tools are listed": (
        "{a: {command: x, requires_approval: true}, b: {command: y, tools: [look, see]}}", ("look", "see"), 0,
    ),
    "single tools": (
        "{a: {command: x, tools: {look: {}, wipe: {requires_approval: true}, mcp: {}}}}", ("look",), 0,
    ),
    "a server that is off": ("{a: {command: x, enabled: false}, b: {command: y, disabled: true}}", (), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", APPROVALS)
def test_tools_that_require_approval(tmp_path: Path, name: str) -> None:
    """A tool that is called as a category is frees nothing else."""
    servers, free, notices = APPROVALS[name]
    found = core(tmp_path, f"mcp_servers: {servers}")
    assert (found.free, len(found.notices)) == (free, notices)


def test_a_file_that_is_not_trusted(tmp_path: Path) -> None:
    """It may choose a model and say how it answers; it may not start a program or a server."""
    found = core(tmp_path, WHOLE, trusted=False)
    assert set(found.settings) == {"model_file", "context_size", "gpu_layers", "max_parse_errors", "max_steps"}
    assert (found.servers, found.free) == ({}, ())
    assert list(found.agents) == ["main", "coder"]
    assert "Ignored" in found.notices[-1]
    assert "binary, extra_args, mcp, port" in found.notices[-1]
    assert core(tmp_path, "app: {max_steps: 2}", trusted=False).notices == []
