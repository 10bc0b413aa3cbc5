"""``agentwire-aionrs``: stands where a host expects the ``aionrs`` program, and takes its command line.

Everything the host can say is either carried out or refused with a sentence that names it; nothing is ignored that
would change what happens. Without ``--json-stream`` there is nothing to serve: the interactive program is not built
here. aionrs's own configuration files count (see :mod:`agentwire_aionrs.originals.options`), and ``--resume`` goes on
with sessions that aionrs has left (see :mod:`agentwire_aionrs.originals.takeover`).
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from agentwire.cli import run
from agentwire_aionrs.wire import PROTOCOL_VERSION

if TYPE_CHECKING:
    from agentwire.options import ServeOptions

NAME = "agentwire-aionrs"
JSON_STREAM = "--json-stream"
LOG_FILE = "agentwire-aionrs.log"

FAILED = 1

MALFORMED_ROUNDS = 3
"""Rounds of badly written calls after which a turn ends; a fixed number, and aionrs's default."""

LEVELS = {
    "off": "critical",
    "error": "error",
    "warn": "warning",
    "warning": "warning",
    "info": "info",
    "debug": "debug",
    "trace": "debug",
}
"""aionrs's words for how much is logged, and ours."""


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    arguments = sys.argv[1:] if argv is None else argv
    sys.exit(run(aionrs, arguments, NAME, codec="aionrs" if JSON_STREAM in arguments else ""))


# --- flags that answer at once -------------------------------------------------------------------------------


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """The form is aionrs's; the number is that of the protocol, as in ``ready``."""
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"aionrs {PROTOCOL_VERSION} (agentwire {version('agentwire')})")
    ctx.exit()


