"""Checking an agent: it is started for every play, and we are its host."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trio
from msgspec.structs import replace

from agentwire.check.acting import Actor, Pipes
from agentwire.check.findings import Finding, Rules, judge, unplayed
from agentwire.check.provided import provide, with_files
from agentwire.children import watchdog
from agentwire.codec.kit import (
    COUNT,
    Play,
    Requirement,
    Say,
    Transcript,
)
from agentwire.codec.patterns import filled
from agentwire.host.groups import one_error
from agentwire.host.process import start_process

STDERR_TAIL = 4096

TASK = "{task}"
"""In the words of an agent's command: where its user input goes, if it takes it there."""

Words = Callable[[list[str]], list[str]]
"""How a command takes words that a play adds."""

NO_FILES: Mapping[str, Any] = MappingProxyType({})


async def check_agent(
    argv: Sequence[str],
    requirements: Iterable[Requirement],
    *,
    patience: float = 10.0,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    directory: Path | None = None,
    files: Mapping[str, Any] = NO_FILES,
    said: Words = list,
    rules: Rules | None = None,
    tell: Callable[[Finding], None] = lambda finding: None,
) -> list[Finding]:
    """Hold an agent to requirements; ``tell`` is given each finding as it is made.

    ``patience`` is the seconds that any one step may take, ``env`` the agent's environment, ``directory`` where the
    files are that its model is asked to work with, ``files`` those that its command may name, by name. In ``argv``,
    :data:`TASK` stands for the user input of an agent that takes it on its command line, and ``said`` is how the
    command takes the words that plays add to it. ``rules`` finds what breaks a rule of the whole wire in a run that
    came off otherwise. Raises ``OSError`` if the agent cannot be started.
    """
    runs: dict[str, Transcript] = {}
    findings = []
    with ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentwire-check-")))
        argv = with_files(argv, files, directory)
        for requirement in requirements:
            play = requirement.play
            if (idle := unplayed(play)) is not None:
                runs[play.name] = idle
            elif play.name not in runs:
                given = provide(directory)
                runs[play.name] = await play_host(
                    argv, play, patience=patience, cwd=cwd, env=env, given=given, said=said
                )
            findings.append(judge(requirement, runs[play.name], rules))
            tell(findings[-1])
    return findings


async def play_host(
    argv: Sequence[str],
    play: Play,
    *,
    patience: float,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    given: Mapping[str, Any],
    said: Words = list,
) -> Transcript:
    """Start an agent, be its host for one play, and end it. ``given`` is what the play knows by name."""
    if any(TASK in word for word in argv):
        argv, play = with_task(argv, play)
    with one_error():
        async with trio.open_nursery() as nursery:
            agent = _Agent(nursery, cwd, env)
            try:
                added = said([str(filled(word, given)) for word in play.arguments])
                pipes = await agent.start([*argv, *added])
                actor = Actor("host", play, pipes, patience, given, lambda words: agent.start([*argv, *said(words)]))
                transcript = await actor.run()
            finally:
                with trio.CancelScope(shield=True):
                    await agent.end()
            nursery.cancel_scope.cancel()
    transcript.stderr = agent.errors
    return transcript


def with_task(argv: Sequence[str], play: Play) -> tuple[list[str], Play]:
    """An agent's command with its user input in it, and the play without; what says nothing says something long."""
    told = [step for step in play.steps if isinstance(step, Say) and step.task]
    text = told[0].task if told else COUNT
    steps = tuple(step for step in play.steps if step not in told)  # each of its processes is given the same input
    return [word.replace(TASK, text) for word in argv], replace(play, steps=steps)


class _Agent:
    """The program under check, in its process of the moment."""

    def __init__(self, nursery: trio.Nursery, cwd: str | None, env: Mapping[str, str] | None) -> None:
        self._nursery, self._cwd, self._env = nursery, cwd, env
        self._tail: deque[bytes] = deque(maxlen=16)
        self._process: trio.Process | None = None

    @property
    def errors(self) -> str:
        """The end of what it wrote to its standard error."""
        return b"".join(self._tail)[-STDERR_TAIL:].decode(errors="replace")

    async def start(self, argv: Sequence[str]) -> Pipes:
        """Start it, anew if it is there. Raises ``OSError``."""
        await self.end()
        process = self._process = await start_process(argv, cwd=self._cwd, env=self._env)
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("the process was started without its pipes")
        watchdog.guard(process.pid)
        self._nursery.start_soon(self._drain, process.stderr)
        return Pipes(process.stdin, process.stdout, process.wait, process.terminate)

    async def _drain(self, errors: trio.abc.ReceiveStream) -> None:
        with suppress(trio.ClosedResourceError):  # it was ended
            while chunk := await errors.receive_some(STDERR_TAIL):
                self._tail.append(bytes(chunk))

    async def end(self) -> None:
        """Nothing of it stays, nor what it started."""
        process, self._process = self._process, None
        if process is not None:
            await _end(process)


async def _end(process: trio.Process) -> None:
    """Kill a process with its group."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            await stream.aclose()
    with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of the dead
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    watchdog.release(process.pid)
