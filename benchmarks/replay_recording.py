"""A recording of a million lines told again, as its own wire and as another: the peak of the process's memory.

The reference is a recording of a thousand lines in the same program: what streams costs the same.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks.report import Figure, rate
from benchmarks.timing import Costs, Effort

KIB = 1024

PROGRAM = (
    "import resource, sys\n"
    "from agentwire.cli import main\n"
    "try: main(sys.argv[1:])\n"
    "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
)

WAYS = {"as it is": (1_000_000, ("--emit",)), "as pagent": (200_000, ("--emit", "--codec", "pagent"))}
"""How many lines, and how."""


def measure(effort: Effort) -> Iterator[Figure]:
    """Both ways, each recording in a process of its own; memory does not waver like time does."""
    effort = effort.at_most(2)
    with tempfile.TemporaryDirectory() as folder:
        long, short = Path(folder, "long"), Path(folder, "short")
        _write(short, 1_000)
        for way, (full, options) in WAYS.items():
            lines = effort.size(full, 20_000)
            _write(long, lines)
            peaks: dict[str, list[float]] = {"long": [], "short": []}
            seconds = []
            for _ in range(effort.rounds):
                began = perf_counter()
                peaks["long"].append(_peak(long, *options))
                seconds.append((perf_counter() - began) / lines)
                peaks["short"].append(_peak(short, *options))
            costs = Costs(peaks)
            megabytes = partial("{:.0f} MiB".format)
            yield Figure(
                what=f"a recording of {full:,} lines, told {way}: peak memory",
                reference="one of a thousand lines",
                measured=costs.ratio("long", "short"),
                goal=1.25,
                notes=[
                    f"{lines} lines: {megabytes(costs.median('long') / KIB)}, {rate(min(seconds))} lines",
                    f"1000 lines: {megabytes(costs.median('short') / KIB)}",
                ],
            )


def _write(path: Path, lines: int) -> None:
    """A recording of turns of 200 lines."""

    def row(at: int, kind: str, rest: str) -> str:
        return f'{{"at":{at},"who":"agent","text":"{{\\"type\\":\\"{kind}\\",{rest}}}\\n"}}\n'

    with path.open("w") as file:
        file.write('{"agentwire":"recording","version":1,"codec":"aionrs"}\n')
        for turn in range(lines // 200):
            name = f'\\"msg_id\\":\\"m{turn}\\"'
            file.write(row(turn, "stream_start", name))
            file.write(row(turn, "text_delta", f'\\"text\\":\\"some words \\",{name}') * 198)
            file.write(row(turn, "stream_end", name))


def _peak(path: Path, *options: str) -> float:
    """Kilobytes."""
    command = [sys.executable, "-c", PROGRAM, "replay", str(path), "--instant", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return float(done.stderr.split()[-1])
