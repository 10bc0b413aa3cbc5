"""Serving a codec over standard input and output: from options to exit status.

The order matters. The pipes are taken over first, so that nothing imported later can write to them. The session is
opened and its first line written with plain code; only then is the event loop, and what runs turns, imported: a host
sees the agent ready in a third of the time.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Struct, UnsetType

from agentwire import registry
from agentwire.commands import Refusal
from agentwire.config import Config, combine, load
from agentwire.events import Notice
from agentwire.mcp.spec import McpServerSpec, McpSpecError, from_config
from agentwire.opening import open_session
from agentwire.policy import Policy
from agentwire.provider.contract import ConfigError, Provider, ProviderSettings
from agentwire.server.outbox import Outbox
from agentwire.session import Session
from agentwire.settings import COMPACTION_LEVELS, SessionSettings
from agentwire.store import SessionStore, StoreError
from agentwire.tools.secret_variables import hide
from agentwire.transport.stdio import StdioPipes, claim

if TYPE_CHECKING:
    from agentwire.codec.contract import AgentSide

logger = logging.getLogger("agentwire.serve")

DEFAULT_PROVIDER = "anthropic"
TIME_LIMITS = ("connect_timeout", "silence_timeout")
"""Options that every provider has: seconds to connect, and seconds without a byte."""

STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end the process in good order."""

FAILED = 1
USAGE = 2


class ServeOptions(Struct, omit_defaults=True):
    """What the command line says. Empty means "not said": the configuration files, then defaults, decide."""

    codec: str = "aionrs"
    codec_options: dict[str, Any] = {}
    """Options of the codec's own, given to its agent side as keywords."""
    provider: str = ""
    model: str = ""
    max_tokens: int | UnsetType = UNSET
    max_turns: int | UnsetType = UNSET
    """Model calls per turn; 0 is no limit."""
    base_url: str = ""
    api_key: str = ""
    system_prompt: str = ""
    auto_approve: bool = False
    workspace: str = ""
    session_id: str | None = None
    resume: str | None = None
    fork_session: bool = False
    allow: tuple[str, ...] = ()
    confine: bool = False
    ephemeral: bool = False
    trust_workspace: bool = False
    thinking: str = ""
    thinking_budget: int = 0
    effort: str = ""
    compaction: str = ""
    image_input: str = ""
    log_level: str = "warning"
    provider_options: dict[str, Any] = {}
    extra: Config | None = None
    """Settings of the originals' own configuration files, under those of ``agentwire.toml``."""
    notices: tuple[str, ...] = ()
    """What the person at the host should know of how these options came to be."""


class Boot(Struct):
    """A session that is open, and what its agent needs to run."""

    session: Session
    agent: Any
    mcp_specs: list[McpServerSpec]


