"""``agentwire bridge``: a host of one wire drives an agent of another."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from agentwire.cli.serve import parse_option


@click.command()
@click.option("--host", "host_wire", required=True, help="The wire of the host, on our standard input and output.")
@click.option("--agent", "agent_wire", required=True, help="The wire of the agent, which is COMMAND.")
@click.option("--workspace", default="", help="Directory of the work. [the current one, or as the host says]")
@click.option("--model", default="", help="Model to ask the agent for, if its wire can choose one.")
@click.option("--allow", multiple=True, help="Tool or category that the host is not asked about (repeatable).")
@click.option("--auto-approve", is_flag=True, help="Start in mode yolo: the host is asked nothing.")
@click.option(
    "--silence",
    type=click.FloatRange(min=0),
    default=0,
    metavar="SECONDS",
    help="A turn whose agent says nothing for so long has failed; 0: never.",
)
@click.option("--session-dir", default="", metavar="DIR", help="Where sessions are kept. [the user's data directory]")
@click.option("--ephemeral", is_flag=True, help="Keep no sessions.")
@click.option("--session-id", help="Id of the new session, on wires with one; it must not exist.")
@click.option("--resume", help="Id of a session to go on with, on wires with one, or `latest`: this workspace's.")
@click.option("--codec-option", multiple=True, metavar="KEY=VALUE", help="An option of the host's codec (repeatable).")
@click.option("--report", metavar="FILE", help="Write what could not cross to FILE, as JSON.")
@click.option(
    "--record", default="", metavar="FILE", help="Record the host's wire to FILE, those of agents to files beside it."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    help="What goes to standard error. [warning]",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="And in which form. [text]")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
def bridge(
    host_wire: str,
    agent_wire: str,
    silence: float,
    session_dir: str,
    codec_option: tuple[str, ...],
    report: str | None,
    command: tuple[str, ...],
    **given: Any,
) -> int:
    """Have a host of one wire drive an agent of another.

    COMMAND is the agent, our standard input and output are the host's.

    Every session of the host has an agent process of its own. Questions, stops, modes, settings and host tools cross
    where both wires have words for them; what the agent's wire cannot carry is refused in the host's own form. What
    was lost goes to standard error at the end, and in full to --report.

    Sessions are kept as those of `agentwire serve` are, in a directory of their own, and a host can list them, read
    their history and go on with them. The agent goes on with its own half if it can; else it is told what was said
    before, where its wire has a word for that, and if not, the host is warned. What the agent's own options are stands
    in COMMAND: on its wire we are the host, and hosts have none.
    """
    import msgspec

    from agentwire import logs
    from agentwire.bridge.report import in_short
    from agentwire.bridge.running import Bridge, run_stdio
    from agentwire.options import ServeOptions
    from agentwire.provider.contract import ConfigError
    from agentwire.recording import Recorder, RecordingError
    from agentwire.registry import UnknownName, load_codec
    from agentwire.server.signals import Signals
    from agentwire.serving import STOPPING, check_options
    from agentwire.transport.stdio import claim

    chosen = dict(parse_option(text, "--codec-option") for text in codec_option)
    options = ServeOptions(codec=host_wire, codec_options=chosen, **given)
    try:
        host, agent = load_codec(host_wire), load_codec(agent_wire)
        check_options(host, options)
        recorder = Recorder(options.record, host_wire, role="bridge") if options.record else None
    except (UnknownName, ConfigError) as error:
        raise click.UsageError(str(error)) from None
    except RecordingError as error:
        raise click.ClickException(str(error)) from None
    pipes = claim()
    logs.configure(options.log_level, options.log_format)
    if recorder is not None:
        pipes.heard, pipes.written = recorder.host, recorder.agent
    passing = Bridge(host, agent, command, options, silence=silence, directory=session_dir)
    signals = Signals([number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN])
    try:
        with signals.noted():
            status = run_stdio(passing, pipes, signals)
    finally:
        if recorder is not None:
            recorder.close()
    found = passing.report
    with suppress(BrokenPipeError):  # it is for a person, if one is there
        print(in_short(found), end="", file=sys.stderr)
    if report is not None:
        try:
            Path(report).write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
        except OSError as error:
            raise click.ClickException(f"The report {report} cannot be written: {error.strerror}") from None
    return status
