"""The faults that every agent has to bear, whatever its wire: requirements made of how its hosts converse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from agentwire.check.findings import Rules
from agentwire.codec.checking import Checker, Severity
from agentwire.codec.framing import LineFault
from agentwire.codec.kit import (
    HELLO,
    AgentBasics,
    Await,
    AwaitEnd,
    Check,
    Delivery,
    EndInput,
    HangUp,
    Play,
    Question,
    ReadOn,
    Requirement,
    Rest,
    Say,
    Step,
    StopReading,
    Transcript,
    Who,
)

PROBE = "caf\u00e9-\u4e2d-\U0001f680"
"""Holds characters of two, three and four bytes."""

SEPARATORS = "a\u2028b\u2029c\u0085d"
"""What some readers take for the end of a line."""

FLOOD = 2_500
"""Questions asked of an agent that is not read from: their answers are more than a pipe holds."""

LARGE = 300_000
"""Characters of a question whose answer is more than a pipe holds, where only one can be asked at a time."""

LATE = 0.5
"""Seconds after which a slow host reads."""


def agent_matrix(basics: AgentBasics, checker: Callable[[], Checker] | None) -> Iterator[Requirement]:
    """The requirements that every agent of a wire is held to."""

    def one(
        name: str, text: str, *steps: Step, section: str = basics.framing, check: Check | None = None,
        level: Severity = "must", play: str = "",
    ) -> Requirement:  # fmt: skip
        script = Play(play or name, (*basics.greet, *steps), orderly=False)  # its order has requirements of its own
        return Requirement(name, "agent", section, text, script, check, level)

    def asked(token: str, delivery: Delivery = "whole", pad: int = 0) -> tuple[Step, ...]:
        return ask(basics.question, token, delivery, pad)

    end: tuple[Step, ...] = (EndInput(), AwaitEnd(0))
    talk = (*basics.prompt(HELLO), *end)
    yield one("talk", "a user input is answered, up to the end of its turn", *talk, play="talk")
    yield one(
        "only-lines",
        "standard output holds lines of the protocol and nothing else",
        *talk,
        play="talk",
        check=only_lines,
    )
    if checker is not None:
        yield one("order", "every line keeps to the protocol's shapes and order", *talk, play="talk",
                  check=rules("must", checker))  # fmt: skip
        yield one("advice", "every line keeps to what the protocol advises", *talk, play="talk",
                  check=rules("should", checker), level="should")  # fmt: skip
    yield one("byte-by-byte", "a line that arrives byte by byte is read as one line", *asked(PROBE, "bytes"))
    yield one("carriage-return", "a line that ends in CR LF is read like any", *asked(PROBE, "crlf"))
    yield one("torn-character", "a character whose bytes arrive apart is read whole", *asked(PROBE, "torn"))
    yield one("separators", "U+2028, U+2029 and U+0085 do not end a line", *asked(SEPARATORS))
    yield one("long-line", f"a line of {basics.long_line:,} bytes is read", *asked(PROBE, pad=basics.long_line))
    for bad in basics.bad:
        answer: tuple[Step, ...] = () if bad.answer is None else (Await(bad.answer, "answer to it"),)
        yield one(f"line-{bad.id}", bad.text, Say(bad.line, pad=bad.pad), *answer, *asked(PROBE), section=bad.section,
                  level=bad.level)  # fmt: skip
    line, answers = basics.question(PROBE)
    yield one("no-last-feed", "a last line without a line feed is read, too", Say(line, "open"), EndInput(),
              Await(answers[0], "answer"))  # fmt: skip
    yield one("slow-reader", "a host that reads late gets every answer", *_flood(basics))
    yield one("early-end", "the end of input ends the process, status 0", *basics.last, *end, section=basics.ending)
    yield one(
        "hang-up",
        "when the host is gone, both pipes closed, the process ends",
        HangUp(),
        AwaitEnd(),
        section=basics.ending,
    )


def _flood(basics: AgentBasics) -> tuple[Step, ...]:
    """More answers than a pipe holds, read late."""
    many = None if basics.flood is None else [basics.flood(f"{n:040}") for n in range(FLOOD)]
    flood = many or [basics.question("x" * LARGE)]
    asked = (Say(line) for line, _ in flood)
    heard = (Await(answer, "answer to each question") for _, answers in flood for answer in answers)
    return (StopReading(), *asked, Rest(LATE), ReadOn(), *heard)


def ask(question: Question, token: str, delivery: Delivery = "whole", pad: int = 0) -> tuple[Step, ...]:
    """Ask a question and wait for its answer."""
    line, answers = question(token)
    return (Say(line, delivery, pad), *(Await(answer, "answer to a question") for answer in answers))


def only_lines(transcript: Transcript) -> str:
    """What is not a JSON object on a line of its own."""
    for number, said in enumerate((said for said in transcript.lines if said.who == "agent"), 1):
        if said.fault or not isinstance(said.value, dict):
            return f"line {number} is not a JSON object: {said.fault or said.line[:60].decode(errors='replace')}"
    if transcript.unfinished:
        return "the last line has no line feed"
    return "lines end with a carriage return" if transcript.carriage_returns else ""


def rules(severity: Severity, checker: Callable[[], Checker], who: Who = "agent", *, whole: bool = True) -> Rules:
    """What the wire's checker finds in the lines of one side. ``whole``: up to the end of what is to be said."""

    def check(transcript: Transcript) -> str:
        judge: Any = checker()
        for number, said in enumerate(transcript.lines, 1):
            line = LineFault("not_utf8", said.fault) if said.fault and not said.line else said.line
            for violation in getattr(judge, said.who)(line):
                if said.who == who and violation.severity == severity:
                    return f"line {number}: {violation.message} (section {violation.section})"
        if who == "agent" and whole:
            for violation in judge.close():
                if violation.severity == severity:
                    return f"at the end: {violation.message} (section {violation.section})"
        return ""

    return check
