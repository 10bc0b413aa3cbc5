"""What a wire asks of the programs that speak it, as data: requirements, and the scripted plays that prove them.

A codec offers a :class:`Kit`, for both roles; ``agentwire check`` runs it. A play is a list of steps of one side, the
side that is scripted; the program under test is the other. Lines are JSON values; a :class:`Given` in them stands for
something that was heard before, and a pattern that is expected names with :class:`Bind` what is to be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from agentwire.codec.checking import Severity
from agentwire.codec.patterns import Given, Joined

Role = Literal["agent", "host"]
"""Which side is under test; the other one is scripted."""

Who = Literal["agent", "host"]


# --- what an agent is asked to do ---

HELLO: Final = "Say hello, and nothing else."
RUN: Final = "Run the command `echo agentwire-check` in your shell, once, then say done."
"""Makes a model call a tool that needs an approval."""
RUN_AGAIN: Final = "Run the command `echo agentwire-again` in your shell, once, then say done."
"""The like, in a later turn."""
RUN_LONG: Final = "Run the command `sleep 300` in your shell, once, then say done."
"""Makes a model call a tool that lasts."""
RUN_MUCH: Final = "Run the command `seq 1000` in your shell, once, then say done."
"""Makes a model call a tool with a long output."""
RUN_TWO: Final = (
    "Run the commands `echo agentwire-one` and `echo agentwire-two` in your shell, "
    "as two calls of one reply, then say done."
)
"""Makes a model call a tool twice in one step."""
USE: Final = "Call the tool {tool} once with the text agentwire, then say done."
"""Makes a model call a tool that the play brought along; to be formatted with its name."""
EDIT: Final = Joined((
    "Read the file ", Given("directory"), "/agentwire.txt, then replace the word one in it by two with your edit tool, "
    "then say done.",
))  # fmt: skip
"""Makes a model change a file that is there."""
STEER: Final = "Stop counting, say done."
"""Said to a turn that is under way."""
COUNT: Final = "Count from 1 to 2000 in words, one number a line, and say nothing else."
"""Makes a turn that lasts."""

# --- what the kit brings along: known in every play by these names ---

DIRECTORY: Final = Given("directory")
"""A directory of the run's own; ``agentwire.txt`` in it says "one"."""
TOOL_SERVER: Final = Given("tool_server")
"""Path of a program that is an MCP server over standard input and output, with the one tool :data:`TOOL`."""
PYTHON: Final = Given("python")
"""Path of the interpreter that runs it."""
TOOL: Final = "agentwire_probe"
UNIQUE: Final = Given("unique")
"""A text that is another one in every run."""

# --- steps ---

Delivery = Literal["whole", "bytes", "crlf", "torn", "open"]
"""How a line is written: at once; a byte at a time; with a carriage return; cut inside a character, with a pause;
without its line feed."""


class Say(Struct, frozen=True):
    """Write a line: a JSON value, or bytes as they are."""

    line: Any
    delivery: Delivery = "whole"
    pad: int = 0
    """Bytes of an unknown key that make the line long."""
    times: int = 1
    """That many of the same line, in one write."""
    task: str = ""
    """The user input that it is; not written where an agent was given that on its command line."""


class Await(Struct, frozen=True):
    """Wait until the other side has said a line that fits."""

    line: Any
    what: str
    """Names it for a person: "no WHAT came"."""
    never: tuple[Any, ...] = ()
    """Patterns of lines that must not come before it."""
    unless: Any = None
    """A line that ends the play instead: what is to be proved cannot be seen in this program."""
    absent: str = ""
    """Why it then cannot be seen; with it, waiting in vain means the same, while the other side lives."""
    times: int = 1
    spare: str = ""
    """Nothing has to come if something is remembered under this name."""


class EndInput(Struct, frozen=True):
    """Close what the other side reads; go on reading what it says."""


class HangUp(Struct, frozen=True):
    """Close both ways at once, as if killed."""


class StopReading(Struct, frozen=True):
    """Read nothing more, for now."""


class ReadOn(Struct, frozen=True):
    """Read again."""


class Let(Struct, frozen=True):
    """Remember a value, as if it had been heard."""

    name: str
    value: Any


class Rest(Struct, frozen=True):
    """Do nothing for that many seconds."""

    seconds: float


class Grumble(Struct, frozen=True):
    """Write that many bytes to standard error; only an agent does."""

    size: int


class AwaitEnd(Struct, frozen=True):
    """Wait until the other side is gone: a process has ended, a host has closed its agent's input."""

    status: int | None = None
    """The exit status that a process must have."""
    fails: bool = False
    """Any but 0."""


class Terminate(Struct, frozen=True):
    """Ask an agent's process to end, by a signal; its input stays open."""


class Again(Struct, frozen=True):
    """Have an agent end, then start its command anew with these words added."""

    arguments: tuple[str | Given | Joined, ...] = ()
    killed: bool = False
    """It is not asked to end: it is killed."""


class Unseen(Struct, frozen=True):
    """The play ends here: what it was to prove cannot be seen, and why."""

    why: str


Step = (
    Say
    | Await
    | EndInput
    | HangUp
    | StopReading
    | ReadOn
    | Let
    | Rest
    | Grumble
    | AwaitEnd
    | Terminate
    | Again
    | Unseen
)


class Reply(Struct, frozen=True):
    """What is said whenever the other side says a line that fits ``on``; bindings hold for this reply only."""

    on: Any
    say: tuple[Any, ...]
    ends: bool = False
    """The other side thereby takes its leave."""


