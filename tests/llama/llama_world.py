"""Providers that run the stand-in, and what became of it."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gguf_files import TINY
from support.agent_process import alive, lines_of

from agentwire.events import Text, TextDelta
from agentwire.messages import Message, UserMessage
from agentwire.provider import Completion, ModelRequest, ProviderSettings, StreamEvent
from agentwire_llama.service import Llama

STAND_IN = Path(__file__).with_name("stand_in.py")


@dataclass(frozen=True)
class Start:
    """One start of the stand-in."""

    pid: int
    port: int
    argv: list[str]


@dataclass
class World:
    """The folder of one stand-in. Whatever a test leaves running is a failure."""

    root: Path
    providers: list[Llama] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / "bin").mkdir(parents=True)
        self.binary = self.root / "bin" / "llama-server"
        self.binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{STAND_IN}" --world "{self.root}" "$@"\n')
        self.binary.chmod(0o755)
        self.model = self.root / "tiny-f16.gguf"
        self.model.write_bytes(TINY)
        self.log = self.root / "server.log"
        self.behave({})

    def behave(self, *starts: dict[str, Any]) -> None:
        """What each start does; the last counts for all after it."""
        (self.root / "behaviour.json").write_text(json.dumps(starts))

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "HOME": str(self.root)}

    @property
    def options(self) -> dict[str, Any]:
        return {
            "model_file": str(self.model),
            "log_file": str(self.log),
            "restart_delay": 0.02,
            "startup_timeout": 20,
        }

    def settings(self, model: str = "", **options: Any) -> ProviderSettings:
        return ProviderSettings(model=model, environ=self.environ, options={**self.options, **options})

    def provider(self, **options: Any) -> Llama:
        """A provider on the stand-in."""
        made = Llama(self.settings(**options))
        self.providers.append(made)
        return made

    @property
    def starts(self) -> list[Start]:
        return [Start(**one) for one in self._noted("starts")]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self._noted("requests")

    async def started(self, count: int = 1) -> Start:
        """Wait for so many starts; the last of them."""
        return Start(**json.loads((await lines_of(self.root / "starts", count))[count - 1]))

    def open(self, gate: str = "gate") -> None:
        """Let a server become healthy that waits for it."""
        (self.root / gate).touch()

    def _noted(self, name: str) -> list[Any]:
        path = self.root / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def left(self) -> list[int]:
        """Processes that still run, and should not. They are ended now."""
        left = [pid for pid in [*(start.pid for start in self.starts), *self._noted("children")] if alive(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return left


def request(model: str, text: str = "hi", *history: Message) -> ModelRequest:
    """A request of one more message."""
    return ModelRequest(model, [*history, UserMessage([Text(text)])])


async def ask(provider: Llama, text: str = "hi", *history: Message, model: str = "") -> tuple[Completion, str]:
    """One request; the completion, and the text as it was streamed."""
    heard: list[StreamEvent] = []
    completion = await provider.complete(request(model or provider.model, text, *history), heard.append)
    return completion, said(heard)


def said(heard: list[StreamEvent]) -> str:
    """The text of a stream's events."""
    return "".join(event.text for event in heard if isinstance(event, TextDelta))
