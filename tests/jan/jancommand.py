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
from jsonschema import Draft202012Validator
from support.agent_process import AgentProcess
from support.launcher import Launcher
from support.replies import JsonObject
from support.wire_rules import compact

from agentwire_jan.configuration import set_service

MODULE = "agentwire_jan.command"
RUN = ("cli", "agent", "run")
STREAM = ("--output-format", "stream-json")
TWO_WAY = (*STREAM, "--input-format", "stream-json")

_SCHEMA = json.loads((Path(__file__).with_name("published") / "stream-schema.json").read_text())
PUBLISHED = Draft202012Validator({"$ref": "#/$defs/OutputRecord", "$defs": _SCHEMA["$defs"]})
"""A line of an agent, as Jan's own schema has it (its texts left out; `compaction` and `retry` from the RPC's)."""

PUBLISHED_INPUT = Draft202012Validator({"$ref": "#/$defs/InputLine", "$defs": _SCHEMA["$defs"]})
"""A line of a host."""


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


def configure(launch: Launcher, provider: str = "stub", *, model: str = "stub-model", api_type: str = "") -> None:
    """Tell it of the scripted service, as ``config set`` does."""
    path = launch.home / ".jan" / "config.toml"
    set_service(path, provider, api_key="test-key", base_url=launch.url, models=[model], api_type=api_type)


class RunRules:
    """What must hold of every line that a run writes: compact JSON, as published, the result last and once."""

    open_turn = None

    def __init__(self) -> None:
        self._result: JsonObject | None = None
        self._seen = 0

    def read(self, line: bytes) -> JsonObject:
        """Check one line, given without its line feed, and decode it."""
        event: JsonObject = json.loads(line)
        assert compact(event) == line
        assert self._result is None, f"after the result: {event}"
        assert (event["type"] == "init") is (self._seen == 0 and event["type"] != "result"), event
        PUBLISHED.validate(event)
        self._seen += 1
        if event["type"] == "result":
            self._result = event
        return event


class JanRun(AgentProcess):
    """One run that a host talks with; its lines are checked by :class:`RunRules`."""

    def __init__(self, process: trio.Process) -> None:
        super().__init__(process)
        self.rules = RunRules()  # type: ignore[assignment]

    async def abort(self) -> None:
        """Stop the run."""
        await self.send({"type": "abort"})

    async def decide(self, request_id: str, decision: str) -> None:
        """Answer a question."""
        await self.send({"type": "permission", "request_id": request_id, "decision": decision})

    async def ended(self, status: int = 0) -> JsonObject:
        """The result, after which the process has left with ``status``."""
        last = (await self.until("result"))[-1]
        assert await self.wait_exit() == status, self.story()
        return last


class Runs:
    """Starts runs that a host talks with; none outlives its test."""

    def __init__(self, nursery: trio.Nursery, launch: Launcher) -> None:
        self._nursery = nursery
        self._launch = launch
        self.all: list[JanRun] = []

    async def __call__(self, *arguments: str, environ: Mapping[str, str] | None = None) -> JanRun:
        """Start ``agentwire-jan cli agent run`` with both streams and read its first line."""
        process = await JanRun.spawn(
            self._nursery,
            (*RUN, *TWO_WAY, *arguments),
            cwd=self._launch.workspace,
            environ={**self._launch.environ, **(environ or {})},
            module=MODULE,
        )
        assert isinstance(process, JanRun)
        self.all.append(process)
        await process.expect("init")
        return process


def installed() -> subprocess.CompletedProcess[str]:
    """The program itself, asked for its version."""
    program = Path(sys.executable).with_name("agentwire-jan")
    return subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
