"""Deltas a second, all the way: from a model service through the whole program to the host at its pipe.

Ours is ``agentwire serve`` as a host starts it. The peer is a program of the same kind, made of pagent's LLM and its
``arun_wire``. Both have answered one prompt before the clock starts, so that neither's first imports count. The clock
runs from sending the prompt to the end of the turn, and the whole text must have arrived. Where the host reads more
slowly than the model speaks, a line may carry several deltas: the notes say how many lines there were.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.pipes import PROCESSES
from benchmarks.processes.model_server import text
from benchmarks.report import Figure, rate
from benchmarks.services import model_service, prompt
from benchmarks.timing import Effort, interleave


class Program(Struct, frozen=True):
    """A program that is an agent on its standard input and output."""

    command: Sequence[str]
    ask: str
    """The line that asks for something, with a place for the prompt."""
    end: bytes
    """What is in a turn's last line, and in no other."""
    said: Callable[[Any], str]
    """The piece of the answer that a line carries, or nothing."""


def measure(effort: Effort) -> Iterator[Figure]:
    """The model is much faster than either."""
    with ExitStack() as stack:
        url = stack.enter_context(model_service())
        home = stack.enter_context(tempfile.TemporaryDirectory())
        ours = stack.enter_context(_running(_agentwire(url, home), home))
        pagent = stack.enter_context(_running(_pagent(url), home))
        costs = interleave(
            {
                "agentwire serve": lambda: ours.answer(effort.size(20_000)),
                "pagent": lambda: pagent.answer(effort.size(3_000)),
            },
            effort,
        )
    yield Figure(
        what="model stream to pipe, the whole program, deltas/s",
        reference="pagent LLM + arun_wire, same service",
        measured=costs.ratio("pagent", "agentwire serve"),
        goal=8.0,
        sense="at least",
        notes=[
            f"{name}: {rate(costs.median(name))}, {running.lines / running.deltas:.2f} lines a delta"
            for name, running in (("agentwire serve", ours), ("pagent", pagent))
        ],
    )


def _agentwire(url: str, workspace: str) -> Program:
    as_installed = "from agentwire.cli import main; main()"
    return Program(
        [
            sys.executable, "-c", as_installed, "serve", "--codec", "aionrs", "--ephemeral", "--workspace", workspace,
            "--provider", "openai", "--base-url", url, "--model", "test-model",
        ],
        '{"type":"message","msg_id":"m1","content":"%s"}\n',
        b'{"type":"stream_end"',
        lambda line: line["text"] if line["type"] == "text_delta" else "",
    )  # fmt: skip


def _pagent(url: str) -> Program:
    return Program(
        [sys.executable, str(PROCESSES / "pagent_agent.py"), f"{url}/v1"],
        "%s\n",
        b'"method": "RunEnd"',
        lambda line: line["params"]["text"] if line["method"] == "TextDelta" else "",
    )


class _Running:
    """A program that runs, with one prompt answered."""

    def __init__(self, program: Program, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the program has no pipes")
        self._program = program
        self._in = process.stdin
        self._out = process.stdout.fileno()
        self.lines = self.deltas = 0
        self.answer(1)

    def answer(self, count: int) -> float:
        """Ask for an answer of ``count`` deltas: seconds per delta, until all are with the host."""
        ended, chunks = False, [b""]
        began = perf_counter()
        self._in.write((self._program.ask % prompt(count)).encode())
        self._in.flush()
        while not (ended and chunks[-1].endswith(b"\n")):
            chunks.append(os.read(self._out, 1 << 18))
            if not chunks[-1]:
                raise AssertionError("the program ended")
            ended = ended or self._program.end in b"".join(chunks[-2:])
        spent = perf_counter() - began
        self._check(b"".join(chunks), count)
        return spent / count

    def _check(self, answer: bytes, count: int) -> None:
        lines = [msgspec.json.decode(line) for line in answer.splitlines()]
        said = [piece for line in lines if (piece := self._program.said(line))]
        if "".join(said) != text(count):
            raise AssertionError(f"not the text of {count} deltas: {''.join(said)[:80]!r} ...")
        self.lines += len(said)
        self.deltas += count


@contextmanager
def _running(program: Program, home: str) -> Iterator[_Running]:
    environ = {**os.environ, "AGENTWIRE_DATA_DIR": home, "AGENTWIRE_CONFIG_DIR": home}
    pipe = subprocess.PIPE
    with subprocess.Popen(program.command, stdin=pipe, stdout=pipe, env=environ) as process:
        try:
            yield _Running(program, process)
        finally:
            process.kill()
