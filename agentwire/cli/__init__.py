"""The ``agentwire`` command. Each subcommand lies in a module of its own, imported when it is asked for."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from agentwire.cli.closed_output import until_closed

COMMANDS = {
    "serve": ("agentwire.cli.serve", "Be an agent for a host on standard input and output."),
    "chat": ("agentwire.cli.chat", "Be the host: talk with an agent process in the terminal."),
    "tap": ("agentwire.cli.tap", "Stand between a host and an agent: record and check what passes."),
    "check": ("agentwire.cli.check", "Hold an agent or a host to the rules of its wire."),
    "bridge": ("agentwire.cli.bridge", "Have a host of one wire drive an agent of another."),
    "demo": ("agentwire.cli.demo", "Watch an offline agent and a host talk, as a person and on the wire."),
    "codecs": ("agentwire.cli.lists", "List the installed codecs."),
    "providers": ("agentwire.cli.lists", "List the installed providers."),
    "sessions": ("agentwire.cli.sessions", "List, show and remove stored sessions."),
    "transcode": ("agentwire.cli.transcode", "Write a recording of one wire as another would have told it."),
    "replay": ("agentwire.cli.replay", "Show, tell, serve or verify a recording."),
    "inspect": ("agentwire.cli.inspect", "Show a recording or a session as a timeline, or make a page of it."),
    "redact": ("agentwire.cli.redact", "Take secrets and chosen contents out of a recording."),
    "schema": ("agentwire.cli.schema", "Write JSON Schemas of the bus and of every wire."),
}
"""Name, module and one line of help of every subcommand."""


DEFAULT_CODEC = "aionrs"
"""The wire of ``serve`` when none is named."""


class LazyGroup(click.Group):
    """A group that imports a subcommand only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        found: click.Command = getattr(importlib.import_module(module), cmd_name)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand, as long as anybody reads what it writes."""
        return until_closed(lambda: super(LazyGroup, self).invoke(ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"agentwire {version('agentwire')}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version and exit."
)
def agentwire() -> None:
    """One agent, one log, every wire."""


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    arguments = sys.argv[1:] if argv is None else argv
    sys.exit(run(agentwire, arguments, "agentwire"))


def run(command: click.Command, arguments: list[str], name: str, codec: str = "") -> int:
    """Run a click command; a usage error goes to standard error, and to the host if one is being served.

    ``codec`` names the wire of a command that always serves; else it is taken from the arguments of ``serve``.
    """
    try:
        result: Any = command.main(arguments, prog_name=name, standalone_mode=False)
    except click.UsageError as error:
        error.show(sys.stderr)
        _tell_host(codec or _codec_of(arguments), error.format_message())
        return 2
    except click.ClickException as error:
        error.show(sys.stderr)
        return error.exit_code
    except click.Abort:
        return 130
    return result if isinstance(result, int) else 0


def _codec_of(arguments: list[str]) -> str:
    if arguments[:1] != ["serve"]:
        return ""
    for index, word in enumerate(arguments):
        if word == "--codec" and index + 1 < len(arguments):
            return arguments[index + 1]
        if word.startswith("--codec="):
            return word.partition("=")[2]
    return DEFAULT_CODEC


def _tell_host(name: str, message: str) -> None:
    """A host that started us with a wrong flag reads why in its own form."""
    if not name:
        return
    from agentwire import registry
    from agentwire.commands import Refusal

    try:
        codec = registry.load_codec(name)
    except registry.UnknownName:
        return
    out = bytearray()
    codec.agent().fatal(Refusal("config", message), out)
    sys.stdout.buffer.write(out)
    sys.stdout.buffer.flush()
