"""``agentwire schema``: write the JSON Schemas, or check that they are up to date."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Directory to write to. [print to stdout]"
)
@click.option("--check", is_flag=True, help="Change nothing; fail if a file in the directory is out of date.")
def schema(output: Path | None, check: bool) -> int:
    """Write JSON Schemas (2020-12) of the bus and of every wire."""
    from agentwire import schema as schemas

    if check:
        stale = schemas.drift(output or Path("schemas"))
        for name in stale:
            click.echo(f"out of date: {name} (run `agentwire schema -o {output or 'schemas'}`)", err=True)
        return 1 if stale else 0
    if output is None:
        click.echo(schemas.rendered(dict(schemas.all_schemas())), nl=False)
        return 0
    for name in schemas.write(output):
        click.echo(f"wrote {output / name}", err=True)
    return 0
