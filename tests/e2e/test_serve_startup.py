"""How the process starts, fails to start, and what it has not loaded yet."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio
from support.agent_process import AgentProcess
from support.launcher import Launcher
from support.model_service import ModelService

NO_KEYS = {"ANTHROPIC_API_KEY": None, "OPENAI_API_KEY": None}
HEAVY = {"httpx", "httpx2", "httpcore", "mcp", "pydantic", "rich", "asyncio", "anyio", "openai", "anthropic"}
"""Modules that would make the first line late (the services' SDKs are not used at all)."""


async def fatal(launch: Launcher, agent: AgentProcess, status: int) -> str:
    """The process must end with ``status`` and one config_error; its message."""
    assert await agent.wait_exit(within=5) == status, agent.story()
    assert [event["type"] for event in agent.events] == ["error"], agent.story()
    event = agent.events[0]
    assert event["msg_id"] is None
    assert event["error"]["code"] == "config_error"
    assert event["error"]["retryable"] is False
    message: str = event["error"]["message"]
    assert "\n" not in message
    assert "Traceback" not in agent.errors
    return message


@pytest.mark.parametrize(("provider", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")])
async def test_s19_a_missing_key(provider: str, variable: str, launch: Launcher) -> None:
    """Protocol section 4.3, to the byte."""
    arguments = ("serve", "--codec", "aionrs", "--provider", provider)
    agent = await launch.spawn(*arguments, environ=NO_KEYS, expected=(1,))
    assert await fatal(launch, agent, 1) == f"{variable} not set"
    assert f"{variable} not set" in agent.errors


async def test_a_key_on_the_command_line_is_enough(launch: Launcher) -> None:
    arguments = ("serve", "--codec", "aionrs", "--provider", "openai", "--api-key", "sk-x")
    agent = await launch.spawn(*arguments, environ=NO_KEYS)
    await agent.expect("ready")


async def test_a_service_of_ones_own_may_need_no_key(launch: Launcher, model: ModelService) -> None:
    """The usual addresses need one; a local service often knows none."""
    model.script("ok")
    agent = await launch(environ=NO_KEYS)
    await agent.message("m1")
    await agent.turn("m1")
    assert "authorization" not in model.requests[0].headers


@pytest.mark.parametrize("arguments", [["--no-such-flag"], ["--thinking", "maybe"], ["--max-tokens", "many"]])
async def test_a_bad_flag(arguments: list[str], launch: Launcher) -> None:
    """Usage on stderr, an event on stdout, status 2."""
    agent = await launch.spawn(*launch.serve(), *arguments, expected=(2,))
    message = await fatal(launch, agent, 2)
    assert arguments[0] in message
    assert "Usage:" in agent.errors


async def test_a_flag_without_its_value(launch: Launcher) -> None:
    agent = await launch.spawn(*launch.serve(), "--max-turns", expected=(2,))
    message = await fatal(launch, agent, 2)
    assert "--max-turns" in message
    assert message in agent.errors


async def test_a_bad_flag_with_the_default_codec(launch: Launcher) -> None:
    agent = await launch.spawn("serve", "--no-such-flag", expected=(2,))
    message = await fatal(launch, agent, 2)
    assert "--no-such-flag" in message
    assert "Usage:" in agent.errors


async def test_an_unknown_provider(launch: Launcher) -> None:
    agent = await launch.spawn("serve", "--codec", "aionrs", "--provider", "nobody", expected=(1, 2))
    await agent.wait_exit()
    assert "nobody" in await fatal(launch, agent, agent.process.returncode or 0)


async def test_an_unknown_codec(launch: Launcher) -> None:
    agent = await launch.spawn("serve", "--codec", "nothing", "--provider", "openai", expected=(1, 2))
    assert await agent.wait_exit() in (1, 2)
    assert agent.events == []
    assert "nothing" in agent.errors
    assert "aionrs" in agent.errors


async def test_a_workspace_that_is_not_there(launch: Launcher) -> None:
    missing = launch.path("gone")
    agent = await launch.spawn(*launch.serve(), "--workspace", missing, expected=(1, 2))
    await agent.wait_exit()
    assert missing in await fatal(launch, agent, agent.process.returncode or 0)


async def test_fork_needs_resume(launch: Launcher) -> None:
    agent = await launch.spawn(*launch.serve(), "--fork-session", expected=(1, 2))
    await agent.wait_exit()
    message = await fatal(launch, agent, agent.process.returncode or 0)
    assert "--fork-session" in message
    assert "--resume" in message


async def test_a_session_that_is_in_use(launch: Launcher) -> None:
    await launch("--session-id", "busy")
    agent = await launch.spawn(*launch.serve(), "--resume", "busy", expected=(1,))
    assert "in use" in await fatal(launch, agent, 1)


@pytest.mark.parametrize("damage", [b"this is no journal\n", b"\x00\xff\xfe\n{}\n"])
async def test_a_journal_that_cannot_be_read(damage: bytes, launch: Launcher) -> None:
    """The file is named and left as it is."""
    await launch.close(await launch("--session-id", "broken"))
    (journal,) = (path for path in (launch.data / "sessions").rglob("*broken*") if path.is_file())
    content = damage + journal.read_bytes()
    journal.write_bytes(content)
    agent = await launch.spawn(*launch.serve(), "--resume", "broken", expected=(1,))
    assert str(journal) in await fatal(launch, agent, 1)
    assert journal.read_bytes() == content


async def test_a_configuration_that_is_no_toml(launch: Launcher) -> None:
    file = launch.config / "agentwire.toml"
    file.write_text("[[[\n")
    agent = await launch.spawn(*launch.serve(), expected=(1,))
    assert str(file) in await fatal(launch, agent, 1)


def imported(errors: str) -> set[str]:
    """Top-level packages that ``-X importtime`` reports."""
    lines = [line for line in errors.splitlines() if line.startswith("import time:")]
    assert lines, "the interpreter did not report its imports"
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_nothing_heavy_is_loaded_before_the_first_turn(provider: str, launch: Launcher) -> None:
    agent = await launch(provider=provider, python=("-X", "importtime"))
    await agent.send(
        {"type": "init_history", "text": "x"}, {"type": "set_mode", "mode": "yolo"},
        {"type": "set_config", "model": "m"}, {"type": "stop"}, {"type": "no_such"}, {"type": "ping"},
    )  # fmt: skip
    await agent.until("pong")
    await launch.close(agent)
    assert imported(agent.errors) & HEAVY == set()
    assert {"trio", "msgspec"} <= imported(agent.errors)


async def test_the_first_turn_loads_what_it_needs(launch: Launcher, model: ModelService) -> None:
    """The check above can fail: after a turn it would."""
    model.script("ok")
    agent = await launch(python=("-X", "importtime"))
    await agent.message("m1")
    await agent.turn("m1")
    await launch.close(agent)
    assert "httpx" in imported(agent.errors)
    assert imported(agent.errors) & {"openai", "anthropic", "mcp"} == set()


async def output(launch: Launcher, *command: str) -> tuple[str, str]:
    """Both outputs of a program that ends by itself, and well."""
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, env=launch.environ)
    return done.stdout.decode(), done.stderr.decode()


async def test_the_console_script_is_the_module(launch: Launcher) -> None:
    script = Path(sys.executable).with_name("agentwire")
    by_script, _ = await output(launch, str(script), "--version")
    by_module, _ = await output(launch, sys.executable, "-m", "agentwire", "--version")
    assert by_script == by_module != ""


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["serve", "--help"]])
async def test_help_is_light(arguments: list[str], launch: Launcher) -> None:
    _, errors = await output(launch, sys.executable, "-X", "importtime", "-m", "agentwire", *arguments)
    assert imported(errors) & (HEAVY | {"trio"}) == set()
