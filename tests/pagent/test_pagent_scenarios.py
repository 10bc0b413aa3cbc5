"""The scenarios of section 10: what a session's log becomes, line by line, and what a host's lines ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET
from pagentlines import hear, methods, recorded, render, rows, split, turn

from agentwire import events as bus
from agentwire.codec import Heard, Record
from agentwire.events import Usage
from agentwire_pagent import codec, codec_v4
from agentwire_pagent.agent_side import PagentAgent

USAGE = {
    "completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15, "completion_tokens_details": None,
    "prompt_tokens_details": None,
}  # fmt: skip


def reply(index: int, *texts: str, calls: Any = (), usage: Any = UNSET, reasoning: Any = ()) -> list[bus.Event]:
    """One step as the engine writes it: a call is ready before its step is finished."""
    return [
        bus.StepStarted(index, 0),
        *[bus.ReasoningDelta(piece) for piece in reasoning],
        *[bus.TextDelta(text) for text in texts],
        *[bus.CallReady(call.call_id, call.name, call.arguments_text) for call in calls],
        bus.StepFinished(index, "".join(texts), "".join(reasoning), list(calls), usage, "stop", "openai"),
    ]


def ran(call: bus.CallRef, output: str, status: Any = "ok") -> list[bus.Event]:
    return [bus.CallRunning(call.call_id, call.name), bus.CallFinished(call.call_id, call.name, status, output)]


def asked(text: str) -> bus.TurnStarted:
    return bus.TurnStarted("t", None, [bus.Text(text)])


def params(stream: bytes, method: str) -> list[dict[str, Any]]:
    return [message["params"] for message in map(json.loads, split(stream)) if message["method"] == method]


def test_1_a_plain_answer() -> None:
    usage = Usage(10, 5, extra=USAGE)
    log = turn(
        asked("2+2?"), *reply(0, "2 + 2", " is", " 4.", usage=usage), bus.TurnFinished("completed", "2 + 2 is 4.")
    )
    assert render(codec, log) == recorded("single_turn")


def test_2_no_usage() -> None:
    heard = [item.event for item in hear(codec, recorded("single_turn_no_usage")) if isinstance(item, Heard)]
    (prompt,) = [event.input for event in heard if isinstance(event, bus.TurnStarted)]
    texts = [event.text for event in heard if isinstance(event, bus.TextDelta)]
    log = turn(bus.TurnStarted("t", None, prompt), *reply(0, *texts), bus.TurnFinished("completed", "".join(texts)))
    assert render(codec, log) == recorded("single_turn_no_usage")


def test_3_a_tool_then_the_answer() -> None:
    """From a log as the engine writes it: the calls are ready before the step is finished, usage is of each step."""
    stream = recorded("tool_two_turns")
    first, second = params(stream, "StepEnd")
    call = bus.CallRef("call_1", "get_weather", '{"city": "Xiamen"}')
    texts = [delta["text"] for delta in params(stream, "TextDelta")]
    (result,) = params(stream, "ToolResult")
    log = turn(
        asked(params(stream, "RunBegin")[0]["user_input"]),
        *reply(0, texts[0], calls=[call], usage=Usage(extra=first["usage"])),
        *ran(call, result["content"]),
        *reply(1, *texts[1:], usage=Usage(extra=second["usage"])),
        bus.TurnFinished("completed", second["content"], Usage(1, 2)),
    )
    assert render(codec, log) == stream


def test_4_two_calls_one_after_the_other() -> None:
    calls = [bus.CallRef("call_1", "add", "{}"), bus.CallRef("call_2", "get_weather", "{}")]
    log = turn(
        asked("both please"), *reply(0, calls=calls), *ran(calls[0], "2"), *ran(calls[1], "sunny"),
        *reply(1, "2 and sunny"), bus.TurnFinished("completed"),
    )  # fmt: skip
    assert methods(render(codec, log)) == methods(recorded("parallel_tools_interleaved"))


def test_5_reasoning_is_repeated_whole() -> None:
    log = turn(asked("17*23?"), *reply(0, "17 × 23 = ", "391", reasoning=("a ", "b")), bus.TurnFinished("completed"))
    stream = render(codec, log)
    assert methods(stream) == methods(recorded("reasoning"))
    assert params(stream, "StepEnd")[0]["reasoning_content"] == "a b"


def test_5_reasoning_that_a_retry_made_void_stays_in_the_steps_end() -> None:
    """It was shown; the end of the step repeats what was shown."""
    log = turn(
        asked("hi"), bus.StepStarted(0), bus.ReasoningDelta("first try "),
        bus.RetryScheduled(1, 2, 1000, "reset", True), bus.ReasoningDelta("second try"), bus.TextDelta("x"),
        bus.StepFinished(0, "x", "second try"), bus.TurnFinished("completed", "x"),
    )  # fmt: skip
    assert params(render(codec, log), "RunEnd")[0]["reasoning_content"] == "first try second try"


def test_6_the_limit_while_tools_still_run() -> None:
    calls = [bus.CallRef("call_a", "add", "{}"), bus.CallRef("call_b", "add", "{}")]
    log = turn(
        asked("keep adding"), *reply(0, calls=calls[:1]), *ran(calls[0], "3"), *reply(1, "again", calls=calls[1:]),
        *ran(calls[1], "7"), bus.TurnFinished("limit", "again"),
    )  # fmt: skip
    stream = render(codec, log)
    assert methods(stream) == methods(recorded("max_turns_stop"))
    assert params(stream, "TurnEnd")[-1] == {"turn": 1, "stopped": False}
    (end,) = params(stream, "RunEnd")
    assert (end["content"], [call["id"] for call in end["tool_calls"]]) == ("again", ["call_b"])
    assert [end["params"] for end in map(json.loads, split(render(codec_v4, log))[-2:])] == [
        {"turn": 1, "stopped": True, "stop_reason": "max_turns"}, {"turn": 1, "stop_reason": "max_turns"},
    ]  # fmt: skip


def test_7_failing_refused_and_unknown_tools() -> None:
    """The run goes on after each of them, and each has its pair of lines."""
    calls = [bus.CallRef(f"c{n}", "t", "{") for n in range(4)]
    log = turn(
        asked("x"), *reply(0, calls=calls),
        *ran(calls[0], "t error: boom", "error"),
        bus.CallFinished("c1", "t", "error", "Unknown tool: t"),
        bus.CallCancelled("c2", "refused", "t needs an approval that this host cannot give", "t"),
        bus.CallCancelled("c3", "client_gone", "", "t"),
        *reply(1, "done"), bus.TurnFinished("completed", "done"),
    )  # fmt: skip
    stream = render(codec, log)
    results = params(stream, "ToolResult")
    assert [(result["tool_call_id"], result["content"], result["ok"]) for result in results] == [
        ("c0", "t error: boom", False),
        ("c1", "Unknown tool: t", False),
        ("c2", "t needs an approval that this host cannot give", False),
        ("c3", "Client disconnected", False),
    ]
    assert params(stream, "TurnEnd") == [{"turn": 0, "stopped": False}, {"turn": 1, "stopped": True}]


BOOM = bus.ErrorInfo("provider_error", "boom", retryable=True)


def failed(*events: bus.Event) -> list[Record]:
    return turn(asked("hi"), *events, bus.ErrorRaised(BOOM), bus.TurnFinished("failed", "", error=BOOM))


def test_8_an_error_in_the_middle_of_the_stream() -> None:
    stream = render(codec, failed(bus.StepStarted(0), bus.TextDelta("a"), bus.TextDelta("b")))
    assert methods(stream) == methods(recorded("error_mid_stream_provider"))


@pytest.mark.parametrize("open_call", [False, True])
def test_8_what_there_is_of_a_failed_step_is_not_told(open_call: bool) -> None:
    """The engine ends the step and closes its calls after the error; the peer says no more."""
    log = turn(
        asked("hi"), bus.StepStarted(0), bus.TextDelta("a"), bus.TextDelta("b"), bus.ErrorRaised(BOOM),
        bus.StepFinished(0, "ab"), *([bus.CallCancelled("c", "stopped", "", "t")] if open_call else []),
        bus.TurnFinished("failed", "ab", error=BOOM),
    )  # fmt: skip
    assert methods(render(codec, log)) == methods(recorded("error_mid_stream_provider"))
    assert methods(render(codec_v4, log)) == [*methods(recorded("error_mid_stream_provider")), "Error"]


def test_8_an_error_that_did_not_end_the_turn() -> None:
    log = turn(
        asked("hi"), bus.StepStarted(0), bus.TextDelta("a"), bus.ErrorRaised(BOOM), bus.StepFinished(0, "a"),
        *reply(1, "b"), bus.TurnFinished("completed", "b"),
    )  # fmt: skip
    assert methods(render(codec, log)) == [
        "RunBegin", "TurnBegin", "TextDelta", "StepEnd", "TurnEnd", "TurnBegin", "TextDelta", "StepEnd", "TurnEnd",
        "RunEnd",
    ]  # fmt: skip


def test_9_an_error_at_once() -> None:
    assert render(codec, failed(bus.StepStarted(0))) == recorded("error_before_stream_http_500")


def test_10_an_error_in_the_second_turn() -> None:
    call = bus.CallRef("c", "t", "{}")
    stream = render(codec, failed(*reply(0, calls=[call]), *ran(call, "x"), bus.StepStarted(1)))
    assert methods(stream) == [
        "RunBegin", "TurnBegin", "StepEnd", "ToolCallBegin", "ToolResult", "TurnEnd", "TurnBegin",
    ]  # fmt: skip
    assert methods(stream)[-2:] == methods(recorded("error_second_turn"))[-2:]


def test_8_to_10_v4_and_the_opt_in_say_what_failed() -> None:
    log = failed(bus.StepStarted(0), bus.TextDelta("partial"))
    error = '{"jsonrpc": "2.0", "method": "Error", "params": {"message": "boom", "where": "turn"}}\n'
    out = bytearray()
    PagentAgent(errors=True).render("s", log, out)
    for stream in (bytes(out), render(codec_v4, log)):
        assert methods(stream) == ["RunBegin", "TurnBegin", "TextDelta", "Error"]
        assert stream.endswith(error.encode())


@pytest.mark.parametrize(("name", "input_text"), [("empty_response", ""), ("empty_stream", "")])
def test_12_an_empty_answer(name: str, input_text: str) -> None:
    stream = render(codec, turn(asked(input_text), *reply(0), bus.TurnFinished("completed")))
    assert methods(stream) == methods(recorded(name))
    (end,) = params(stream, "RunEnd")
    assert end == {"content": "", "tool_calls": [], "reasoning_content": "", "usage": None}


def test_12_an_empty_answer_has_a_reason_of_its_own_in_v4() -> None:
    log = turn(asked("say nothing"), *reply(0), bus.TurnFinished("completed"))
    assert render(codec_v4, log) == recorded("v4_empty_response")


def test_13_a_stop_ends_the_stream() -> None:
    """Nothing is written after it: no result of the tool that was killed, no end."""
    call = bus.CallRef("c", "t", "{}")
    log = turn(
        asked("x"), *reply(0, calls=[call]), bus.CallRunning("c", "t"),
        bus.CallCancelled("c", "stopped", "Cancelled by user", "t"), bus.TurnFinished("cancelled"),
    )  # fmt: skip
    assert methods(render(codec, log)) == ["RunBegin", "TurnBegin", "StepEnd", "ToolCallBegin"]


def test_14_two_runs_in_one_stream() -> None:
    one = [asked("a"), *reply(0, "x"), bus.TurnFinished("completed", "x")]
    stream = render(codec, turn(*one, *one))
    assert methods(stream) == methods(recorded("two_runs_one_session"))
    assert [begin["turn"] for begin in params(stream, "TurnBegin")] == [0, 0]


def test_16_calls_that_never_ran_leave_the_turn_stopped() -> None:
    log = turn(asked("hi"), *reply(0, calls=[bus.CallRef("c1", "t", "{}")]), bus.TurnFinished("completed"))
    assert render(codec, log) == recorded("session_trimmed_stop")


def test_21_v4_the_turn_before_the_extra_one_has_no_end() -> None:
    call = bus.CallRef("call_a", "add", "{}")
    log = turn(
        asked("keep adding"), *reply(0, calls=[call]), *ran(call, "3"),
        bus.StepStarted(1, 1), bus.TextDelta("Stopping: 3"), bus.StepFinished(1, "Stopping: 3"),
        bus.TurnFinished("completed", "Stopping: 3"),
    )  # fmt: skip
    stream = render(codec_v4, log)
    assert methods(stream) == methods(recorded("v4_max_turns_synthesis"))
    assert [end["turn"] for end in params(stream, "TurnEnd")] == [1]


def test_22_v4_a_denied_call() -> None:
    call = bus.CallRef("call_2", "run_command", '{"command": "rm x"}')
    log = turn(
        asked("rm it"), *reply(0, calls=[call]),
        bus.ApprovalRequested("call_2", "call_2", "run_command", command="rm x"),
        bus.ApprovalResolved("call_2", "call_2", "denied", "", "host", "no way"),
        bus.CallCancelled("call_2", "denied", "no way", "run_command"),
        *reply(1, "OK, not doing that."), bus.TurnFinished("completed", "OK, not doing that."),
    )  # fmt: skip
    lines = [row["line"] for row in rows("v4_stdio_session.jsonl") if row["stream"] == "stdout"]
    at = next(n for n, line in enumerate(lines) if '"rm it"' in line)
    written = [line.decode() + "\n" for line in split(render(codec_v4, log))]
    assert [json.loads(line)["method"] for line in written] == [
        json.loads(line)["method"] for line in lines[at : at + 12]
    ]
    assert written[3:6] == lines[at + 3 : at + 6]  # the call, the question and the result, to the byte
    assert methods(render(codec, log))[3:5] == ["ToolCallBegin", "ToolResult"]  # classic cannot ask, but it tells


def test_23_v4_a_stop_while_the_model_speaks() -> None:
    """The reply as far as it got, and the end; the peer lets the model finish, we do not wait for it."""
    log = turn(asked("go slow"), bus.StepStarted(0), bus.TextDelta("slow "), bus.TurnFinished("cancelled", "slow "))
    assert [json.loads(line)["params"] for line in split(render(codec_v4, log))[3:]] == [
        {"content": "slow ", "tool_calls": [], "reasoning_content": "", "usage": None},
        {"turn": 0, "stopped": True, "stop_reason": "cancelled"},
        {"turn": 0, "stop_reason": "cancelled"},
    ]


def test_23_v4_a_stop_while_a_tool_runs() -> None:
    calls = [bus.CallRef("c1", "t", "{}"), bus.CallRef("c2", "t", "{}")]
    log = turn(
        asked("x"), *reply(0, calls=calls), bus.CallRunning("c1", "t"),
        bus.CallCancelled("c1", "stopped", "Cancelled by user", "t"),
        bus.CallCancelled("c2", "stopped", "Cancelled by user", "t"), bus.TurnFinished("cancelled"),
    )  # fmt: skip
    stream = render(codec_v4, log)
    assert methods(stream)[3:] == ["ToolCallBegin", "ToolResult", "TurnEnd", "RunEnd"]
    assert params(stream, "ToolResult") == [
        {"tool_call_id": "c1", "name": "t", "content": "Cancelled by user", "ok": False}
    ]


# --- beside the scenarios ------------------------------------------------------------------------------------


def test_an_agent_that_takes_no_steps() -> None:
    log = turn(asked("x"), bus.TurnFinished("completed", "said by nobody"))
    assert methods(render(codec, log)) == ["RunBegin", "RunEnd"]
    assert params(render(codec, log), "RunEnd")[0]["content"] == "said by nobody"
    assert split(render(codec_v4, log))[-1].endswith(b'"params": {"turn": 0, "stop_reason": "empty_response"}}')


def test_a_subagent_is_not_shown() -> None:
    log = [Record(1, 0, asked("x"), 1), Record(2, 0, bus.TextDelta("below"), 1, "run-1")]
    assert methods(render(codec, log)) == ["RunBegin"]


def test_v4_says_who_it_is_first() -> None:
    log = [Record(1, 0, bus.SessionOpened("s-1", workspace="/w"))]
    assert render(codec, log) == b""
    assert render(codec_v4, log).decode() == (
        '{"jsonrpc": "2.0", "method": "SlashCommands", "params": {"commands": []}}\n'
        '{"jsonrpc": "2.0", "method": "CurrentThread", "params": '
        '{"thread_id": "s-1", "title": "", "project_path": "/w"}}\n'
    )


def test_v4_a_cleared_history_is_an_empty_replay() -> None:
    log = [Record(1, 0, bus.SessionOpened("s-1", workspace="/w")), Record(2, 0, bus.HistoryCleared())]
    assert split(render(codec_v4, log))[-1] == (
        b'{"jsonrpc": "2.0", "method": "HistoryReplay", "params": '
        b'{"thread_id": "s-1", "title": "", "project_path": "/w", "messages": []}}'
    )
    assert [type(item.event) for item in hear(codec_v4, render(codec_v4, log)) if isinstance(item, Heard)] == [
        bus.SessionOpened, bus.HistoryCleared,
    ]  # fmt: skip


def test_unknown_events_of_another_wire_or_shape_are_not_written() -> None:
    from msgspec import Raw

    good = Raw(b'{"jsonrpc":"2.0",\n"method":"Sparkle"}')
    for wire, raw, written in (
        ("pagent", good, b'{"jsonrpc": "2.0", "method": "Sparkle"}\n'),
        ("pagent-v4", good, b""),
        ("aionrs", good, b""),
        ("pagent", Raw(b'{"type":"input_accepted"}'), b""),
        ("pagent", Raw(b'{"jsonrpc":"2.0","method":"X","id":null}'), b""),
        ("pagent", Raw(b'"hello"'), b""),
        ("pagent", Raw(b"{"), b""),
    ):
        assert render(codec, [Record(1, 0, bus.Unknown(wire, "x", raw))]) == written


# --- usage ---------------------------------------------------------------------------------------------------


def spent(usage: Any) -> Any:
    log = turn(asked("x"), *reply(0, "y", usage=usage), bus.TurnFinished("completed", "y"))
    step, end = params(render(codec, log), "StepEnd")[0]["usage"], params(render(codec, log), "RunEnd")[0]["usage"]
    assert step == end
    assert json.dumps(step) == json.dumps(end)
    return step


def test_usage_in_openais_shape_is_passed_on_in_the_order_of_the_peers_sdk() -> None:
    """A service sends what it likes; the SDK that the peer uses has all five keys, and the rest after them."""
    told = {"prompt_tokens": 12, "cost": 1, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    assert list(spent(Usage(12, 3, extra=told)).items()) == [
        ("completion_tokens", 3), ("prompt_tokens", 12), ("total_tokens", None), ("completion_tokens_details", None),
        ("prompt_tokens_details", {"cached_tokens": 4}), ("cost", 1),
    ]  # fmt: skip


def test_usage_of_another_service_is_made_of_the_counts() -> None:
    made = spent(Usage(1500, 320, 800, 200, 40, {"input_tokens": 500, "output_tokens": 320}))
    assert list(made)[:3] == ["completion_tokens", "prompt_tokens", "total_tokens"]
    assert [made[key] for key in list(made)[:3]] == [320, 1500, 1820]
    assert made["completion_tokens_details"] == {
        "accepted_prediction_tokens": None, "audio_tokens": None, "reasoning_tokens": 40,
        "rejected_prediction_tokens": None, "text_tokens": None,
    }  # fmt: skip
    assert made["prompt_tokens_details"] == {
        "audio_tokens": None, "cache_write_tokens": 200, "cached_tokens": 800, "image_tokens": None,
        "text_tokens": None,
    }  # fmt: skip
    recorded_keys = params(recorded("reasoning"), "StepEnd")[0]["usage"]
    assert list(recorded_keys) == list(made)
    assert list(recorded_keys["completion_tokens_details"]) == list(made["completion_tokens_details"])
    assert list(recorded_keys["prompt_tokens_details"]) == list(made["prompt_tokens_details"])


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (UNSET, None),
        (Usage(), None),
        (Usage(extra={}), {}),
        (Usage(extra={"cost": 1}), {"cost": 1}),
        (
            Usage(output_tokens=3),
            {
                "completion_tokens": 3, "prompt_tokens": None, "total_tokens": None,
                "completion_tokens_details": None, "prompt_tokens_details": None,
            },
        ),
    ],
)  # fmt: skip
def test_what_is_not_known_is_null_and_never_zero(usage: Any, wanted: Any) -> None:
    assert spent(usage) == wanted
