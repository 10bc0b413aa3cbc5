"""stream-json, host side: commands as lines, their outcomes, and a run as it is heard."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.heard import Answered, Heard
from agentwire.commands import Done, Refusal
from agentwire_jan.stream import codec_stream as codec
from agentwire_jan.stream_host import JanStreamHost

INIT = {"type": "init", "protocol_version": 1, "session_id": "s-1", "model": "m", "tools": [], "input_kinds": []}
STEP = {"type": "step", "index": 1, "max": 0}
QUESTION = {
    "type": "permission_request", "request_id": "perm-1", "tool_name": "shell", "capability": "exec", "path": None,
    "prompt_kind": "exec", "offers_always": True,
}  # fmt: skip
CALL = {"type": "tool_call", "id": "c1", "name": "shell", "args": {}}
RESULT = {
    "type": "result", "protocol_version": 1, "is_error": False, "result": "Hi", "stop_reason": "stop",
    "session_id": "s", "model": "m", "num_turns": 1, "duration_ms": 5,
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}  # fmt: skip


def hear(host: JanStreamHost, *lines: dict[str, Any]) -> list[Heard | Answered]:
    return [said for line in lines for said in host.receive(json.dumps(line).encode())]


def events(said: list[Heard | Answered]) -> list[bus.Event]:
    return [each.event for each in said if isinstance(each, Heard)]


def send(host: JanStreamHost, command: commands.Command) -> dict[str, Any]:
    out = bytearray()
    number = host.send(command, out)
    assert isinstance(number, int)
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_run() -> None:
    host = JanStreamHost()
    said = hear(host, INIT, STEP, {"type": "token", "text": "Hi"}, {"type": "done", "stop_reason": "stop"}, RESULT)
    assert events(said) == [
        bus.SessionOpened("s-1", model="m"),
        bus.TurnStarted("run", "run"),
        bus.StepStarted(0),
        bus.TextDelta("Hi"),
        bus.StepFinished(0, "Hi", finish_reason="stop"),
        bus.TurnFinished("completed", "Hi", bus.Usage(1, 2), finish_reason="stop", steps=1),
    ]
    assert {each.session for each in said if isinstance(each, Heard)} == {"s-1"}
    assert host.close() == []


def test_what_other_builds_leave_out_and_add() -> None:
    """Only three fields of the first line can be relied on; unknown tags are kept."""
    todo = {"type": "todo_update", "list": {"phases": []}}
    init = {"type": "init", "protocol_version": 1, "session_id": "s", "model": "m", "new": 1}
    result = {**RESULT, "error": None, "usage": {**RESULT["usage"], "estimated_cost_usd": 0.1}, "new": 1}
    said = events(hear(JanStreamHost(), init, todo, {**STEP, "new": 1}, result))
    assert said[0] == bus.SessionOpened("s", model="m")
    assert said[2] == bus.Unknown("jan", "todo_update", msgspec.Raw(json.dumps(todo).encode()))
    assert isinstance(said[-1], bus.TurnFinished)


def test_a_prompt_is_the_first_input_and_carries_its_ref() -> None:
    host = JanStreamHost()
    hear(host, INIT)
    assert send(host, commands.Prompt("hi", ref=7)) == {"type": "user", "text": "hi"}
    assert isinstance(host.send(commands.Prompt("again"), bytearray()), Refusal)
    answered, started, step = hear(host, STEP)
    assert answered == Answered(1, Done())
    assert started == Heard(bus.TurnStarted("run", 7, [bus.Text("hi")]), "s-1", 7)
    assert step == Heard(bus.StepStarted(0), "s-1", 7)
    assert isinstance(host.send(commands.Prompt("again"), bytearray()), Refusal)


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        (commands.Approve("c1"), "allow_once"),
        (commands.Approve(approval_id="perm-1", scope="always"), "allow_always"),
        (commands.Deny("c1", reason="no"), "deny"),
    ],
)
def test_a_question_is_answered_by_its_id_or_its_call(command: commands.Command, decision: str) -> None:
    host = JanStreamHost()
    hear(host, INIT, STEP, CALL, QUESTION)
    line = send(host, command)
    assert line == {"type": "permission", "request_id": "perm-1", "decision": decision}
    resolved, answered = hear(host, {"type": "permission_decision", "request_id": "perm-1", "decision": decision})
    assert isinstance(resolved, Heard)
    assert isinstance(resolved.event, bus.ApprovalResolved)
    assert (resolved.event.call_id, resolved.event.decision) == ("c1", "denied" if decision == "deny" else "allowed")
    assert answered == Answered(1, Done())
    refused = host.send(command, bytearray())
    assert isinstance(refused, Refusal)
    assert refused.code == "not_found"


def test_a_denied_call_is_cancelled() -> None:
    host = JanStreamHost()
    hear(host, INIT, STEP, CALL, QUESTION)
    content = "ERROR: tool 'shell' denied by user"
    decision = {"type": "permission_decision", "request_id": "perm-1", "decision": "deny"}
    said = events(hear(host, decision, {"type": "tool_result", "id": "c1", "content": content, "is_error": True}))
    assert said[-1] == bus.CallCancelled("c1", "denied", "", "shell", content.removeprefix("ERROR: "))


def test_an_input_error_is_the_outcome_of_the_line_that_it_gives_back() -> None:
    host = JanStreamHost()
    hear(host, INIT, STEP)
    line = send(host, commands.AnswerHostTool("host-9", [bus.Text("x")]))
    shown = json.dumps(line, separators=(",", ":"))
    message = "no host tool request 'host-9' is pending"
    error = {"type": "input_error", "message": message, "line": shown, "line_truncated": False}
    assert hear(host, error) == [Answered(1, Refusal("not_pending", message))]
    assert events(hear(host, error)) == [bus.Notice(message, "warning")]


def test_what_is_not_answered_is_settled_by_the_end() -> None:
    host = JanStreamHost()
    hear(host, INIT, STEP)
    send(host, commands.Steer("more"))
    send(host, commands.Stop())
    *_, first, second = hear(host, {"type": "done", "stop_reason": "aborted", "usage": None}, {
        **RESULT, "stop_reason": "aborted",
    })  # fmt: skip
    assert [first, second] == [Answered(1, Done()), Answered(2, Done())]
    late = host.send(commands.Steer("more"), bytearray())
    assert isinstance(late, Refusal)
    assert late.code == "too_late"


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        (
            {"stop_reason": "aborted"},
            bus.TurnFinished("cancelled", "Hi", bus.Usage(1, 2), steps=1),
        ),
        (
            {"is_error": True, "error": {"code": "upstream_error", "message": "Upstream x"}},
            bus.TurnFinished("failed", "Hi", bus.Usage(1, 2), bus.ErrorInfo("provider_error", "Upstream x"), steps=1),
        ),
        (
            {"is_error": True, "error": {"code": "error", "message": "reached the 1-turn limit while the model"}},
            bus.TurnFinished("limit", "Hi", bus.Usage(1, 2), steps=1, limit="steps"),
        ),
        (
            {"is_error": True},
            bus.TurnFinished(
                "failed", "Hi", bus.Usage(1, 2),
                bus.ErrorInfo("internal_error", "the run ended without an outcome"), steps=1,
            ),
        ),
    ],
)  # fmt: skip
def test_how_a_run_ended(changes: dict[str, Any], end: bus.TurnFinished) -> None:
    assert events(hear(JanStreamHost(), INIT, STEP, {**RESULT, **changes}))[-1] == end


def test_a_setup_that_failed() -> None:
    host = JanStreamHost()
    send(host, commands.Prompt("hi"))
    error = {"code": "setup_error", "message": "no key"}
    said = hear(host, {**RESULT, "is_error": True, "error": error, "model": ""})
    assert said == [
        Heard(bus.ErrorRaised(bus.ErrorInfo("config_error", "no key"))),
        Answered(1, Refusal("config", "no key")),
    ]
    assert host.close() == []


def test_an_agent_that_dies() -> None:
    host = JanStreamHost()
    hear(host, INIT, STEP, CALL)
    send(host, commands.Steer("more"))
    said = host.close()
    assert [type(event) for event in events(said)] == [
        bus.StepFinished, bus.ErrorRaised, bus.CallCancelled, bus.TurnFinished,
    ]  # fmt: skip
    assert isinstance(said[-1], Answered)
    assert isinstance(said[-1].result, Refusal)


@pytest.mark.parametrize(
    "command",
    [
        commands.Ping(),
        commands.SetMode("yolo"),
        commands.OpenSession(),
        commands.Prompt("x", files=["a"]),
        commands.Prompt("x", resume=True),
        commands.Steer("", parts=[bus.Image("image/png", path="/a.png")]),
    ],
)
def test_what_the_wire_cannot_carry(command: commands.Command) -> None:
    out = bytearray()
    refusal = codec.host().send(command, out)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, bytes(out)) == ("unsupported", b"")
