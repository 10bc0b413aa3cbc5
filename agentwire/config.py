"""``agentwire.toml``: the user's own file and the workspace's, and what a workspace may say.

A workspace is not trusted: somebody else may have written it. Its file may choose a model and how it answers; it may
not start a server, name a URL, a key or a header, set the mode or extend the allow list, unless the user's own file
names the directory (``trusted_workspaces``) or ``--trust-workspace`` was given. What is ignored is said once.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agentwire.provider.contract import ConfigError

FILE_NAME = "agentwire.toml"
CONFIG_DIR_VARIABLE = "AGENTWIRE_CONFIG_DIR"

HARMLESS = frozenset(
    {
        "model",
        "max_tokens",
        "max_turns",
        "effort",
        "thinking",
        "thinking_budget",
        "compaction",
        "image_input",
        "context_window",
    }
)
"""What a file in an untrusted workspace may set."""


class Config(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One configuration file. Every key is optional; an unknown one is an error that names it."""

    provider: str = ""
    model: str = ""
    max_tokens: int = 0
    max_turns: int = 0
    system_prompt: str = ""
    mode: str = ""
    allow: list[str] = []
    confine: bool = False
    effort: str = ""
    thinking: str = ""
    thinking_budget: int = 0
    compaction: str = ""
    image_input: str = ""
    context_window: int = 0
    trusted_workspaces: list[str] = []
    providers: dict[str, dict[str, Any]] = {}
    """Per provider: ``base_url``, ``api_key``, and its quirks."""
    mcp_servers: dict[str, dict[str, Any]] = {}
    """Per server: ``transport``, ``command``, ``args``, ``env``, ``url``, ``headers``, ``startup_timeout_ms``."""


class Loaded(Struct):
    """Both files as one, the workspace's over the user's, and what was not taken from the workspace's."""

    config: Config
    ignored: list[str] = []

    @property
    def notice(self) -> str:
        """What the person at the host should know, or ``""``."""
        if not self.ignored:
            return ""
        return (
            f"Ignored in this workspace's {FILE_NAME}, which is not trusted: {', '.join(self.ignored)}. "
            "To allow it, add the directory to trusted_workspaces in your own file or pass --trust-workspace."
        )


def user_directory(environ: Mapping[str, str]) -> Path:
    """Where the user's own file lies: ``$AGENTWIRE_CONFIG_DIR``, or the platform's place for configuration."""
    if given := environ.get(CONFIG_DIR_VARIABLE):
        return Path(given)
    from platformdirs import user_config_path

    return user_config_path("agentwire", appauthor=False)


def read(path: Path) -> Config:
    """One file; an empty :class:`Config` if there is none. Raises :class:`ConfigError` with path and cause."""
    return parse(path, _table(path))


def parse(path: Path, table: Mapping[str, Any]) -> Config:
    """A file's table as a :class:`Config`; ``path`` is for the error."""
    try:
        return msgspec.convert(dict(table), Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None


def _table(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():  # a FIFO of that name would hold up the start
            return {}
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def load(workspace: Path, environ: Mapping[str, str] | None = None, *, trust: bool = False) -> Loaded:
    """The user's file and the workspace's, under the trust rule. Raises :class:`ConfigError`."""
    environ = os.environ if environ is None else environ
    user = read(user_directory(environ) / FILE_NAME)
    trusted = trust or is_trusted(workspace, user)
    path = workspace / FILE_NAME
    table = _table(path)
    ignored: list[str] = []
    if not trusted:
        ignored = sorted(set(table) - HARMLESS)
        table = {key: value for key, value in table.items() if key in HARMLESS}
    return Loaded(combine(user, parse(path, table)), ignored)


def is_trusted(workspace: Path, user: Config) -> bool:
    """Whether the user's own file names this directory or one above it."""
    named = [Path(entry).expanduser().resolve() for entry in user.trusted_workspaces]
    return any(workspace.resolve().is_relative_to(directory) for directory in named)


def combine(under: Config, over: Config) -> Config:
    """Two files as one: ``over`` wins, tables are joined entry by entry, lists are added."""
    result: dict[str, Any] = {}
    for field in msgspec.structs.fields(Config):
        low, high = getattr(under, field.name), getattr(over, field.name)
        if isinstance(low, dict):
            result[field.name] = {**low, **{k: {**low.get(k, {}), **v} for k, v in high.items()}}
        elif isinstance(low, list):
            result[field.name] = [*low, *high]
        else:
            result[field.name] = high or low
    return Config(**result)
