"""``~/.jan/config.toml``: the model services that Jan was told of, and which model it uses by itself.

It is the user's own file; nothing is read from a workspace, so none can name a server, a key or a mode. Reading is
plain TOML. Changing keeps every comment and every setting that is not changed, and the file is only ever there as a
whole, readable for its owner alone.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from agentwire.provider.contract import ConfigError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

KEY_VARIABLE: Final = "JAN_API_KEY"
"""A key for whatever service is used."""

HIDDEN: Final = "<redacted>"


class Service(Struct):
    """``[providers.ID]``: one model service under the user's own name for it."""

    api_key: str = ""
    base_url: str = ""
    models: list[str] = []
    api_type: str = ""
    """How it is spoken to; empty: as its id says, else as OpenAI's Chat Completions are."""
    headers: dict[str, str] = {}
    """Sent with every request."""


class Configuration(Struct):
    """What the file says. Keys without a meaning here are skipped (see :attr:`dead`)."""

    default_model: str = ""
    sandbox: bool = False
    """Programs run confined: not built here, so it is not passed over."""
    worktree: bool = False
    """A session works in a checkout of its own: not built here either."""
    providers: dict[str, Service] = {}
    dead: list[str] = []
    """Settings that somebody may rely on and that nothing here carries out."""

    def default(self) -> str:
        """The model that is used when none is asked for: the one named, else the first of the first service."""
        if self.default_model.strip():
            return self.default_model
        named = (service.models[0] for _, service in sorted(self.providers.items()) if service.models)
        return next(named, "")


def user_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the file lies: below the home directory."""
    return Path(environ.get("HOME") or Path.home()) / ".jan" / "config.toml"


def load(path: Path) -> Configuration:
    """Read the file; one that is not there says nothing. Raises :class:`ConfigError` for a broken one."""
    table = _table(path)
    try:
        found = msgspec.convert({**table, "dead": []}, Configuration)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
    found.dead = sorted(_without_effect(table))
    return found


def _table(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError, RecursionError) as error:  # TOML and UTF-8 errors are ValueErrors
        raise ConfigError(f"{path}: {_why(error)}") from None


_DEAD: Final = ("hooks", "hide_secrets", "env_passthrough", "env_set", "smol_model")


def _without_effect(table: Mapping[str, Any]) -> list[str]:
    found = [name for name in _DEAD if table.get(name)]
    if isinstance(telemetry := table.get("telemetry"), dict) and telemetry.get("enabled"):
        found.append("telemetry.enabled")
    return found


# --- changing ------------------------------------------------------------------------------------------------


def set_service(
    path: Path,
    service: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    models: list[str] | None = None,
    api_type: str | None = None,
) -> None:
    """Write what is given (not None) into ``[providers.SERVICE]``; the rest of the file stays as it is.

    An empty value takes the setting away. Raises :class:`ConfigError` for a file that cannot be read or written.
    """
    import tomlkit

    load(path)  # a broken file is not written over
    document = tomlkit.parse(_text(path))
    providers = document.setdefault("providers", tomlkit.table(is_super_table=True))
    entry = providers.setdefault(service, tomlkit.table())
    given = {"api_key": api_key, "base_url": base_url, "models": models, "api_type": api_type}
    for key, value in given.items():
        if value:
            entry[key] = value
        elif value is not None:
            entry.pop(key, None)
    _replace(path, document)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {_why(error)}") from None


def _replace(path: Path, document: TOMLDocument) -> None:
    """Put a whole new file in the old one's place. One that is a link stays one."""
    import tomlkit

    try:
        target = path.resolve()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(tomlkit.dumps(document).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft)
            raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be written: {_why(error)}") from None


# --- showing -------------------------------------------------------------------------------------------------


def shown(service: Service) -> dict[str, Any]:
    """A service as it may be printed: no key, and no header's value, for that may be one too."""
    found: dict[str, Any] = {"base_url": service.base_url, "models": service.models}
    if service.api_type:
        found["api_type"] = service.api_type
    if service.headers:
        found["headers"] = dict.fromkeys(service.headers, HIDDEN)
    found["api_key"] = HIDDEN if service.api_key else None
    return found


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
