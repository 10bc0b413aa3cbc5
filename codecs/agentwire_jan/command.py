"""``agentwire-jan``: stands where a host expects the ``jan`` program, and takes its command line.

What is built: ``cli agent rpc`` and ``cli agent run`` with their schemas, ``cli agent step`` and ``status``, and
``config set``. Everything a caller can say there is either carried out or refused with a sentence that names it. The
services are those of Jan's own ``~/.jan/config.toml`` (see :mod:`agentwire_jan.configuration`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agentwire.cli import run
from agentwire_jan.command_run import FAILED, RunFlags, run_agent

if TYPE_CHECKING:
    from agentwire_jan.configuration import Configuration

NAME: Final = "agentwire-jan"


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    arguments = sys.argv[1:] if argv is None else argv
    sys.exit(run(jan, _bare_resume(arguments), NAME))


def _bare_resume(arguments: list[str]) -> list[str]:
    """``--resume`` takes its value behind ``=`` or not at all; the word after it is the task."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return ["--resume=latest" if word == "--resume" else word for word in arguments[:end]] + arguments[end:]


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"jan {version('agentwire')} (agentwire)")
    ctx.exit()


def _told(command: Callable[..., int]) -> Callable[..., int]:
    """Turn what is wrong with the set-up into one line and exit status 1."""
    from functools import wraps

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        from agentwire.provider import ConfigError

        try:
            return command(*args, **kwargs)
        except ConfigError as error:
            click.echo(f"Error: {error}", err=True)
            return FAILED

    return wrapped


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-V", "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version."
)
def jan() -> None:
    """Be an agent for a host that expects jan."""


@jan.group()
def cli() -> None:
    """What runs without a person at the terminal."""


@cli.group()
def agent() -> None:
    """Run an agent in a project's folder."""


# --- an agent ------------------------------------------------------------------------------------------------


def _refused(why: str) -> Any:
    """A flag that would change what happens and that is not built here."""

    def check(ctx: click.Context, param: click.Parameter, given: Any) -> None:
        if given is not None and given is not False:
            raise click.UsageError(f"{param.opts[0]} is not supported by agentwire: {why}")

    return check


_FORMATS = click.Choice(["text", "json", "stream-json"])

_RUN_FLAGS: Final = (
    click.argument("task", default=""),
    click.option("--project", default="", help="Directory of the work. [the current one]"),
    click.option("--model", default="", help="Model id, or provider/model. [the configured one]"),
    click.option("--provider", default="", help="Which configured provider serves the model."),
    click.option("--api-key", default="", help="Key of the model service; better set JAN_API_KEY."),
    click.option("--output-format", type=_FORMATS, default="text", help="What is written: text, json, stream-json."),
    click.option(
        "--input-format", type=click.Choice(["text", "stream-json"]), default="text", help="What is read. [text]"
    ),
    click.option("--host-tools", default="", metavar="FILE", help="Tools that the host runs: a JSON list."),
    click.option("--host-gate", is_flag=True, help="The host itself decides about calls of its tools."),
    click.option("--safe", is_flag=True, help="Ask before anything is changed or run."),
    click.option("--resume", default="", metavar="[=ID]", help="Go on with a session; without an id the newest."),
    click.option("-c", "--continue", "go_on", is_flag=True, help="Go on with this project's newest session."),
    click.option("--fork-session", is_flag=True, help="Go on in a copy of the session."),
    click.option("--max-session-tokens", type=click.IntRange(min=0), expose_value=False, help="Accepted; advisory."),
    click.option(
        "--max-budget-usd",
        type=float,
        expose_value=False,
        callback=_refused("nothing here knows what a model costs"),
        help="Not supported.",
    ),
    click.option(
        "--sandbox", is_flag=True, expose_value=False, callback=_refused("programs are not confined"), hidden=True
    ),
    click.option("--no-sandbox", is_flag=True, help="Programs run with your own rights, as they do here anyway."),
    click.option(
        "--worktree",
        is_flag=True,
        expose_value=False,
        callback=_refused("the work is done in the project itself"),
        hidden=True,
    ),
    click.option("--no-worktree", is_flag=True, help="Work in the project itself, as is done here anyway."),
)


def _run_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    for flag in reversed(_RUN_FLAGS):
        command = flag(command)
    return command


@agent.command("run")
@_run_flags
@click.option("--max-turns", type=click.IntRange(min=0), default=0, help="Most model calls; 0 is no limit. [0]")
def agent_run(**given: Any) -> int:
    """Do one task, then end: 0 well, 1 failed, 53 at the limit of --max-turns."""
    return _run(given)


