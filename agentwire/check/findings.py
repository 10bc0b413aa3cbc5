"""What became of each requirement."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from agentwire.codec.kit import Requirement, Transcript

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


def judge(requirement: Requirement, transcript: Transcript) -> Finding:
    """Hold a run of the requirement's play to it."""
    if transcript.unseen:
        return Finding(requirement, "unseen", transcript.unseen, transcript)
    wrong = transcript.broken or ("" if requirement.check is None else requirement.check(transcript))
    return Finding(requirement, "failed" if wrong else "passed", wrong, transcript)
