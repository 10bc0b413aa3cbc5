"""What the RPC asks of hosts that have tools of their own. Each play is a scripted agent, which calls them."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import Await, AwaitEnd, Say, Step
from agentwire.codec.patterns import (
    Bind,
    Given,
    Holds,
    Joined,
    OneOf,
)
from agentwire_jan.host_requirements import CHILD, END, PROMPTED, event, host

_OFFERED: Final[tuple[Step, ...]] = (
    Await(
        {
            "method": "session/start",
            "params": {"tools": Holds(({"name": Bind("tool", "string")},))},
        },
        "session/start with host tools",
        unless={"method": OneOf(("session/start", "session/resume"))},
        absent="the host declares no tools of its own",
    ),
    *PROMPTED,
)


_THEIRS: Final = Given("tool")


def _use(token: str, name: Any = _THEIRS, **more: Any) -> tuple[Step, ...]:
    return (
        Say(event("tool_call", id=f"call-{token}", name=Joined(("host__", name)), args={})),
        Say(event("tool_request", request_id=f"host-{token}", tool_name=name, args={}, **more)),
    )


def _told(token: str) -> Say:
    return Say(event("tool_result", id=f"call-{token}", content="", is_error=False))


def _answers(token: str) -> Await:
    content = OneOf((Bind(kind="string"), Bind(kind="array")))
    answer = {"method": "tool/respond", "params": {"requestId": f"host-{token}", "content": content}}
    return Await(answer, "tool/respond", ({"method": "turn/start"},))


OWN_TOOLS: Final = (
    host(
        "host-tool",
        "3.4",
        "a call of its own tool is answered under the request's id",
        *_OFFERED,
        *_use("a"),
        _answers("a"),
        _told("a"),
        *END,
        AwaitEnd(0),
    ),
    host(
        "host-tool-child",
        "2.3",
        "a subagent's call of its own tool is answered, too",
        *_OFFERED,
        Say(event("subagent_start", **CHILD)),
        *_use("c", run_id="sub-check")[1:],
        _answers("c"),
        Say(event("subagent_end", **CHILD)),
        *END,
        AwaitEnd(0),
    ),
    host(
        "host-tool-unknown",
        "3.4",
        "a call of a tool that it does not have is answered, too",
        *_OFFERED,
        *_use("u", "agentwire_unknown"),
        _answers("u"),
        _told("u"),
        *END,
        AwaitEnd(0),
        level="should",
    ),
    host(
        "host-tool-withdrawn",
        "3.5",
        "a call that is withdrawn at once does not hold the turn up",
        *_OFFERED,
        *_use("w"),
        Say(event("tool_request_cancelled", request_id="host-w", reason="interrupted")),
        Say(event("tool_result", id="call-w", content="ERROR: check", is_error=True)),
        *_use("x"),
        _answers("x"),
        _told("x"),
        *END,
        AwaitEnd(0),
    ),
)
