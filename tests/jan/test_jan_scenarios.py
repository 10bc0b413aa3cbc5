"""What a session's log looks like on the wire: plain turns, tools, questions, host tools, subagents (section 2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from janlines import Line, Scene, hear, items, logged, render, split, tags, turn
from msgspec import Raw

from agentwire import events as bus
from agentwire.codec import Directive, Record
from agentwire.commands import Done, Outcome
from agentwire.events import CallRef, ErrorInfo, Image, Text, Usage
from agentwire_jan import codec, rendering, surface

USAGE = Usage(5, 2)
SPENT = {
    "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "cached_tokens": None, "cache_write_tokens": None,
}  # fmt: skip
NO_END: dict[str, Any] = {"sessionId": "s", "turnId": "t"}


def step(index: int, *calls: CallRef, text: str = "", usage: Usage = USAGE) -> bus.StepFinished:
    return bus.StepFinished(index, text, "", list(calls), usage, "tool_calls" if calls else "stop")


def ready(call_id: str, name: str, arguments: str = "{}") -> bus.CallReady:
    return bus.CallReady(call_id, name, arguments, Raw(arguments.encode()), "exec", "does it")


def ref(call_id: str, name: str, arguments: str = "{}") -> CallRef:
    return CallRef(call_id, name, arguments)


def test_a_plain_turn_to_the_byte() -> None:
    """Scenario 7.4: key order, a space nowhere, the history without the answer."""
    records = turn(
        bus.TurnStarted("t", None, [Text("say hi é")]),
        bus.StepStarted(0),
        bus.RequestSent("stub", "stub-model", "chat", "ab", 12, "cd"),
        bus.TextDelta("stub "),
        bus.TextDelta("answer"),
        step(0, text="stub answer"),
        bus.TurnFinished("completed", "stub answer", USAGE, finish_reason="stop", steps=1),
    )
    usage = '{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"cached_tokens":null,"cache_write_tokens":null}'
    told = {
        "step": '{"type":"step","index":1,"max":0}',
        "request_provenance": '{"type":"request_provenance","session_id":"s","provider":"stub","model":"stub-model",'
        '"request_sha256":"ab","body_bytes":12,"tools_sha256":"cd"}',
        "token": '{"type":"token","text":"stub "}',
        "token ": '{"type":"token","text":"answer"}',
        "turn_usage": f'{{"type":"turn_usage","usage":{usage}}}',
        "messages_updated": '{"type":"messages_updated","messages":[{"role":"user","content":"say hi é"}]}',
        "done": f'{{"type":"done","stop_reason":"stop","usage":{usage}}}',
    }
    lines = [
        f'{{"jsonrpc":"2.0","method":"item/{tag.strip()}","params":{{"sessionId":"s","turnId":"t","event":{event}}}}}'
        for tag, event in told.items()
    ]
    end = '{"sessionId":"s","turnId":"t","stopReason":"completed","error":null}'
    lines.append(f'{{"jsonrpc":"2.0","method":"turn/completed","params":{end}}}')
    assert render(records).decode().splitlines() == lines


def test_a_step_with_calls() -> None:
    """Section 2.2, step 5b: the calls after the usage, in the model's order, results after the batch."""
    records = turn(
        bus.TurnStarted("t", None, [Text("go")]),
        bus.StepStarted(0),
        bus.ReasoningDelta("hm"),
        bus.CallStarted("c1", "read"),
        bus.CallArgumentsDelta("c1", '{"b":1,"a":2}'),
        ready("c1", "read", '{"a":2,"b":1}'),
        bus.CallReady("c2", "shell", "not json"),
        step(0, ref("c1", "read"), ref("c2", "shell")),
        bus.CallRunning("c1", "read"),
        bus.CallRunning("c2", "shell"),
        bus.CallOutputDelta("c2", "li", "stdout"),
        bus.CallFinished("c1", "read", "ok", "text of the file"),
        bus.CallFinished("c2", "shell", "error", "exit status 1"),
        bus.StepStarted(1),
        bus.TurnFinished("completed", finish_reason="length"),
    )
    assert tags(records) == [
        "step", "reasoning", "tool_call_started", "tool_call_args_delta", "turn_usage", "tool_call", "tool_call",
        "tool_output_delta", "tool_result", "tool_result", "step", "messages_updated", "done", "turn/completed",
    ]  # fmt: skip
    told = items(records)
    assert told[5:7] == [
        {"type": "tool_call", "id": "c1", "name": "read", "args": {"a": 2, "b": 1}},
        {"type": "tool_call", "id": "c2", "name": "shell", "args": None},
    ]
    assert told[8:10] == [
        {"type": "tool_result", "id": "c1", "content": "text of the file", "is_error": False},
        {"type": "tool_result", "id": "c2", "content": "ERROR: exit status 1", "is_error": True},
    ]
    assert told[12] == {"type": "done", "stop_reason": "length", "usage": None}  # the last request told of none


