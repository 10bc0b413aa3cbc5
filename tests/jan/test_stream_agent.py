"""stream-json, agent side: what a run begins with, what is wrong with an input line, and what the last line says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from jancommand import PUBLISHED

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.contract import Directive, Request
from agentwire.codec.framing import LineFault
from agentwire.commands import Done, Outcome, Refusal, SessionState
from agentwire.log.record import Record
from agentwire_jan.stream import codec_stream as codec
from agentwire_jan.stream_agent import JanStreamAgent

VIEW: Any = None
STATE = SessionState("12345678-aaaa", "m", tools=["read", "host__observe"], workspace="/w")
TOOL = bus.HostTool("host__observe", "Look.", {"type": "object"}, "observe")


def opened(side: JanStreamAgent, state: SessionState = STATE) -> list[dict[str, Any]]:
    """Its session is open: what it writes."""
    out = bytearray()
    request = next(request for request in side.opening() if request.token)
    assert side.outcome(request, Outcome(Done(state)), out) is None
    return lines(out)


def lines(out: bytearray) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in bytes(out).splitlines()]
    for line in found:
        PUBLISHED.validate(line)
    return found


def run(side: JanStreamAgent, *events: bus.Event, kind: Any = "new") -> tuple[list[dict[str, Any]], Directive | None]:
    """A run of these events, one a millisecond, after the session's opening and the turn's start."""
    whole: Sequence[bus.Event] = (bus.SessionOpened(STATE.id, kind), bus.TurnStarted("t"), *events)
    records = [Record(n + 1, 1000 + n, event, min(n, 1)) for n, event in enumerate(whole)]  # type: ignore[arg-type]
    out = bytearray()
    directive = side.render(STATE.id, records, out)
    return lines(out), directive


# --- the beginning -------------------------------------------------------------------------------------------


def test_what_is_asked_for_at_first() -> None:
    declared = {"name": "observe", "description": "Look.", "parameters": {"type": "object"}}
    first, second = JanStreamAgent("go", host_tools=[declared], host_gate=True).opening()
    command = first.command
    assert isinstance(command, commands.OpenSession)
    assert (command.tools, command.host_permissions, len(command.id)) == ([TOOL], True, 36)
    assert second.command == commands.Prompt("go")
    assert [request.command for request in JanStreamAgent("go", resume="s").opening()] == [
        commands.ResumeSession("s"), commands.Prompt("go"),
    ]  # fmt: skip
    assert [request.command for request in JanStreamAgent(resume="s", host_tools=[declared]).opening()] == [
        commands.ResumeSession("s", tools=[TOOL]),
    ]  # fmt: skip
    assert codec.begin is not None
    assert [type(request.command) for request in codec.begin(codec.agent(task=7))] == [
        commands.OpenSession, commands.Prompt,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"input_format": "text"},
        {"input_format": "json"},
        {"output_format": "xml"},
        {"host_tools": [{"name": "shell"}]},
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        JanStreamAgent(**options)


def test_the_first_line() -> None:
    [init] = opened(JanStreamAgent("go"))
    assert list(init) == [
        "type", "protocol_version", "session_id", "model", "cwd", "tools", "input_kinds", "input_content_parts",
    ]  # fmt: skip
    assert init["input_content_parts"]["max_line_bytes"] == 16777216
    [init] = opened(JanStreamAgent("go", input_format="text"), msgspec.structs.replace(STATE, host_tools=[TOOL]))
    assert (init["input_kinds"], init["input_content_parts"]) == ([], None)
    assert init["tool_specs"][0]["function"]["name"] == "host__observe"


@pytest.mark.parametrize("command", [commands.OpenSession(), commands.ResumeSession("s"), commands.Prompt("x")])
def test_a_run_that_cannot_begin(command: commands.Command) -> None:
    side, out = JanStreamAgent("go"), bytearray()
    directive = side.outcome(Request(command), Outcome(Refusal("config", "no key")), out)
    [result] = lines(out)
    assert directive == Directive(0, exit_status=1)
    assert (result["error"], result["model"]) == ({"code": "setup_error", "message": "no key"}, "")
    del out[:]
    assert side.outcome(Request(commands.Prompt("go")), Outcome(Refusal("not_found", "x")), out) is None
    assert side.render("s", [Record(1, 1, bus.SessionOpened("s"))], out) is None
    assert side.receive(b'{"type":"abort"}', VIEW) is None
    assert out == b""


# --- input lines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", "not JSON: "),
        ("7", "missing string field 'type'"),
        ("[]", "missing string field 'type'"),
        ("{}", "missing string field 'type'"),
        ('{"type":7}', "missing string field 'type'"),
        ('{"type":"x"}', "unknown type 'x' (user, abort, permission, tool_result)"),
        ('{"type":"user","text":"a","content":[]}', "'user' takes 'text' or 'content', not both"),
        ('{"type":"user"}', "'user' needs 'text' or 'content'"),
        ('{"type":"user","text":null}', "'user' needs 'text' or 'content'"),
        ('{"type":"user","text":" \\n"}', "'user' text is empty"),
        ('{"type":"user","text":7}', "invalid type: integer `7`, expected a string"),
        ('{"type":"user","content":{}}', "invalid type: map, expected a sequence"),
        ('{"type":"user","content":[]}', "'user' content is empty"),
        ('{"type":"user","content":[{"type":"audio"}]}', "unsupported content part 'audio' (text, image_url)"),
        ('{"type":"permission","decision":"deny"}', "missing field `request_id`"),
        ('{"type":"permission","request_id":"p"}', "missing field `decision`"),
        ('{"type":"permission","request_id":null,"decision":"deny"}', "invalid type: null, expected a string"),
        (
            '{"type":"permission","request_id":"p","decision":"maybe"}',
            "unknown variant `maybe`, expected one of `allow_once`, `allow_always`, `deny`",
        ),
        ('{"type":"tool_result","content":"x"}', "missing field `request_id`"),
        ('{"type":"tool_result","request_id":"h"}', "missing field `content`"),
        (
            '{"type":"tool_result","request_id":"h","content":7}',
            "data did not match any variant of untagged enum ToolResultContent",
        ),
        ('{"type":"tool_result","request_id":"h","content":[]}', "'tool_result' content is empty"),
        (
            '{"type":"tool_result","request_id":"h","content":"","is_error":"no"}',
            'invalid type: string "no", expected a boolean',
        ),
        (
            '{"type":"tool_result","request_id":"h","content":"","details":[1]}',
            "invalid type: sequence, expected a map",
        ),
    ],
)
def test_a_bad_line(line: str, message: str) -> None:
    side, out = JanStreamAgent("go"), bytearray()
    opened(side)
    request = side.receive(line.encode(), VIEW)
    assert request is not None
    assert request.command is None
    assert request.refusal is not None
    side.outcome(request, Outcome(request.refusal), out)
    [error] = lines(out)
    assert error["message"].startswith(message)
    assert message.endswith(": ") or error["message"] == message
    assert (error["type"], error["line"], error["line_truncated"]) == ("input_error", line, False)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (LineFault("too_long", "line too long", 1 << 25), "line is over the 16777216 byte cap"),
        (LineFault("not_utf8", "line is not UTF-8: x", 9), "not JSON: line is not UTF-8: x"),
    ],
)
def test_a_line_that_could_not_be_framed(fault: LineFault, message: str) -> None:
    side, out = JanStreamAgent("go"), bytearray()
    request = side.receive(fault, VIEW)
    assert request is not None
    assert request.refusal is not None
    side.outcome(request, Outcome(request.refusal), out)
    assert lines(out) == [{"type": "input_error", "message": message, "line": "", "line_truncated": True}]


def test_a_long_line_is_given_back_up_to_a_character() -> None:
    side, out = JanStreamAgent("go"), bytearray()
    request = side.receive(b"x" * 4095 + "é".encode() + b"y", VIEW)
    assert request is not None
    assert request.refusal is not None
    side.outcome(request, Outcome(request.refusal), out)
    [error] = lines(out)
    assert (error["line"], error["line_truncated"]) == ("x" * 4095, True)


def test_blank_lines_say_nothing_and_nothing_is_read_after_an_abort() -> None:
    side = JanStreamAgent("go")
    assert side.receive(b"", VIEW) is None
    assert side.receive(b" \t", VIEW) is None
    request = side.receive(b'{"type":"abort","why":"x"}', VIEW)
    assert request is not None
    assert request.command == commands.Stop()
    assert side.receive(b'{"type":"user","text":"more"}', VIEW) is None
    assert side.receive(b"{not json", VIEW) is None


def test_an_abort_before_there_is_a_task() -> None:
    """There was no run, and that is told."""
    side, out = JanStreamAgent(), bytearray()
    opened(side)
    request = side.receive(b'{"type":"abort"}', VIEW)
    assert request is not None
    assert side.outcome(request, Outcome(Done(False)), out) == Directive(0, exit_status=0)
    done, result = lines(out)
    assert done == {"type": "done", "stop_reason": "aborted", "usage": None}
    assert (result["stop_reason"], result["num_turns"], result["session_id"]) == ("aborted", 0, None)


def test_input_that_is_text_is_not_read() -> None:
    side = JanStreamAgent("go", input_format="text")
    assert side.receive(b'{"type":"abort"}', VIEW) is None
    assert side.receive(LineFault("not_utf8", "x"), VIEW) is None


def test_the_first_input_is_the_task_if_there_is_none() -> None:
    side = JanStreamAgent()
    first, second = (side.receive(b'{"type":"user","text":"hi"}', VIEW) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.command == commands.Prompt("hi")
    assert second.command == commands.Steer("hi")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"type":"permission","request_id":"p","decision":"deny"}', "no permission request 'p' is pending"),
        ('{"type":"permission","request_id":"p","decision":"allow_once"}', "no permission request 'p' is pending"),
        ('{"type":"tool_result","request_id":"h","content":"x"}', "no host tool request 'h' is pending"),
        ('{"type":"user","text":"late"}', "run ended before this follow-up was read"),
    ],
)
def test_what_was_not_carried_out(line: str, message: str) -> None:
    side, out = JanStreamAgent("go"), bytearray()
    request = side.receive(line.encode(), VIEW)
    assert request is not None
    side.outcome(request, Outcome(Refusal("not_found", "whatever")), out)
    [error] = lines(out)
    assert (error["message"], error["line"]) == (message, line)
    told, _ = run(side, bus.TurnFinished("completed"))
    assert not [line for line in told if line["type"] == "input_error"]


def test_follow_ups_that_nobody_read_are_given_back_before_the_result() -> None:
    side = JanStreamAgent("go")
    opened(side)
    inputs = [b'{"type":"user","text":"a"}', b'{"type":"user","text":"b"}', b'{"type":"user","text":"a"}']
    for line in inputs:
        assert side.receive(line, VIEW) is not None
    told, _ = run(side, bus.UserJoined("a"), bus.UserJoined("from a subagent"), bus.TurnFinished("completed"))
    assert [line["line"] for line in told if line["type"] == "input_error"] == [line.decode() for line in inputs[1:]]
    assert [line["type"] for line in told[-3:]] == ["input_error", "input_error", "result"]


# --- questions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "scope", "by", "told"),
    [
        ("allowed", "call", "host-1", "allow_once"),
        ("allowed", "", "host-1", "allow_once"),
        ("allowed", "tool", "host-1", "allow_always"),
        ("allowed", "category", "host-1", "allow_always"),
        ("denied", "", "host-1", "deny"),
        ("denied", "", "client_gone", "deny"),
        ("cancelled", "", "client_gone", "deny"),
        ("cancelled", "", "stop", None),
    ],
)
def test_how_a_question_was_settled(decision: Any, scope: Any, by: str, told: str | None) -> None:
    question = bus.ApprovalRequested("perm-1", "c", "shell")
    said, _ = run(JanStreamAgent("go"), question, bus.ApprovalResolved("perm-1", "c", decision, scope, by))
    assert [line["type"] for line in said[:1]] == ["permission_request"]
    assert said[1:] == ([{"type": "permission_decision", "request_id": "perm-1", "decision": told}] if told else [])


# --- the last line -------------------------------------------------------------------------------------------

STEP = (bus.StepStarted(0), bus.TextDelta("one "), bus.StepStarted(1), bus.TextDelta("two"))
ERROR = bus.ErrorInfo("provider_error", "Upstream returned HTTP 500")


@pytest.mark.parametrize(
    ("end", "kind", "status", "expected"),
    [
        (
            bus.TurnFinished("completed", "answer", finish_reason="length"), "new", 0,
            {"is_error": False, "result": "answer", "stop_reason": "length", "session_id": "12345678"},
        ),
        (
            bus.TurnFinished("cancelled", "x"), "new", 0,
            {"is_error": False, "result": "two", "stop_reason": "aborted", "session_id": None},
        ),
        (
            bus.TurnFinished("cancelled", "x"), "resumed", 0,
            {"is_error": False, "result": "two", "stop_reason": "aborted", "session_id": "12345678"},
        ),
        (
            bus.TurnFinished("failed", "x", error=ERROR), "new", 1,
            {
                "is_error": True, "result": "two", "stop_reason": "error", "session_id": None,
                "error": {"code": "upstream_error", "message": "Upstream returned HTTP 500"},
            },
        ),
        (
            bus.TurnFinished("limit", "x", steps=2, limit="steps"), "new", 53,
            {
                "is_error": True, "result": "two", "stop_reason": "error", "session_id": "12345678",
                "error": {
                    "code": "error",
                    "message": "reached the 2-turn limit while the model was still calling tools",
                },
            },
        ),
        (bus.TurnFinished("limit", "x", steps=2, limit="bad_calls"), "new", 1, {"is_error": True}),
        (bus.TurnFinished("failed", "x"), "forked", 1, {"is_error": True, "session_id": "12345678"}),
    ],
)  # fmt: skip
def test_how_a_run_ended(end: bus.TurnFinished, kind: str, status: int, expected: dict[str, Any]) -> None:
    side = JanStreamAgent("go")
    opened(side)
    told, directive = run(side, *STEP, end, bus.TurnStarted("again"), kind=kind)
    assert directive == Directive(7, exit_status=status)
    result = told[-1]
    assert {**result, **expected} == result
    assert (result["num_turns"], result["duration_ms"], result["model"]) == (2, 6, "m")
    assert ("error" in result) is result["is_error"]


def test_an_ephemeral_session_has_no_name() -> None:
    side = JanStreamAgent("go")
    opened(side)
    records = [
        Record(1, 1, bus.SessionOpened(STATE.id, ephemeral=True)),
        Record(2, 2, bus.TurnStarted("t"), 1),
        Record(3, 3, bus.TurnFinished("completed"), 1),
    ]
    out = bytearray()
    side.render(STATE.id, records, out)
    assert lines(out)[-1]["session_id"] is None


def test_usage_is_of_the_whole_run() -> None:
    """A cache that was never reported is told apart from one that was not used."""
    for usage, expected in (
        (bus.Usage(), (0, 0, 0, None, None)),
        (bus.Usage(10, 5, 0, 2, 3), (10, 5, 15, 0, 2)),
    ):
        told, _ = run(JanStreamAgent("go"), bus.TurnFinished("completed", usage=usage))
        assert tuple(told[-1]["usage"].values()) == expected


def test_a_fatal_error_is_the_only_line() -> None:
    out = bytearray()
    JanStreamAgent("go").fatal(Refusal("config", "no"), out)
    assert [line["error"]["code"] for line in lines(out)] == ["setup_error"]
    del out[:]
    JanStreamAgent("go", output_format="text").fatal(Refusal("config", "no"), out)
    assert out == b""


def test_another_session_is_not_shown() -> None:
    side, out = JanStreamAgent("go"), bytearray()
    side.render("one", [Record(1, 1, bus.SessionOpened("one"))], out)
    side.render("two", [Record(1, 1, bus.TurnStarted("t"), 1), Record(2, 2, bus.StepStarted(0), 1)], out)
    assert out == b""
