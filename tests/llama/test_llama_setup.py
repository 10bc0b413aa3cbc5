"""Making a provider: what is found, what is refused, and what it costs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from llama_world import World

from agentwire.provider import ConfigError, Diagnosable, ProviderPlugin, ProviderSettings
from agentwire_llama import service
from agentwire_llama.locate import model_name, shards
from agentwire_llama.log import KEPT, ServerLog, default_path
from agentwire_llama.options import OURS
from agentwire_llama.service import Llama


def refusal(settings: ProviderSettings) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Llama(settings)
    assert "\n" not in str(caught.value)
    return caught.value


def test_it_is_registered_like_anybody() -> None:
    (point,) = entry_points(group="agentwire.providers", name="llama")
    plugin = point.load()
    assert isinstance(plugin, ProviderPlugin)
    assert plugin.name == "llama"


def test_making_one_imports_no_event_loop_and_no_http(world: World) -> None:
    code = (
        "import os, sys; from agentwire.provider import ProviderSettings; from agentwire.registry import load_provider;"
        f"load_provider('llama').create(ProviderSettings(model={str(world.model)!r}, environ=os.environ));"
        "print(sorted(sys.modules.keys() & {'trio', 'httpx', 'asyncio', 'platformdirs', 'subprocess', 'ssl'}))"
    )
    environ = {**os.environ, "PATH": world.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
    assert world.starts == []


def test_the_program_is_found_on_path(world: World) -> None:
    assert Llama(world.settings()).plan()["binary"] == str(world.binary)


def test_the_program_may_have_a_place_or_another_name(world: World) -> None:
    elsewhere = world.binary.rename(world.root / "bin" / "llama-server-cuda")
    assert Llama(world.settings(binary=str(elsewhere))).plan()["binary"] == str(elsewhere)
    assert Llama(world.settings(binary="llama-server-cuda")).plan()["binary"] == str(elsewhere)
    error = refusal(world.settings())
    assert str(error).startswith("llama-server was not found on PATH: install llama.cpp (")
    assert error.kind == "binary_missing"


def test_a_program_that_is_not_there_or_cannot_be_run(world: World) -> None:
    error = refusal(world.settings(binary="/nowhere/llama-server"))
    assert str(error).startswith("/nowhere/llama-server is not there: install llama.cpp (")
    world.binary.chmod(0o644)
    error = refusal(world.settings(binary=str(world.binary)))
    assert str(error) == f"{world.binary} is not a program that can be run: mend its mode, or set another binary"
    assert error.kind == "binary_missing"


def _nothing(path: Path) -> None:
    pass


def _other(path: Path) -> None:
    path.write_bytes(b"PK\3\4")


MODELS: dict[str, tuple[Callable[[Path], None], str]] = {
    "absent": (_nothing, "cannot be read (No such file or directory): pass --model PATH.gguf, or set model_file"),
    "folder": (Path.mkdir, "is not a file: pass --model PATH.gguf, or set model_file"),
    "pipe": (os.mkfifo, "is not a file"),
    "empty": (Path.touch, "is not a GGUF file: convert it, or take one that is"),
    "other": (_other, "is not a GGUF file"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_is_none(world: World, name: str) -> None:
    make, text = MODELS[name]
    path = world.root / "other.gguf"
    make(path)
    error = refusal(world.settings(model_file=str(path)))
    assert f"the model {path} {text}" in str(error)
    assert error.kind == "model_missing"


def test_no_model_at_all(world: World) -> None:
    settings = ProviderSettings(model="qwen3", environ=world.environ)
    assert str(refusal(settings)).startswith("no model file is named: pass --model PATH.gguf")
    assert "null" in str(refusal(world.settings(model_file="a\0.gguf")))


@pytest.mark.parametrize(
    ("model", "model_file", "name"),
    [
        ("", "/models/Qwen3-4B-Q4_K_M.gguf", "Qwen3-4B-Q4_K_M"),
        ("/models/Qwen3-4B.GGUF", "", "Qwen3-4B"),
        ("qwen3", "/models/Qwen3-4B.gguf", "qwen3"),
        ("", "/models/big-00001-of-00003.gguf", "big"),
        ("", "/models/sha256-abcdef", "sha256-abcdef"),
    ],
)
def test_what_a_model_is_called(model: str, model_file: str, name: str) -> None:
    assert model_name(model, model_file) == name


def test_the_model_may_be_named_by_its_path(world: World) -> None:
    provider = Llama(ProviderSettings(model=str(world.model), environ=world.environ))
    assert provider.model == "tiny-f16"
    assert provider.plan()["model_file"] == str(world.model)


def test_a_model_in_parts() -> None:
    parts = shards(Path("/m/big-00001-of-00003.gguf"))
    assert [part.name for part in parts] == [f"big-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    assert shards(Path("/m/one.gguf")) == [Path("/m/one.gguf")]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "other machines": ({"host": "0.0.0.0"}, "host must be a loopback address, not '0.0.0.0'"),
    "a name": ({"host": "example.org"}, "host must be a loopback address"),
    "port": ({"port": 70000}, "port must be between 0 and 65535"),
    "negative": ({"threads": -1}, "threads must be at least 0"),
    "not a number": ({"startup_timeout": float("nan")}, "startup_timeout must be at least 0.1"),
    "no time": ({"startup_timeout": 0}, "startup_timeout must be at least 0.1"),
    "type": ({"context_size": "many"}, "context_size"),
    "nul": ({"extra_args": ["a\0"]}, "extra_args must not hold a NUL"),
    "quotes": ({"extra_args": "--a 'b"}, "No closing quotation"),
    "unknown": ({"contxt": 1}, "options of provider llama are binary, model_file, "),
    "base": ({"base_url": "x"}, "'base_url'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options(world: World, name: str) -> None:
    options, text = WRONG[name]
    assert text in str(refusal(world.settings(**options)))


@pytest.mark.parametrize("argument", OURS)
def test_arguments_that_are_ours(world: World, argument: str) -> None:
    for given in ([argument, "x"], f"--fine {argument}=x"):
        assert f"extra_args must not hold {argument}: " in str(refusal(world.settings(extra_args=given)))


def test_options_as_a_command_line_gives_them(world: World) -> None:
    options = {"context_size": "2048", "memory_check": "false", "host": "::1", "extra_args": "--mlock --seed 1"}
    plan = Llama(world.settings(**options)).plan()
    assert plan["context_size"] == 2048
    assert plan["args"][-5:] == ["--mlock", "--seed", "1", "--port", "0"]
    assert plan["host"] == "::1"


def test_options_of_whoever_reads_the_replies(world: World) -> None:
    assert Llama(world.settings(effort_levels=["deep"])).effort_levels == ("deep",)
    assert "provider openai" in str(refusal(world.settings(max_tokens=0)))


def test_without_whoever_reads_the_replies(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "READER", "no-such")
    error = refusal(world.settings())
    assert str(error).startswith("provider llama needs the provider no-such: Unknown provider: 'no-such'.")


def test_a_server_that_runs_already_is_for_another_provider(world: World) -> None:
    settings = ProviderSettings(model=str(world.model), environ=world.environ, base_url="http://127.0.0.1:8080")
    assert "use provider 'openai' with it" in str(refusal(settings))


def test_it_can_be_asked_about_its_set_up(world: World) -> None:
    assert isinstance(Llama(world.settings()), Diagnosable)


def test_where_logs_lie_and_how_many(tmp_path: Path) -> None:
    path = default_path({"AGENTWIRE_DATA_DIR": str(tmp_path)})
    assert path == tmp_path / "llama" / f"llama-server-{os.getpid()}.log"
    assert default_path({}).name == path.name
    path.parent.mkdir()
    for number in range(KEPT + 3):
        old = path.parent / f"llama-server-x{number:02}.log"
        old.touch()
        os.utime(old, (number, number))
    other = path.parent / "notes.txt"
    other.touch()
    os.close(ServerLog(path, 4096, tidy=True).begin(["llama-server"]))
    left = sorted(file.name for file in path.parent.iterdir())
    assert left == sorted([path.name, other.name, *(f"llama-server-x{number:02}.log" for number in range(3, KEPT + 3))])


def test_the_last_words(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "a.log", 65536, tidy=False)
    assert log.last_words() == ""
    with os.fdopen(log.begin(["x"]), "wb") as output:
        output.write(b"error: of the start before\n")
    with os.fdopen(log.begin(["x"]), "wb") as output:
        assert log.last_words() == ""
        output.write(b"\x1b[31mllama_model_load: error loading model: \xff\x1b[0m\r\n\nmain: exiting\n")
        output.flush()
        assert log.last_words() == "llama_model_load: error loading model: \ufffd"
        assert log.tail()[-1] == "main: exiting"
        output.write(b"x" * 20000)
        output.flush()
        assert log.last_words() == ""  # one line that is longer than what is looked at
        output.write(b"\nall is well")
        output.flush()
        assert log.last_words() == "all is well"
