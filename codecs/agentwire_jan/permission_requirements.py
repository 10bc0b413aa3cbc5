"""What the RPC asks of agents about permissions. Each play is a scripted host."""

from __future__ import annotations

from typing import Final

from agentwire.codec.kit import RUN_AGAIN, Await, Transcript
from agentwire.codec.patterns import ANY, Bind, Given
from agentwire_jan.requirement_parts import (
    ASKED,
    NOT_PENDING,
    agent,
    call,
    decide,
    item,
    opened,
    over,
    question,
    refusal,
    result,
    started,
)


def _ids_of_their_own(transcript: Transcript) -> str:
    told = [value["params"]["event"] for value in transcript.of("agent")
            if value.get("method") == "item/permission_request"]  # fmt: skip
    ids = [event["request_id"] for event in told]
    return "" if len(set(ids)) == len(ids) else f"the same request_id twice: {ids}"


PERMISSIONS: Final = (
    agent(
        "permission",
        "3.3",
        "an allowed call runs and has its result",
        *ASKED,
        decide("allow_once"),
        result("decide", {}),
        Await(
            item("tool_result", id=Bind(kind="string"), content=Bind(kind="string"), is_error=Bind(kind="boolean")),
            "tool_result",
        ),
        over("completed"),
    ),
    agent(
        "waits",
        "3.3",
        "a call that waits for its permission does not run",
        *ASKED,
        call("after", "session/list", {}),
        result("after", ANY, {"method": "item/tool_result"}, {"method": "turn/completed"}),
    ),
    agent(
        "denial",
        "3.3",
        "a denied call is an error to the model, and the turn goes on",
        *ASKED,
        decide("deny"),
        result("decide", {}),
        Await(item("tool_result", is_error=True), "tool_result that is an error"),
        over("completed"),
    ),
    agent(
        "answered",
        "1.6",
        "a second answer to a permission is refused",
        *ASKED,
        decide("deny"),
        result("decide", {}),
        decide("deny", "again"),
        refusal("again", -32602),
    ),
    agent(
        "decisions",
        "1.6",
        "a decision that does not exist is refused, and the question stays open",
        *ASKED,
        decide("maybe"),
        refusal("decide", -32602),
        decide("deny", "again"),
        result("again", {}),
        over("completed"),
    ),
    agent(
        "not-pending",
        "1.6",
        "an answer to what nobody asked is refused as not pending",
        *ASKED,
        call("none", "permission/respond", {"requestId": "agentwire-none", "decision": "deny"}),
        refusal("none", -32602, NOT_PENDING),
        decide("deny"),
        result("decide", {}),
    ),
    agent(
        "request-ids",
        "2.1",
        "every question has an id of its own",
        *ASKED,
        decide("deny"),
        over("completed"),
        *started(RUN_AGAIN, "again"),
        question(),
        decide("deny", "later"),
        over("completed"),
        check=_ids_of_their_own,
    ),
    agent(
        "always",
        "3.3",
        "allow_always covers the tool for the rest of the session",
        *ASKED,
        decide("allow_always"),
        result("decide", {}),
        over("completed"),
        *started(RUN_AGAIN, "again"),
        Await(
            item("tool_result", id=Bind(kind="string")),
            "tool_result without a question",
            ({"method": "item/permission_request"},),
            unless={"method": "turn/completed"},
            absent="the model called no tool again",
        ),
        over("completed"),
    ),
    agent(
        "always-here",
        "3.3",
        "allow_always covers no other session",
        *ASKED,
        decide("allow_always"),
        result("decide", {}),
        over("completed"),
        *opened(bind="second", asked="second"),
        call("again", "turn/start", {"sessionId": Given("second"), "input": RUN_AGAIN}),
        result("again", {"turnId": Bind("later", "string")}),
        Await(
            {"method": "item/permission_request", "params": {"sessionId": Given("second")}},
            "permission_request",
            ({"method": "item/tool_result"},),
            unless={"method": "turn/completed"},
            absent="the model called no tool again",
        ),
    ),
)