def test_calls_do_not_wait_for_a_step_that_never_ends() -> None:
    """An agent of one's own may run calls without saying that a reply was complete."""
    running = turn(
        bus.TurnStarted("t"), bus.StepStarted(0), ready("c", "x"), bus.CallRunning("c"),
        bus.CallFinished("c", "x", "ok", "y"), bus.TurnFinished("completed"),
    )  # fmt: skip
    assert tags(running)[:3] == ["step", "tool_call", "tool_result"]
    stopped = turn(
        bus.TurnStarted("t"), bus.StepStarted(0), ready("c", "x"), bus.CallCancelled("c", "stopped"),
        bus.TurnFinished("cancelled"),
    )  # fmt: skip
    assert tags(stopped) == ["step", "turn/completed"]


def question(**more: Any) -> bus.ApprovalRequested:
    return bus.ApprovalRequested("perm-1", "c", "write", **more)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            question(category="edit", path="/w/a", diff=bus.Diff("/w/a", "-x\n+y"), prompt_kind="write_escape"),
            {"capability": "write", "path": "/w/a", "diff": "-x\n+y", "prompt_kind": "write_escape",
             "offers_always": True},
        ),
        (
            question(command="ls", prompt_kind="exec", offers_always=False),
            {"capability": "exec", "path": None, "command": "ls", "prompt_kind": "exec", "offers_always": False},
        ),
        (
            question(category="mcp", prompt_kind="mcp"),
            {"capability": "run", "path": None, "prompt_kind": "mcp", "offers_always": True},
        ),
        (
            question(path="/etc/x", prompt_kind="read_escape"),
            {"capability": "read", "path": "/etc/x", "prompt_kind": "read_escape", "offers_always": True},
        ),
    ],
)  # fmt: skip
def test_questions(asked: bus.ApprovalRequested, told: dict[str, Any]) -> None:
    """Scenario 7.9. How it was settled shows in what follows."""
    records = turn(
        bus.TurnStarted("t"), asked, bus.ApprovalResolved("perm-1", "c", "allowed", "tool", "host"),
    )  # fmt: skip
    assert items(records) == [{"type": "permission_request", "request_id": "perm-1", "tool_name": "write", **told}]
    assert list(items(records)[0]) == ["type", "request_id", "tool_name", *told]


def test_a_denied_call_has_a_result() -> None:
    records = turn(
        bus.TurnStarted("t"), ready("c1", "host__arm_move"), ready("c2", "write"),
        bus.CallCancelled("c1", "denied", "no", "", "Tool denied: no"),
        bus.CallCancelled("c2", "refused", "", "write", "Tool refused: outside the workspace"),
    )  # fmt: skip
    assert [item["content"] for item in items(records)[2:]] == [
        "ERROR: tool 'host__arm_move' denied by user",
        "ERROR: Tool refused: outside the workspace",
    ]


