"""A LevPRO core's own ``config.yaml``: what is understood of it, and what it means for a server of ours.

The protocol names one key of that file (``app.max_parse_errors``), a list of agents, a program, a model and servers
of tools, some marked ``requires_approval``; the names of all else are not known. So each setting is looked for under
the names that it is likely to have (:data:`SETTINGS`), and what is not understood says nothing.

A file that the user named is the user's own. One that just lies in the working directory may be anybody's: what would
start a program or a server is then left out with one notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from agentwire.approvals import CATEGORIES
from agentwire.config import Config
from agentwire.options import ServeOptions
from agentwire.provider import ConfigError

FILE_NAME: Final = "config.yaml"
LLAMA: Final = "llama"
"""The provider of a model on this machine."""

Table = dict[str, Any]


class Setting(Struct, frozen=True):
    """One setting: the type of its value, and where it may stand (``section.key``, or a key at the top)."""

    kind: type[str] | type[int] | type[float] | type[list[str]]
    places: tuple[str, ...]
    harmless: bool = True
    """A file that is not trusted may say it."""


def _under(sections: str, keys: str) -> tuple[str, ...]:
    """Every key in every section."""
    return tuple(f"{section}.{key}" for section in sections.split() for key in keys.split())


_SERVER: Final = "llama_server llama server runtime llm"

SETTINGS: Final[dict[str, Setting]] = {
    "binary": Setting(
        str,
        (
            *_under(_SERVER, "binary path server_path executable"),
            *_under("app runtime", "llama_server llama_server_path"),
            *("llama_server", "llama_server_path"),
        ),
        harmless=False,
    ),
    "model_file": Setting(
        str,
        (
            *_under("model", "path file gguf"),
            *_under(f"{_SERVER} app", "model_path model_file gguf model"),
            *("model_path", "model_file", "model"),
        ),
    ),
    "model_name": Setting(str, ("model.name", "app.model_name", "model_name")),
    "context_size": Setting(
        int, (*_under(f"model {_SERVER} app", "context_size ctx_size n_ctx context_length"), "context_size", "n_ctx")
    ),
    "gpu_layers": Setting(int, (*_under(f"model {_SERVER} app", "gpu_layers n_gpu_layers"), "gpu_layers")),
    "threads": Setting(int, (*_under(f"model {_SERVER} app", "threads n_threads"), "threads")),
    "port": Setting(int, _under(_SERVER, "port"), harmless=False),
    "startup_timeout": Setting(float, _under(f"{_SERVER} app", "startup_timeout start_timeout")),
    "extra_args": Setting(list[str], _under(_SERVER, "extra_args args"), harmless=False),
    "max_parse_errors": Setting(int, ("app.max_parse_errors", "max_parse_errors")),
    "max_steps": Setting(int, (*_under("app agent", "max_steps max_iterations"), "max_steps")),
}

_TO_LLAMA: Final = (
    "binary", "model_file", "context_size", "gpu_layers", "threads", "port", "startup_timeout", "extra_args",
)  # fmt: skip
"""Settings that the provider has by the same name."""

_PATHS: Final = ("binary", "model_file")

_NO_EFFECT: Final = ("memory", "rag", "embeddings")
"""Sections that somebody may rely on and that nothing here carries out."""

_PROMPTS: Final = ("system_prompt", "prompt", "instructions", "system")
_SERVER_KEYS: Final = frozenset({"transport", "args", "env", "url", "headers", "startup_timeout_ms"})


class Core(Struct):
    """What a file says, in our words."""

    settings: Table = {}
    """By the names of :data:`SETTINGS`."""
    agents: dict[str, str] = {}
    """Instructions by name; the first is the default."""
    servers: dict[str, Table] = {}
    """MCP servers."""
    free: tuple[str, ...] = ()
    """Tools, or the category of all of them, that need no approval."""
    notices: list[str] = []


# --- reading -------------------------------------------------------------------------------------------------


def read(path: Path, *, trusted: bool) -> Core | None:
    """What a file says; None if there is none. Raises :class:`ConfigError` if it cannot be understood at all."""
    table = _table(path)
    if table is None:
        return None
    core = Core()
    core.settings = _settings(path, table)
    core.agents, models = _agents(path, table.get("agents"))
    if "model_file" not in core.settings and models:
        core.settings["model_file"] = _located(path, models[0])
    elif any(_located(path, model) != core.settings.get("model_file") for model in models):
        core.notices.append(f"{path}: one model serves every agent; those that agents name have no effect.")
    _read_servers(path, table, core)
    dead = [name for name in _NO_EFFECT if table.get(name)]
    if dead:
        core.notices.append(f"{path}: these sections have no effect here: {', '.join(dead)}.")
    return core if trusted else _harmless(path, core)


def _table(path: Path) -> Table | None:
    import yaml

    try:
        if not path.is_file():  # a FIFO of that name would hold up the start
            return None
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}", "config_missing") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is not a configuration: keys and values are expected", "config_missing")
    return _plain(value)


def _plain(value: Table) -> Table:
    """Keys in one way of writing, at the two upper levels: where settings are looked for."""
    return {
        _key(name): {_key(key): item for key, item in entry.items()} if isinstance(entry, dict) else entry
        for name, entry in value.items()
    }


def _key(name: object) -> str:
    return str(name).lower().replace("-", "_")


def _settings(path: Path, table: Table) -> Table:
    found: Table = {}
    for name, setting in SETTINGS.items():
        for place in setting.places:
            value = _at(table, place)
            if value is None or isinstance(value, dict):
                continue
            found[name] = _checked(path, place, setting, value)
            if name in _PATHS:
                found[name] = _located(path, found[name])
            break
    return found


def _at(table: Table, place: str) -> Any:
    section, dot, key = place.partition(".")
    if not dot:
        return table.get(section)
    entry = table.get(section)
    return entry.get(key) if isinstance(entry, dict) else None


_WORDS: Final = {"str": "text", "int": "a whole number", "float": "a number", "list": "a list of texts"}


def _checked(path: Path, place: str, setting: Setting, value: Any) -> Any:
    if place.endswith("gpu_layers") and value == "auto":
        return -1
    kind = getattr(setting.kind, "__origin__", setting.kind)
    given: tuple[type, ...] = (int, float) if kind is float else (kind,)
    wrong = isinstance(value, bool) or not isinstance(value, given)
    if kind is list and not wrong:
        return [str(item) for item in value]
    if wrong:
        raise ConfigError(f"{path}: {place} must be {_WORDS[kind.__name__]}, not {value!r:.80}", "config_missing")
    return value


def _located(path: Path, given: str) -> str:
    """A path as the file means it: relative to where it lies. A bare name is looked for on ``PATH``."""
    if given.startswith("~") or ("/" not in given and "\\" not in given and not given.lower().endswith(".gguf")):
        return given
    return str(path.absolute().parent / given)


# --- agents --------------------------------------------------------------------------------------------------


def _agents(path: Path, given: Any) -> tuple[dict[str, str], list[str]]:
    """Instructions by name, and the models that agents name."""
    agents: dict[str, str] = {}
    models: list[str] = []
    for name, entry in _named(given):
        if not name or name in agents:
            raise ConfigError(f"{path}: every agent needs a name of its own, not {name!r:.80}", "config_missing")
        prompts = [entry[key] for key in _PROMPTS if isinstance(entry.get(key), str)]
        agents[name] = prompts[0] if prompts else ""
        if isinstance(model := entry.get("model"), str) and model.lower().endswith(".gguf"):
            models.append(model)
    return agents, models


def _named(given: Any) -> Iterator[tuple[str, Table]]:
    """The entries of a list of tables with names, or of a table by name; a text is a prompt, or a command."""
    if isinstance(given, dict):
        for name, entry in given.items():
            yield str(name), entry if isinstance(entry, dict) else {"prompt": entry, "command": entry}
    for entry in given if isinstance(given, list) else ():
        if isinstance(entry, dict):
            yield str(entry.get("name") or entry.get("id") or ""), entry
        else:
            yield str(entry), {}


# --- servers of tools ----------------------------------------------------------------------------------------


def _read_servers(path: Path, table: Table, core: Core) -> None:
    """MCP servers as our own configuration has them, and which of their tools need no approval."""
    section = table.get("mcp")
    given = table.get("mcp_servers") or (section.get("servers") if isinstance(section, dict) else section)
    marked, free, open_ended = False, [], []
    for name, entry in _named(given):
        if entry.get("enabled", True) is False or entry.get("disabled", False) is True:
            continue
        if not name or name in core.servers:
            raise ConfigError(f"{path}: every MCP server needs a name of its own, not {name!r:.80}", "config_missing")
        core.servers[name] = _server(entry)
        wants = entry.get("requires_approval") is True
        tools = {
            tool: settings.get("requires_approval", wants) is True for tool, settings in _named(entry.get("tools"))
        }
        marked = marked or wants or any(tools.values())
        free += [tool for tool, needs in tools.items() if not needs and tool not in CATEGORIES]
        if not wants and not tools:
            open_ended.append(name)
    if not marked:
        core.free = ("mcp",) if core.servers else ()
        return
    core.free = tuple(free)  # what a server offers is only known once it runs, so the others cannot be named
    if open_ended:
        core.notices.append(
            f"{path}: some tools are marked requires_approval, so those of {', '.join(open_ended)} need it, too, "
            "unless they are listed under `tools`."
        )


def _server(entry: Table) -> Table:
    server = {key: value for key, value in entry.items() if key in _SERVER_KEYS and value is not None}
    command = entry.get("command")
    if isinstance(command, list) and command:
        server["command"] = str(command[0])
        server["args"] = [*map(str, command[1:]), *map(str, server.get("args", ()))]
    elif command is not None:
        server["command"] = command
    return server


# --- what a file that is not trusted may say -----------------------------------------------------------------


def _harmless(path: Path, core: Core) -> Core:
    ignored = [name for name in core.settings if not SETTINGS[name].harmless]
    ignored += ["mcp"] if core.servers else []
    kept = {name: value for name, value in core.settings.items() if SETTINGS[name].harmless}
    notices = core.notices
    if ignored:
        told = f"Ignored in {path}, which is not trusted: {', '.join(sorted(ignored))}. To allow it, name the file"
        notices = [*notices, f"{told} with --config or pass --trust-workspace."]
    return replace(core, settings=kept, servers={}, free=(), notices=notices)


# --- what it means -------------------------------------------------------------------------------------------


def serve_options(given: ServeOptions, core: Core) -> ServeOptions:
    """``given``, the command line, completed by a file: it wins where both say something."""
    settings = core.settings
    provider = given.provider or LLAMA
    llama = {name: settings[name] for name in _TO_LLAMA if name in settings} if provider == LLAMA else {}
    steps = settings.get("max_steps")
    return replace(
        given,
        provider=provider,
        provider_options={**llama, **given.provider_options},
        model=given.model or (settings.get("model_name", "") if provider == LLAMA else ""),
        max_turns=steps if given.max_turns is UNSET and steps is not None else given.max_turns,
        max_bad_calls=settings.get("max_parse_errors", UNSET) if given.max_bad_calls is UNSET else given.max_bad_calls,
        agents=core.agents,
        allow=(*given.allow, *core.free),
        extra=Config(mcp_servers=core.servers),
        notices=(*given.notices, *core.notices),
    )