def serve(agent: Any = None, options: ServeOptions | None = None, **fields: Any) -> int:
    """Serve ``agent`` (None: the built-in one) on this process's standard input and output until the host is gone.

    Options are a :class:`ServeOptions` or its fields as keywords: ``serve(agent, codec="aionrs")``. The exit status:
    0 after an orderly end, 1 if the process could not start (the host is told in its wire's own form, a person in
    one line on standard error).
    """
    options = options or ServeOptions(**fields)
    stopping = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _leave) for number in stopping}
    try:
        pipes = claim()
        _logging(options.log_level)
        return _serve(agent, options, pipes, stopping)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _serve(agent: Any, options: ServeOptions, pipes: StdioPipes, stopping: list[signal.Signals]) -> int:
    try:
        codec = registry.load_codec(options.codec)
        side = codec.agent(**options.codec_options)
    except registry.UnknownName as error:
        print(f"Error: {error}", file=sys.stderr)
        return USAGE
    except Exception as error:  # a foreign codec that cannot be loaded: no wire to tell the host on
        logger.exception("the codec %s could not be loaded", options.codec)
        print(f"Error: the codec '{options.codec}' cannot be loaded: {type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    try:
        boot = prepare(options, codec.policy, agent)
    except (ConfigError, StoreError) as error:
        return _fatal(pipes, side, str(error))
    except Exception as error:  # a foreign plugin, or a bug: the host is told all the same
        logger.exception("the session could not be opened")
        return _fatal(pipes, side, f"The session could not be opened: {type(error).__name__}: {error}", "internal")
    outbox = Outbox(side)
    first = boot.session.opened
    outbox.follow(boot.session, after=first.seq - 1 if first else None)
    outbox.fill()
    try:
        sent = pipes.write_now(outbox.out)
    except OSError as error:
        logger.info("the host closed its end before the first line: %s", error)
        return 0
    del outbox.out[:sent]

    from agentwire.server.runtime import run_stdio
    from agentwire.server.signals import Signals

    signals = Signals(stopping)
    with signals.noted():
        return run_stdio(boot, codec, outbox, pipes, signals)


def prepare(options: ServeOptions, policy: Policy, agent: Any) -> Boot:
    """Open the session that the options ask for. Raises :class:`ConfigError` or :class:`StoreError`."""
    if agent is not None:
        _check_agent(agent)
    workspace = _workspace(options.workspace)
    environ = os.environ
    loaded = load(workspace, environ, trust=options.trust_workspace)
    if options.extra is not None:
        loaded.config = combine(options.extra, loaded.config)
    config = loaded.config
    provider = _provider(options, config, agent, environ)
    settings = _settings(options, config, workspace, provider, agent)
    session = open_session(
        SessionStore.default(environ),
        settings,
        policy,
        provider,
        session_id=options.session_id,
        resume=options.resume,
        fork=options.fork_session,
        mcp=bool(config.mcp_servers),
        ephemeral=options.ephemeral,
    )
    specs, problems = _mcp_specs(config)
    notices = [*options.notices, *problems, *filter(None, [loaded.notice])]
    for text in notices:
        logger.warning("%s", text)
        session.append(Notice(text, "warning"))
    return Boot(session, agent, specs)


def _check_agent(agent: Any) -> None:
    from agentwire.agent.running import as_run

    try:
        as_run(agent)
    except TypeError as error:
        raise ConfigError(str(error)) from None


def _workspace(given: str) -> Path:
    try:
        path = Path(given or os.getcwd())
        if path.is_dir():
            return path.resolve()
    except OSError as error:
        raise ConfigError(f"Workspace '{given[:200]}' cannot be used: {error.strerror}") from None
    raise ConfigError(f"Workspace '{given}' is not a directory")


def _mcp_specs(config: Config) -> tuple[list[McpServerSpec], list[str]]:
    """The MCP servers of the configuration files, and what is wrong with those that are left out."""
    specs, problems = [], []
    for name, table in config.mcp_servers.items():
        try:
            specs.append(from_config(name, table))
        except McpSpecError as error:
            problems.append(f"MCP server '{name}' is left out: {error}")
    return specs, problems


def _provider(options: ServeOptions, config: Config, agent: Any, environ: Mapping[str, str]) -> Provider | None:
    own = getattr(agent, "provider", None)
    if own is not None and not isinstance(own, str):
        return own  # type: ignore[no-any-return]  # an agent's own provider object
    if agent is not None and not hasattr(agent, "provider"):
        return None
    name = options.provider or own or config.provider or DEFAULT_PROVIDER
    try:
        plugin = registry.load_provider(name)
    except registry.UnknownName as error:
        raise ConfigError(str(error)) from None
    hide(plugin.secrets)
    quirks = dict(config.providers.get(name, {}))
    base_url = options.base_url or str(quirks.pop("base_url", ""))
    api_key = options.api_key or str(quirks.pop("api_key", ""))
    quirks.pop("base_url", None)
    quirks.pop("api_key", None)
    quirks.update(options.provider_options)
    limits = {name: _seconds(name, quirks.pop(name)) for name in TIME_LIMITS if name in quirks}
    return plugin.create(
        ProviderSettings(
            model=options.model or getattr(agent, "model", "") or config.model,
            base_url=base_url,
            api_key=api_key,
            environ=environ,
            options=quirks,
            **limits,
        )
    )


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise ConfigError(f"{name} must be a number of seconds above 0, not {value!r}")


def _settings(
    options: ServeOptions, config: Config, workspace: Path, provider: Provider | None, agent: Any
) -> SessionSettings:
    thinking = options.thinking or config.thinking
    if thinking not in ("", "enabled", "disabled"):
        raise ConfigError(f"Invalid --thinking value: {thinking}. Expected 'enabled' or 'disabled'.")
    compaction = (options.compaction or config.compaction or "safe").lower()
    if compaction not in COMPACTION_LEVELS:
        raise ConfigError(f"Invalid --compaction value: {compaction}. Expected one of off, safe, full.")
    mode = "yolo" if options.auto_approve else (config.mode or "default")
    if mode not in ("default", "auto_edit", "yolo"):
        raise ConfigError(f"Invalid mode: {mode}. Expected one of default, auto_edit, yolo.")
    image_input = options.image_input or config.image_input or "unknown"
    if image_input not in ("supported", "unsupported", "unknown"):
        raise ConfigError(f"Invalid image_input: {image_input}. Expected one of supported, unsupported, unknown.")
    effort = options.effort or config.effort
    if effort and provider is not None and effort not in provider.effort_levels:
        levels = ", ".join(provider.effort_levels) or "none"
        raise ConfigError(f"Invalid --effort value: {effort}. Provider '{provider.name}' knows: {levels}.")
    max_tokens = options.max_tokens if options.max_tokens is not UNSET else (config.max_tokens or UNSET)
    return SessionSettings(
        workspace=str(workspace),
        model=options.model or getattr(agent, "model", "") or config.model or (provider.model if provider else ""),
        max_tokens=max_tokens,
        max_steps=(config.max_turns or UNSET) if options.max_turns is UNSET else options.max_turns,
        system_prompt=options.system_prompt or config.system_prompt,
        mode=mode,  # type: ignore[arg-type]  # checked above
        allow=frozenset((*options.allow, *config.allow)),
        confine=options.confine or config.confine,
        image_input=image_input,  # type: ignore[arg-type]  # checked above
        thinking=thinking,  # type: ignore[arg-type]  # checked above
        thinking_budget=options.thinking_budget or config.thinking_budget or 10_000,
        effort=effort,
        compaction=compaction,  # type: ignore[arg-type]  # checked above
    )


def _fatal(pipes: StdioPipes, side: AgentSide, message: str, code: Literal["config", "internal"] = "config") -> int:
    """Tell host and person why the process cannot start."""
    out = bytearray()
    side.fatal(Refusal(code, message), out)
    print(f"Error: {message}", file=sys.stderr)
    try:
        pipes.write_now(out)
    except OSError as error:
        logger.info("the host closed its end: %s", error)
    return FAILED


def _logging(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


def _leave(signum: int, frame: object) -> None:
    """A signal before the event loop runs: there is nothing to stop yet."""
    raise SystemExit(0)
