"""The pieces that the plays of this wire's scripted hosts are made of."""

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

MODES: Final = ("default", "auto_edit", "yolo")

CAPABILITIES: Final = {
    "tool_approval": True,
    "image_input": OneOf(("supported", "unsupported", "unknown")),
    "thinking": Bind(kind="boolean"),
    "effort": Bind(kind="boolean"),
    "effort_levels": Bind(kind="array"),
    "modes": Bind(kind="array"),
    "current_mode": OneOf(MODES),
    "mcp": Bind(kind="boolean"),
}

READY: Final = {"type": "ready", "version": Bind(kind="string"), "capabilities": CAPABILITIES}

GREET: Final[tuple[Step, ...]] = (Await({"type": "ready"}, "ready"),)


def error(msg_id: Any = None, message: Any = ANY, **more: Any) -> dict[str, Any]:
    """An error of the command, as it is expected."""
    return {"type": "error", "msg_id": msg_id, "error": {"code": "protocol_error", "message": message, **more}}


def message(text: str, msg_id: str = "m") -> Say:
    """A user input."""
    return Say({"type": "message", "msg_id": msg_id, "content": text})


def began(msg_id: str = "m") -> Await:
    """The turn of a message begins."""
    return Await({"type": "stream_start", "msg_id": msg_id}, "stream_start")


def ended(msg_id: str = "m", *never: Any) -> Await:
    """The turn of a message is over."""
    return Await({"type": "stream_end", "msg_id": msg_id}, "stream_end", never)


def turn(text: str, msg_id: str = "m") -> tuple[Step, ...]:
    """A user input, up to the end of its turn."""
    return (message(text, msg_id), began(msg_id), ended(msg_id, {"type": "stream_start"}))


PING: Final = Say({"type": "ping"})
STOP: Final = Say({"type": "stop"})


def pong(*never: Any) -> Await:
    """A ping is answered."""
    return Await({"type": "pong"}, "pong", never)


def asked(text: str = RUN, msg_id: str = "m", call: str = "call", category: Any = None) -> tuple[Step, ...]:
    """A user input whose turn comes to a question; the call is remembered under the name ``call``."""
    return (message(text, msg_id), request(msg_id, call, category))


def request(msg_id: str = "m", call: str = "call", category: Any = None) -> Await:
    """A question about a call."""
    tool = {
        "name": Bind("tool", "string"),
        "category": category or OneOf(("info", "edit", "exec", "mcp")),
        "args": Bind(kind="object"),
        "description": Bind(kind="string"),
    }
    return Await(
        {"type": "tool_request", "msg_id": msg_id, "call_id": Bind(call, "string"), "tool": tool},
        "tool_request",
        unless={"type": "stream_end"},
        absent="the model called no tool that needs an approval",
    )


CALL: Final = {"call_id": Given("call")}

APPROVE: Final = Say({"type": "tool_approve", **CALL})


def set_mode(mode: str) -> tuple[Step, ...]:
    """Another mode, up to where the agent tells of it."""
    changed = {"type": "config_changed", "capabilities": {**CAPABILITIES, "current_mode": mode}}
    return (Say({"type": "set_mode", "mode": mode}), Await(changed, f"config_changed that tells the mode {mode}"))


agent = partial(requirement, "agent", greet=GREET)
"""A requirement with a play of its own, which begins once the agent is ready."""


def of(msg_id: str = "m") -> dict[str, Any]:
    """Any event of a message."""
    return {"msg_id": msg_id}
