"""``agentwire-jan config`` and what of ``~/.jan/config.toml`` counts."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from jancommand import MODULE

from agentwire.provider import ConfigError
from agentwire_jan.configuration import Configuration, Service, load, set_service, user_file
from agentwire_jan.options import Chosen, Wanted, choose, serve_options

OLD = """\
# mine
default_model = "big"   # the good one

[[hooks]]
event = "stop"
command = "true"

[providers.work]   # at the office
api_key = "sk-work"
base_url = "https://models.example/v1"
models = ["big", "small"]
headers = { "X-Team" = "infra" }
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("JAN_API_KEY", "WORK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def command(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run([sys.executable, "-m", MODULE, *arguments], check=False, capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended


# --- changing ------------------------------------------------------------------------------------------------


def test_the_line_that_harnesses_write(home: Path) -> None:
    """Into a home without anything in it; the file and its folder are the owner's alone."""
    command(
        "config", "set", "--provider", "stub", "--api-key", "test-key", "--base-url", "http://127.0.0.1:1/v1",
        "--model", "stub-model",
    )  # fmt: skip
    path = home / ".jan" / "config.toml"
    assert load(path).providers == {"stub": Service("test-key", "http://127.0.0.1:1/v1", ["stub-model"])}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["config.toml"]


def test_what_is_not_changed_stays_to_the_letter(home: Path) -> None:
    path = user_file()
    path.parent.mkdir()
    path.write_text(OLD)
    path.chmod(0o644)
    command("config", "set", "--provider", "work", "--model", "tiny", "--model", "small", "--api-type", "responses")
    text = path.read_text()
    assert text.startswith(OLD[: OLD.index("models")])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = load(path)
    assert found.default_model == "big"
    assert found.providers["work"] == Service(
        "sk-work", "https://models.example/v1", ["tiny", "small"], "responses", {"X-Team": "infra"}
    )
    command("config", "set", "--provider", "home", "--base-url", "http://localhost:1/v1", "--model", "m")
    assert path.read_text().startswith(text.rstrip("\n"))
    assert set(load(path).providers) == {"work", "home"}


def test_an_empty_key_takes_the_key_away(home: Path) -> None:
    path = user_file()
    set_service(path, "s", api_key="sk", base_url="http://localhost:1")
    command("config", "set", "--provider", "s", "--api-key", "")
    assert load(path).providers["s"] == Service(base_url="http://localhost:1")


def test_a_link_stays_a_link(home: Path) -> None:
    real = home / "dotfiles.toml"
    real.write_text(OLD)
    user_file().parent.mkdir()
    user_file().symlink_to(real)
    set_service(user_file(), "s", models=["m"])
    assert user_file().is_symlink()
    assert "s" in load(real).providers


@pytest.mark.parametrize("text", ["[providers", "default_model = 7\n", "providers = []\n", "\x00"])
def test_a_broken_file_is_not_written_over(text: str, home: Path) -> None:
    user_file().parent.mkdir()
    user_file().write_text(text)
    ended = command("config", "set", "--provider", "s", "--model", "m", status=1)
    assert ended.stderr.startswith(f"Error: {user_file()}: ")
    assert user_file().read_text() == text
    assert os.listdir(user_file().parent) == ["config.toml"]


def test_a_place_that_cannot_be_written(home: Path) -> None:
    (home / ".jan").write_text("a file")
    ended = command("config", "set", "--provider", "s", "--model", "m", status=1)
    assert ended.stderr == f"Error: {user_file()}: Not a directory\n"
    (home / ".jan").unlink()
    (home / ".jan").symlink_to("/proc/self/nowhere/jan")
    ended = command("config", "set", "--provider", "s", "--model", "m", status=1)
    assert ended.stderr.startswith(f"Error: {user_file()} cannot be written: ")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "Missing option '--provider'"),
        (("--provider", " "), 2, "an id is not empty"),
        (("--provider", "a/b"), 2, "holds no '/'"),
        (("--provider", "s", "--api-type", "gopher"), 1, "provider 's': unknown api type 'gopher' (known: openai,"),
        (("--provider", "s", "--colour", "red"), 2, "No such option"),
    ],
)
def test_what_cannot_be_set(arguments: tuple[str, ...], status: int, message: str, home: Path) -> None:
    assert message in command("config", "set", *arguments, status=status).stderr
    assert not user_file().exists()


def test_no_key_is_ever_printed(home: Path) -> None:
    user_file().parent.mkdir()
    user_file().write_text(OLD)
    told = command("config", "list").stdout + command("cli", "agent", "status").stdout
    told += command("config", "set", "--provider", "work", "--api-key", "sk-new").stdout
    assert "sk-" not in told
    assert "infra" not in told
    assert told.count("<redacted>") == 4