@agent.command("step")
@_run_flags
def agent_step(**given: Any) -> int:
    """Do one turn of a task: one model call, and what it calls for."""
    return _run({**given, "max_turns": 1})


def _run(given: dict[str, Any]) -> int:
    flags = RunFlags(**given)
    if not flags.task.strip() and flags.input_format == "text":
        raise click.UsageError("Missing argument 'TASK'.")
    return run_agent(flags)


@agent.command("rpc")
@_told
def agent_rpc() -> int:
    """Serve a host on standard input and output: many sessions over JSON-RPC."""
    from agentwire.serving import serve
    from agentwire_jan.command_run import check_confinement
    from agentwire_jan.options import Wanted, serve_options

    configuration = _configuration()
    check_confinement(configuration)
    return serve(None, serve_options(configuration, Wanted(), needs_model=False, codec="jan"))


@agent.command("status")
@click.option("--project", default="", help="Directory of the work. [the current one]")
@_told
def agent_status(project: str) -> int:
    """Print the configuration as JSON; keys are not shown."""
    from agentwire.provider import ConfigError
    from agentwire_jan.configuration import shown, user_file
    from agentwire_jan.options import Wanted, choose

    configuration = _configuration()
    problem = ""
    provider, model = "", configuration.default()
    try:
        chosen = choose(configuration, Wanted())
        provider, model = chosen.service, chosen.model
    except ConfigError as error:
        problem = str(error)
    _print_json({
        "project": str(Path(project or os.getcwd()).resolve()),
        "config": str(user_file()),
        "model": model or None,
        "provider": provider or None,
        "ready": not problem,
        "problem": problem or None,
        "providers": {name: shown(service) for name, service in sorted(configuration.providers.items())},
    })  # fmt: skip
    return 0


def _configuration() -> Configuration:
    from agentwire_jan.configuration import load, user_file

    return load(user_file())


# --- schemas -------------------------------------------------------------------------------------------------


@agent.command("schema")
@click.option("--out", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@_told
def agent_schema(out: Path | None) -> int:
    """Print the JSON Schema of what `run` writes and reads as stream-json."""
    from agentwire_jan.stream_schema import document

    return _give(document(), out)


@agent.command("rpc-schema")
@click.option("--out", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@_told
def agent_rpc_schema(out: Path | None) -> int:
    """Print the JSON Schema of what `rpc` writes and reads."""
    from agentwire_jan import codec

    schemas = codec.schemas() if codec.schemas else {}
    return _give(next(iter(schemas.values())) if len(schemas) == 1 else schemas, out)


def _give(document: dict[str, Any], out: Path | None) -> int:
    if out is None:
        _print_json(document)
        return 0
    from agentwire.provider import ConfigError

    try:
        out.write_text(_json(document), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write '{out}': {error.strerror or error}") from None
    return 0


def _print_json(value: Any) -> None:
    sys.stdout.buffer.write(_json(value).encode())
    sys.stdout.buffer.flush()


def _json(value: Any) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# --- configuration -------------------------------------------------------------------------------------------


@jan.group()
def config() -> None:
    """The configuration file, ~/.jan/config.toml."""


@config.command("set")
@click.option("--provider", required=True, help="The provider's id: a name of your own, or anthropic or openai.")
@click.option("--api-key", help="Its key; an empty one takes the key away.")
@click.option("--base-url", help="Where it is, such as http://127.0.0.1:8080/v1.")
@click.option("--model", multiple=True, help="A model that it serves (repeatable). Replaces those of before.")
@click.option("--api-type", help="How it is spoken to: openai (the default), responses or anthropic.")
@_told
def config_set(
    provider: str, api_key: str | None, base_url: str | None, model: tuple[str, ...], api_type: str | None
) -> int:
    """Add a provider, or change one: what is not given stays as it is."""
    from agentwire_jan.configuration import set_service, user_file
    from agentwire_jan.options import api_kind

    if not provider.strip() or "/" in provider:
        raise click.UsageError("--provider: an id is not empty and holds no '/'")
    api_kind(provider, api_type or "")
    path = user_file()
    set_service(path, provider, api_key=api_key, base_url=base_url, models=list(model) or None, api_type=api_type)
    click.echo(f"Saved provider '{provider}' in {path}")
    return 0


@config.command("list")
@_told
def config_list() -> int:
    """Print the configured providers as JSON; keys are not shown."""
    from agentwire_jan.configuration import shown

    providers = sorted(_configuration().providers.items())
    _print_json([{"provider": name, **shown(service)} for name, service in providers])
    return 0


if __name__ == "__main__":
    main()
