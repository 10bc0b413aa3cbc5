"""``agentwire transcode``: a recording of one wire as it would have been made of another."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentwire import registry

if TYPE_CHECKING:
    from agentwire.codec import Codec
    from agentwire.recording import Recording
    from agentwire.transcode import Report

BROKEN_RULE = 3
"""Exit status: the lines were written, and break a rule of their wire."""


@click.command()
@click.argument("source", metavar="IN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--to", "target", metavar="CODEC", required=True, help="Wire to write.")
@click.option("--from", "wire", metavar="CODEC", help="Wire of IN.  [as it says, else as its lines look]")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write.  [standard output]"
)
@click.option(
    "--keep-original",
    is_flag=True,
    help="Write a recording whose entries carry the lines of IN, so that the way back is byte for byte.",
)
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="File for the loss report, as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="No loss report on standard error.")
def transcode(
    source: Path,
    target: str,
    wire: str | None,
    output: Path | None,
    keep_original: bool,
    report: Path | None,
    quiet: bool,
) -> int:
    """Write a recording of one wire as it would have been made of another.

    IN is a recording, a log of an agent's output, or rows with its standard streams. Of an agent's output alone, what
    an agent of the other wire writes is written, a line for a line of its output. Where a host was recorded too, a
    recording of both is written: a host of the other wire asks the same in its own words, under ids of its own, and
    `agentwire replay` can serve it. What was dropped, narrowed or made up on the way is counted by event and field,
    and what the host could not ask by command. A recording that carries the lines of the wire that is asked for gives
    them back as they were.
    """
    from agentwire.recording import RecordingError, open_recording
    from agentwire.transcode import Unrecognised, as_table, wire_of

    if output is not None and output.exists() and output.samefile(source):
        raise click.UsageError("IN and OUT are the same file.")
    try:
        written = registry.load_codec(target)
        recording = open_recording(source)
        read = registry.load_codec(wire or wire_of(recording))
        found = _run(recording, read, written, output, keep_original)
    except (RecordingError, Unrecognised, registry.UnknownName) as error:
        raise click.ClickException(str(error)) from None
    if report is not None:
        try:
            report.write_bytes(_as_json(found))
        except OSError as error:
            raise _unwritable(report, error) from None
    if not quiet:
        click.echo(as_table(found), err=True, nl=False)
    return BROKEN_RULE if found.violations else 0


def _run(recording: Recording, source: Codec, target: Codec, output: Path | None, keep_original: bool) -> Report:
    from agentwire import transcode as transcoding

    # What an agent would have logged of the recorded host's lines is no news: they are in the recording.
    logging.getLogger("agentwire").addHandler(logging.NullHandler())
    if output is None:
        found = transcoding.transcode(recording, source, target, sys.stdout.buffer.write, keep_original=keep_original)
        sys.stdout.buffer.flush()
        return found
    try:
        file = output.open("wb")
    except OSError as error:
        raise _unwritable(output, error) from None
    with file:
        return transcoding.transcode(recording, source, target, file.write, keep_original=keep_original)


def _unwritable(path: Path, error: OSError) -> click.ClickException:
    return click.ClickException(f"{path} cannot be written: {error.strerror}")


def _as_json(found: Report) -> bytes:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