def _config_path(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    _print_config_path()
    ctx.exit()


def _print_config_path() -> None:
    from agentwire_aionrs.originals.configuration import user_file

    click.echo(str(user_file()))


# --- flags that are judged -----------------------------------------------------------------------------------


def _only(value: int, why: str) -> Any:
    """A flag that can only say what is so anyway."""

    def check(ctx: click.Context, param: click.Parameter, given: int | None) -> None:
        if given not in (None, value):
            raise click.BadParameter(f"not supported by agentwire: {why}, so only {value} can be given")

    return check


def _not_supported(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    if given:
        raise click.UsageError(f"not supported by agentwire: {param.opts[0]}")


def _level(ctx: click.Context, param: click.Parameter, given: str | None) -> str:
    """The level for everything; what aionrs's modules are to log means nothing here."""
    if given is None:
        return "warning"
    for directive in given.split(","):
        if "=" not in directive:
            try:
                return LEVELS[directive.strip().lower()]
            except KeyError:
                raise click.BadParameter(f"{directive!r} is none of {', '.join(LEVELS)}") from None
    return "warning"


@click.group(
    invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "show_default": False}
)
@click.option("-p", "--provider", envvar="PROVIDER", default="", help="Provider, or an alias of the configuration.")
@click.option("-k", "--api-key", envvar="API_KEY", default="", help="Key of the model service.")
@click.option("-b", "--base-url", envvar="BASE_URL", default="", help="Where the model service is.")
@click.option("-m", "--model", envvar="MODEL", default="", help="Model name, as the service knows it.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Longest reply of the model, in tokens.")
@click.option("--max-turns", type=click.IntRange(min=0), help="Model calls per message; 0 is no limit. [0]")
@click.option("--thinking", default="", help="Extended thinking: enabled or disabled.")
@click.option("--thinking-budget", type=click.IntRange(min=0), default=0, help="Tokens for thinking. [10000]")
@click.option(
    "--max-tool-call-malformed-turns",
    type=int,
    expose_value=False,
    callback=_only(MALFORMED_ROUNDS, "the number is fixed"),
    help=f"Can only be {MALFORMED_ROUNDS}.",
)
@click.option(
    "--max-tool-call-failure-turns",
    type=int,
    expose_value=False,
    callback=_only(0, "no turn is ended because its calls fail"),
    help="Can only be 0.",
)
@click.option("--system-prompt", default="", help="Replaces the default system prompt.")
@click.option("--profile", default="", help="Profile of the configuration.")
@click.option("--auto-approve", is_flag=True, help="Start in mode yolo: nothing is asked.")
@click.option("--workspace", default="", help="Directory of the work. [the current one]")
@click.option("--project-dir", default="", help="Where .aionrs.toml lies. [the workspace]")
@click.option("--trust-workspace", is_flag=True, help="Take everything this workspace's configuration says.")
@click.option("--resume", help="Id of a session to go on with, or `latest` for this workspace's newest.")
@click.option("--session-id", help="Id of the new session; it must not exist.")
@click.option("--fork-session", is_flag=True, help="With --resume: go on in a copy under a new id.")
@click.option("--no-color", is_flag=True, expose_value=False, help="Accepted; there is no color.")
@click.option(JSON_STREAM, is_flag=True, help="Serve a host on standard input and output.")
@click.option("--compaction", default="", help="Compaction of tool output: off, safe or full. [safe]")
@click.option("--toon", is_flag=True, expose_value=False, callback=_not_supported, help="Not supported.")
@click.option("--log-dir", default="", help="Log into a file in this directory too.")
@click.option("--log-level", callback=_level, help="What is logged: off, error, warn, info, debug or trace. [warn]")
@click.option(
    "-V", "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version."
)
@click.option(
    "--config-path",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_config_path,
    help="Print where the configuration file lies.",
)
@click.pass_context
def aionrs(ctx: click.Context, /, **given: Any) -> int:
    """Be an agent for a host that expects aionrs."""
    if ctx.invoked_subcommand is not None:
        return 0
    if not given.pop("json_stream"):
        raise click.UsageError(f"only {JSON_STREAM} mode is served; there is no interactive and no one-shot mode")
    from agentwire.provider import ConfigError
    from agentwire.serving import serve
    from agentwire.store import StoreError

    try:
        _log_into(given.pop("log_dir"), given["log_level"])
        options = _options(**given)
    except (ConfigError, StoreError) as error:
        return _refuse(str(error))
    return serve(None, options)


def _options(
    *, project_dir: str, profile: str, max_tokens: int | None, max_turns: int | None, **given: Any
) -> ServeOptions:
    """The command line completed by the configuration files; a session to resume is ours after this."""
    from agentwire.config import is_trusted, load
    from agentwire.options import ServeOptions
    from agentwire.provider import ConfigError
    from agentwire_aionrs.originals import configuration
    from agentwire_aionrs.originals.options import serve_options

    options = ServeOptions(
        codec="aionrs",
        max_tokens=UNSET if max_tokens is None else max_tokens,
        max_turns=UNSET if max_turns is None else max_turns,
        **given,
    )
    workspace = Path(options.workspace or os.getcwd()).absolute()
    project = Path(project_dir).absolute() if project_dir else workspace
    if project_dir and not project.is_dir():
        raise ConfigError(f"--project-dir '{project_dir}' is not a directory")
    ours = load(workspace, os.environ, trust=options.trust_workspace).config
    found = configuration.load(
        configuration.user_file(),
        project / configuration.WORKSPACE_FILE,
        trusted=options.trust_workspace or is_trusted(project, ours),
    )
    options = serve_options(options, found.configuration, profile_name=profile, preferred=ours.provider)
    options.notices = tuple(found.notices)
    sessions = found.configuration.session
    options.ephemeral = not sessions.enabled
    if options.resume or options.session_id:
        from agentwire_aionrs.originals.takeover import take_over

        options.resume = take_over(options.resume, options.session_id, workspace.resolve(), sessions.directory)
    return options


def _log_into(directory: str, level: str) -> None:
    """Log into a file beside standard error. Raises :class:`ConfigError`."""
    if not directory:
        return
    from agentwire.provider import ConfigError

    try:
        os.makedirs(directory, exist_ok=True)
        file = logging.FileHandler(os.path.join(directory, LOG_FILE), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--log-dir '{directory}' cannot be used: {error.strerror or error}") from None
    logging.basicConfig(
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[logging.StreamHandler(sys.stderr), file],
    )


def _refuse(message: str) -> int:
    """Say why nothing is served: to the host in its own form, to a person on standard error."""
    from agentwire.commands import Refusal
    from agentwire_aionrs.agent_side import AionrsAgent

    out = bytearray()
    AionrsAgent().fatal(Refusal("config", message), out)
    click.echo(f"Error: {message}", err=True)
    sys.stdout.buffer.write(out)
    sys.stdout.buffer.flush()
    return FAILED


# --- subcommands ---------------------------------------------------------------------------------------------


@aionrs.group()
def config() -> None:
    """The configuration file."""


@config.command("path")
def config_path() -> None:
    """Print where the configuration file lies."""
    _print_config_path()


@aionrs.group()
def session() -> None:
    """Stored sessions."""


@session.command("list")
def session_list() -> None:
    """List the sessions of this directory, newest first: ours, and those of aionrs that --resume can take over."""
    from agentwire_aionrs.originals import configuration
    from agentwire_aionrs.originals.takeover import listed

    found = configuration.load(configuration.user_file(), Path(configuration.WORKSPACE_FILE).absolute(), trusted=False)
    rows = listed(Path.cwd().resolve(), found.configuration.session.directory)
    for row in rows:
        click.echo(row)
    if not rows:
        click.echo("No sessions found", err=True)


@aionrs.group()
def auth() -> None:
    """Signing in; keys are all that is supported."""


@aionrs.group()
def skills() -> None:
    """Skills; there are none here."""


def _missing(group: click.Group, name: str, instead: str) -> None:
    """A subcommand that aionrs has and that is refused here."""

    @group.command(name, help=f"Not supported by agentwire; {instead}.")
    def refuse() -> None:
        raise click.UsageError(f"'{group.name} {name}' is not supported by agentwire; {instead}")


_missing(config, "init", "write the file yourself, see 'config path'")
_missing(auth, "login", "give a key with --api-key or in the provider's environment variable")
_missing(auth, "logout", "there is nothing to sign out of")
_missing(skills, "path", "there are no skills")

if __name__ == "__main__":
    main()
