"""``agentwire codecs`` and ``agentwire providers``: what is installed."""

from __future__ import annotations

from collections.abc import Callable

import click

from agentwire import registry


@click.command()
def codecs() -> None:
    """List the installed codecs."""
    _print(registry.names(registry.CODECS), lambda name: registry.load_codec(name).summary)


@click.command()
def providers() -> None:
    """List the installed providers."""
    _print(registry.names(registry.PROVIDERS), lambda name: registry.load_provider(name).summary)


def _print(names: list[str], summary_of: Callable[[str], str]) -> None:
    width = max(map(len, names), default=0)
    for name in names:
        try:
            summary = summary_of(name)
        except Exception as error:  # noqa: BLE001 - a broken plugin is listed as what it is
            summary = f"cannot be loaded: {type(error).__name__}: {error}"
        click.echo(f"{name:<{width}}  {summary}")
