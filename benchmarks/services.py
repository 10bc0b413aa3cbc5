"""The local model service that the stream benchmarks share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.pipes import PROCESSES


@contextmanager
def model_service() -> Iterator[str]:
    """Start it in a process of its own; its address."""
    command = [sys.executable, "-I", "-S", str(PROCESSES / "model_server.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the model service has no pipes")
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def prompt(count: int) -> str:
    """What to ask for that many deltas."""
    return f"stream {count}"
