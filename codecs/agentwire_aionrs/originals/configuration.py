"""aionrs's own configuration files: what they may hold, where they lie, and how two of them become one.

The user's file is ``config.toml`` in aionrs's configuration directory, the workspace's is ``.aionrs.toml``. As with
``agentwire.toml`` a workspace is not trusted: its file may choose a model and say how a service likes to be asked
(hosts write such a file for a start), but what would start a server, name an address or a key, free a tool or change
what is kept is left out with one notice, unless the user trusts the directory.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

USER_FILE: Final = "config.toml"
WORKSPACE_FILE: Final = ".aionrs.toml"
SESSION_DIRECTORY: Final = ".aionrs/sessions"

Table = dict[str, Any]
Count = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Default(Struct, frozen=True):
    """``[default]``: what a session starts with."""

    provider: str = ""
    model: str = ""
    max_tokens: Count | None = None
    max_turns: Count | None = None
    system_prompt: str = ""


class Service(Struct):
    """``[providers.NAME]``: a built-in provider, or an alias for one (then ``provider`` says for which)."""

    provider: str = ""
    model: str = ""
    api_key: str = ""
    base_url: str = ""
    prompt_caching: bool | None = None
    compat: Table = {}
    """How this service differs from others of its kind."""


class Profile(Struct):
    """``[profiles.NAME]``: settings that ``--profile`` puts over the others."""

    provider: str = ""
    model: str = ""
    api_key: str = ""
    base_url: str = ""
    max_tokens: Count | None = None
    max_turns: Count | None = None
    extends: str = ""
    mcp_servers: list[str] | None = None
    """The only servers to start."""
    compat: Table = {}


class Tools(Struct, frozen=True):
    """``[tools]``: what runs without a question."""

    auto_approve: bool = False
    allow_list: list[str] = []


class Sessions(Struct, frozen=True):
    """``[session]``: whether and where sessions are kept."""

    enabled: bool = True
    directory: str = SESSION_DIRECTORY


class Compact(Struct, frozen=True):
    """``[compact]``: what is done to make a conversation shorter."""

    compaction: str = ""


class Mcp(Struct, frozen=True):
    """``[mcp]``: servers by name."""

    servers: dict[str, Table] = {}


class Configuration(Struct):
    """One file, or several as one. Keys that have no meaning here are skipped."""

    default: Default = Default()
    providers: dict[str, Service] = {}
    profiles: dict[str, Profile] = {}
    tools: Tools = Tools()
    session: Sessions = Sessions()
    compact: Compact = Compact()
    mcp: Mcp = Mcp()


class Found(Struct):
    """Both files as one, and what the person at the host should know of them."""

    configuration: Configuration
    notices: list[str] = []


def user_file() -> Path:
    """The user's own file, in aionrs's configuration directory on this platform."""
    from platformdirs import user_config_path

    return user_config_path("aionrs", appauthor=False, roaming=True) / USER_FILE


def load(user: Path, workspace: Path, *, trusted: bool) -> Found:
    """Read the two files; one that is not there says nothing, one that is broken is left out with a notice.

    ``trusted``: the workspace's file may say everything the user's may.
    """
    notices: list[str] = []
    own = _read(user, notices)
    found = _read(workspace, notices)
    dead = sorted({*_without_effect(own), *_without_effect(found)})
    depths = _JOINED
    if not trusted:
        found, ignored = _harmless(found, workspace.parent)
        depths = _JOINED | {"profiles": _PROFILE_OVER_PROFILE}
        if ignored:
            notices.append(
                f"Ignored in this workspace's {WORKSPACE_FILE}, which is not trusted: {', '.join(ignored)}. To allow "
                "it, add the directory to trusted_workspaces in your own agentwire.toml or pass --trust-workspace."
            )
    if dead:
        notices.append(f"Settings of aionrs that have no effect here: {', '.join(dead)}.")
    joined = {name: _joined(own.get(name, {}), found.get(name, {}), depth) for name, depth in depths.items()}
    return Found(msgspec.convert(joined, Configuration), notices)


def _read(path: Path, notices: list[str]) -> Table:
    """A file's tables, known to be of the right types; empty, with a notice, if they are not."""
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            table = tomllib.load(file)
        msgspec.convert(table, Configuration)
    except (OSError, ValueError, RecursionError) as error:  # TOML, UTF-8 and wrong types are all ValueErrors
        reason = error.strerror if isinstance(error, OSError) else error
        notices.append(f"The configuration file {path} is left out: {reason}")
        return {}
    return table


