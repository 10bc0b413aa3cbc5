"""What happens in a turn of the soak, drawn from a seed: what the model says, what breaks, and when it is stopped.

A turn's plan travels in the user's message, so the model service knows what to answer from the request alone and no
two runs of one seed differ in what they ask for, whatever the timing.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field
from typing import Any

TEXT = "The quick brown fox 🦊 jumps over the lazy dog. "

COMMANDS = (
    "true",
    "echo hello; echo world >&2",
    "echo hello",
    "exit 3",
    "kill -9 $$",
    "head -c 300000 /dev/zero | tr '\\0' y",
    "printf 'a\\033[1mb\\377\\000c'",
    "(sleep 0.05; echo late) & echo early",
    "sleep 60",
    "sleep 60 & sleep 60",
    "trap '' TERM; sleep 60",
)
"""What is run in a shell; the last three last until they are stopped or reach their time limit."""


@dataclass
class Step:
    """A reply of the model service."""

    kind: str = "text"
    """``text``; ``cut``: the connection ends in the middle; ``error``: an error inside the stream; ``busy``: 429 once,
    then a text; ``refused``: 401; ``hang``: no answer."""
    size: int = 4
    """Chunks of text."""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@dataclass
class Plan:
    """A turn."""

    number: int
    steps: list[Step]
    stop_after: float = -1.0
    """Seconds after the message; negative: never."""
    answers: str = "approve"
    """What the host says to questions: ``approve``, ``deny``, or ``nothing`` (then it stops the turn)."""

    def message(self) -> str:
        """The user's message."""
        return json.dumps({"number": self.number, "steps": [asdict(step) for step in self.steps]})


def draw(number: int, rng: random.Random) -> Plan:
    """The plan of a turn."""
    steps = [_step(rng) for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
    steps.append(Step(rng.choices(("text", "cut", "error", "busy", "refused", "hang"), (78, 6, 5, 4, 4, 3))[0]))
    steps[-1].size = rng.choice((1, 1, 4, 4, 4, 20, 20, 100))
    plan = Plan(number, steps, answers=rng.choices(("approve", "deny", "nothing"), (80, 15, 5))[0])
    if any(step.kind == "hang" for step in steps) or plan.answers == "nothing" or rng.random() < 0.12:
        plan.stop_after = rng.choice((0.0, 0.002, 0.01, 0.03, 0.08))
    return plan


def _step(rng: random.Random) -> Step:
    step = Step(size=rng.choice((0, 1, 4)))
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.choices(("note", "crash", "asked", "exec", "echo", "vanish", "unknown"), (30, 12, 14, 16, 18, 3, 7))[
            0
        ]
        arguments: dict[str, Any] = {"n": rng.randrange(1000)}
        if kind == "exec":
            arguments = {"cmd": rng.choice(COMMANDS), "timeout": 80}
        name = {"exec": "ExecCommand", "unknown": "no.such tool"}.get(kind, kind)
        step.calls.append((name, arguments))
    return step
