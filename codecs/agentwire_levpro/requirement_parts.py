"""The pieces that the plays of this wire's scripted hosts are made of."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from agentwire.codec.kit import (
    Await,
    Say,
    Step,
    requirement,
)
from agentwire.codec.patterns import ANY, Bind


def call(asked: Any, method: str, **params: Any) -> Say:
    """A request."""
    return Say({"id": asked, "method": method, "params": params})


def result(asked: Any, told: Any = ANY, *never: Any) -> Await:
    """It is answered by a result."""
    return Await({"id": asked, "type": "result", "result": told}, f"result of {asked}", never)


def refused(asked: Any, code: str) -> dict[str, Any]:
    """An error, as it is expected."""
    return {"id": asked, "type": "error", "code": code, "message": Bind(kind="string")}


def refusal(asked: Any, code: str, *never: Any) -> Await:
    """It is answered by an error."""
    return Await(refused(asked, code), f"error {code} under the id {asked}", never)


def event(kind: str, asked: Any = "c", **fields: Any) -> dict[str, Any]:
    """An event of a chat."""
    return {"id": asked, "type": "event", "event": kind, **fields}


ANSWER: Final = {
    "response": Bind("response", "string"),
    "session_id": Bind(kind="string"),
    "trace_id": Bind(kind="string"),
    "warnings": Bind(kind="array"),
}


def chat(text: str, asked: Any = "c", **more: Any) -> Say:
    """A chat in a session of its own."""
    return call(asked, "chat", input=text, session_id=f"agentwire-check-{asked}", **more)


def began(asked: Any = "c") -> Await:
    """The model is asked."""
    return Await(event("llm_start", asked), "llm_start")


def turn(text: str, asked: Any = "c") -> tuple[Step, ...]:
    """A chat, up to its result."""
    return (chat(text, asked), result(asked, ANSWER))


agent = partial(requirement, "agent")
"""A requirement with a play of its own; not ``orderly`` if its host breaks the rules of the wire itself."""


GREETED: Final = call("i", "initialize", protocol_versions=[1])


def declares(capability: str) -> Await:
    """The core says in its answer to initialize that it can do something."""
    return Await(
        {"id": "i", "type": "result", "result": {"capabilities": {capability: True}}},
        "result of initialize",
        unless={"id": "i"},
        absent=f"{capability} is not declared",
    )
