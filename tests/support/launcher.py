"""Starts servers in a world of their own: home, data, configuration and workspace under one folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import trio

from .agent_process import AgentProcess
from .model_service import ModelService

_FROM_OUTSIDE = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SYSTEMROOT")
"""All that a server under test sees of our own environment."""


class Launcher:
    """Starts servers that share one home, data directory and workspace."""

    def __init__(self, nursery: trio.Nursery, root: Path, model: ModelService) -> None:
        self._nursery = nursery
        self._model = model
        root = root.resolve()  # as the server names it, where the temporary directory is behind a link
        self.workspace = root / "workspace"
        self.data = root / "data"
        self.config = root / "config"
        self.home = root / "home"
        for folder in (self.workspace, self.data, self.config, self.home):
            folder.mkdir()
        self.agents: list[AgentProcess] = []
        self._expected: dict[AgentProcess, frozenset[int]] = {}

    @property
    def url(self) -> str:
        """The base address of the scripted service."""
        return self._model.url

    @property
    def environ(self) -> dict[str, str]:
        """A clean environment, with a key for each provider."""
        kept = {name: os.environ[name] for name in _FROM_OUTSIDE if name in os.environ}
        return kept | {
            "HOME": str(self.home),
            "SHELL": "/bin/sh",
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "AGENTWIRE_DATA_DIR": str(self.data),
            "AGENTWIRE_CONFIG_DIR": str(self.config),
            "OPENAI_API_KEY": "sk-test-openai",
            "ANTHROPIC_API_KEY": "sk-test-anthropic",
        }

    async def spawn(
        self,
        *arguments: str,
        environ: Mapping[str, str | None] | None = None,
        python: tuple[str, ...] = (),
        expected: tuple[int, ...] = (0,),
        module: str = "agentwire",
    ) -> AgentProcess:
        """Run ``python -m MODULE ARGUMENTS``. ``environ`` adds variables, or takes them away with None; ``expected``
        are the exit statuses that are right."""
        changed = {**self.environ, **(environ or {})}
        kept = {name: value for name, value in changed.items() if value is not None}
        agent = await AgentProcess.spawn(
            self._nursery, arguments, cwd=self.workspace, environ=kept, python=python, module=module
        )
        self.agents.append(agent)
        self._expected[agent] = frozenset(expected)
        return agent

    async def __call__(
        self,
        *arguments: str,
        provider: str = "openai",
        model: str = "test-model",
        environ: Mapping[str, str | None] | None = None,
        python: tuple[str, ...] = (),
        expected: tuple[int, ...] = (0,),
    ) -> AgentProcess:
        """Start ``agentwire serve --codec aionrs`` on the scripted service and read its ``ready``."""
        agent = await self.spawn(
            *self.serve(provider, model), *arguments, environ=environ, python=python, expected=expected
        )
        await agent.expect("ready")
        return agent

    def serve(self, provider: str = "openai", model: str = "test-model") -> tuple[str, ...]:
        """The usual beginning of a command line."""
        return (
            "serve", "--codec", "aionrs", "--provider", provider, "--model", model,
            "--base-url", self.url, "--workspace", str(self.workspace),
        )  # fmt: skip

    def path(self, name: str) -> str:
        """A path in the workspace, as the tools get it."""
        return str(self.workspace / name)

    def write(self, name: str, content: str | bytes) -> str:
        """Make a file in the workspace; its path."""
        target = self.workspace / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(target)

    async def close(self, agent: AgentProcess) -> None:
        """End of input; the server must leave in good order and with nothing amiss."""
        if agent.running:
            await agent.close_stdin()
        status = await agent.wait_exit()
        assert status in self._expected[agent], f"exit status {status}\n{agent.story()}"
        assert "Traceback" not in agent.errors, agent.errors
        assert agent.rules.open_turn is None or agent.deaf or status < 0, (
            f"no end of {agent.rules.open_turn}\n{agent.story()}"
        )

    def kill_all(self) -> None:
        """Leave nothing behind after a failure."""
        for agent in self.agents:
            if agent.running:
                agent.kill()
