"""The command line of the benchmarks: what to run, how thoroughly, and what to make of the figures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from benchmarks.report import Figure, Report, table
from benchmarks.timing import Effort

BENCHMARKS = {
    "rendering": "records to wire lines",
    "decoding": "wire lines to commands and events",
    "every_wire": "the same for text on every other wire",
    "log_to_pipe": "events a second from a session's log into a pipe",
    "append_latency": "from an append to the reader's read, one event at a time",
    "tap_latency": "what standing between a host and an agent costs a line",
    "reading_lines": "lines a second out of a pipe, decoded",
    "model_to_pipe": "deltas a second from a model service through the whole program to the host",
    "provider_stream": "a model service's stream, read by a provider",
    "first_line": "from the start of the process to its first line",
    "session_memory": "resident memory of a session",
    "stored_sessions": "taking up a long session, listing very many",
    "replay_recording": "memory of replaying a recording of a million lines",
    "task_steps": "how often the scheduler runs for an event",
}
"""Modules of this package, each with a function ``measure(effort)`` that gives :class:`Figure` objects."""


def run(name: str, effort: Effort) -> Iterator[Figure]:
    """Run one benchmark."""
    for figure in importlib.import_module(f"benchmarks.{name}").measure(effort):
        figure.benchmark = name
        yield figure


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Benchmarks: " + "; ".join(f"{name} ({what})" for name, what in BENCHMARKS.items()) + ".",
)
@click.option("--only", multiple=True, metavar="NAME", type=click.Choice(list(BENCHMARKS)), help="Run this one.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds of each benchmark. [7; 1 with --quick]")
@click.option("--quick", is_flag=True, help="The least that still gives figures: to see that everything runs.")
@click.option("--verbose", "-v", is_flag=True, help="Show absolute numbers and the parts of a figure too.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures there.")
@click.option("--check", is_flag=True, help="Exit with status 1 if a goal is missed or a benchmark fails.")
def main(
    only: tuple[str, ...], rounds: int | None, quick: bool, verbose: bool, json_file: Path | None, check: bool
) -> None:
    """Measure what agentwire costs, as ratios to references that are measured in the same run.

    Figures are medians of the rounds' ratios, with their quartiles. Run it on a machine that has little else to do;
    the peers it compares with come with `pip install -e .[dev]`.
    """
    effort = Effort(rounds or (1 if quick else 7), 0.01 if quick else 1.0)
    figures: list[Figure] = []
    errors: dict[str, str] = {}
    for name in only or BENCHMARKS:
        if sys.stderr.isatty():
            print(f"{name} ...", file=sys.stderr)
        try:
            figures += run(name, effort)
        except Exception as error:  # one that cannot run here must not take the others' figures with it
            errors[name] = f"{type(error).__name__}: {error}"
    print(table(figures, errors, verbose=verbose))
    if json_file is not None:
        report = Report.of(figures, errors, rounds=effort.rounds, quick=quick)
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    if check and (errors or not all(figure.met for figure in figures)):
        sys.exit(1)