def test_a_host_tool() -> None:
    """Scenario 7.6: the result carries the model's call id, the text parts, and the details after it."""
    records = turn(
        bus.TurnStarted("t"),
        bus.StepStarted(0),
        ready("call-1", "host__robot_arm_move", '{"position":"bin"}'),
        step(0, ref("call-1", "host__robot_arm_move")),
        bus.HostToolRequested("host-1", "call-1", "robot_arm_move", Raw(b'{"position":"bin"}')),
        bus.CallFinished(
            "call-1", "host__robot_arm_move", "ok", "frame captured", images=[Image("image/png", "iVBORw0KGgo=")],
            details=Raw(b'{"frame":7}'),
        ),
        bus.TurnFinished("completed"),
    )  # fmt: skip
    told = items(records)
    assert told[3:6] == [
        {"type": "tool_request", "request_id": "host-1", "tool_name": "robot_arm_move", "args": {"position": "bin"}},
        {"type": "tool_result", "id": "call-1", "content": "frame captured", "is_error": False},
        {"type": "tool_details", "id": "call-1", "details": {"frame": 7}},
    ]
    assert told[6]["messages"][-1] == {
        "role": "tool", "tool_call_id": "call-1",
        "content": [
            {"type": "text", "text": "frame captured"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ],
    }  # fmt: skip


def interrupted(reason: Any = "stopped") -> list[Record]:
    return turn(
        bus.TurnStarted("t"),
        ready("c1", "host__x"),
        bus.HostToolRequested("host-1", "c1", "x", Raw(b"{}")),
        ready("c2", "write"),
        question(),
        bus.HostToolCancelled("host-1", reason, "c1"),
        bus.CallCancelled("c1", reason),
        bus.ApprovalResolved("perm-1", "c2", "cancelled"),
        bus.CallCancelled("c2", reason),
        bus.TurnFinished("cancelled"),
    )


@pytest.mark.parametrize(("reason", "word"), [("stopped", "interrupted"), ("client_gone", "client_gone")])
def test_an_interrupted_turn(reason: str, word: str) -> None:
    """Scenarios 7.7 and 7.11: requests are withdrawn, the turn is over, and nothing else is said."""
    assert tags(interrupted(reason))[-2:] == ["tool_request_cancelled", "turn/completed"]
    assert items(interrupted(reason))[-2:] == [
        {"type": "tool_request_cancelled", "request_id": "host-1", "reason": word},
        {**NO_END, "stopReason": "interrupted", "error": None},
    ]
    assert "tool_result" not in tags(interrupted(reason))


def test_a_call_whose_request_was_withdrawn_has_no_result() -> None:
    """Scenario 7.11: the engine closes it with a result for the model; the turn is about to end."""
    records = turn(
        bus.TurnStarted("t"), bus.StepStarted(0), ready("c", "host__x"), step(0, ref("c", "host__x")),
        bus.HostToolRequested("host-1", "c", "x", Raw(b"{}")), bus.HostToolCancelled("host-1", "client_gone", "c"),
        bus.CallFinished("c", "host__x", "error", "the client is gone"), bus.TurnFinished("cancelled"),
    )  # fmt: skip
    assert tags(records)[-3:] == ["tool_request", "tool_request_cancelled", "turn/completed"]
    assert hear(render(records)) == codec.fidelity().surviving(records, "s")
    assert isinstance(logged(hear(render(records)))[-2].event, bus.CallCancelled)


def test_the_other_surface_tells_more_of_a_stop() -> None:
    """stream-json: `aborted`, a `done` of its own, and results of calls that nobody could be asked about."""

    class Bare(rendering.ItemLines):
        def frame(self, tag: str) -> tuple[bytes, bytes]:
            return b"", b"\n"

        def ended(self, event: bus.TurnFinished, turn_id: str) -> bytes:
            return b""

    def told(records: list[Record]) -> list[dict[str, Any]]:
        out = bytearray()
        assert Bare(surface.STREAM).render(records, out) == len(records)
        return [json.loads(line) for line in split(bytes(out))]

    assert told(interrupted())[-2:] == [
        {"type": "tool_request_cancelled", "request_id": "host-1", "reason": "aborted"},
        {"type": "done", "stop_reason": "aborted", "usage": None},
    ]
    results = [item["content"] for item in told(interrupted("client_gone")) if item["type"] == "tool_result"]
    assert results == [
        "ERROR: host tool 'x' was not answered: the client is gone",
        "ERROR: tool 'write' denied by user",
    ]


def test_a_provider_that_fails() -> None:
    """Scenario 7.14 and case S-a06: the same text twice, then nothing."""
    error = ErrorInfo("provider_error", "monthly quota used up")
    records = turn(
        bus.TurnStarted("t"), bus.StepStarted(0), bus.RequestSent("p", "m"), bus.TextDelta("Half an"),
        bus.ErrorRaised(error), bus.TurnFinished("failed", "Half an", error=error),
    )  # fmt: skip
    assert items(records)[-2:] == [
        {"type": "error", "code": "error", "message": "monthly quota used up"},
        {**NO_END, "stopReason": "error", "error": "monthly quota used up"},
    ]
    assert tags(records) == ["step", "request_provenance", "token", "error", "turn/completed"]
    silent = turn(bus.TurnStarted("t"), bus.TurnFinished("failed"))
    assert items(silent)[-1]["error"] == "the run ended without an outcome"


@pytest.mark.parametrize(
    ("limit", "words"),
    [("steps", "reached the 3-turn limit while the model was still calling tools"), ("bad_calls", "badly")],
)
def test_a_limit_is_an_error_here(limit: Any, words: str) -> None:
    records = turn(bus.TurnStarted("t"), bus.StepStarted(0, 3), bus.TurnFinished("limit", steps=3, limit=limit))
    told = items(records)
    assert told[0] == {"type": "step", "index": 1, "max": 3}
    assert words in told[-1]["error"]
    assert told[-1]["stopReason"] == "error"


def test_compaction_and_retry() -> None:
    """Section 2.2, step 3: the new history follows at once."""
    records = turn(
        bus.TurnStarted("t", None, [Text("long")]),
        bus.StepStarted(0),
        bus.CompactionStarted("threshold"),
        bus.CompactionFinished("threshold", "in short", 0, 4),
        bus.RetryScheduled(1, 3, 2500, "503", stream=True),
        bus.CompactionFailed("context_overflow", "nothing to fold"),
    )
    assert items(records)[1:] == [
        {"type": "compaction", "phase": "started", "reason": "preflight"},
        {"type": "compaction", "phase": "finished", "reason": "preflight", "messages": 4},
        {"type": "messages_updated", "messages": [{"role": "user", "content": "in short"}]},
        {"type": "retry", "attempt": 1, "max_attempts": 3, "delay_ms": 2500, "reason": "503"},
        {"type": "compaction", "phase": "failed", "reason": "context_overflow"},
    ]


def test_what_the_user_or_a_subagent_added_is_in_the_history_of_the_next_step() -> None:
    records = turn(
        bus.TurnStarted("t", None, [Text("go")]),
        bus.StepStarted(0),
        bus.TextDelta("wait"),
        step(0, text="wait"),
        bus.Parked(),
        bus.Notice("mover is done"),
        bus.UserJoined("report of mover"),
        bus.StepStarted(1),
        bus.TextDelta("all done"),
        step(1, text="all done"),
        bus.TurnFinished("completed"),
    )
    before = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "wait"},
        {"role": "user", "content": "report of mover"},
    ]
    assert tags(records)[3:7] == ["parked", "notice", "step", "messages_updated"]
    assert items(records)[6]["messages"] == before
    assert items(records)[-3]["messages"] == before


