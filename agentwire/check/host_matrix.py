"""The faults that every host has to bear, whatever its wire: requirements made of how its agents converse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from agentwire.check.agent_matrix import LATE, PROBE, SEPARATORS, rules
from agentwire.codec.checking import Checker, Severity
from agentwire.codec.kit import (
    Await,
    AwaitEnd,
    Check,
    Grumble,
    HangUp,
    HostBasics,
    Play,
    ReadOn,
    Requirement,
    Rest,
    Say,
    Step,
    StopReading,
    Transcript,
    Unseen,
)

LONG = 2_000_000
"""Bytes of a line that a host must read."""

BURST = 5_000
"""Lines that an agent writes at once."""

MANY = 1_000
"""Questions to a host at once: its answers are more than a pipe holds."""

NOISE = 300_000
"""Bytes on an agent's standard error: more than a pipe holds."""


def host_matrix(basics: HostBasics, checker: Callable[[], Checker] | None) -> Iterator[Requirement]:
    """The requirements that every host of a wire is held to."""

    def one(
        name: str, text: str, *steps: Step, section: str = basics.framing, check: Check | None = None,
        level: Severity = "must", play: str = "",
    ) -> Requirement:  # fmt: skip
        script = Play(play or name, steps, basics.replies, orderly=not play)  # talk's order has requirements of its own
        return Requirement(name, "host", section, text, script, check, level)

    def bears(name: str, text: str, *steps: Step, mark: str = "1", **more: Any) -> Requirement:
        """A host shows that it bore ``steps`` by going on as ever, and ending well."""
        ask = () if basics.ask is None else basics.ask(mark)
        return one(name, text, *basics.greet, *steps, *ask, *basics.end, *basics.leaves, AwaitEnd(0), **more)

    text = Say(basics.text("Hello."))
    talk = (*basics.greet, text, *basics.end, *basics.leaves, AwaitEnd())
    yield one("talk", "it takes a turn to its end" + ("" if basics.leaves else ", then closes its agent's input"),
              *talk, play="talk")  # fmt: skip
    yield one(
        "lines",
        "it writes JSON objects and nothing else, each with a line feed",
        *talk,
        play="talk",
        check=only_objects,
    )
    yield one("leaves", "after a turn that went well the host ends with status 0", *talk, play="talk", check=left_well)
    if checker is not None:
        yield one("order", "every line keeps to the protocol's shapes and order", *talk, play="talk",
                  check=rules("must", checker, "host"))  # fmt: skip
        yield one("advice", "every line keeps to what the protocol advises", *talk, play="talk",
                  check=rules("should", checker, "host"), level="should")  # fmt: skip
    if basics.ask is not None:
        yield bears("approval", "it answers a question, under the question's id", section=basics.asking)
    yield bears(
        "byte-by-byte", "a line that arrives byte by byte is read as one line", Say(basics.text(PROBE), "bytes")
    )
    yield bears("carriage-return", "a line that ends in CR LF is read like any", Say(basics.text(PROBE), "crlf"))
    yield bears("torn-character", "a character whose bytes arrive apart is read whole", Say(basics.text(PROBE), "torn"))
    yield bears(
        "separators", "U+2028, U+2029 and U+0085 do not end a line", Say(basics.text(SEPARATORS)), mark=SEPARATORS
    )
    yield bears("long-line", f"a line of {LONG:,} bytes is read", Say(basics.text("x" * LONG)))
    yield bears("burst", f"{BURST} lines at once are read", Say(basics.text("word "), times=BURST))
    yield one("slow-agent", "an agent that reads late gets every answer", *_slow(basics))
    yield bears("stderr", "an agent that writes much to standard error is not held up: it is read", Grumble(NOISE))
    for odd in basics.odd:
        yield bears(f"line-{odd.id}", odd.text, Say(odd.line), section=odd.section, level=odd.level)
    yield bears(
        "stray-line", "a line that is not JSON does not end the turn", Say(b"warning: {not json"), level="should"
    )
    if basics.failing:
        fails = (*basics.greet, *basics.failing, *basics.leaves, AwaitEnd())
        yield one("error", "a turn that fails is over, and the host leaves", *fails, section=basics.errors, check=left)
    *before, last = basics.end
    if isinstance(last, Say):
        cut = (*basics.greet, text, *before, replace(last, delivery="open"), HangUp(), AwaitEnd(0))
        yield one(
            "no-last-feed", "a last line without a line feed is read, too, if the agent then ends", *cut, level="should"
        )
    yield one("agent-dies", "when the agent dies inside of a turn the host leaves", *basics.greet, text, HangUp(),
              check=left)  # fmt: skip
    yield one("agent-dies-early", "when the agent dies before its first line the host leaves", HangUp(), check=left)


def _slow(basics: HostBasics) -> tuple[Step, ...]:
    """More answers than a pipe holds, read late."""
    if basics.ask_many is None:
        return (Unseen(basics.quiet or "its kit has no way to ask a host many things at once"),)
    many = basics.ask_many(MANY)
    waits: tuple[Step, ...] = (StopReading(), *many.ask, Rest(LATE), ReadOn())
    heard = Await(many.answer, "answer to each question", times=len(many.ask))
    return (*basics.greet, *waits, heard, *many.after, *basics.end, *basics.leaves, AwaitEnd(0))


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
