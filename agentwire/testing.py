"""Recordings in tests: a pytest plugin that makes a peer of one.

The plugin is there as soon as agentwire is installed. Two fixtures come with it::

    async def test_my_host(recorded_agent):
        agent = recorded_agent("talk.jsonl")        # of any wire; a log of an agent's output will do
        async with agent.connect() as peer:         # or start ``agent.argv`` yourself: it is a live agent
            assert await peer.ask("What is 6 x 7?") == "42."


    def test_my_agent(recorded_host):
        host = recorded_host("talk.jsonl")
        turns = host.run(["my-agent", "--stdio"])   # says what the recorded host said, answers as it answered
        assert turns[0].outcome == "completed"
        assert turns[0].text == host.recorded[0].text
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agentwire.events import AnyEvent, ApprovalRequested
    from agentwire.host.connect import Peer
    from agentwire.host.conversation import OnApproval

__all__ = ["RecordedAgent", "RecordedHost", "Turn", "recorded_agent", "recorded_host"]


class RecordedAgent:
    """An agent that does what was recorded."""

    def __init__(self, path: str | os.PathLike[str], codec: str = "", *, lenient: bool = False) -> None:
        """``codec`` is the wire to speak; empty: that of the recording.

        ``lenient``: the host may say other things than recorded, if they are of the same kind. Raises
        :class:`agentwire.recording.RecordingError` and :class:`agentwire.transcode.Unrecognised`.
        """
        from agentwire.recording import open_recording
        from agentwire.transcode import wire_of

        self.path = Path(path).resolve()
        recorded = wire_of(open_recording(self.path))
        self.codec = codec or recorded
        """The wire that it speaks."""
        more = [*(["--codec", codec] if codec else []), *(["--lenient"] if lenient else [])]
        self.argv = [sys.executable, "-m", "agentwire", "replay", "--serve", "--instant", *more, str(self.path)]
        """The command that starts it; it ends with status 1 if its host does not do what was recorded."""

    @asynccontextmanager
    async def connect(self, *, on_approval: OnApproval | None = None, **options: Any) -> AsyncIterator[Peer]:
        """Start it and be its host; see :func:`agentwire.connect`."""
        from agentwire.host.connect import connect

        async with connect(self.argv, codec=self.codec, on_approval=on_approval, **options) as peer:
            yield peer


class Turn:
    """A turn as a host saw it."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self.events = list(events)

    @property
    def outcome(self) -> str:
        """How it ended; empty: it did not."""
        return str(getattr(self.events[-1], "outcome", "")) if self.events else ""

    @property
    def text(self) -> str:
        """The last answer."""
        return str(getattr(self.events[-1], "text", "")) if self.events else ""

    @property
    def calls(self) -> list[str]:
        """The names of the tools that were called, in order."""
        return [event.name for event in self.events if type(event).__name__ == "CallReady"]  # type: ignore[union-attr]


class RecordedHost:
    """A host that says what was recorded: its prompts in order, and its answers to questions."""

    def __init__(self, path: str | os.PathLike[str], codec: str = "") -> None:
        """``codec`` is the wire of the agents it drives; empty: that of the recording.

        Raises :class:`agentwire.recording.RecordingError` and :class:`agentwire.transcode.Unrecognised`.
        """
        from agentwire import commands, events, registry
        from agentwire.recording import open_recording
        from agentwire.transcode import Asked, Logged, read_all, wire_of

        recording = open_recording(path)
        wire = wire_of(recording)
        self.codec = codec or wire
        self.prompts: list[commands.Prompt] = []
        self.recorded: list[Turn] = []
        """The turns of the recording."""
        self._answers: list[commands.Approve | commands.Deny] = []
        told: list[commands.Prompt] = []
        for item in read_all(recording, registry.load_codec(wire), started=recording.header.started):
            if isinstance(item, Asked) and isinstance(item.command, commands.Prompt):
                self.prompts.append(item.command)
            elif isinstance(item, Asked) and isinstance(item.command, commands.Approve | commands.Deny):
                self._answers.append(item.command)
            elif isinstance(item, Logged) and item.record.turn:
                event = item.record.event
                if isinstance(event, events.TurnStarted):
                    self.recorded.append(Turn([]))
                    told.append(commands.Prompt(parts=event.input))
                self.recorded[-1].events.append(event)
        self.prompts = self.prompts or told  # a log of the agent's lines: what it repeats of them

    async def drive(
        self, argv: Sequence[str], *, cwd: str | Path | None = None, env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> list[Turn]:  # fmt: skip
        """Start an agent and have the recorded conversation with it; its turns.

        A question that the recorded host was not asked is answered with no. ``timeout`` is for each turn, in seconds.
        Raises what :func:`agentwire.connect` and :meth:`agentwire.host.connect.Peer.prompt` do.
        """
        from contextlib import aclosing

        from agentwire.commands import Approve, Deny
        from agentwire.events import ApprovalRequested
        from agentwire.host.connect import connect

        answers, turns = iter(self._answers), []

        async def answer(peer: Peer, question: ApprovalRequested) -> None:
            given = next(answers, Deny(reason="Not in the recording"))
            if isinstance(given, Approve):
                await peer.approve(question.call_id, "always" if given.scope == "always" else "once")
            else:
                await peer.deny(question.call_id, given.reason)

        async with connect(argv, codec=self.codec, cwd=cwd, env=env) as peer:
            for prompt in self.prompts:
                turns.append(Turn([]))
                said = peer.prompt(prompt.text, files=prompt.files, parts=prompt.parts, timeout=timeout)
                async with aclosing(said) as heard:
                    async for event in heard:
                        turns[-1].events.append(event)
                        if isinstance(event, ApprovalRequested):
                            await answer(peer, event)
        return turns

    def run(self, argv: Sequence[str], **options: Any) -> list[Turn]:
        """:meth:`drive`, from a test that is no async function."""
        import trio

        return trio.run(lambda: self.drive(argv, **options))


@pytest.fixture
def recorded_agent() -> Callable[..., RecordedAgent]:
    """Make an agent of a recording: ``recorded_agent(path, codec="", lenient=False)``."""
    return RecordedAgent


@pytest.fixture
def recorded_host() -> Callable[..., RecordedHost]:
    """Make a host of a recording: ``recorded_host(path, codec="")``."""
    return RecordedHost