def test_status(home: Path) -> None:
    found = json.loads(command("cli", "agent", "status", "--project", str(home)).stdout)
    assert (found["ready"], found["model"], found["provider"], found["providers"]) == (False, None, None, {})
    assert "config set" in found["problem"]
    set_service(user_file(), "stub", base_url="http://localhost:1/v1", models=["m"])
    found = json.loads(command("cli", "agent", "status", "--project", str(home)).stdout)
    assert found == {
        "project": str(home.resolve()),
        "config": str(user_file()),
        "model": "m",
        "provider": "stub",
        "ready": True,
        "problem": None,
        "providers": {"stub": {"base_url": "http://localhost:1/v1", "models": ["m"], "api_key": None}},
    }


# --- which service and model ---------------------------------------------------------------------------------

BOTH = Configuration(
    providers={
        "a": Service("sk-a", "http://localhost:1/v1", ["one", "both"]),
        "b": Service("sk-b", "http://localhost:2", ["two", "both", "org/three"], "anthropic", {"X-Y": "z"}),
    }
)


@pytest.mark.parametrize(
    ("default", "wanted", "chosen"),
    [
        ("", Wanted(), Chosen("a", "one")),
        ("two", Wanted(), Chosen("b", "two")),
        ("b/other", Wanted(), Chosen("b", "other")),
        ("", Wanted(model="both"), Chosen("a", "both")),
        ("", Wanted(model="b/both"), Chosen("b", "both")),
        ("", Wanted(model="org/three"), Chosen("b", "org/three")),
        ("", Wanted("b"), Chosen("b", "two")),
        ("both", Wanted("b"), Chosen("b", "both")),
        ("one", Wanted("b"), Chosen("b", "two")),
        ("", Wanted("b", "new"), Chosen("b", "new")),
        ("", Wanted("b", "b/new"), Chosen("b", "new")),
        ("", Wanted("anthropic", "claude-x"), Chosen("anthropic", "claude-x")),
    ],
)
def test_who_serves_what(default: str, wanted: Wanted, chosen: Chosen) -> None:
    assert choose(Configuration(default, providers=BOTH.providers), wanted) == chosen


@pytest.mark.parametrize(
    ("configuration", "wanted", "message"),
    [
        (Configuration(), Wanted(), "no model is configured"),
        (BOTH, Wanted(model="nine"), "no configured provider serves the model 'nine'"),
        (BOTH, Wanted("c"), "unknown provider 'c' (known: a, anthropic, b, openai)"),
        (BOTH, Wanted("anthropic"), "provider 'anthropic' has no model: pass --model"),
    ],
)
def test_nobody_serves_it(configuration: Configuration, wanted: Wanted, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose(configuration, wanted)
    assert message in str(caught.value)


def test_every_service_is_offered() -> None:
    options = serve_options(BOTH, Wanted(model="b/two"), {})
    assert (options.provider, options.model, options.api_key) == ("b", "two", "")
    assert options.extra is not None
    assert options.extra.providers == {
        "a": {"provider": "openai", "base_url": "http://localhost:1/v1", "api_key": "sk-a", "models": ["one", "both"]},
        "b": {
            "provider": "anthropic", "base_url": "http://localhost:2", "api_key": "sk-b",
            "models": ["two", "both", "org/three"], "headers": {"X-Y": "z"},
        },
    }  # fmt: skip


def test_where_the_key_comes_from() -> None:
    environ = {"JAN_API_KEY": "sk-jan", "A_API_KEY": "sk-env"}
    assert serve_options(BOTH, Wanted("a", api_key="sk-flag"), environ).api_key == "sk-flag"
    assert serve_options(BOTH, Wanted("a"), environ).api_key == "sk-jan"
    del environ["JAN_API_KEY"]
    assert serve_options(BOTH, Wanted("a"), environ).api_key == "sk-env"
    assert serve_options(BOTH, Wanted(), environ).api_key == ""


def test_a_service_that_cannot_be_used_is_told_when_it_is_wanted() -> None:
    found = Configuration(providers={**BOTH.providers, "c": Service(models=["nine"])}, dead=["hooks"])
    options = serve_options(found, Wanted(), {})
    assert options.notices == (
        "provider 'c' has no base_url: set one with `config set --provider c --base-url`",
        "Settings of Jan that have no effect here: hooks.",
    )
    with pytest.raises(ConfigError, match="provider 'c' has no base_url"):
        serve_options(found, Wanted(model="nine"), {})
    assert serve_options(Configuration(), Wanted(), {}, needs_model=False).notices[0].startswith("no model")


def test_settings_without_effect_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(OLD + "\n[telemetry]\nenabled = true\n")
    assert load(path).dead == ["hooks", "telemetry.enabled"]
