"""``agentwire-local-ai``: stands where a host expects LevPRO's ``local-ai`` program.

``serve-stdio [--config config.yaml]`` serves the wire. Without a configuration the process starts all the same, for
that there is none is an answer of its own on this wire; the status is 1 only for a command line that means nothing
(section 9).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from agentwire.cli import run

if TYPE_CHECKING:
    from agentwire.options import ServeOptions

NAME = "agentwire-local-ai"
SERVE = "serve-stdio"
FAILED = 1
USAGE = 2


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    arguments = sys.argv[1:] if argv is None else argv
    status = run(local_ai, arguments, NAME, codec="levpro" if SERVE in arguments else "")
    sys.exit(FAILED if status == USAGE else status)


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"local-ai (agentwire {version('agentwire')})")
    ctx.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": False})
@click.option(
    "-V", "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version."
)
def local_ai() -> None:
    """Be an agent for a host that expects LevPRO's local-ai."""


@local_ai.command(SERVE)
@click.option("--config", default="", help="The configuration. [config.yaml in the current directory]")
@click.option("--provider", default="", help="The model service, instead of the configuration's local model.")
@click.option("--model", default="", help="Model name, as the service knows it.")
@click.option("--base-url", default="", help="Where the model service is.")
@click.option("--api-key", envvar="API_KEY", default="", help="Key of the model service.")
@click.option("--provider-option", multiple=True, metavar="KEY=VALUE", help="A quirk of the provider (repeatable).")
@click.option("--max-steps", type=click.IntRange(min=0), help="Model calls per chat; 0 is no limit.")
@click.option("--workspace", default="", help="Directory of the work. [the current one]")
@click.option(
    "--allow",
    multiple=True,
    metavar="RULE",
    help="What needs no approval (repeatable): a tool; a category (info, edit, exec, mcp); or a command by its "
    "beginning, as in 'ExecCommand(git status)'.",
)
@click.option("--ephemeral", is_flag=True, help="Keep no journals.")
@click.option("--trust-workspace", is_flag=True, help="Take everything that configuration found here says.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    help="What goes to standard error. [warning]",
)
def serve_stdio(config: str, provider_option: tuple[str, ...], max_steps: int | None, **given: Any) -> int:
    """Serve a host on standard input and output."""
    from agentwire.cli.serve import parse_option
    from agentwire.options import ServeOptions
    from agentwire.serving import serve

    options = ServeOptions(
        codec="levpro",
        provider_options=dict(map(parse_option, provider_option)),
        max_turns=UNSET if max_steps is None else max_steps,
        provider_required=True,
        **given,
    )
    return serve(None, _configured(options, config))


def _configured(options: ServeOptions, named: str) -> ServeOptions:
    """The options completed by the configuration; what is wrong with it is said, and answered to whoever chats."""
    from msgspec.structs import replace

    from agentwire.provider import ConfigError
    from agentwire_levpro.configuration import FILE_NAME, read, serve_options

    path = Path(named or FILE_NAME)
    try:
        core = read(path, trusted=bool(named) or options.trust_workspace or _is_trusted(path.absolute().parent))
    except ConfigError as error:
        core, problem = None, str(error)
    else:
        problem = f"There is no {path.absolute()}"
    if core is not None:
        return serve_options(options, core)
    if not options.provider:
        click.echo(f"{NAME}: {problem}", err=True)
    return replace(options, notices=(*options.notices, problem) if named else options.notices, config_fault=problem)


def _is_trusted(directory: Path) -> bool:
    """Whether the user's own configuration trusts that directory. One that cannot be read trusts nothing."""
    from agentwire.config import FILE_NAME, is_trusted, read, user_directory
    from agentwire.provider import ConfigError

    try:
        return is_trusted(directory, read(user_directory(os.environ) / FILE_NAME))
    except ConfigError:
        return False  # serving reads it again and says what is wrong


if __name__ == "__main__":
    main()
