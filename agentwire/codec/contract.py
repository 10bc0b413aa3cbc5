"""The codec contract: one wire protocol, sans-IO, both sides.

A codec does no I/O, starts no task and reads no clock. It is two small state machines over bytes: the
:class:`AgentSide` (we are the agent) and the :class:`HostSide` (we drive one). It holds no truth: everything it
remembers can be fed to it again from the log. Lines reach it from :mod:`agentwire.codec.framing`, without their
line feed and valid UTF-8; what it writes ends with a line feed.

A third party registers a :class:`Codec` under the entry point group ``agentwire.codecs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from agentwire.codec.framing import LineFault
from agentwire.codec.heard import Answered as Answered
from agentwire.codec.heard import Heard as Heard
from agentwire.commands import Command, Outcome, Refusal
from agentwire.log.record import Record
from agentwire.policy import Policy

if TYPE_CHECKING:
    from agentwire.codec.checking import Checker
    from agentwire.codec.fidelity import Fidelity
    from agentwire.codec.kit import Kit


class View(Protocol):
    """What an agent side may look at, read-only, for checks that its wire orders before others."""

    def has_session(self, session: str) -> bool:
        """Whether this process has that session open."""
        ...

    def turn_active(self, session: str = "") -> bool:
        """Whether a turn runs in that session, or (empty) in any."""
        ...

    def pending(self, request: str, session: str = "") -> bool:
        """Whether an approval or host tool request with that id waits for an answer."""
        ...

    def active_session(self) -> str:
        """The session whose turn runs, or ``""``; if several do, any of them."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether the path is an existing directory."""
        ...


class Request(Struct, gc=False):
    """A line that the agent side read: a command to carry out, or what is wrong with the line.

    ``token`` is the codec's own (an id to echo); the connection gives the request back with the outcome.
    """

    command: Command | None
    refusal: Refusal | None = None
    token: Any = None
    session: str = ""


class Directive(Struct):
    """What rendering asks of the connection beside writing: ``consumed`` records of the batch are rendered.

    ``hold_ms``: write nothing more of this session until that long after the last outcome was written, then go on
    with the rest. ``exit_status``: write what there is, then end the process with it.
    """

    consumed: int
    hold_ms: int | None = None
    exit_status: int | None = None


class AgentSide(Protocol):
    """We are the agent: lines in become requests, outcomes and records become lines out. One per connection."""

    def receive(self, line: bytes | LineFault, view: View) -> Request | None:
        """Read one line. None: the wire says to ignore it."""
        ...

    def outcome(self, request: Request, outcome: Outcome, out: bytearray) -> Directive | None:
        """Append the answer to ``request``, if the wire has one. Called exactly once per request."""
        ...

    def render(self, session: str, records: Sequence[Record], out: bytearray) -> Directive | None:
        """Append the lines for ``records`` of one session. None: all were rendered."""
        ...

    def feed(self, session: str, records: Sequence[Record]) -> None:
        """Learn from ``records`` what is needed to render later ones, without writing."""
        ...

    def fatal(self, refusal: Refusal, out: bytearray) -> None:
        """Append what the wire says when the process cannot start (code ``config`` mostly); may append nothing."""
        ...


class HostSide(Protocol):
    """We drive an agent: commands become lines, lines become events. It tolerates all that a real peer may send."""

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        """Append the line for ``command``. Gives its number, or says why this wire cannot carry it."""
        ...

    def receive(self, line: bytes | LineFault) -> list[Heard | Answered]:
        """Read one line of the agent. What the bus has no word for becomes :class:`agentwire.events.Unknown`."""
        ...

    def close(self) -> list[Heard | Answered]:
        """The agent's output ended: what follows from that (a turn without end is failed)."""
        ...


class Driver(HostSide, Protocol):
    """A host side for a live agent: it knows what the original of a wire wants of its host beyond the wire's words.

    It may hold a command back until the agent can take it, say something by itself, and have the agent started
    again. Recordings are read with a plain host side: what was not held back then must not be now.
    """

    def begin(self, argv: Sequence[str]) -> list[str]:
        """The agent is about to be started, for the first time or again. The command to run, given the one that a
        person asked for."""
        ...

    def ready(self) -> bool | Refusal:
        """Whether commands may be sent; False: the agent has not said yet. A refusal: it cannot be driven."""
        ...

    def due(self, out: bytearray) -> list[Heard | Answered]:
        """Append the lines that must be written now, before any command. What is known without hearing it."""
        ...

    def resumable(self) -> bool:
        """Whether the end of the process is no more than the end of the turn that was stopped: asked before the end,
        whether it may be brought about; after it, whether the agent may be started again."""
        ...


class Codec(Struct, frozen=True):
    """One wire. What an entry point in the group ``agentwire.codecs`` names."""

    name: str
    summary: str
    agent: Callable[..., AgentSide]
    """Makes the agent side of one connection; keywords are the codec's own options."""
    host: Callable[[], HostSide]
    policy: Policy
    fidelity: Callable[[], Fidelity]
    """What the wire does to every event and field; a factory, for serving needs no table."""
    greets: bool = True
    """An agent of this wire says that it is ready; else a host may speak at once."""
    sessions: Literal["one", "many"] = "one"
    """``one``: a connection has one session, open before the first line. ``many``: sessions open by command, and
    connection follows those that it opened; a set-up that is not in order is the answer to that command."""
    begin: Callable[[Any], Sequence[Request]] | None = None
    """Given the agent side: what a connection asks for by itself before it reads anything (such as the one session of
    a wire that names none). A session that is opened so is the connection's own: commands without one mean it."""
    end: Callable[[Any], Sequence[Request]] | None = None
    """Given the agent side when the host has ended its input: what the connection asks for by itself then."""
    outlives_output: str = ""
    """Tag of the one log line that says that nobody reads our output any more; commands are still carried out after
    it. Empty: the process leaves."""
    feeds: Literal["turn", "session"] = "turn"
    """What an agent side that comes late is fed: the running turn's records, or all of the session's."""
    max_line: int = 8 * 1024 * 1024
    """Longest line the agent side reads, in bytes without its line feed; a host reads up to 64 MiB."""
    schemas: Callable[[], dict[str, Any]] | None = None
    """JSON Schemas of the wire, both directions: file name to schema, for ``agentwire schema``."""
    recognises: Callable[[dict[str, Any]], bool] | None = None
    """Whether a decoded line of an agent may be one of this wire: a cheap look at its keys. It is how a log that does
    not say its wire is told; where a line fits several, more lines decide."""
    checker: Callable[[], Checker] | None = None
    """Makes what checks the wire's rules, shape and order, line by line."""
    requirements: Callable[[], Kit] | None = None
    """What the wire asks of agents and hosts, with plays that prove it, for ``agentwire check``."""
    driver: Callable[[], Driver] | None = None
    """Makes the host side of a live agent. None: a plain one will do."""
    ready_within: float = 60.0
    """Seconds that a starting agent may take until it is ready, where its host does not say otherwise."""
    environment: Mapping[str, str | None] = MappingProxyType({})
    """Environment variables that a host sees to when it starts an agent: one with a value is set if it is not; one
    with None is not handed down from the host's own environment, for the agent would take it for a choice."""
    resuming: Callable[[Sequence[str], str], list[str]] | None = None
    """Where one process is one session and the wire has no word for taking up a stored one: the command line that has
    the agent do it, given the one for a new session and the stored one's id."""
    fences: bool = False
    """Commands may stay without an answer on this wire; a ping after one tells that it was read."""
