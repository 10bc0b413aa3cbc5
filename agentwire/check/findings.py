"""What became of each requirement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from agentwire.codec.kit import (
    Again,
    Play,
    Requirement,
    Transcript,
    Unseen,
)

Verdict = Literal["passed", "failed", "unseen"]
"""``unseen``: the program gave no occasion to see it, such as a model that calls no tool."""


class Finding(Struct, frozen=True):
    """One requirement, judged by one run."""

    requirement: Requirement
    verdict: Verdict
    why: str = ""
    """What was wrong, or why it was not seen; for a person."""
    transcript: Transcript | None = None

    @property
    def fatal(self) -> bool:
        """A rule that must hold was broken."""
        return self.verdict == "failed" and self.requirement.level == "must"


Rules = Callable[[Transcript], str]
"""Says which rule of a wire a run breaks; empty: none."""


def unplayed(play: Play) -> Transcript | None:
    """The transcript of a play that only says why it cannot be played."""
    first = play.steps[0]
    return Transcript(play.name, unseen=first.why) if isinstance(first, Unseen) else None


def in_one_piece(play: Play) -> bool:
    """Whether a run of it can be held to the wire's rules: one process, with a peer that keeps to them."""
    return play.orderly and not any(isinstance(step, Again) for step in play.steps)


def judge(requirement: Requirement, transcript: Transcript, rules: Rules | None = None) -> Finding:
    """Hold a run of the requirement's play to it, and a run that came off to the ``rules`` of the whole wire."""
    if transcript.unseen:
        return Finding(requirement, "unseen", transcript.unseen, transcript)
    wrong = transcript.broken or ("" if requirement.check is None else requirement.check(transcript))
    if isinstance(wrong, Unseen):
        return Finding(requirement, "unseen", wrong.why, transcript)
    if not wrong and rules is not None and in_one_piece(requirement.play):
        wrong = rules(transcript)
    return Finding(requirement, "failed" if wrong else "passed", wrong, transcript)
