"""``agentwire inspect``: a recording or a session as a timeline, in the terminal or as a page."""

from __future__ import annotations

import io
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from agentwire.timeline import Source


PLAIN_WIDTH = 120
"""Columns, where there is no terminal to ask."""


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--session", metavar="ID", help="A stored session instead of FILE; `latest` is the newest.")
@click.option("--from", "wire", metavar="CODEC", help="Wire of FILE.  [as it says, else as its lines look]")
@click.option("--html", metavar="OUT", help="Write a page for a browser instead; `-` is standard output.")
@click.option("--turn", "turns", type=click.IntRange(min=1), multiple=True, help="Show only this turn (repeatable).")
@click.option("--all", "everything", is_flag=True, help="Leave nothing out, however much there is.")
def inspect(
    file: Path | None, session: str | None, wire: str | None, html: str | None, turns: tuple[int, ...], everything: bool
) -> int:
    """Show a recording, or a session, as a timeline: turns, calls, questions, what was waited for and how long.

    FILE is a recording of any wire, a log of an agent's output, rows with its standard streams, or a journal of ours.
    With --html the timeline is one page that needs no network: swim lanes, search, and the lines behind everything.
    """
    from agentwire.log.errors import StoreError
    from agentwire.recording import RecordingError
    from agentwire.registry import UnknownName
    from agentwire.timeline import open_source
    from agentwire.transcode import Unrecognised

    if (file is None) == (session is None):
        raise click.UsageError("Give a FILE or --session, one of the two.")
    if session is not None and wire is not None:
        raise click.UsageError("--from does not go with --session: a journal is of no wire.")
    if html is not None and (turns or everything):
        raise click.UsageError("--turn and --all do not go with --html: the page has them all.")
    logging.getLogger("agentwire").addHandler(logging.NullHandler())  # what an agent complained of then is told below
    try:
        path = file if file is not None else _journal(session or "")
        source = open_source(path, wire or "")
        if html is not None:
            return _write(source, html, path)
        return _show(source, turns, everything)
    except UnknownName as error:
        raise click.UsageError(str(error)) from None
    except (RecordingError, StoreError, Unrecognised) as error:
        raise click.ClickException(str(error)) from None


def _journal(session: str) -> str:
    from agentwire.store import SessionStore

    store = SessionStore.default(os.environ)
    name = store.latest().id if session == "latest" else session
    store.view(name).close()  # says in the store's words what is wrong
    return store.path(name)


def _show(source: Source, turns: tuple[int, ...], everything: bool) -> int:
    from agentwire.timeline.terminal import show

    timeline = source.timeline()
    if missing := [number for number in turns if number > len(timeline.turns)]:
        raise click.ClickException(f"There is no turn {missing[0]}: there are {len(timeline.turns)}.")
    show(timeline, _console(), turns=turns, everything=everything)
    return 0


def _console() -> Console:
    """As wide as the terminal; a pipe or a file has no width of its own."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # where the locale has fewer letters than the recording
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PLAIN_WIDTH
    return console


def _write(source: Source, target: str, path: str | os.PathLike[str]) -> int:
    from agentwire.timeline.page import write_page

    if target != "-" and os.path.exists(target) and os.path.samefile(target, path):
        raise click.UsageError("FILE and OUT are the same file.")
    page = write_page(source)
    if target == "-":
        sys.stdout.buffer.write(page)
        sys.stdout.buffer.flush()
        return 0
    try:
        Path(target).write_bytes(page)
    except OSError as error:
        raise click.ClickException(f"{target} cannot be written: {error.strerror}") from None
    click.echo(f"{target}: {len(page) / 1e6:.1f} MB, open it in a browser", err=True)
    return 0
