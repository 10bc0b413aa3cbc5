"""``agentwire redact``: a recording that can be shown to others."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@click.option("--field", "fields", multiple=True, metavar="NAME", help="Take out what stands under this key.")
@click.option(
    "--env", "variables", multiple=True, metavar="NAME", help="Take out this environment variable's value, everywhere."
)
def redact(file: Path, output: Path, fields: tuple[str, ...], variables: tuple[str, ...]) -> int:
    """Take secrets out of a recording, and the contents of chosen fields.

    Keys, tokens and passwords are found by their names (api_key, Authorization, ...) and by what they look like. What
    is taken out leaves as many characters behind; ids and the shape of every line stay, so the copy still replays. With
    any --field all that a model service said goes from its replies as they came, for it names things otherwise. Look
    the copy over before you give it away: a secret that looks like nothing is not found.
    """
    from agentwire.recording import RecordingError, open_recording
    from agentwire.replay.redaction import Redaction
    from agentwire.replay.redaction import redact as redacted

    if output.exists() and output.samefile(file):
        raise click.UsageError("FILE and OUT are the same file.")
    missing = [name for name in variables if not os.environ.get(name)]
    if missing:
        raise click.UsageError(f"The environment variable {missing[0]} is not set; its value is not known.")
    redaction = Redaction(fields, [os.environ[name] for name in variables])
    try:
        recording = open_recording(file)
        with output.open("wb") as out:
            for line in redacted(recording, redaction):
                out.write(line)
    except RecordingError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}") from None
    click.echo(f"redact: something was taken out of {redaction.taken} strings", err=True)
    return 0
