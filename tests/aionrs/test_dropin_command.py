"""``agentwire-aionrs`` where a host expects ``aionrs``: its command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from support.dropin import MODULE, refused, start
from support.launcher import Launcher
from support.model_service import ModelService
from support.original_sessions import assistant, state, user, write_current
from support.patterns import find, said
from support.replies import Reply, ToolCall


def service(launch: Launcher, provider: str = "openai", model: str = "test-model") -> tuple[str, ...]:
    """The flags that every host passes."""
    return "--provider", provider, "--model", model, "--base-url", launch.url


async def run(launch: Launcher, *arguments: str, status: int = 0) -> tuple[str, str]:
    """Run it until it ends by itself: what it wrote on both outputs."""
    command = [sys.executable, "-m", MODULE, *arguments]
    ended = await trio.run_process(
        command, capture_stdout=True, capture_stderr=True, check=False, cwd=launch.workspace, env=launch.environ
    )
    assert ended.returncode == status, ended.stderr
    return ended.stdout.decode(), ended.stderr.decode()


def test_the_program_is_installed() -> None:
    program = Path(sys.executable).with_name("agentwire-aionrs")
    ended = subprocess.run([program, "-V"], check=True, capture_output=True, text=True)
    assert ended.stdout.startswith("aionrs 0.2.0 (agentwire ")


async def test_what_hosts_ask_before_they_start_it(launch: Launcher) -> None:
    """The version in aionrs's form, and the place of its configuration file."""
    out, _ = await run(launch, "--version")
    assert out.split()[:2] == ["aionrs", "0.2.0"]
    for arguments in (("--config-path",), ("config", "path"), ("--json-stream", "--config-path", "--provider", "x")):
        out, _ = await run(launch, *arguments)
        assert out.endswith(f"{os.sep}aionrs{os.sep}config.toml\n")
        assert out.startswith(str(launch.home))


async def test_a_host_starts_it_and_talks(launch: Launcher, model: ModelService) -> None:
    """The whole command line that a host writes."""
    model.script("Hello!")
    agent = await start(
        launch, *service(launch), "--max-tokens", "8192", "--max-turns", "30", "--system-prompt", "-- Be brief.",
        "--session-id", "conv-1", "--no-color",
    )  # fmt: skip
    ready = agent.events[0]
    assert (ready["version"], ready["session_id"]) == ("0.2.0", "conv-1")
    assert ready["capabilities"]["current_mode"] == "default"
    await agent.message("m1", "Hi")
    assert said(await agent.turn("m1")) == "Hello!"
    [request] = model.requests
    assert request.system == "-- Be brief."
    assert request.body["model"] == "test-model"
    assert 8192 in (request.body.get("max_tokens"), request.body.get("max_completion_tokens"))


async def test_short_flags(launch: Launcher, model: ModelService) -> None:
    model.script("ok")
    agent = await start(launch, "-p", "anthropic", "-m", "claude-x", "-b", launch.url, "-k", "sk-flag")
    await agent.message("m1")
    await agent.turn("m1")
    [request] = model.requests
    assert request.path.endswith("/messages")
    assert request.body["model"] == "claude-x"
    assert request.headers["x-api-key"] == "sk-flag"


async def test_plain_variables_stand_for_flags(launch: Launcher, model: ModelService) -> None:
    """And no program that the model runs sees the key."""
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": "echo key=$API_KEY model=$MODEL"})), "ok")
    agent = await start(
        launch,
        "--auto-approve",
        environ={
            "PROVIDER": "openai", "MODEL": "by-variable", "BASE_URL": launch.url, "API_KEY": "sk-variable",
            "OPENAI_API_KEY": "sk-other",
        },
    )  # fmt: skip
    await agent.message("m1")
    [finished] = find(await agent.turn("m1"), "tool_result")
    assert "\nkey= model=by-variable\n" in finished["output"]
    assert model.requests[0].body["model"] == "by-variable"
    assert model.requests[0].headers["authorization"] == "Bearer sk-variable"


async def test_flags_go_before_variables(launch: Launcher, model: ModelService) -> None:
    model.script("ok")
    agent = await start(
        launch, *service(launch, model="by-flag"), environ={"MODEL": "x", "PROVIDER": "y", "BASE_URL": "z"}
    )
    await agent.message("m1")
    await agent.turn("m1")
    assert model.requests[0].body["model"] == "by-flag"


async def test_auto_approve_is_mode_yolo(launch: Launcher) -> None:
    agent = await start(launch, *service(launch), "--auto-approve")
    assert agent.events[0]["capabilities"]["current_mode"] == "yolo"


async def test_thinking_and_compaction(launch: Launcher, model: ModelService) -> None:
    model.script("ok")
    agent = await start(
        launch, *service(launch, "anthropic"), "--thinking", "enabled", "--thinking-budget", "2048",
        "--compaction", "OFF", "--max-tool-call-malformed-turns", "3", "--max-tool-call-failure-turns", "0",
    )  # fmt: skip
    await agent.message("m1")
    await agent.turn("m1")
    assert model.requests[0].body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    await agent.send({"type": "set_config", "compaction": "full"})
    await agent.expect("info", message="config updated: compaction: off → full")
    await agent.expect("config_changed")


