"""``agentwire tap``: see and check what passes between a host and an agent."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from agentwire.cli import DEFAULT_CODEC

if TYPE_CHECKING:
    from agentwire.codec.checking import Violation

VIOLATED = 3
"""Exit status with ``--strict`` if a rule that must hold was broken."""


@click.command()
@click.option("--codec", default=DEFAULT_CODEC, help=f"The wire that the two speak. [{DEFAULT_CODEC}]")
@click.option("--record", metavar="FILE", help="Record the wire, both directions; see `agentwire replay`.")
@click.option("--check/--no-check", default=True, help="Report what is not as the protocol has it. [on]")
@click.option("--strict", is_flag=True, help=f"End with status {VIOLATED} if a rule that must hold was broken.")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
def tap(codec: str, record: str | None, check: bool, strict: bool, command: tuple[str, ...]) -> int:
    """Stand between a host and an agent of one wire: COMMAND is the agent, our standard input and output the host's.

    Every byte passes as it is. Violations of the protocol go to standard error as they happen, with the number of the
    line; so do the agent's own messages. The exit status is the agent's.
    """
    import trio

    from agentwire.host.tap import Tap
    from agentwire.recording import Recorder, RecordingError
    from agentwire.registry import UnknownName, load_codec
    from agentwire.transport.stdio import claim

    try:
        wire = load_codec(codec)
        recorder = Recorder(record, codec, role="tap", about={"argv": list(command)}) if record else None
    except UnknownName as error:
        raise click.UsageError(str(error)) from None
    except RecordingError as error:
        raise click.ClickException(str(error)) from None
    checker = wire.checker() if check and wire.checker is not None else None
    if check and checker is None:
        click.echo(f"tap: the codec {codec} has no rules to check by; bytes pass all the same", err=True)
    broken = 0

    def report(who: str, line: int, violation: Violation) -> None:
        nonlocal broken
        broken += violation.severity == "must"
        place = f"line {line}" if line else "at the end"
        section = f" ({violation.section})" if violation.section else ""
        print(f"tap: {who}, {place}: {violation.severity}: {violation.message}{section}", file=sys.stderr, flush=True)

    passing = Tap(claim(), checker, recorder, report)
    try:
        status = trio.run(passing.run, command)
    except OSError as error:
        raise click.ClickException(f"{shlex.join(command)} cannot be started: {error.strerror}") from None
    finally:
        if recorder is not None:
            recorder.close()
    counts = f"{passing.host.lines} lines from the host, {passing.agent.lines} from the agent"
    print(f"tap: {counts}, {passing.host.violations + passing.agent.violations} violations", file=sys.stderr)
    return VIOLATED if strict and broken else status
