"""Stored sessions: taking up a long one, and listing very many.

What is resumed is a session of 10,000 records as they are written: mostly deltas, among them steps, calls and turns.
The reference reads the same file and decodes its lines with bare msgspec into the same structs, and does nothing with
them. What is listed are 10,000 journals; the reference is an interpreter that reads the first line of each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, thread_time

import msgspec
from msgspec import Raw

from agentwire.events import (
    AnyEvent,
    CallArgumentsDelta,
    CallFinished,
    CallOutputDelta,
    CallReady,
    CallRef,
    CallRunning,
    CallStarted,
    Notice,
    ReasoningDelta,
    RequestSent,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    TurnFinished,
    TurnStarted,
    Usage,
)
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.opening import open_session
from agentwire.policy import Policy
from agentwire.settings import SessionSettings
from agentwire.store import SessionStore, new_session_id
from benchmarks.report import Figure
from benchmarks.sample import pieces
from benchmarks.timing import Effort, interleave

SESSION = "long"
RECORDS = 10_000
JOURNALS = 10_000

_PROGRAM = "from agentwire.cli import main; main()"
_FIRST_LINES = """
import os, sys
with os.scandir(sys.argv[1]) as entries:
    for entry in entries:
        with open(entry.path, "rb") as file:
            file.readline()
"""


def measure(effort: Effort) -> Iterator[Figure]:
    """A long session, then many."""
    with tempfile.TemporaryDirectory() as home:
        yield _resuming(SessionStore(Path(home, "sessions")), effort)
    with tempfile.TemporaryDirectory() as home:
        yield _listing(SessionStore(Path(home, "sessions")), home, effort.at_most(5))


# --- resuming ---


def _resuming(store: SessionStore, effort: Effort) -> Figure:
    count = effort.size(RECORDS, least=1000)
    _write_long(store, count)
    decode = msgspec.json.Decoder(Record).decode_lines
    path, settings, policy = Path(store.path(SESSION)), SessionSettings(workspace="/w"), Policy()

    def ours() -> float:
        began = thread_time()
        session = open_session(store, settings, policy, None, resume=SESSION)
        spent = thread_time() - began
        if session.log.seq < count:
            raise AssertionError(f"{session.log.seq} records of {count} were read")
        session.log.close()
        return spent

    def bare() -> float:
        began = thread_time()
        data = path.read_bytes()
        records = decode(data[data.index(b"\n") + 1 :])
        found = len(records)
        del data, records  # a session keeps none of them either
        spent = thread_time() - began
        if found < count:
            raise AssertionError(f"{found} records of {count} were read")
        return spent

    costs = interleave({"resume": ours, "bare msgspec": bare}, effort)
    return Figure(
        what=f"resuming a session of {RECORDS:,} records",
        reference="reading them with bare msgspec",
        measured=costs.ratio("resume", "bare msgspec"),
        goal=2.0,
        notes=[f"{name}: {costs.median(name) * 1e3:.1f} ms" for name in costs.rounds],
    )


def _write_long(store: SessionStore, count: int) -> None:
    log = SessionLog(store.create(SESSION, workspace="/w", provider="openai", model="m"))
    turn = 0
    while log.seq < count:
        turn += 1
        for event in _turn(turn):
            log.append(event, turn)
    log.close()


def _turn(turn: int) -> Iterator[AnyEvent]:
    """Two steps: one that thinks and calls a tool, one that answers."""
    call, arguments = f"call_{turn}", '{"file_path":"src/lines.py"}'
    yield TurnStarted(f"turn-{turn}", f"m{turn}", [Text("Why is the last line lost?")])
    yield StepStarted(0)
    yield RequestSent("openai", "m", "chat", "0" * 64, 4000, "1" * 64)
    for text in pieces(60):
        yield ReasoningDelta(text)
    yield CallStarted(call, "Read")
    for part in ('{"file_', 'path":"src', '/lines.py"}'):
        yield CallArgumentsDelta(call, part)
    yield StepFinished(0, "", "".join(pieces(60)), [CallRef(call, "Read", arguments)], Usage(900, 40), "tool_calls")
    yield CallReady(call, "Read", arguments, Raw(arguments.encode()), "info", "Read src/lines.py")
    yield CallRunning(call, "Read")
    yield CallOutputDelta(call, "def split_lines(data):\n")
    yield CallFinished(call, "Read", "ok", "def split_lines(data):\n    return data.splitlines()\n" * 20)
    yield StepStarted(1)
    yield RequestSent("openai", "m", "chat", "0" * 64, 5000, "1" * 64)
    answer = pieces(150)
    for text in answer:
        yield TextDelta(text)
    yield StepFinished(1, "".join(answer), "", [], Usage(1200, 160), "stop")
    yield TurnFinished("completed", "".join(answer), Usage(2100, 200), finish_reason="stop", steps=2)


# --- listing ---


def _listing(store: SessionStore, home: str, effort: Effort) -> Figure:
    count = effort.size(JOURNALS, least=100)
    for number in range(count):
        log = SessionLog(
            store.create(new_session_id(), workspace=f"/home/me/{number % 7}", provider="openai", model="m")
        )
        log.append(Notice("x" * 2000))
        log.close()
    environ = {**os.environ, "AGENTWIRE_DATA_DIR": home}
    costs = interleave(
        {
            "sessions list": lambda: _spent([sys.executable, "-c", _PROGRAM, "sessions", "list"], environ, count),
            "first lines": lambda: _spent([sys.executable, "-c", _FIRST_LINES, store.directory], environ, 0),
        },
        effort,
    )
    return Figure(
        what=f"agentwire sessions list, {JOURNALS:,} sessions",
        reference="a program that reads the first line of each",
        measured=costs.ratio("sessions list", "first lines"),
        goal=3.0,
        notes=[f"{name}: {costs.median(name) * 1e3:.0f} ms" for name in costs.rounds],
    )


def _spent(command: list[str], environ: dict[str, str], lines: int) -> float:
    """Wall-clock seconds of a program that writes so many lines."""
    began = perf_counter()
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True)
    spent = perf_counter() - began
    written = done.stdout.count(b"\n")
    if written != lines:
        raise AssertionError(f"{written} lines were written instead of {lines}")
    return spent