async def test_the_work_is_done_in_the_workspace(launch: Launcher, model: ModelService, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": "pwd"})), "ok")
    agent = await start(launch, *service(launch), "--auto-approve", "--workspace", str(elsewhere))
    await agent.message("m1")
    [finished] = find(await agent.turn("m1"), "tool_result")
    assert f"\n{elsewhere}\n" in finished["output"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--no-such-flag",), "No such option"),
        (("--max-tokens", "many"), "--max-tokens"),
        (("--toon",), "not supported by agentwire: --toon"),
        (("--max-tool-call-malformed-turns", "2"), "only 3 can be given"),
        (("--max-tool-call-failure-turns", "3"), "only 0 can be given"),
        (("--log-level", "loud"), "'loud' is none of off, error"),
        (("fix", "the", "bug"), "No such command 'fix'"),
    ],
)
async def test_a_wrong_flag_is_told_to_the_host_too(arguments: tuple[str, ...], message: str, launch: Launcher) -> None:
    await refused(launch, *service(launch), *arguments, message=message, status=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--provider", "nobody"), "Unknown provider: 'nobody'"),
        (("--thinking", "maybe"), "Invalid --thinking value: maybe. Expected 'enabled' or 'disabled'."),
        (("--compaction", "much"), "Invalid --compaction value: much"),
        (("--profile", "x"), "Profile 'x' not found in config"),
        (("--resume", "a", "--session-id", "b"), "Cannot use --resume and --session-id together"),
        (("--resume", "nope"), "Session 'nope' not found"),
        (("--resume", "latest"), "No sessions found"),
        (("--fork-session",), "--fork-session needs --resume"),
        (("--workspace", "/no/such/place"), "Workspace '/no/such/place' is not a directory"),
        (("--project-dir", "/no/such/place"), "--project-dir '/no/such/place' is not a directory"),
        (("--log-dir", "/dev/null/logs"), "--log-dir '/dev/null/logs' cannot be used"),
    ],
)
async def test_what_cannot_be_set_up(arguments: tuple[str, ...], message: str, launch: Launcher) -> None:
    """Exit status 1: hosts take that for a start that failed, and may try another."""
    await refused(launch, *service(launch), *arguments, message=message, status=1)


async def test_a_missing_key_is_told_before_ready(launch: Launcher) -> None:
    agent = await launch.spawn(
        "--json-stream", "--provider", "anthropic", "--model", "m", environ={"ANTHROPIC_API_KEY": None},
        module=MODULE, expected=(1,),
    )  # fmt: skip
    assert await agent.wait_exit() == 1
    [event] = agent.events
    assert event["error"]["message"].startswith("ANTHROPIC_API_KEY not set")


async def test_without_json_stream_nothing_is_served(launch: Launcher) -> None:
    out, errors = await run(launch, "--provider", "openai", status=2)
    assert out == ""
    assert "only --json-stream mode is served" in errors


@pytest.mark.parametrize(
    "arguments", [("auth", "login"), ("auth", "logout"), ("skills", "path"), ("config", "init"), ("--login",)]
)
async def test_what_is_not_built_here_says_so(arguments: tuple[str, ...], launch: Launcher) -> None:
    out, errors = await run(launch, *arguments, status=2)
    assert out == ""
    assert "not supported by agentwire" in errors or "No such option" in errors


async def test_the_list_of_sessions(launch: Launcher) -> None:
    out, errors = await run(launch, "session", "list")
    assert (out, errors) == ("", "No sessions found\n")
    await launch.close(await start(launch, *service(launch), "--session-id", "mine"))
    path = write_current(launch.workspace / ".aionrs" / "sessions", state("theirs", user("a"), assistant("b")))
    out, _ = await run(launch, "session", "list")
    [mine, theirs] = out.splitlines()
    assert mine.split()[0] == "mine"
    assert mine.split()[-1] == "test-model"
    assert theirs.split()[0] == "theirs"
    assert theirs.split()[-1] == str(path)


@pytest.mark.parametrize(
    ("level", "logged"),
    [("info", True), ("trace", True), ("error,aion_providers=debug", False), ("aion_mcp=debug", False), ("off", False)],
)
async def test_logs_go_to_standard_error_and_a_file(level: str, logged: bool, launch: Launcher, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "logs"
    agent = await launch.spawn(
        "--json-stream", *service(launch), "--log-level", level, "--log-dir", str(folder), module=MODULE, expected=(0,)
    )
    await agent.expect("ready")
    await agent.fence()
    agent.send_signal(signal.SIGTERM)
    assert await agent.wait_exit() == 0
    text = (folder / "agentwire-aionrs.log").read_text()
    assert text == agent.errors
    assert ("SIGTERM" in text) is logged
