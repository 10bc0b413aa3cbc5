"""Recordings into logs: what was said on any wire, as the records that an engine would have kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal

from msgspec import Struct

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.contract import Codec, Heard
from agentwire.codec.framing import HOST_LIMIT, Framer, LineFault
from agentwire.codec.heard import Answered
from agentwire.commands import Command, Done, Refusal
from agentwire.recording.entries import Entry
from agentwire.transcode.logbook import Logbooks, Logged
from agentwire.transcode.overhearing import Overheard, Overhearing
from agentwire.transcode.steps import At


class Asked(Struct):
    """A command that the host gave; ``refusal`` if its line is none, or our host side does not know it."""

    command: Command | None
    source: int
    number: int = 0
    """What its outcome will name; 0: none will be seen."""
    refusal: Refusal | None = None


class Settled(Struct):
    """The outcome of a command."""

    command: Command
    number: int
    result: Done | Refusal
    source: int


Read = Logged | Asked | Settled
"""What a recording tells."""


class LogReader:
    """Reads a recording entry by entry. It holds what is open, never what is over.

    ``started``: milliseconds since the epoch when the recording began, for entries that do not say their own time;
    0: not known, and such records have the time since then.

    The logs obey the laws of :mod:`agentwire.transcode.laws` whatever the agent did: a turn without an end has failed.
    """

    def __init__(self, codec: Codec, *, started: int = 0) -> None:
        self._host = codec.host()
        self._books = Logbooks()
        self._overhearing = Overhearing(codec, self._host, self._books)
        self._covers: Any = codec.policy.always_covers
        self._started = started
        self._time = started
        self._source = -1
        self._framers: dict[Literal["host", "agent"], Framer] = {
            "host": Framer(codec.max_line),
            "agent": Framer(HOST_LIMIT),
        }

    def feed(self, entry: Entry) -> list[Read]:
        """Take the next entry. What is neither the host's nor the agent's is counted and passed over.

        Raises :class:`agentwire.recording.RecordingError` for a damaged entry.
        """
        self._source += 1
        who = entry.who
        if who != "host" and who != "agent":
            return []
        self._time = entry.wall or self._started + entry.at // 1000
        return self._lines(who, self._framers[who].feed(entry.data), self._source)

    def close(self) -> list[Read]:
        """The recording ended: lines without an end count, turns without an end have failed."""
        read: list[Read] = []
        for who, framer in self._framers.items():
            read += self._lines(who, framer.finish(), self._source)
        read += self._said(self._host.close(), -1)
        return [*read, *self._logged(self._books.close(At(self._time, -1)))]

    def _lines(self, who: Literal["host", "agent"], lines: list[bytes | LineFault], source: int) -> list[Read]:
        take = self._from_host if who == "host" else self._from_agent
        read: list[Read] = []
        for line in lines:
            read += take(line, source)
        return read

    def _from_agent(self, line: bytes | LineFault, source: int) -> list[Read]:
        if isinstance(line, LineFault):
            return self._said(self._host.receive(line), source)
        ours = self._overhearing.agent(line)
        return [] if ours is None else self._said(self._host.receive(ours), source)

    def _from_host(self, line: bytes | LineFault, source: int) -> list[Read]:
        overheard = self._overhearing.host(line)
        if overheard is None:
            return []
        asked: Read = Asked(overheard.request.command, source, overheard.number, overheard.refusal)
        return [asked, *self._decided(overheard, source)]

    def _decided(self, overheard: Overheard, source: int) -> list[Read]:
        """A question that the host answers is settled by that."""
        command = overheard.request.command
        if overheard.refusal is not None or not isinstance(command, commands.Approve | commands.Deny):
            return []
        allowed = isinstance(command, commands.Approve)
        scope: Any = self._scope(command.scope) if isinstance(command, commands.Approve) else ""
        reason = command.reason if isinstance(command, commands.Deny) else ""
        for book in self._books.of(command.session):
            logged = book.settle(
                command.approval_id,
                command.call_id,
                "allowed" if allowed else "denied",
                scope,
                reason,
                At(self._time, source),
            )
            if logged:
                return [*self._logged(logged)]
        return []

    def _scope(self, scope: str) -> Any:
        """What an approval covers, in the words of its record."""
        covered = self._covers if scope == "always" else scope
        return covered if covered in ("tool", "category") else "call"

    def _said(self, said: list[Heard | Answered], source: int) -> list[Read]:
        read: list[Read] = []
        for item in said:
            if isinstance(item, Heard):
                read += self._logged(self._books.hear(item, At(self._time, source)))
            else:
                read += self._answered(item, source)
        return read

    def _answered(self, answer: Answered, source: int) -> list[Read]:
        request = self._overhearing.answered(answer)
        if request is None or request.command is None:
            return []
        command = request.command
        read: list[Read] = [Settled(command, answer.command, answer.result, source)]
        make = _CARRIED_OUT.get(type(command))
        if make is None or not isinstance(answer.result, Done):
            return read
        for book in self._books.of(getattr(command, "session", ""))[:1]:
            steer = isinstance(command, commands.Steer)
            read += self._logged(book.write(make(command), At(self._time, source), in_turn=steer))
        return read

    def _logged(self, logged: list[Logged]) -> list[Logged]:
        self._overhearing.learn(logged)
        return logged


_CARRIED_OUT: Final[dict[type[Command], Callable[[Any], bus.Event]]] = {
    commands.Steer: lambda command: bus.UserJoined(command.text, parts=command.parts),
    commands.InitHistory: lambda command: bus.ContextAdded(command.text),
    commands.SetHostTools: lambda command: bus.HostToolsChanged(command.tools),
}
"""Facts that no agent repeats: what a command that was carried out adds to the log."""


def read_log(entries: Iterable[Entry], codec: Codec, *, started: int = 0) -> Iterator[Logged]:
    """Give the records of a recording as they come; see :class:`LogReader`.

    Raises :class:`agentwire.recording.RecordingError` for what cannot be read.
    """
    return (item for item in read_all(entries, codec, started=started) if isinstance(item, Logged))


def read_all(entries: Iterable[Entry], codec: Codec, *, started: int = 0) -> Iterator[Read]:
    """The same, with the host's commands and their outcomes in their places."""
    reader = LogReader(codec, started=started)
    for entry in entries:
        yield from reader.feed(entry)
    yield from reader.close()
