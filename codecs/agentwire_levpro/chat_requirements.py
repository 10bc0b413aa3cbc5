"""What this wire asks of cores about chats: events, sessions, cancelling, tools. Each play is a scripted host."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    COUNT,
    HELLO,
    RUN,
    RUN_MUCH,
    RUN_TWO,
    Again,
    Await,
    Say,
    Transcript,
)
from agentwire.codec.patterns import ANY, Bind, Given
from agentwire_levpro.requirement_parts import (
    ANSWER,
    GREETED,
    agent,
    began,
    call,
    chat,
    declares,
    event,
    refusal,
    refused,
    result,
    turn,
)


def _in(session: str, text: str, asked: Any = "c", **more: Any) -> Say:
    """A chat in a session that is named."""
    return call(asked, "chat", input=text, session_id=session, **more)


def _cancelled(asked: Any = "c", *never: Any) -> Await:
    return Await(refused(asked, "cancelled"), "error cancelled", ({"id": asked, "type": "result"}, *never))


def _short(transcript: Transcript) -> str:
    long = len(str(transcript.given["shown"]))
    return f"its preview has {long} characters" if long > _PREVIEW else ""


_PREVIEW: Final = 500

CHATS: Final = (
    agent(
        "chat",
        "5",
        "a chat is run_start, a model's step, final, and a result with the same answer",
        chat(HELLO),
        Await(
            event("run_start", user_input=HELLO, trace_id=Bind("trace", "string")), "run_start", ({"type": "event"},)
        ),
        Await(event("llm_start", step=0), "llm_start"),
        Await(event("llm_done", step=0), "llm_done"),
        Await(event("final", response=Bind("response", "string")), "final"),
        result("c", {**ANSWER, "response": Given("response"), "trace_id": Given("trace")}),
        call("p", "ping"),
        result("p", ANY, {"id": "c"}),
    ),
    agent(
        "second-chat",
        "4",
        "a second chat of a session runs after the first",
        *turn(HELLO),
        chat(HELLO, "d"),
        result("d", ANSWER),
    ),
    agent(
        "session-id",
        "4",
        "a chat without a session_id is given one, which is not empty",
        call("c", "chat", input=HELLO),
        result("c", {**ANSWER, "session_id": Bind("made", "string")}),
        check=lambda run: "" if run.given["made"] else "the session's id is empty",
    ),
    agent(
        "bad-chat",
        "4",
        "a chat whose params have the wrong type is refused",
        call("b", "chat", input=5),
        refusal("b", "invalid_request"),
        level="should",
    ),
    agent(
        "cancel",
        "4",
        "a cancelled chat ends with the error cancelled",
        chat(COUNT),
        began(),
        call("k", "cancel", request_id="c"),
        Await(refused("c", "cancelled"), "error cancelled", ({"id": "c", "type": "result"},)),
        *turn(HELLO, "d"),
    ),
    agent(
        "cancel-one",
        "4",
        "cancel without a request_id cancels the only chat",
        chat(COUNT),
        began(),
        call("k", "cancel"),
        Await(refused("c", "cancelled"), "error cancelled"),
    ),
    agent(
        "cancel-two",
        "4",
        "cancel without a request_id is refused where two chats run",
        chat(COUNT),
        began(),
        chat(COUNT, "d"),
        began("d"),
        call("k", "cancel"),
        refusal("k", "invalid_request", refused("c", "cancelled")),
    ),
    agent(
        "parallel",
        "7",
        "parallel_chats: chats of two sessions run side by side",
        GREETED,
        declares("parallel_chats"),
        chat(COUNT),
        began(),
        *turn(HELLO, "d"),
    ),
    agent(
        "targeted",
        "4",
        "targeted_cancel: the chat that is named is cancelled, and no other",
        GREETED,
        declares("targeted_cancel"),
        chat(COUNT),
        began(),
        chat(COUNT, "d"),
        began("d"),
        call("k", "cancel", request_id="d"),
        Await(refused("d", "cancelled"), "error cancelled", (refused("c", "cancelled"),)),
        call("p", "ping"),
        result("p", ANY, {"id": "c", "type": "error"}),
    ),
    agent(
        "tool",
        "5",
        "with approve_execution a tool runs: tool_start, then tool_done",
        chat(RUN, approve_execution=True),
        Await(
            event("tool_start", step=0, tool=Bind("tool", "string"), args=Bind(kind="object")),
            "tool_start",
            unless={"type": "result"},
            absent="the model called no tool",
        ),
        Await(
            event(
                "tool_done",
                step=0,
                tool=Given("tool"),
                status="ok",
                preview=Bind(kind="string"),
                retryable=Bind(kind="boolean"),
                ms=Bind(kind="number"),
            ),
            "tool_done",
            ({"type": "result"},),
        ),
        result("c", ANSWER),
    ),
    agent(
        "no-approval",
        "4",
        "without approve_execution a tool that needs it does not run, and the chat goes on",
        chat(RUN),
        Await(
            event("tool_done", status=Bind("status")),
            "tool_done",
            unless={"type": "result"},
            absent="the model called no tool that needs an approval",
        ),
        result("c", ANSWER),
        check=lambda run: "it ran" if run.given["status"] == "ok" else "",
        level="should",
    ),
    agent(
        "cancel-idle",
        "4",
        "a cancel where nothing runs is answered, and is no error",
        call("k", "cancel"),
        result("k", {"cancelled": False, "request_id": None}),
        *turn(HELLO),
        call("l", "cancel", request_id="c"),
        result("l", {"cancelled": False, "request_id": "c"}),
        level="should",
    ),
    agent(
        "cancel-params",
        "4",
        "cancel with a request_id that can be no id is refused",
        call("k", "cancel", request_id=True),
        refusal("k", "invalid_request"),
        level="should",
    ),
    agent(
        "cancel-type",
        "4",
        'cancel of the id "1" does not cancel the chat with the id 1',
        chat(COUNT, 1),
        began(1),
        call("k", "cancel", request_id="1"),
        result("k", {"cancelled": False}, {"id": 1, "type": "error"}),
        call("l", "cancel", request_id=1),
        _cancelled(1),
        level="should",
    ),
    agent(
        "queue",
        "7",
        "two chats of one session run one after the other",
        _in("agentwire-check", COUNT),
        began(),
        _in("agentwire-check", HELLO, "d"),
        call("p", "ping"),
        result("p", ANY, {"id": "d"}),
        call("k", "cancel", request_id="c"),
        _cancelled("c", {"id": "d"}),
        result("d", ANSWER),
        level="should",
    ),
    agent(
        "queue-cancel",
        "4",
        "a chat that waits for another is cancelled alone",
        _in("agentwire-check", COUNT),
        began(),
        _in("agentwire-check", HELLO, "d"),
        call("k", "cancel", request_id="d"),
        _cancelled("d", {"id": "d", "type": "event"}, {"id": "c", "type": "error"}),
        call("p", "ping"),
        result("p", ANY, {"id": "c", "type": "error"}),
        level="should",
    ),
    agent(
        "no-such-agent",
        "4",
        "a chat with an agent that does not exist is refused",
        chat(HELLO, agent="agentwire-none"),
        refusal("c", "invalid_request"),
        level="should",
    ),
    agent(
        "empty-input",
        "4",
        "a chat without an input is answered like any",
        call("c", "chat", session_id="agentwire-check"),
        result("c", ANSWER),
    ),
    agent(
        "preview",
        "5",
        "the preview of a tool's output has at most 500 characters",
        chat(RUN_MUCH, approve_execution=True),
        Await(
            event("tool_done", status="ok", preview=Bind("shown", "string")),
            "tool_done",
            unless={"type": "result"},
            absent="the model called no tool",
        ),
        result("c", ANSWER),
        check=_short,
        level="should",
    ),
    agent(
        "two-tools",
        "5",
        "tools of one step run one after the other",
        chat(RUN_TWO, approve_execution=True),
        Await(event("tool_start", step=0), "tool_start", unless={"type": "result"}, absent="the model called no tool"),
        Await(event("tool_done", step=0, status="ok"), "tool_done", (event("tool_start"),)),
        Await(
            event("tool_start", step=0),
            "second tool_start",
            unless={"type": "result"},
            absent="the model called one tool only",
        ),
        Await(event("tool_done", step=0, status="ok"), "second tool_done"),
        result("c", ANSWER),
    ),
    # --- sessions ---
    agent(
        "resume",
        "4",
        "resume in a session that has nothing to resume is a chat with a warning",
        chat(HELLO, resume=True),
        result("c", {**ANSWER, "warnings": [Bind(kind="string")]}),
        level="should",
    ),
    agent(
        "resume-killed",
        "4",
        "a chat that was cut off by the death of its core is resumed by the next",
        _in("agentwire-check", COUNT),
        Await(event("llm_chunk"), "llm_chunk"),
        Again(killed=True),
        _in("agentwire-check", HELLO, "d", resume=True),
        result("d", {**ANSWER, "session_id": "agentwire-check"}, {"id": "c"}),
    ),
    agent(
        "session-again",
        "4",
        "a session goes on in the next process",
        *turn(HELLO),
        Again(),
        *turn(HELLO),
    ),
)
