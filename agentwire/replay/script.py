"""A recording as the script of its agent: what it waits for, and what it says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agentwire import events as bus
from agentwire.codec.contract import Codec
from agentwire.commands import Approve, Command, Deny, Prompt, Refusal
from agentwire.recording import Recording
from agentwire.replay.places import one_sided, placed
from agentwire.transcode import Asked, Logged, LogReader, Read


class Wait(Struct):
    """The host has to say something before the script goes on."""

    at: int
    line: int
    """Of the recording's file."""
    command: Command | None
    refusal: Refusal | None = None
    said: bytes = b""
    """The line as it was recorded."""
    guessed: bool = False
    """No such line was recorded: it follows from what the agent said. The host may use any words."""


class Say(Struct):
    """The agent says something."""

    at: int
    line: int
    data: bytes


def script(recording: Recording, codec: Codec) -> Iterator[Wait | Say]:
    """Give what happened on the wire, in order. Raises :class:`agentwire.recording.RecordingError`.

    In a log of the agent's lines alone the host's are guessed: a turn answers a prompt, and a call that was asked about
    goes on after the host's answer.
    """
    reader = LogReader(codec, started=recording.header.started)
    guess = one_sided(recording)
    at = line = 0
    for place in placed(recording):
        entry, at, line = place.entry, place.entry.at, place.line
        read = reader.feed(entry)
        if entry.who == "host":
            yield from _waits(read, at, line, entry.data)
        elif entry.who == "agent":
            if guess:
                yield from _guessed(read, at, line, codec)
            yield Say(at, line, entry.data)
    yield from _waits(reader.close(), at, line, b"")


def _waits(read: Sequence[Read], at: int, line: int, said: bytes) -> Iterator[Wait]:
    for item in read:
        if isinstance(item, Asked):
            yield Wait(at, line, item.command, item.refusal, said.strip())


def _guessed(read: Sequence[Read], at: int, line: int, codec: Codec) -> Iterator[Wait]:
    for item in read:
        if not isinstance(item, Logged):
            continue
        event = item.record.event
        if isinstance(event, bus.TurnStarted) and not item.record.origin and codec.begin is None:
            yield Wait(at, line, Prompt(ref=event.ref), guessed=True)
        elif isinstance(event, bus.ApprovalResolved) and event.decision != "cancelled" and event.by != "policy":
            answer = Approve if event.decision == "allowed" else Deny
            yield Wait(at, line, answer(event.call_id, event.approval_id), guessed=True)
