"""The faults that every host has to bear, whatever its wire: requirements made of how its agents converse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from agentwire.check.agent_matrix import PROBE, SEPARATORS, rules
from agentwire.codec.checking import Checker, Severity
from agentwire.codec.kit import (
    Await,
    AwaitEnd,
    Check,
    Grumble,
    HangUp,
    HostBasics,
    Play,
    Requirement,
    Say,
    Step,
    Transcript,
    Unseen,
)

LONG = 2_000_000
"""Bytes of a line that a host must read."""

BURST = 5_000
"""Lines that an agent writes at once."""

NOISE = 300_000
"""Bytes on an agent's standard error: more than a pipe holds."""


def host_matrix(basics: HostBasics, checker: Callable[[], Checker] | None) -> Iterator[Requirement]:
    """The requirements that every host of a wire is held to."""

    def one(
        name: str, text: str, *steps: Step, section: str = basics.framing, check: Check | None = None,
        level: Severity = "must", play: str = "",
    ) -> Requirement:  # fmt: skip
        return Requirement(name, "host", section, text, Play(play or name, steps, basics.replies), check, level)

    def bears(name: str, text: str, *steps: Step, mark: str = "1", **more: Any) -> Requirement:
        """A host shows that it bore ``steps`` by going on as ever, and ending well."""
        ask = () if basics.ask is None else basics.ask(mark)
        return one(name, text, *basics.greet, *steps, *ask, *basics.end, AwaitEnd(0), **more)

    text = Say(basics.text("Hello."))
    talk = (*basics.greet, text, *basics.end, AwaitEnd())
    yield one("talk", "it takes a turn to its end, then closes its agent's input", *talk, play="talk")
    yield one("lines", "what it writes are JSON objects, each with a line feed", *talk, play="talk", check=only_objects)
    yield one("leaves", "after a turn that went well it ends with status 0", *talk, play="talk", check=left_well)
    if checker is not None:
        yield one("order", "no line breaks a rule of the protocol's shapes and order", *talk, play="talk",
                  check=rules("must", checker, "host"))  # fmt: skip
        yield one("advice", "no line goes against what the protocol advises", *talk, play="talk",
                  check=rules("should", checker, "host"), level="should")  # fmt: skip
    if basics.ask is not None:
        yield bears("approval", "it answers what it is asked, under the same id", section=basics.asking)
    yield bears("byte-by-byte", "a line that comes byte by byte is one line", Say(basics.text(PROBE), "bytes"))
    yield bears("carriage-return", "a carriage return before the line feed is borne", Say(basics.text(PROBE), "crlf"))
    yield bears("torn-character", "a character may come in two pieces", Say(basics.text(PROBE), "torn"))
    yield bears(
        "separators", "U+2028, U+2029 and U+0085 do not end a line", Say(basics.text(SEPARATORS)), mark=SEPARATORS
    )
    yield bears("long-line", "a long line is read", Say(basics.text("x" * LONG)))
    yield bears("burst", "many lines at once are read", Say(basics.text("word "), times=BURST))
    yield bears("stderr", "an agent that says much on standard error is not held up", Grumble(NOISE))
    for odd in basics.odd:
        yield bears(f"line-{odd.id}", odd.text, Say(odd.line), section=odd.section, level=odd.level)
    yield bears(
        "stray-line", "a line that is not JSON does not end the turn", Say(b"warning: {not json"), level="should"
    )
    if basics.failing:
        yield one("error", "a turn that fails is over", *basics.greet, *basics.failing, AwaitEnd(),
                  section=basics.errors, check=left)  # fmt: skip
    yield one("agent-dies", "the death of its agent inside a turn is not waited out", *basics.greet, text, HangUp(),
              check=left)  # fmt: skip
    yield one("agent-dies-early", "the death of its agent before a word is not waited out", HangUp(), check=left)


def for_staying(play: Play, greet: tuple[Step, ...]) -> Play:
    """The play for a host that is not expected to end by itself: it shows that it goes on by answering, if it does."""
    steps = tuple(step for step in play.steps if not isinstance(step, AwaitEnd))
    asks = sum(isinstance(step, Await) for step in steps) > sum(isinstance(step, Await) for step in greet)
    if not asks and len(steps) < len(play.steps):
        steps = (*steps, Unseen("the host stays, and is asked nothing"))
    return Play(play.name, steps, play.replies, play.orderly)


def only_objects(transcript: Transcript) -> str:
    """What of the host's lines is not a JSON object."""
    for number, said in enumerate((said for said in transcript.lines if said.who == "host"), 1):
        if said.fault or not isinstance(said.value, dict):
            return f"line {number} is not a JSON object: {said.fault or said.line[:60].decode(errors='replace')}"
    return "the last line has no line feed" if transcript.unfinished else ""


def left(transcript: Transcript) -> str:
    """Whether the host ended, in any way."""
    return "it did not end" if transcript.status is None and not transcript.stays else ""


def left_well(transcript: Transcript) -> str:
    """Whether the host ended with status 0."""
    return left(transcript) or ("" if transcript.stays or not transcript.status else f"status {transcript.status}")
