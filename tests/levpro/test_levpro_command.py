"""``agentwire-local-ai`` where a host expects ``local-ai``: its command line, and a local model behind it."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from levprocore import Launcher, Line

pytestmark = pytest.mark.slow

MODULE = "agentwire_levpro.command"
SERVE = [MODULE, "serve-stdio"]
LLAMA = Path(__file__).parents[1] / "llama"

CHAT: Line = {"id": "c", "method": "chat", "params": {"input": "hi", "session_id": "s"}}


def run(launch: Launcher, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", MODULE, *arguments], input="", capture_output=True, text=True, env=launch.environ,
        cwd=launch.workspace, timeout=30, check=False,
    )  # fmt: skip


def stand_in(launch: Launcher) -> str:
    """A configuration whose program stands in for llama-server."""
    world = launch.root / "llama"
    world.mkdir()
    (world / "behaviour.json").write_text("[{}]")
    binary, model = world / "llama-server", world / "tiny.gguf"
    binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{LLAMA / "stand_in.py"}" --world "{world}" "$@"\n')
    binary.chmod(0o755)
    model.write_bytes(runpy.run_path(str(LLAMA / "gguf_files.py"))["TINY"])
    return (
        f"llama-server: {{path: {binary}}}\nmodel: {{path: {model}, context_size: 512}}\n"
        "agents: [{name: main, system_prompt: Be brief.}, {name: coder, system_prompt: Write code.}]\n"
    )


def configure(launch: Launcher, text: str, name: str = "config.yaml") -> str:
    path = launch.workspace / name
    path.write_text(text)
    return str(path)


def test_version_and_help(launch: Launcher) -> None:
    done = run(launch, "--version")
    assert (done.returncode, done.stdout.startswith("local-ai (agentwire ")) == (0, True)
    assert "serve-stdio" in run(launch, "--help").stdout


@pytest.mark.parametrize(
    "arguments", [["serve-stdio", "--colour"], ["serve-stdio", "--max-steps", "x"], ["--config", "serve-stdio"]]
)
def test_a_command_line_that_means_nothing(launch: Launcher, arguments: list[str]) -> None:
    """Status 1 (section 9): on standard error for a person, on the wire for the host."""
    done = run(launch, *arguments)
    assert done.returncode == 1
    assert "Usage:" in done.stderr
    (line,) = map(json.loads, done.stdout.splitlines())
    assert (line["id"], line["type"]) == (None, "error")
    assert "--" in line["message"]


async def test_a_local_model(launch: Launcher) -> None:
    """Nothing is started for doctor and plan; the first chat starts the model, and it ends with us."""
    config = configure(launch, stand_in(launch), "mine.yaml")
    starts = launch.root / "llama" / "starts"
    async with launch.start([*SERVE, "--config", config]) as core:
        told = (await core.run({"id": "d", "method": "doctor"}))["result"]
        assert told["status"] == "ok", told
        assert {"binary", "model"} <= {check["name"] for check in told["checks"]}
        plan = (await core.run({"id": "p", "method": "plan"}))["result"]
        assert plan["binary"] == str(launch.root / "llama" / "llama-server")
        assert (plan["model"], plan["context_size"]) == ("tiny", 512)
        assert not starts.exists()
        end = await core.run(CHAT)
        assert end["type"] == "result", end
        assert end["result"]["warnings"] == []
        assert starts.exists()
    requests = (launch.root / "llama" / "requests").read_text()
    assert "Be brief." in requests
    assert "Write code." not in requests


async def test_agents(launch: Launcher) -> None:
    config = configure(launch, "agents: [{name: a, prompt: Be A.}, {name: b, prompt: Be B.}]")
    argv = [*SERVE, "--config", config, *launch.script({"text": "x"}, {"text": "y"})]
    async with launch.start(argv) as core:
        end = await core.run({**CHAT, "params": {"agent": "nobody"}})
        assert (end["code"], "nobody" in end["message"]) == ("invalid_request", True)
        assert (await core.run({**CHAT, "id": "c2", "params": {"agent": "b"}}))["result"]["response"] == "x"
        assert (await core.run({**CHAT, "id": "c3"}))["result"]["response"] == "y"


BAD = {"tool_calls": [{"name": "Read", "arguments": '{"file_path": '}]}
"""A call whose arguments are no JSON."""


async def test_badly_written_calls(launch: Launcher) -> None:
    """Scenario 11: put back to the model up to so many times, then the chat gives up."""
    config = configure(launch, "app: {max_parse_errors: 2}")
    argv = [*SERVE, "--config", config, *launch.script(BAD, {"text": "right"}, BAD, BAD, BAD)]
    async with launch.start(argv) as core:
        end = (await core.run(CHAT))["result"]
        assert (end["response"], len(end["warnings"])) == ("right", 1)
        assert core.of("c") == [
            "run_start", "llm_start", "llm_done", "llm_start", "llm_chunk", "llm_done", "final", "result",
        ]  # fmt: skip
        end = (await core.run({**CHAT, "id": "c2"}))["result"]
        assert (end["response"], end["warnings"][-1]) == ("", "loop_abort: max_parse_errors")
        abort = await core.event("c2", "loop_abort")
        assert (abort["step"], abort["reason"]) == (2, "max_parse_errors")
        assert "tool_start" not in core.of("c2")


async def test_the_step_limit(launch: Launcher) -> None:
    reads = {"text": "I look.", "tool_calls": [{"name": "Read", "arguments": {"file_path": "a"}}]}
    argv = [*SERVE, "--max-steps", "1", *launch.script(reads, reads)]
    async with launch.start(argv) as core:
        end = (await core.run(CHAT))["result"]
        assert (end["response"], end["warnings"]) == ("I look.", ["loop_abort: max_steps"])
        assert core.of("c")[-3:] == ["tool_done", "loop_abort", "result"]


FAULTS = {
    "binary_missing": "llama: {binary: /nowhere/llama-server}\nmodel: MODEL\n",
    "model_missing": "llama: {binary: /bin/sh}\nmodel: /nowhere/tiny.gguf\n",
    "config_missing": "app: [",
}


@pytest.mark.parametrize("code", FAULTS)
async def test_faults_of_the_set_up(launch: Launcher, code: str) -> None:
    """Scenario 15: an answer, no events, and everything else works."""
    stand_in(launch)
    config = configure(launch, FAULTS[code].replace("MODEL", str(launch.root / "llama" / "tiny.gguf")))
    async with launch.start([*SERVE, "--config", config]) as core:
        for request in (CHAT, {"id": "p", "method": "plan"}, {**CHAT, "id": "again"}):
            assert (await core.run(request))["code"] == code
            assert core.of(request["id"]) == [code]
        told = (await core.run({"id": "d", "method": "doctor"}))["result"]
        assert told["status"] == "fail"
        assert (await core.run({"id": "1", "method": "ping"}))["result"] == {"status": "ok"}


async def test_a_configuration_that_is_not_there(launch: Launcher) -> None:
    async with launch.start([*SERVE, "--config", "nowhere.yaml"]) as core:
        assert (await core.run(CHAT))["code"] == "config_missing"
    assert "nowhere.yaml" in core.errors


async def test_a_provider_needs_no_configuration(launch: Launcher) -> None:
    async with launch.start([*SERVE, *launch.script({"text": "x"})]) as core:
        assert (await core.run(CHAT))["result"]["response"] == "x"


UNTRUSTED = "llama: {binary: /bin/false}\nmcp: {servers: {s: {command: /nowhere}}}\nmodel: tiny.gguf\n"


async def test_a_configuration_that_just_lies_there_is_not_trusted(launch: Launcher) -> None:
    """One notice, told to whoever chats."""
    configure(launch, UNTRUSTED)
    async with launch.start([*SERVE, *launch.script({"text": "x"})]) as core:
        (warning,) = (await core.run(CHAT))["result"]["warnings"]
        assert "binary, mcp" in warning


@pytest.mark.parametrize("how", ["--trust-workspace", "--config", "agentwire.toml"])
async def test_how_a_user_trusts_it(launch: Launcher, how: str) -> None:
    config = configure(launch, "mcp: {servers: {s: {command: /nowhere}}}")
    given = {"--trust-workspace": [how], "--config": [how, config]}.get(how, [])
    if not given:
        (launch.root / "config").mkdir()
        (launch.root / "config" / "agentwire.toml").write_text(f'trusted_workspaces = ["{launch.workspace}"]\n')
    async with launch.start([*SERVE, *given, *launch.script({"text": "x"})]) as core:
        warnings = (await core.run(CHAT))["result"]["warnings"]
        assert not any("Ignored" in warning for warning in warnings)
        assert any("MCP server 's' failed" in warning for warning in warnings)  # it was tried
