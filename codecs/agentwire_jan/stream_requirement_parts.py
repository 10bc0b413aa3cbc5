"""The pieces that the plays of stream-json's scripted hosts are made of."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from agentwire.codec.kit import (
    RUN,
    Await,
    Say,
    Step,
    requirement,
)
from agentwire.codec.patterns import (
    ANY,
    Bind,
    Given,
    OneOf,
)

GREET: Final[tuple[Step, ...]] = (Await({"type": "init"}, "init"),)


def user(text: str) -> Say:
    """A user input; the first one is the task of the run."""
    return Say({"type": "user", "text": text}, task=text)


def hears(kind: str, *never: str, **fields: Any) -> Await:
    """The agent says a line of that kind, and none of those before it."""
    return Await({"type": kind, **fields}, kind, tuple({"type": name} for name in never))


RESULT: Final = {
    "protocol_version": 1,
    "is_error": False,
    "result": Bind(kind="string"),
    "stop_reason": Bind(kind="string"),
    "num_turns": Bind(kind="number"),
    "duration_ms": Bind(kind="number"),
    "session_id": OneOf((None, Bind(kind="string"))),
    "model": Bind(kind="string"),
    "usage": {
        "prompt_tokens": Bind(kind="number"),
        "completion_tokens": Bind(kind="number"),
        "total_tokens": Bind(kind="number"),
        "cached_tokens": OneOf((None, Bind(kind="number"))),
        "cache_write_tokens": OneOf((None, Bind(kind="number"))),
    },
}


def turn(text: str) -> tuple[Step, ...]:
    """A whole run."""
    return (user(text), hears("result"))


ASKED: Final[tuple[Step, ...]] = (
    user(RUN),
    Await(
        {
            "type": "permission_request",
            "request_id": Bind("request", "string"),
            "tool_name": Bind(kind="string"),
            "capability": OneOf(("read", "write", "exec", "run")),
            "path": ANY,
            "prompt_kind": Bind(kind="string"),
            "offers_always": Bind(kind="boolean"),
        },
        "permission_request",
        unless={"type": "result"},
        absent="the model called no tool that needs a permission",
    ),
)


def decide(decision: str) -> tuple[Step, ...]:
    """The question is answered, and the answer echoed."""
    return (
        Say({"type": "permission", "request_id": Given("request"), "decision": decision}),
        hears("permission_decision", "result", request_id=Given("request"), decision=decision),
    )


agent = partial(requirement, "agent", greet=GREET)
"""A requirement with a play of its own, which begins with an open run."""