def test_subagents() -> None:
    """Scenario 7.16: what they say is nested, but for their host tool requests; their end is not said twice."""
    run = "sub-mover-0a1b2c3d"
    records = turn(
        bus.TurnStarted("t"),
        bus.SubagentQueued(run, "mover", "move it", 1),
        bus.SubagentStarted(run, "mover", "move it"),
        (run, bus.TurnStarted("child")),
        (run, bus.StepStarted(0)),
        (run, bus.RequestSent("p", "m", "messages", "ab", 1)),
        (run, bus.TextDelta("mov")),
        (run, bus.TextDelta("ing")),
        (run, ready("k", "host__arm")),
        (run, step(0, ref("k", "host__arm"))),
        (run, bus.ApprovalRequested("perm-2", "k", "host__arm", "mcp", prompt_kind="mcp")),
        (run, bus.HostToolRequested("host-1", "k", "arm", Raw(b"{}"), run)),
        (run, bus.HostToolCancelled("host-1", "stopped", "k")),
        (run, bus.CallCancelled("k", "stopped")),
        (run, bus.ErrorRaised(ErrorInfo("provider_error", "x"))),
        (run, bus.TurnFinished("failed")),
        bus.SubagentFinished(run, "mover", "x"),
    )

    def nested(event: dict[str, Any]) -> dict[str, Any]:
        return {"type": "subagent", "run_id": run, "name": "mover", "event": event}

    assert items(records) == [
        {"type": "subagent_queued", "run_id": run, "name": "mover", "task": "move it", "waiting": 1},
        {"type": "subagent_start", "run_id": run, "name": "mover", "task": "move it"},
        nested({"type": "step", "index": 1, "max": 0}),
        nested({
            "type": "request_provenance", "run_id": run, "session_id": "s", "provider": "p", "model": "m",
            "api_type": "anthropic", "request_sha256": "ab", "body_bytes": 1,
        }),
        nested({"type": "token", "text": "mov"}),
        nested({"type": "token", "text": "ing"}),
        nested({"type": "turn_usage", "usage": SPENT}),
        nested({"type": "tool_call", "id": "k", "name": "host__arm", "args": {}}),
        nested({
            "type": "permission_request", "request_id": "perm-2", "tool_name": "host__arm", "capability": "run",
            "path": None, "prompt_kind": "mcp", "offers_always": True,
        }),
        {"type": "tool_request", "request_id": "host-1", "tool_name": "arm", "args": {}, "run_id": run},
        {"type": "tool_request_cancelled", "request_id": "host-1", "reason": "interrupted"},
        nested({
            "type": "tool_result", "id": "k", "is_error": True,
            "content": "ERROR: host tool 'arm' was cancelled before it answered",
        }),
        {"type": "subagent_end", "run_id": run, "name": "mover", "error": "x"},
    ]  # fmt: skip