# --- two files as one ----------------------------------------------------------------------------------------

_PROFILE_OVER_PROFILE: Final = 3
_JOINED: Final = {"default": 1, "providers": 3, "profiles": 1, "tools": 1, "session": 1, "compact": 1, "mcp": 2}
"""How many levels of a table are joined key by key before the workspace's value takes the place of the user's.

A server or a profile is taken whole: half of one and half of another would be a third that nobody wrote. (Only what is
left of an untrusted workspace's profile is laid over the user's of that name.)
"""


def _joined(under: Table, over: Table, depth: int) -> Table:
    if not depth:
        return over
    result = dict(under)
    for key, value in over.items():
        low = under.get(key)
        both = isinstance(value, dict) and isinstance(low, dict)
        result[key] = _joined(low or {}, value, depth - 1) if both else value
    return result


# --- what a workspace may say --------------------------------------------------------------------------------

_PLAIN_PATH: Final = re.compile(r"/?(?:[\w~-][\w.~-]*/)*[\w~-][\w.~-]*", re.ASCII)
"""A path that stays below the address it is put behind, whatever a server makes of dots and signs."""

_TOKEN_FIELDS: Final = ("max_tokens", "max_completion_tokens")
_PREFERENCES: Final = frozenset({"model", "max_tokens", "max_turns", "prompt_caching"})
_HARMLESS_COMPAT: Final = frozenset(
    {"include_stream_options", "merge_same_role", "effort_levels", "supports_effort", "sanitize_schema", "auto_tool_id"}
)
_MEANT: Final = {
    name: frozenset(kind.__struct_fields__)
    for name, kind in (
        ("default", Default),
        ("providers", Service),
        ("profiles", Profile),
        ("tools", Tools),
        ("session", Sessions),
        ("compact", Compact),
        ("mcp", Mcp),
    )
}
"""Keys with a meaning, by table: leaving out any other needs no notice."""


def _harmless(table: Table, workspace: Path) -> tuple[Table, list[str]]:
    """What an untrusted workspace may say, and the names of what it may not."""
    kept: Table = {}
    ignored: list[str] = []
    for path, value in _entries(table):
        if _is_harmless(path, value, workspace):
            place = kept
            for key in path[:-1]:
                place = place.setdefault(key, {})
            place[path[-1]] = value
        elif "compat" not in path or path[-1] in ("api_path", "max_tokens_field"):
            ignored.append(".".join(path))
    return kept, sorted(ignored)


def _entries(table: Table) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every setting that has a meaning here, with its place."""
    for name, keys in _MEANT.items():
        section = table.get(name, {})
        if name in ("providers", "profiles"):
            for entry, settings in section.items():
                for key in keys & settings.keys():
                    if key == "compat":
                        for quirk, value in settings[key].items():
                            yield (name, entry, key, quirk), value
                    else:
                        yield (name, entry, key), settings[key]
        elif name == "mcp":
            for server, settings in section.get("servers", {}).items():
                yield (name, "servers", server), settings
        else:
            for key in keys & section.keys():
                yield (name, key), section[key]


def _is_harmless(path: tuple[str, ...], value: Any, workspace: Path) -> bool:
    match path:
        case ("default", key) | ("providers" | "profiles", _, key):
            return key in _PREFERENCES
        case (_, _, "compat", "api_path"):
            return isinstance(value, str) and _PLAIN_PATH.fullmatch(value) is not None
        case (_, _, "compat", "max_tokens_field"):
            return value in _TOKEN_FIELDS
        case (_, _, "compat", quirk):
            return quirk in _HARMLESS_COMPAT
        case ("compact", "compaction"):
            return True
        case ("session", "directory"):
            # Elsewhere it could make another place's conversations this one's.
            place = workspace / str(value)
            return not Path(value).is_absolute() and place.resolve().is_relative_to(workspace.resolve())
    return False


# --- what is not honoured ------------------------------------------------------------------------------------


def _without_effect(table: Table) -> Iterator[str]:
    """Settings that somebody may rely on and that nothing here carries out."""
    for name in ("hooks", "shell"):
        if table.get(name):
            yield name
    for name, key in (("compact", "toon"), ("tools", "skills")):
        if table.get(name, {}).get(key):
            yield f"{name}.{key}"
