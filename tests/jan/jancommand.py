"""Running ``agentwire-jan`` the way a host or a person runs jan."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
from support.agent_process import AgentProcess
from support.launcher import Launcher

MODULE = "agentwire_jan.command"
RUN = ("cli", "agent", "run")
STREAM = ("--output-format", "stream-json")
TWO_WAY = (*STREAM, "--input-format", "stream-json")


@dataclass
class Ended:
    """What it wrote until it ended by itself."""

    status: int
    out: str
    errors: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        """The only line, or the last."""
        return self.lines[-1]


async def run(
    launch: Launcher,
    *arguments: str,
    environ: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
) -> Ended:
    """Run it until it ends by itself."""
    command = [sys.executable, "-m", MODULE, *arguments]
    changed = {**launch.environ, **(environ or {})}
    ended = await trio.run_process(
        command,
        stdin=stdin,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd=cwd or launch.workspace,
        env={name: value for name, value in changed.items() if value is not None},
    )
    return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


async def configure(launch: Launcher, provider: str = "stub", *more: str, model: str = "stub-model") -> None:
    """Tell it of the scripted service, as a harness does."""
    ended = await run(
        launch, "config", "set", "--provider", provider, "--api-key", "test-key", "--base-url", launch.url,
        "--model", model, *more,
    )  # fmt: skip
    assert ended.status == 0, ended.errors


async def start(launch: Launcher, *arguments: str, expected: tuple[int, ...] = (0,)) -> AgentProcess:
    """Start a run that a host talks with, and read its first line."""
    agent = await launch.spawn(*RUN, *TWO_WAY, *arguments, module=MODULE, expected=expected)
    await agent.expect("init")
    return agent


def installed() -> subprocess.CompletedProcess[str]:
    """The program itself, asked for its version."""
    program = Path(sys.executable).with_name("agentwire-jan")
    return subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
