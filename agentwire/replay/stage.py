"""What a server is given that does a recording again: the recorded set-up, the model, and MCP servers that play."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
from msgspec.structs import replace

from agentwire.commands import AddMcpServer, SessionState
from agentwire.config import Config
from agentwire.events import McpServerReady
from agentwire.mcp.spec import McpServerSpec, McpSpecError, from_command
from agentwire.options import ServeOptions
from agentwire.policy import Policy
from agentwire.provider.contract import ConfigError, Provider
from agentwire.recording import RecordingError
from agentwire.replay.cast import Parts, PlayedModel
from agentwire.replay.ids import Ids
from agentwire.server.mcp_servers import LONGEST_WAIT, McpServers
from agentwire.setup import Place, Setup
from agentwire.store import SessionStore, StoreError

INSTRUCTIONS: Final = "Recorded"
"""The system prompt: nobody reads it."""


class PlayedSetup(Setup):
    """The set-up that was recorded: its options and configuration, and the recorded model."""

    def __init__(
        self, parts: Parts, policy: Policy, workspace: Path, sessions: Path, ids: Ids, agent: Any = None
    ) -> None:
        told = parts.setup
        try:
            options = msgspec.convert(told.get("options", {}), ServeOptions, strict=False)
            self._config = replace(
                msgspec.convert(told.get("config", {}), Config, strict=False), system_prompt=INSTRUCTIONS
            )
        except msgspec.ValidationError as error:
            raise RecordingError(f"the recorded set-up cannot be read: {error}") from None
        super().__init__(replace(options, workspace=str(workspace)), policy, agent)
        self.store = SessionStore(os.fspath(sessions))
        self._parts = parts
        self._workspace = workspace
        self._notice = str(told.get("notice", ""))
        self._ids = ids

    def keep(self, session: str, journal: bytes) -> None:
        """Put a stored session in its place. Raises :class:`RecordingError` for what is no session's id."""
        try:
            path = Path(self.store.path(session))
        except StoreError as error:
            raise RecordingError(f"a recorded session cannot be kept: {error}") from None
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(journal)

    def stored(self) -> list[SessionState]:
        """The sessions that were stored then, those of this process by their ids of now."""
        if not self._parts.stored:
            return super().stored()
        told = self._ids.translate(msgspec.json.encode(self._parts.stored.popleft()))
        return msgspec.json.decode(told, type=list[SessionState])

    def _place(self, given: str) -> Place:
        return Place(self._workspace, self._config, self._notice)

    def _provider(self, config: Config, asked: str) -> tuple[Provider | None, str]:
        if self.agent is not None and not hasattr(self.agent, "provider"):
            return self.models.serving(config, asked)
        maker = self._parts.makers.get(asked)
        if maker is None:
            raise ConfigError(f"No configured provider serves the model '{asked}'", "model")
        return PlayedModel(self._parts, maker), maker.serves


class PlayedServers(McpServers):
    """MCP servers of a recording: they are there when they were, and nothing is started."""

    __slots__ = ("_chapters", "_connecting", "_news", "_owner", "_parts", "_tasks")

    def __init__(
        self, session: Any, toolbox: Any, nursery: trio.Nursery, parts: Parts,
        chapters: dict[str, list[tuple[int, Any]]],
    ) -> None:  # fmt: skip
        super().__init__(session, toolbox, nursery)
        self._owner = session
        self._parts = parts
        self._tasks = nursery
        self._chapters = chapters
        self._connecting: set[str] = set()
        self._news = trio.Event()

    def configured(self) -> None:
        """Play those that the configuration named."""
        for name, events in list(self._chapters.items()):
            if not events[0][1].dynamic:
                self._play(name)

    def configure(self, specs: list[McpServerSpec]) -> None:
        """Nothing: what the recorded configuration named is played."""

    def add(self, command: AddMcpServer) -> str | None:
        """Play one that the host asked for; what is wrong with the request, or None."""
        try:
            spec = from_command(command)
        except McpSpecError as error:
            joint = ": " if error.kind == "transport" else " failed: "
            return f"AddMcpServer '{command.name}'{joint}{error.message}"
        self._play(spec.name)
        return None

    async def settled(self) -> None:
        """Wait until no connection is under way, or long enough."""
        with trio.move_on_after(LONGEST_WAIT):
            while self._connecting:
                self._news = trio.Event()
                await self._news.wait()

    def _play(self, name: str) -> None:
        events = self._chapters.pop(name, ())
        if events:
            self._connecting.add(name)
        for at, event in events:
            self._tasks.start_soon(self._say, at, event)

    async def _say(self, at: int, event: Any) -> None:
        await self._parts.until(at)
        if isinstance(event, McpServerReady):
            self._owner.set_mcp()
        self._owner.append(event)
        self._connecting.discard(event.name)
        self._news.set()
