"""The pieces that the plays of the RPC's scripted hosts are made of."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from agentwire.codec.kit import (
    DIRECTORY,
    RUN,
    TOOL,
    Await,
    Say,
    Step,
    requirement,
)
from agentwire.codec.patterns import (
    ANY,
    Absent,
    Bind,
    Given,
    OneOf,
)

SESSION: Final = {"sessionId": Given("session")}


def call(asked: Any, method: str, params: Any) -> Say:
    """A request."""
    return Say({"jsonrpc": "2.0", "id": asked, "method": method, "params": params})


def result(asked: Any, result: Any = ANY, *never: Any) -> Await:
    """It is answered by a result."""
    return Await({"jsonrpc": "2.0", "id": asked, "result": result, "error": Absent()}, f"result of {asked}", never)


def refused(asked: Any, code: int, data: Any = ANY, message: Any = ANY) -> dict[str, Any]:
    """An error, as it is expected."""
    return {
        "jsonrpc": "2.0",
        "id": asked,
        "error": {"code": code, "message": message, "data": data},
        "result": Absent(),
    }


def refusal(asked: Any, code: int, data: Any = ANY, *never: Any) -> Await:
    """It is answered by an error."""
    return Await(refused(asked, code, data), f"error {code} under the id {asked}", never)


def item(tag: str, **fields: Any) -> dict[str, Any]:
    """A notification of an event of the turn."""
    event = {"type": tag, **fields}
    return {"method": f"item/{tag}", "params": {**SESSION, "turnId": Given("turn"), "event": event}}


def completed(reason: str, error: Any = None) -> dict[str, Any]:
    """The notification of the end of the turn."""
    params = {**SESSION, "turnId": Given("turn"), "stopReason": reason, "error": error}
    return {"method": "turn/completed", "params": params}


INITIALIZE: Final = {"protocolVersion": 1, "clientInfo": {"name": "agentwire-check", "version": "1"}}
INITIALIZED: Final = Say({"jsonrpc": "2.0", "method": "initialized", "params": {}})
SHAKEN: Final[tuple[Step, ...]] = (call(1, "initialize", INITIALIZE), result(1), INITIALIZED)


def opened(*, bind: str = "session", asked: Any = "open", **more: Any) -> tuple[Step, ...]:
    """A session is opened; its id is remembered under the name ``bind``, and its model and tools."""
    params = {"cwd": DIRECTORY, "ephemeral": True, **more}
    return (
        call(asked, "session/start", params),
        result(
            asked,
            {
                "sessionId": Bind(bind, "string"),
                "model": Bind("model", "string"),
                "tools": Bind("tools", "array"),
                "toolSpecs": Bind("specs", "array"),
            },
        ),
    )


GREET: Final[tuple[Step, ...]] = (*SHAKEN, *opened())


def started(text: str, asked: Any = "turn") -> tuple[Step, ...]:
    """A turn is started."""
    notes = ({"method": Bind(kind="string")},)
    return (
        call(asked, "turn/start", {**SESSION, "input": text}),
        result(asked, {"turnId": Bind("turn", "string")}, *notes),
    )


def over(reason: str, error: Any = None, *never: Any) -> Await:
    """The turn ends."""
    return Await(completed(reason, error), f"turn/completed, {reason}", ({"method": "turn/completed"}, *never))


def turn(text: str, asked: Any = "turn") -> tuple[Step, ...]:
    """A user input, up to the end of its turn."""
    return (*started(text, asked), over("completed"))


def question(tool: str = "") -> Await:
    """The turn comes to a question, about that tool if it is named."""
    event = {
        "type": "permission_request",
        "request_id": Bind("request", "string"),
        "tool_name": tool or Bind(kind="string"),
        "capability": OneOf(("read", "write", "exec", "run")),
        "path": ANY,
        "prompt_kind": Bind(kind="string"),
        "offers_always": Bind(kind="boolean"),
    }
    return Await(
        {"method": "item/permission_request", "params": {**SESSION, "turnId": Given("turn"), "event": event}},
        "permission_request",
        ({"method": "item/permission_request"},) if tool else (),
        unless={"method": "turn/completed"},
        absent="the model called no tool that needs a permission",
    )


ASKED: Final[tuple[Step, ...]] = (*started(RUN), question())


def decide(decision: str, asked: Any = "decide") -> Say:
    """Answers the question."""
    return call(asked, "permission/respond", {"requestId": Given("request"), "decision": decision})


def refusals(method: str, code: int, *given: dict[str, Any], data: Any = ANY) -> tuple[Step, ...]:
    """A method is refused with each of these parameters."""
    return tuple(
        step
        for number, params in enumerate(given)
        for step in (call(f"r{number}", method, params), refusal(f"r{number}", code, data))
    )


ALIVE: Final = call("alive", "session/list", {})
"""A request that is answered whatever goes on."""


def alive(*never: Any) -> Await:
    """It is answered, and none of those came before."""
    return result("alive", ANY, *never)


NOT_PENDING: Final = {"kind": "not_pending"}

PROBE: Final = {"name": TOOL, "description": "Repeats a text.", "capability": "read"}


agent = partial(requirement, "agent", greet=GREET)
"""A requirement with a play of its own, which begins with an open session."""
