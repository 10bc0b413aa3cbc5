"""Checking an agent: it is started for every play, and we are its host."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import trio

from agentwire.check.acting import Actor
from agentwire.check.findings import Finding, judge
from agentwire.children import watchdog
from agentwire.codec.kit import Play, Requirement, Transcript
from agentwire.host.process import start_process

STDERR_TAIL = 4096


async def check_agent(
    argv: Sequence[str],
    requirements: Iterable[Requirement],
    *,
    patience: float = 10.0,
    cwd: str | None = None,
    tell: Callable[[Finding], None] = lambda finding: None,
) -> list[Finding]:
    """Hold an agent to requirements; ``tell`` is given each finding as it is made.

    ``patience`` is the seconds that any one step may take. Raises ``OSError`` if the agent cannot be started.
    """
    runs: dict[str, Transcript] = {}
    findings = []
    for requirement in requirements:
        play = requirement.play
        if play.name not in runs:
            runs[play.name] = await play_host(argv, play, patience=patience, cwd=cwd)
        findings.append(judge(requirement, runs[play.name]))
        tell(findings[-1])
    return findings


async def play_host(argv: Sequence[str], play: Play, *, patience: float, cwd: str | None = None) -> Transcript:
    """Start an agent, be its host for one play, and end it."""
    process = await start_process(argv, cwd=cwd)
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise RuntimeError("the process was started without its pipes")
    watchdog.guard(process.pid)
    tail: deque[bytes] = deque(maxlen=16)
    errors = process.stderr

    async def drain() -> None:
        while chunk := await errors.receive_some(STDERR_TAIL):
            tail.append(bytes(chunk))

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            actor = Actor("host", play, process.stdin, process.stdout, process.wait, patience)
            transcript = await actor.run()
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await _end(process)
    transcript.stderr = b"".join(tail)[-STDERR_TAIL:].decode(errors="replace")
    return transcript


async def _end(process: trio.Process) -> None:
    """The play is over: nothing of the agent stays, nor what it started."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            await stream.aclose()
    with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of the dead
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    watchdog.release(process.pid)
