"""Checking a host: it is started for every play, and the agent that it starts is our stand-in."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import trio

from agentwire.check.acting import wrong_end
from agentwire.check.findings import Finding, Rules, judge, unplayed
from agentwire.check.stand_in import BEGUN, lives, read_transcript
from agentwire.children import watchdog
from agentwire.codec.kit import AwaitEnd, Play, Requirement, Transcript

PLACE = "{agent}"
"""In the words of a host's command: where its agent's command goes."""

PROGRAM = "AGENTWIRE_CHECK_AGENT"
"""Environment variable that holds the path of a program that is the stand-in, for hosts that take no command."""

TICK = 0.05


async def check_host(
    argv: Sequence[str],
    codec: str,
    requirements: Iterable[Requirement],
    *,
    patience: float = 10.0,
    stays: bool = False,
    alias: str = "",
    rules: Rules | None = None,
    tell: Callable[[Finding], None] = lambda finding: None,
) -> list[Finding]:
    """Hold a host to requirements. In ``argv``, :data:`PLACE` stands for the command of its agent.

    ``patience`` is the seconds that any one step may take; ``stays``: the host is not expected to end by itself;
    ``alias`` is the name of a program that the host looks for on its path, which the stand-in then is found under.
    ``rules`` finds what breaks a rule of the whole wire in a run that came off otherwise.
    Raises ``OSError`` if the host cannot be started.
    """
    runs: dict[str, Transcript] = {}
    findings = []
    for requirement in requirements:
        play = requirement.play
        if (idle := unplayed(play)) is not None:
            runs[play.name] = idle
        elif play.name not in runs:
            with tempfile.TemporaryDirectory(prefix="agentwire-check-") as directory:
                run = _Run(argv, codec, play, Path(directory), patience, stays, alias)
                runs[play.name] = await run.run()
        findings.append(judge(requirement, runs[play.name], rules))
        tell(findings[-1])
    return findings


class _Run:
    """One start of the host."""

    def __init__(
        self, argv: Sequence[str], codec: str, play: Play, directory: Path, patience: float, stays: bool, alias: str
    ) -> None:
        self._argv, self._play, self._patience, self._stays = argv, play, patience, stays
        self._directory = directory
        self._result = directory / "result.json"
        self._agent = [
            sys.executable, "-m", "agentwire", "check", "stand-in", "--codec", codec, "--play", play.name,
            "--timeout", str(patience), *(["--stays"] if stays else []), "--", str(self._result),
        ]  # fmt: skip
        self._alias = alias or "agent"

    async def run(self) -> Transcript:
        program = self._program()
        path = f"{program.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        errors = self._directory / "stderr"
        with errors.open("wb") as log:
            process = await trio.lowlevel.open_process(
                with_agent(self._argv, self._agent),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, PROGRAM: str(program), "PATH": path},
                start_new_session=True,
            )
        watchdog.guard(process.pid)
        try:
            transcript = await self._outcome(process)
        finally:
            with trio.CancelScope(shield=True):
                with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of the dead
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
                watchdog.release(process.pid)
        transcript.stderr = errors.read_bytes()[-4096:].decode(errors="replace")
        return transcript

    def _program(self) -> Path:
        """A program that is the stand-in."""
        directory = self._directory / "bin"
        directory.mkdir()
        program = directory / self._alias
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self._agent)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        return program

    async def _outcome(self, process: trio.Process) -> Transcript:
        begun = self._result.with_name(self._result.name + BEGUN)
        if not await self._until(begun.exists, process):
            return Transcript(self._play.name, broken="the host did not start its agent")
        # The stand-in ends in time by itself, if it is not killed.
        await self._until(lambda: self._result.exists() or not lives(self._result), process, float("inf"))
        if not await self._until(self._result.exists):
            return Transcript(self._play.name, broken="the host killed its agent without closing its input")
        transcript = read_transcript(self._result)
        transcript.stays = self._stays
        if not self._stays and not transcript.broken:
            with trio.move_on_after(self._patience):
                await process.wait()
        settle(transcript, self._play, process.returncode)
        return transcript

    async def _until(
        self, true: Callable[[], bool], process: trio.Process | None = None, patience: float | None = None
    ) -> bool:
        """Wait for something in the file system, or for the end of ``process``."""
        with trio.move_on_after(self._patience if patience is None else patience):
            while not true() and (process is None or process.returncode is None):  # noqa: ASYNC110  # files have no event
                await trio.sleep(TICK)
        return true()


def settle(transcript: Transcript, play: Play, status: int | None) -> None:
    """Add what a stand-in cannot see: how the host ended. None: it did not."""
    transcript.status = status
    last = play.steps[-1]
    if not isinstance(last, AwaitEnd) or transcript.stays or transcript.broken:
        return
    if status is None and (last.fails or last.status is not None):
        transcript.broken = "it did not end"
    else:
        transcript.broken = wrong_end(last, status)


def with_agent(argv: Sequence[str], agent: Sequence[str]) -> list[str]:
    """A host's command with its agent's in the place of :data:`PLACE`: a word of its own becomes several words,
    inside of a word it becomes quoted text."""
    words: list[str] = []
    for word in argv:
        words += agent if word == PLACE else [word.replace(PLACE, shlex.join(agent))]
    return words
