"""The agent that a host under test starts: plays one play on standard input and output and files what happened."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec
import trio

from agentwire.check.acting import Actor, Pipes
from agentwire.codec.kit import Play, Transcript
from agentwire.log.filelock import try_lock

BEGUN = ".begun"
"""Added to the name of the result file: says that the host has started its agent, which locks it while it lives."""


TASK = "task"
"""Under this name plays find the last word that a host added to the command, if it added any."""


async def stand_in(play: Play, result: Path, patience: float, arguments: Sequence[str] = ()) -> None:
    """Be the agent for one play. ``result`` is written at the end, whole or not at all.

    ``arguments`` are the words that the host added to the command.
    """
    begun = _locked(result.with_name(result.name + BEGUN))
    ended = trio.Event()
    incoming = _Incoming(os.dup(0), ended)
    outgoing = trio.lowlevel.FdStream(os.dup(1))
    for descriptor in (0, 1):
        os.close(descriptor)  # a hang-up must close the last of them

    async def gone() -> None:
        await ended.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_heed_signals, ended)
        given = {TASK: arguments[-1]} if arguments else {}
        transcript = await Actor("agent", play, Pipes(outgoing, incoming, gone), patience, given).run()
        nursery.cancel_scope.cancel()
    transcript.arguments = list(arguments)
    if not result.exists():  # a host may start its agent anew; the first one counts
        file_transcript(transcript, result)
    os.close(begun)


def lives(result: Path) -> bool:
    """Whether the stand-in that has begun is still there."""
    with result.with_name(result.name + BEGUN).open("rb") as file:
        return not try_lock(file.fileno())


def _locked(path: Path) -> int:
    """A new file, locked from the moment it has its name."""
    unready = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(unready, os.O_RDWR | os.O_CREAT, 0o600)
    try_lock(descriptor)
    unready.replace(path)
    return descriptor


def file_transcript(transcript: Transcript, path: Path) -> None:
    """Write a transcript, whole or not at all."""
    unready = path.with_name(f"{path.name}.{os.getpid()}")
    unready.write_bytes(msgspec.json.encode(transcript))
    unready.replace(path)


def read_transcript(path: Path) -> Transcript:
    """What :func:`file_transcript` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Transcript)


async def _heed_signals(ended: trio.Event) -> None:
    """A host may end its agent so, instead of closing its input."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            ended.set()


class _Incoming(trio.abc.ReceiveStream):
    """Standard input; ``ended`` is set when the host has closed it."""

    def __init__(self, descriptor: int, ended: trio.Event) -> None:
        self._stream = trio.lowlevel.FdStream(descriptor)
        self._ended = ended

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        chunk = await self._stream.receive_some(max_bytes)
        if not chunk:
            self._ended.set()
        return chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
