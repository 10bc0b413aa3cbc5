"""``agentwire sessions``: what is stored, without an agent running."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from agentwire.store import SessionInfo, SessionStore, StoreError


def _store() -> SessionStore:
    return SessionStore.default(os.environ)


def _told(command: Callable[..., int]) -> Callable[..., int]:
    """Turn a store's error into one line and exit status 1."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        try:
            return command(*args, **kwargs)
        except StoreError as error:
            click.echo(f"Error: {error}", err=True)
            return 1

    return wrapped


@click.group()
def sessions() -> None:
    """List, show and remove stored sessions."""


@sessions.command("list")
@click.option("--workspace", type=click.Path(path_type=Path), help="Only sessions of this directory.")
@_told
def list_(workspace: Path | None) -> int:
    """List stored sessions, newest first: id, when it was created, model, workspace."""
    where = str(workspace.resolve()) if workspace else None
    rows = sorted(_store().list(where), key=lambda info: info.created, reverse=True)
    if rows:
        click.echo("\n".join(map(_row, rows)))  # at once: writing line by line takes longer than all the rest
    else:
        click.echo("No sessions found", err=True)
    return 0


def _row(info: SessionInfo) -> str:
    if info.problem:
        return f"{info.id}  unreadable: {info.problem}"
    when = datetime.datetime.fromtimestamp(info.created / 1000).strftime("%Y-%m-%d %H:%M")
    return f"{info.id}  {when}  {info.model or '-':<28}  {info.workspace}"


@sessions.command()
@click.argument("session")
@click.option("--records", is_flag=True, help="The journal's records as JSON lines instead of the conversation.")
@_told
def show(session: str, records: bool) -> int:
    """Show a stored session; it may be in use."""
    from agentwire.cli.transcript import print_records, print_transcript

    found = _store().read(session)
    (print_records if records else print_transcript)(found, sys.stdout)
    return 0


@sessions.command()
@click.argument("session", nargs=-1, required=True)
def rm(session: tuple[str, ...]) -> int:
    """Remove stored sessions; one in use is refused."""
    store, failed = _store(), False
    for name in session:
        try:
            store.remove(name)
            click.echo(f"removed {name}", err=True)
        except StoreError as error:
            click.echo(f"Error: {error}", err=True)
            failed = True
    return 1 if failed else 0
