"""``agentwire check``: does a program keep to its wire?"""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentwire.cli import DEFAULT_CODEC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from agentwire.check.findings import Finding, Rules
    from agentwire.codec.contract import Codec
    from agentwire.codec.kit import Requirement, Role


OURS = "agentwire serve, on a scripted model"


@click.group()
def check() -> None:
    """Hold a program to the rules of its wire: an agent, or a host.

    The exit status is 1 if a rule that must hold was broken.
    """


def _options(command: Callable[..., int]) -> Callable[..., int]:
    """What both roles have."""
    for option in (
        click.option("--codec", default=DEFAULT_CODEC, help=f"The wire that it speaks. [{DEFAULT_CODEC}]"),
        click.option("--timeout", default=10.0, help="Seconds that any one step may take. [10]"),
        click.option("--only", multiple=True, metavar="ID", help="Check this requirement only (repeatable)."),
        click.option("--list", "listing", is_flag=True, help="List the requirements, and check nothing."),
        click.option("--junit", "xml", type=click.Path(dir_okay=False), help="Write JUnit XML as well."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table."),
    ):
        command = option(command)
    return command


@check.command()
@_options
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Where the agent is started. [here]")
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
def agent(codec: str, timeout: float, cwd: str | None, command: tuple[str, ...], **more: Any) -> int:
    """Check an agent: COMMAND starts it; each requirement is played by a scripted host.

    Without COMMAND, `agentwire serve` with a scripted model is checked. An agent with a real model is asked to say
    hello, to run `echo`, `seq` and `sleep`, to change a word in a file of ours, to call a tool of ours, and to count;
    give it time with --timeout. Where the wire has a command line, words such as `--resume ID` are added to COMMAND.
    An agent that takes its one task there has {task} in COMMAND, and {host_tools} where it reads a file of host tools.
    What an agent does not declare is not demanded: it is "not seen", with the reason.
    """
    from agentwire.check.agents import check_agent
    from agentwire.check.ours import Started, ours

    with tempfile.TemporaryDirectory(prefix="agentwire-check-") as home:
        directory = Path(home, "files").resolve()
        directory.mkdir()
        started, where = Started(command), cwd
        if not command and not more["listing"]:
            started, where = ours(_codec(codec), Path(home), directory), cwd or str(directory)

        async def checking(asked: list[Requirement], tell: Callable[[Finding], None]) -> None:
            await check_agent(
                started.argv,
                asked,
                patience=timeout,
                cwd=where,
                env=started.env,
                directory=directory,
                files=_files(codec),
                said=started.said,
                rules=_rules(codec, "agent"),
                tell=tell,
            )

        return _run("agent", codec, shlex.join(command) or OURS, checking, **more)


@check.command()
@_options
@click.option("--stays", is_flag=True, help="The host does not end by itself after its turn.")
@click.option("--as", "alias", default="", metavar="NAME", help="Put the stand-in on the host's PATH under this name.")
@click.argument("command", nargs=-1, metavar="-- COMMAND...")
def host(codec: str, timeout: float, stays: bool, alias: str, command: tuple[str, ...], **more: Any) -> int:
    """Check a host: COMMAND starts it, with {agent} where the command of its agent goes.

    The host must say one thing to its agent by itself, answer what it is asked, and end after the turn. Where it
    takes no command, the environment variable AGENTWIRE_CHECK_AGENT holds a program that is the agent, or --as names
    the program that the host looks for.
    """
    from agentwire.check.hosts import check_host

    if not command and not more["listing"]:
        raise click.UsageError("Missing argument '-- COMMAND...'.")

    async def checking(asked: list[Requirement], tell: Callable[[Finding], None]) -> None:
        await check_host(
            command, codec, asked, patience=timeout, stays=stays, alias=alias, rules=_rules(codec, "host"), tell=tell
        )

    return _run("host", codec, shlex.join(command), checking, **more)


def _run(
    role: Role, codec: str, program: str, checking: Callable[..., Awaitable[None]], *, only: tuple[str, ...],
    listing: bool, xml: str | None, as_json: bool,
) -> int:  # fmt: skip
    import trio
    from rich.console import Console

    from agentwire.check import report

    _, asked = _asked(codec, role, only)
    if listing:
        for one in asked:
            click.echo(f"{one.id:<18} {one.level:<6} {one.section:<5} {one.text}")
        return 0
    progress = Console(stderr=True)
    findings: list[Finding] = []
    try:
        with progress.status("") as status:

            def tell(finding: Finding) -> None:
                findings.append(finding)
                status.update(f"{len(findings)} of {len(asked)}: {finding.requirement.id}")

            trio.run(checking, asked, tell)
    except OSError as error:
        raise click.ClickException(f"{program} cannot be started: {error.strerror}") from None
    trouble = ""
    if xml:
        try:
            Path(xml).write_bytes(report.junit(findings, codec, role))
        except OSError as error:
            trouble = f"{xml} cannot be written: {error.strerror}"
    if as_json:
        click.echo(json.dumps(report.as_json(findings, codec, role), ensure_ascii=False, indent=2))
    else:
        report.print_table(findings, Console(), f"{role} of the wire {codec}: {program}")
    if trouble:  # what was found is said all the same
        raise click.ClickException(trouble)
    return int(any(finding.fatal for finding in findings))


def _codec(name: str) -> Codec:
    from agentwire.registry import UnknownName, load_codec

    try:
        return load_codec(name)
    except UnknownName as error:
        raise click.UsageError(str(error)) from None


def _rules(codec: str, role: Role) -> Rules | None:
    from agentwire.check.catalogue import rules_of

    return rules_of(_codec(codec), role)


def _files(codec: str) -> Mapping[str, Any]:
    kit = _codec(codec).requirements
    return {} if kit is None else kit().files


def _asked(codec: str, role: Role, only: tuple[str, ...] = ()) -> tuple[Codec, list[Requirement]]:
    from agentwire.check.catalogue import NoKit, catalogue

    wire = _codec(codec)
    try:
        return wire, catalogue(wire, role, only)
    except NoKit as error:
        raise click.UsageError(str(error)) from None


@check.command("stand-in", hidden=True)
@click.option("--codec", required=True)
@click.option("--play", "name", required=True)
@click.option("--timeout", type=float, required=True)
@click.option("--stays", is_flag=True)
@click.argument("result", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def stand_in(codec: str, name: str, timeout: float, stays: bool, result: Path, arguments: tuple[str, ...]) -> int:
    """Be the agent that a host under check starts."""
    import trio

    from agentwire.check.catalogue import host_play
    from agentwire.check.stand_in import stand_in as play_agent

    wire, asked = _asked(codec, "host")
    play = host_play(wire, asked, name, stays=stays)
    trio.run(play_agent, play, result, timeout, arguments)
    return 0