class Play(Struct, frozen=True):
    """What the scripted side does, in order. Requirements with a play of one name share its run."""

    name: str
    steps: tuple[Step, ...]
    replies: tuple[Reply, ...] = ()
    orderly: bool = True
    """The scripted side keeps to the protocol, so that the other's lines can be held to all of its rules."""
    arguments: tuple[str | Given | Joined, ...] = ()
    """Words that are added to the command of an agent."""


# --- what happened ---


class Said(Struct, frozen=True):
    """One line, without its line feed. ``fault``: why it cannot be read."""

    who: Who
    line: bytes
    fault: str = ""
    value: Any = None
    """As JSON; None if it is not."""


class Transcript(Struct):
    """One run of a play."""

    play: str
    lines: list[Said] = []
    broken: str = ""
    """The step that did not come off, for a person."""
    unseen: str = ""
    """Why what was to be proved could not be seen."""
    status: int | None = None
    """Exit status of the program under test; None: it did not end by itself."""
    stays: bool = False
    """It is a host that is not expected to end by itself."""
    given: dict[str, Any] = {}
    arguments: list[str] = []
    """Words that a host added to the command of its agent."""
    carriage_returns: bool = False
    """The program under test ended lines with them."""
    unfinished: bool = False
    """Its last line had no line feed."""
    stderr: str = ""

    def of(self, who: Who) -> list[Any]:
        """The JSON values that one side said."""
        return [said.value for said in self.lines if said.who == who]


Check = Callable[[Transcript], str | Unseen]
"""Says what is wrong with a run that came off, or why it does not show; empty: nothing is wrong."""


class Requirement(Struct, frozen=True):
    """One thing that a program of a role must or should do."""

    id: str
    role: Role
    section: str
    """Of the wire's specification."""
    text: str
    play: Play
    check: Check | None = None
    """None: it is enough that the play comes off."""
    level: Severity = "must"


def requirement(
    role: Role,
    id: str,
    section: str,
    text: str,
    *steps: Step,
    greet: tuple[Step, ...] = (),
    replies: tuple[Reply, ...] = (),
    arguments: tuple[str | Given | Joined, ...] = (),
    orderly: bool = True,
    check: Check | None = None,
    level: Severity = "must",
) -> Requirement:
    """A requirement with a play of its own, which begins with ``greet``. Wires give the role and that beforehand."""
    play = Play(id, (*greet, *steps), replies, orderly, arguments)
    return Requirement(id, role, section, text, play, check, level)


Question = Callable[[str], tuple[Any, tuple[Any, ...]]]
"""Makes a line that holds a token, and the patterns of the lines, in order, that answer it and echo the token."""


class Line(Struct, frozen=True):
    """A line that is not as it should be, and what comes of it."""

    id: str
    text: str
    section: str
    line: Any
    answer: Any = None
    """Pattern of the answer; None: it is ignored without one."""
    level: Severity = "must"
    pad: int = 0
    """Bytes of an unknown key that make it long."""


class AgentBasics(Struct, frozen=True):
    """How a host of the wire converses: what every agent's fault matrix is made of."""

    greet: tuple[Step, ...]
    """Come to where questions can be asked."""
    question: Question
    prompt: Callable[[str], tuple[Step, ...]]
    """One user input, up to the end of what it starts."""
    bad: tuple[Line, ...]
    """Lines that an agent answers or ignores, and lives on."""
    framing: str
    """Section on lines and bytes."""
    ending: str
    """Section on the end of input."""
    flood: Question | None = None
    """A question that may be asked a thousand times at once, if the usual one may not."""
    long_line: int = 900_000
    """A line of that many bytes is still read."""
    last: tuple[Step, ...] = ()
    """What a host says last, where something has to be said for a process to come to its end."""


class Questions(Struct, frozen=True):
    """Several questions at once: how they are put, what each answer looks like, and what follows all answers."""

    ask: tuple[Say, ...]
    answer: Any
    after: tuple[Say, ...] = ()


class HostBasics(Struct, frozen=True):
    """How an agent of the wire converses: what every host's fault matrix is made of."""

    greet: tuple[Step, ...]
    """Up to the host's first user input, and the lines that begin its turn."""
    text: Callable[[str], Any]
    """A line of the agent's answer."""
    end: tuple[Step, ...]
    """Ends the turn."""
    odd: tuple[Line, ...]
    """Lines that a host must bear."""
    framing: str
    ask: Callable[[str], tuple[Step, ...]] | None = None
    """Asks the host for an approval, under an id that holds a token, and waits for its answer."""
    asking: str = ""
    """Section on approvals."""
    failing: tuple[Step, ...] = ()
    """Ends the turn with an error instead, where the wire has one."""
    errors: str = ""
    """Section on errors."""
    replies: tuple[Reply, ...] = ()
    leaves: tuple[Step, ...] = ()
    """How an agent goes that ends by itself when its turn is over."""
    ask_many: Callable[[int], Questions] | None = None
    """Asks for that many approvals at once, where an agent may."""
    quiet: str = ""
    """Why it may not, so that a host never says enough to fill a pipe."""


class Kit(Struct, frozen=True):
    """What a wire asks of both roles."""

    agent: AgentBasics | None = None
    host: HostBasics | None = None
    requirements: Sequence[Requirement] = ()
    """Beside the fault matrices that the basics make."""
    serve: tuple[str, ...] = ()
    """Words that ``agentwire serve`` is started with when our own agent is checked."""
    our_words: Mapping[str, tuple[str, ...]] = {}
    """How words that plays add to a command begin, and what ``agentwire serve`` has in the place of that."""
    files: Mapping[str, Any] = {}
    """Files of JSON that an agent's command may name: NAME in braces stands for the path."""
