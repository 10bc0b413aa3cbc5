"""The host's half of a recording: what it asked, so that what the agent said can be understood.

Agents do not repeat what their host knows: the text of a prompt, who was answered, which request an answer is for. So
the host's lines are read by an agent side, as an agent would, and the commands are given to the host side, as if it
had sent them. Its ids are not those that the recorded host chose; on wires that have any they stand at a line's top
level as ``id``, and answers are told under the id that our side waits for.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentwire import events as bus
from agentwire.codec.contract import AgentSide, Codec, HostSide, Request
from agentwire.codec.framing import LineFault
from agentwire.codec.heard import Answered
from agentwire.codec.jsontext import BadJson, parse
from agentwire.commands import Done, ForkSession, OpenSession, Outcome, Prompt, Refusal
from agentwire.transcode.logbook import Logbooks, Logged

_encode: Final = msgspec.json.Encoder().encode

_BORDERS: Final = (bus.SessionOpened, bus.TurnStarted, bus.TurnFinished)
"""Records that tell an agent side which sessions and turns there are; it writes nothing, so it needs no more."""


class Overheard(Struct):
    """A line of the host: what it asks for, or what an agent would have found wrong with it."""

    request: Request
    number: int = 0
    """What an :class:`~agentwire.codec.Answered` will name; 0: the host side knows no such command."""
    refusal: Refusal | None = None
    """Why it is not followed."""


class Overhearing:
    """Follows the lines of a host whose agent's lines ``host`` reads."""

    def __init__(self, codec: Codec, host: HostSide, books: Logbooks) -> None:
        self._host = host
        self._side: AgentSide = codec.agent()
        self._view = _View(books)
        self._asked: dict[int, Request] = {}
        self._ids: dict[bytes, Any] = {}
        """The id that our host side waits for, by the one that the recorded host chose, where they differ."""
        self._ours: set[bytes] = set()

    def host(self, line: bytes | LineFault) -> Overheard | None:
        """Read a line of the host. None for one that its wire ignores."""
        request = self._side.receive(line, self._view)
        if request is None:
            return None
        if request.command is None:
            return Overheard(request, refusal=request.refusal)
        out = bytearray()
        sent = self._host.send(request.command, out)
        if isinstance(sent, Refusal) and isinstance(request.command, OpenSession | ForkSession):
            # Where the agent names a new session its side has done so already; what it was called, the answer tells.
            sent = self._host.send(replace(request.command, id=""), out)
        if isinstance(sent, Refusal):
            return Overheard(request, refusal=sent)
        self._asked[sent] = request
        if not isinstance(line, LineFault):
            self._match(line, bytes(out))
        return Overheard(request, sent)

    def _match(self, theirs: bytes, ours: bytes) -> None:
        """Remember which id of ours stands for one of theirs; the command's line is the last that was written."""
        if b'"id"' not in ours:
            return
        asked, sent = _object(theirs), _object(ours.rstrip(b"\n").rpartition(b"\n")[2])
        if "id" not in asked or "id" not in sent:
            return
        key = _encode(asked["id"])
        if key == _encode(sent["id"]):
            self._ids.pop(key, None)
            self._ours.discard(key)  # it is theirs now
        else:
            self._ids[key] = sent["id"]
            self._ours.add(_encode(sent["id"]))

    def agent(self, line: bytes) -> bytes | None:
        """A line of the agent under the id that our host side waits for. None for an answer to somebody else."""
        if not self._ours or b'"id"' not in line:
            return line
        value = _object(line)
        if "id" not in value:
            return line
        key = _encode(value["id"])
        if key in self._ids:
            return _encode({**value, "id": self._ids[key]})
        return None if key in self._ours else line

    def answered(self, answer: Answered) -> Request | None:
        """The request that has its outcome now."""
        request = self._asked.pop(answer.command, None)
        if request is not None:
            result = answer.result
            if isinstance(request.command, Prompt) and isinstance(result, Done) and result.value is None:
                result = Done("")  # a turn began whose id the wire does not tell; None would say that none did
            self._side.outcome(request, Outcome(result), bytearray())
        return request

    def learn(self, logged: list[Logged]) -> None:
        """Tell the agent side which turns there are."""
        for item in logged:
            if isinstance(item.record.event, _BORDERS):
                self._side.feed(item.session, [item.record])


class _View:
    """What the agent side may look at. The agent that was recorded has judged: here everything is there."""

    def __init__(self, books: Logbooks) -> None:
        self._books = books

    def has_session(self, session: str) -> bool:
        return True

    def turn_active(self, session: str = "") -> bool:
        return any(book.open for book in self._books.of(session))

    def pending(self, request: str, session: str = "") -> bool:
        return True

    def active_session(self) -> str:
        return next((book.id for book in self._books.of("") if book.open), "")

    def is_directory(self, path: str) -> bool:
        return True


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = parse(line)
    except BadJson:
        return {}
    return value if isinstance(value, dict) else {}