def test_nothing_is_said_outside_a_turn() -> None:
    aside = Record(1, 0, bus.Notice("x"))
    after = [*turn(bus.TurnStarted("t"), bus.TurnFinished("completed")), Record(9, 0, bus.CallOutputDelta("c", "x"), 1)]
    assert render([aside]) == b""
    assert tags([*after, aside]) == ["messages_updated", "done", "turn/completed"]


# --- the gap before a turn's end (section 6.5) ---------------------------------------------------------------


def begin(line: Line, turn_id: str) -> None:
    params = {"sessionId": "s", "input": "hi"}
    request = line.read({"jsonrpc": "2.0", "id": 1, "method": "turn/start", "params": params})
    assert request is not None
    line.side.outcome(request, Outcome(Done(turn_id)), bytearray())


def test_the_end_of_a_turn_waits_once_after_its_answer() -> None:
    line = Line(Scene({"s"}))
    begin(line, "t")
    records = turn(bus.TurnStarted("t"), bus.StepStarted(0), bus.TextDelta("x"), bus.TurnFinished("completed"))
    out = bytearray()
    assert line.side.render("s", records, out) == Directive(3, hold_ms=20)
    assert [json.loads(text)["method"] for text in split(bytes(out))] == ["item/step", "item/token"]
    assert line.side.render("s", records[3:], out) is None
    assert out == render(records)


def test_each_turn_waits_for_its_own_answer() -> None:
    """A slow reader may be told of the second turn before it has read the end of the first."""
    line = Line(Scene({"s"}))
    first = turn(bus.TurnStarted("t1"), bus.TurnFinished("completed"))
    second = turn(bus.TurnStarted("t2"), bus.TurnFinished("completed"), number=2)
    begin(line, "t1")
    begin(line, "t2")
    out = bytearray()
    assert line.side.render("s", first + second, out) == Directive(1, hold_ms=20)
    assert line.side.render("s", first[1:] + second, out) == Directive(2, hold_ms=20)
    assert line.side.render("s", second[1:], out) is None
    assert out == render(first + second)


def test_a_turn_that_another_began_does_not_wait() -> None:
    side, out = codec.agent(), bytearray()
    assert side.render("s", turn(bus.TurnStarted("t"), bus.TurnFinished("completed")), out) is None
