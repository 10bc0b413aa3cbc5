"""``agentwire codecs`` and ``agentwire providers``: what is installed."""

from __future__ import annotations

import click

from agentwire import registry


@click.command()
def codecs() -> None:
    """List the installed codecs."""
    _print([(name, registry.load_codec(name).summary) for name in registry.names(registry.CODECS)])


@click.command()
def providers() -> None:
    """List the installed providers."""
    _print([(name, registry.load_provider(name).summary) for name in registry.names(registry.PROVIDERS)])


def _print(rows: list[tuple[str, str]]) -> None:
    width = max((len(name) for name, _ in rows), default=0)
    for name, summary in rows:
        click.echo(f"{name:<{width}}  {summary}")
