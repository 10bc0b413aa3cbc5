"""From starting ``agentwire serve`` to its first line, for a new session without a journal.

The reference is an interpreter that imports trio, msgspec and click and prints a line: what a program built on these
cannot do without, unless it speaks before it imports. All bytecode is compiled beforehand, for ours as an installed
wheel's is.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from benchmarks.report import Figure
from benchmarks.timing import Effort, interleave

PACKAGES = ("agentwire", "agentwire_aionrs", "agentwire_openai", "agentwire_anthropic", "agentwire_script")

_PROGRAM = "from agentwire.cli import main; main()"
_OURS = ["-c", _PROGRAM, "serve", "--codec", "aionrs", "--provider", "openai", "--ephemeral"]
_FLOOR = ["-c", "import trio, msgspec, click; print('ready', flush=True)"]
_BARE = ["-c", "print('ready', flush=True)"]


def measure(effort: Effort) -> Iterator[Figure]:
    """Process after process."""
    for package in PACKAGES:
        _compile(package)
    times = effort.size(5)
    with tempfile.TemporaryDirectory() as home:
        costs = interleave(
            {
                "agentwire serve": lambda: _first_line(_OURS, home, times),
                "trio, msgspec, click": lambda: _first_line(_FLOOR, home, times),
                "bare interpreter": lambda: _first_line(_BARE, home, times),
            },
            effort,
        )
    yield Figure(
        what="first line of serve, new ephemeral session",
        reference="interpreter that imports trio, msgspec, click",
        measured=costs.ratio("agentwire serve", "trio, msgspec, click"),
        goal=1.2,
        notes=[f"{name}: {costs.median(name) * 1e3:.0f} ms" for name in costs.rounds],
    )


def _compile(package: str) -> None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise AssertionError(f"{package} is not installed")
    compileall.compile_dir(Path(spec.origin).parent, quiet=1)


def _first_line(arguments: list[str], home: str, times: int) -> float:
    """Seconds to the first line, on the average."""
    environ = {
        **os.environ, "AGENTWIRE_DATA_DIR": home, "AGENTWIRE_CONFIG_DIR": home, "OPENAI_API_KEY": "sk-none",
    }  # fmt: skip
    spent = 0.0
    pipe = subprocess.PIPE
    for _ in range(times):
        began = perf_counter()
        with subprocess.Popen([sys.executable, *arguments], cwd=home, env=environ, stdin=pipe, stdout=pipe) as process:
            if process.stdout is None or not process.stdout.readline():
                raise AssertionError("the program said nothing")
            spent += perf_counter() - began
            process.kill()
    return spent / times
