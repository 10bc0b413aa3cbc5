"""What a session has beyond its file: its process knows it, and the next one must be told again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET, Struct, structs

from agentwire import commands
from agentwire.commands import Command
from agentwire.events import Mode
from agentwire_aionrs import sending, wire


class Standing:
    """Settings and servers that a host asked for and the agent has acknowledged."""

    def __init__(self) -> None:
        self.mode: Mode | None = None
        self._servers: dict[str, commands.AddMcpServer] = {}
        self._config = commands.SetConfig()

    def add(self, command: commands.AddMcpServer) -> None:
        """A server was connected."""
        self._servers[command.name] = command

    def set(self, command: commands.SetConfig) -> None:
        """Settings were changed."""
        self._config = merged(self._config, command)

    def again(self) -> Iterator[tuple[Command, Struct, str]]:
        """The commands that bring a fresh process there, servers first, with their messages and keys."""
        for server in self._servers.values():
            yield server, sending.add_mcp_server(server), server.name
        config = sending.set_config(self._config)
        if isinstance(config, wire.SetConfig) and config != wire.SetConfig():
            yield self._config, config, ""
        if self.mode is not None:
            yield commands.SetMode(self.mode), wire.SetMode(self.mode), self.mode


def merged(before: commands.SetConfig, after: commands.SetConfig) -> commands.SetConfig:
    """Two changes of settings as one: the later wins, field by field."""
    given = {name: value for name, value in structs.asdict(after).items() if value is not UNSET}
    return structs.replace(before, **given)


# --- the command line ----------------------------------------------------------------------------------------

_RESUME, _NAME, _FORK = "--resume", "--session-id", "--fork-session"


def resumes(argv: Sequence[str]) -> bool:
    """Whether a command line goes on with a session that had turns before."""
    return any(word == _RESUME or word.startswith(f"{_RESUME}=") for word in argv)


def forks(argv: Sequence[str]) -> bool:
    """Whether it does so in a copy."""
    return resumes(argv) and _FORK in argv


def resuming(argv: Sequence[str], session: str) -> list[str]:
    """The same command line, but to go on with ``session``."""
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word in (_RESUME, _NAME):
            next(words, None)
        elif word != _FORK and not word.startswith((f"{_RESUME}=", f"{_NAME}=")):
            kept.append(word)
    return [*kept, _RESUME, session]
