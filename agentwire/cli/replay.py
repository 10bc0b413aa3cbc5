"""``agentwire replay``: what was recorded, again: shown, told, served, verified."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agentwire.codec.contract import Codec
    from agentwire.recording import Recording
    from agentwire.replay.playing import How

DIFFERENT = 1
"""Exit status: a host did not do what was recorded, or the server did not answer as it was."""


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--codec", metavar="CODEC", help="Wire to speak.  [that of FILE]")
@click.option("--from", "wire", metavar="CODEC", help="Wire of FILE.  [as it says, else as its lines look]")
@click.option("--show", "what", flag_value="show", default=True, help="Show it as a person at the host saw it.")
@click.option("--emit", "what", flag_value="emit", help="Write the agent's lines again on standard output.")
@click.option("--serve", "what", flag_value="serve", help="Be the recorded agent for a host on standard input.")
@click.option("--verify", "what", flag_value="verify", help="Have our server do it again, and compare.")
@click.option("--agent", metavar="MODULE:NAME", help="With --verify: the agent, if it was one of your own.")
@click.option("--lenient", is_flag=True, help="With --serve: a host may say other things, if of the same kind.")
@click.option("--speed", type=click.FloatRange(min=0, min_open=True), default=1.0, help="Times as fast as recorded.")
@click.option("--instant", is_flag=True, help="Do not wait.")
@click.option("--step", is_flag=True, help="Wait for Enter before each line or event.")
@click.option("--from-turn", type=click.IntRange(min=1), default=1, help="Begin with this turn.")
def replay(
    file: Path, codec: str | None, wire: str | None, what: str, agent: str | None, lenient: bool, speed: float,
    instant: bool, step: bool, from_turn: int,
) -> int:  # fmt: skip
    """Replay a recording of a wire, or a log of an agent's output.

    With --serve the recording is a live agent: the host's lines are matched with the recorded ones, and the recorded
    agent's lines are sent under the ids that the host chose. What the host says otherwise is reported on standard
    error with the line of FILE, and ends the replay with status 1 unless --lenient is given.

    With --verify a recording of `agentwire serve --record` is done again by our own server, with the recorded replies
    of the model service, byte for byte through the provider that read them, and the recorded results of the tools: no
    tool is run, nobody is asked, no key is needed. The first difference is shown, once ids, times and places are set
    aside; the status says whether there was one. An agent of your own is named by --agent, for its code runs.
    """
    from agentwire.recording import RecordingError, open_recording
    from agentwire.registry import UnknownName
    from agentwire.replay.pace import Pace
    from agentwire.transcode import Unrecognised

    if lenient and what != "serve":
        raise click.UsageError("--lenient goes with --serve.")
    if agent and what != "verify":
        raise click.UsageError("--agent goes with --verify.")
    if (step or from_turn > 1) and what in ("serve", "verify"):
        raise click.UsageError(f"--{'step' if step else 'from-turn'} does not go with --{what}.")
    # What a codec says to an agent's log of a host's bad lines was said when it was recorded.
    logging.getLogger("agentwire").setLevel(logging.ERROR)
    try:
        recording = open_recording(file)
        pace = Pace(0 if instant or step else speed)
        if what == "serve":
            return _serve(recording, wire, codec, pace, lenient)
        if what == "verify":
            return _verify(recording, agent or "")
        return _play(recording, wire, codec, what, pace, step, from_turn)
    except UnknownName as error:
        raise click.UsageError(str(error)) from None
    except (RecordingError, Unrecognised) as error:
        raise click.ClickException(str(error)) from None


def _codec_of(recording: Recording, wire: str | None) -> Codec:
    from agentwire.registry import load_codec
    from agentwire.transcode import wire_of

    return load_codec(wire or wire_of(recording))


def _play(
    recording: Recording, wire: str | None, target: str | None, what: str, pace: Any, step: bool, from_turn: int
) -> int:
    from agentwire.registry import load_codec
    from agentwire.replay.playing import How, emit, emit_as, show

    how = How(pace, from_turn, _enter if step else None)
    with _progress(recording, how):
        out = sys.stdout.buffer
        written = load_codec(target) if target else None
        if what == "show":
            show(recording, _codec_of(recording, wire), _screen(), how)
            return 0

        def write(data: bytes) -> None:
            out.write(data)
            if not quick:
                out.flush()

        quick = not step and pace.instant
        if written is None and from_turn == 1:
            emit(recording, write, how)
        elif written is None or written.name == _codec_of(recording, wire).name:
            emit(recording, write, how, _codec_of(recording, wire))
        else:
            emit_as(recording, _codec_of(recording, wire), written, write, how)
        out.flush()
    return 0


def _screen() -> Any:
    from rich.console import Console

    from agentwire.host.screen import Screen

    return Screen(Console(highlight=False, soft_wrap=True))


def _enter() -> bool:
    """Wait for Enter; False at the end of input."""
    return bool(sys.stdin.readline())


@contextmanager
def _progress(recording: Recording, how: How) -> Iterator[None]:
    """A bar on standard error, where a person sees it and nothing else stands."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=5) as bar:
        task = bar.add_task("", total=recording.size)
        done = 0

        def progress(end: int) -> None:
            nonlocal done
            if end - done > 1 << 18 or end == recording.size:  # telling the bar costs more than a line
                done = end
                bar.update(task, completed=end)

        how.progress = progress
        yield


def _serve(recording: Recording, wire: str | None, target: str | None, pace: Any, lenient: bool) -> int:
    source = _codec_of(recording, wire)
    if target in (None, source.name):
        from agentwire.replay.standing_in import stand_in

        return stand_in(recording, source, pace, lenient=lenient)
    from agentwire.replay.acting import act

    return act(recording, source, target, pace, lenient=lenient)


def _verify(recording: Recording, agent: str) -> int:
    from agentwire.replay.verifying import verify

    if agent:
        sys.path.insert(0, os.getcwd())  # as `python -m` has it
    difference = verify(recording, agent)
    if difference is None:
        click.echo(f"replay: {recording.path}: our server did the same again", err=True)
        return 0
    click.echo(str(difference))
    return DIFFERENT
