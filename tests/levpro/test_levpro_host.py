"""The host side: requests out, and lines of a core in that leaves out what it likes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from levprolines import objects
from msgspec import Raw

from agentwire import commands
from agentwire import events as bus
from agentwire.codec import Answered, Heard, HostSide
from agentwire.commands import Check, Command, Done, Refusal
from agentwire_levpro import codec
from agentwire_levpro.host_side import GONE, LevproHost

Line = dict[str, Any]


def send(host: HostSide, command: Command) -> tuple[int, Line]:
    """A command's number, and its line without the handshake before it."""
    out = bytearray()
    number = host.send(command, out)
    assert isinstance(number, int), number
    return number, objects(bytes(out))[-1]


def refused(host: HostSide, command: Command) -> str:
    out = bytearray()
    refusal = host.send(command, out)
    assert isinstance(refusal, Refusal)
    assert out == b""
    return refusal.code


def hear(host: HostSide, *lines: Line) -> list[Heard | Answered]:
    return [said for line in lines for said in host.receive(json.dumps(line).encode())]


def event(name: str, request: Any = "c", **fields: Any) -> Line:
    return {"id": request, "type": "event", "event": name, **fields}


def result(request: Any = "c", **value: Any) -> Line:
    return {"id": request, "type": "result", "result": value}


def error(code: str, request: Any = "c") -> Line:
    return {"id": request, "type": "error", "code": code, "message": "m"}


CHAT = {"response": "4", "session_id": "s", "trace_id": "beef", "warnings": []}


def chatting() -> tuple[LevproHost, int]:
    """A host that sent a chat with the id ``c``."""
    host = LevproHost("s")
    number, line = send(host, commands.Prompt("hi", "c"))
    assert line["id"] == "c"
    return host, number


# --- commands ------------------------------------------------------------------------------------------------

REQUESTS: dict[str, tuple[Command, str, Line]] = {
    "ping": (commands.Ping(), "ping", {}),
    "doctor": (commands.Doctor(), "doctor", {}),
    "plan": (commands.Plan(), "plan", {}),
    "shutdown": (commands.Shutdown(), "shutdown", {}),
    "a stop when nothing runs": (commands.Stop(), "cancel", {}),
    "chat": (commands.Prompt("hi"), "chat", {"session_id": "s", "input": "hi"}),
    "chat, everything": (
        commands.Prompt("hi", session="t", agent="a", user="u", resume=True, approve=["mcp"]),
        "chat",
        {"user_id": "u", "session_id": "t", "agent": "a", "input": "hi", "resume": True, "approve_execution": True},
    ),
    "parts": (commands.Prompt(parts=[bus.Text("a"), bus.Text("b")]), "chat", {"session_id": "s", "input": "a\nb"}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests(name: str) -> None:
    command, method, params = REQUESTS[name]
    _, line = send(LevproHost("s"), command)
    assert (line["method"], line.get("params", {})) == (method, params)
    assert codec.schemas is not None
    Draft202012Validator(codec.schemas()["levpro.commands.json"]).validate(line)


def test_the_handshake_comes_first_and_once() -> None:
    host = LevproHost()
    out = bytearray()
    host.send(commands.Ping(), out)
    host.send(commands.Ping(), out)
    first, *pings = objects(bytes(out))
    assert (first["method"], first["params"]["protocol_versions"]) == ("initialize", [1])
    assert [line["method"] for line in pings] == ["ping", "ping"]
    assert pings[0]["id"] != pings[1]["id"]
    assert hear(host, result(first["id"], protocol_version=1)) == []
    (said,) = hear(host, error("unknown_method", first["id"]))
    assert isinstance(said, Heard)
    assert isinstance(said.event, bus.Notice)


@pytest.mark.parametrize(
    "command",
    [
        commands.Approve("c"), commands.Deny("c"), commands.SetMode("yolo"), commands.Steer("x"),
        commands.InitHistory("x"), commands.OpenSession(), commands.Prompt("x", files=["/a"]),
        commands.Prompt(parts=[bus.Image("image/png", "aGk=")]),
    ],
)  # fmt: skip
def test_what_the_wire_has_no_word_for(command: Command) -> None:
    assert refused(LevproHost(), command) == "unsupported"


def test_an_id_is_the_prompts_own_unless_that_is_in_use() -> None:
    host = LevproHost()
    assert send(host, commands.Prompt("x", 7))[1]["id"] == 7
    other = send(host, commands.Prompt("x", 7.0))[1]["id"]
    assert other not in (7, "7")
    heard = [said for said in hear(host, event("run_start", other, trace_id="t")) if isinstance(said, Heard)]
    assert [said.ref for said in heard] == [7.0]


def test_prompts_without_a_session_are_one_conversation() -> None:
    host = LevproHost()
    one, two = (send(host, commands.Prompt("x"))[1]["params"]["session_id"] for _ in range(2))
    assert one == two != send(LevproHost(), commands.Prompt("x"))[1]["params"]["session_id"]
    assert refused(host, commands.Prompt("x", when_busy="refuse")) == "busy"


def test_which_chat_a_stop_means() -> None:
    host = LevproHost("s")
    send(host, commands.Prompt("x", "c1"))
    assert send(host, commands.Stop())[1]["params"] == {"request_id": "c1"}
    send(host, commands.Prompt("x", "c2", session="t"))
    assert send(host, commands.Stop(session="t"))[1]["params"] == {"request_id": "c2"}
    assert send(host, commands.Stop(ref="c1"))[1]["params"] == {"request_id": "c1"}
    assert refused(host, commands.Stop()) == "bad_params"
    assert refused(host, commands.Stop(ref="c3")) == "not_found"


# --- answers -------------------------------------------------------------------------------------------------


def test_answers() -> None:
    host = LevproHost()
    checks = {"status": "warn", "checks": [{"name": "n", "status": "warn", "message": "m"}, {"name": 1}, 7]}
    for command, value, heard in (
        (commands.Ping(), {"status": "ok"}, None),
        (commands.Doctor(), checks, [Check("n", "warn", "m")]),
        (commands.Doctor(), {"anything": 1}, []),
        (commands.Plan(), {"model": "m"}, {"model": "m"}),
        (commands.Stop(), {"cancelled": True}, True),
        (commands.Stop(), {"cancelled": False}, False),
        (commands.Shutdown(), {"status": "ok"}, None),
    ):
        number, line = send(host, command)
        assert hear(host, result(line["id"], **value)) == [Answered(number, Done(heard))]


@pytest.mark.parametrize(
    ("code", "expected", "data"),
    [
        ("config_missing", "config", "config_missing"), ("model_plan_error", "config", "model_plan_error"),
        ("unknown_method", "unknown_command", None), ("invalid_request", "bad_params", None),
        ("cancelled", "cancelled", None), ("internal_error", "internal", None), ("new_code", "internal", None),
    ],
)  # fmt: skip
def test_a_chat_that_did_not_begin_is_refused(code: str, expected: Any, data: str | None) -> None:
    host, number = chatting()
    assert hear(host, error(code)) == [Answered(number, Refusal(expected, "m", data=data))]


def test_an_error_without_an_id_is_no_answer() -> None:
    host, _ = chatting()
    assert hear(host, error("invalid_json", None)) == [Heard(bus.ErrorRaised(bus.ErrorInfo("protocol_error", "m")))]


def test_a_stop_that_waits_is_answered_after_the_end() -> None:
    host, chat = chatting()
    hear(host, event("run_start", trace_id="t"))
    number, line = send(host, commands.Stop(wait=True))
    assert hear(host, result(line["id"], cancelled=True, request_id="c")) == []
    said = hear(host, error("cancelled"))
    assert [type(one) for one in said] == [Heard, Answered]
    assert said[-1] == Answered(number, Done(True))
    assert chat != number


@pytest.mark.parametrize("answer", [result("agentwire-2", cancelled=False), error("internal_error", "agentwire-2")])
def test_a_stop_that_waits_is_answered_once(answer: Line) -> None:
    """The chat had ended before the core read it."""
    host, _ = chatting()
    hear(host, event("run_start", trace_id="t"))
    number, line = send(host, commands.Stop(wait=True))
    assert line["id"] == "agentwire-2"
    assert hear(host, result(**CHAT))[-1] == Answered(number, Done(True))
    assert hear(host, answer) == []
    assert host.close() == []


# --- events --------------------------------------------------------------------------------------------------


def events(said: list[Heard | Answered]) -> list[bus.Event]:
    heard = [one for one in said if isinstance(one, Heard)]
    assert {(one.session, one.ref, one.origin) for one in heard} <= {("s", "c", "")}
    return [one.event for one in heard]


def test_a_whole_chat() -> None:
    host, number = chatting()
    said = hear(
        host,
        event("run_start", user_input="hi", trace_id="beef", more=1),
        event("memory_start"),
        event("llm_start", step=0),
        event("llm_chunk", step=0, delta="Let me "),
        event("llm_chunk", step=0, delta="look."),
        event("llm_done", step=0),
        event("tool_start", step=0, tool="t", args={"b": 1, "a": [2]}),
        event("tool_done", step=0, tool="t", status="weird", preview="out", retryable=True, ms=11.6),
        event("llm_start", step=1),
        event("llm_done", step=1),
        event("final", step=1, response="4"),
        result(**{**CHAT, "warnings": ["careful", 7, "loop_abort: x"]}),
    )
    assert said[0] == Answered(number, Done("beef"))
    memory = Raw(b'{"id":"c","type":"event","event":"memory_start"}')
    assert events(said) == [
        bus.TurnStarted("beef", "c", [bus.Text("hi")]),
        bus.Unknown("levpro", "memory_start", memory),
        bus.StepStarted(0),
        bus.TextDelta("Let me "),
        bus.TextDelta("look."),
        bus.StepFinished(0, "Let me look."),
        bus.CallReady("call-1", "t", '{"a":[2],"b":1}', Raw(b'{"a":[2],"b":1}')),
        bus.CallRunning("call-1", "t"),
        bus.CallFinished("call-1", "t", "error", "out", duration_ms=12, retryable=True),
        bus.StepStarted(1),
        bus.StepFinished(1),
        bus.Notice("careful", "warning"),
        bus.Notice("loop_abort: x", "warning"),  # there was an answer: this is only a text
        bus.TurnFinished("completed", "4", steps=2),
    ]


MISSING: dict[str, tuple[list[Line], list[bus.Event]]] = {
    "everything": ([result(**CHAT)], [bus.TurnStarted("beef", "c"), bus.TurnFinished("completed", "4")]),
    "the result's own keys": ([result()], [bus.TurnStarted("c", "c"), bus.TurnFinished("completed")]),
    "the beginning": (
        [event("llm_chunk", step=2, delta="x"), result(**CHAT)],
        [
            bus.TurnStarted("c", "c"), bus.StepStarted(2), bus.TextDelta("x"), bus.StepFinished(2, "x"),
            bus.TurnFinished("completed", "4", steps=1),
        ],
    ),
    "a step's end": (
        [
            event("run_start"), event("llm_start", step=0), event("llm_chunk", delta="x"),
            event("tool_start", step=0, tool="t"), event("tool_done", step=0, tool="t", status="ok"), result(**CHAT),
        ],
        [
            bus.TurnStarted("c", "c"), bus.StepStarted(0), bus.TextDelta("x"), bus.StepFinished(0, "x"),
            bus.CallReady("call-1", "t", "{}", Raw(b"{}")), bus.CallRunning("call-1", "t"),
            bus.CallFinished("call-1", "t", "ok", ""), bus.TurnFinished("completed", "4", steps=1),
        ],
    ),
    "a tool's end": (
        [
            event("run_start"), event("llm_start", step=0), event("tool_start", step=0, tool="t"),
            event("llm_start", step=1), error("cancelled"),
        ],
        [
            bus.TurnStarted("c", "c"), bus.StepStarted(0), bus.StepFinished(0),
            bus.CallReady("call-1", "t", "{}", Raw(b"{}")), bus.CallRunning("call-1", "t"),
            bus.CallCancelled("call-1", "crashed", "", "t"), bus.StepStarted(1), bus.StepFinished(1),
            bus.TurnFinished("cancelled", steps=2),
        ],
    ),
    "a tool's beginning": (
        [
            event("run_start"), event("llm_start", step=0), event("llm_done", step=0),
            event("tool_done", step=0, tool="t", status="denied", preview="no"), result(**CHAT),
        ],
        [
            bus.TurnStarted("c", "c"), bus.StepStarted(0), bus.StepFinished(0),
            bus.CallReady("call-1", "t", "{}", Raw(b"{}")), bus.CallRunning("call-1", "t"),
            bus.CallCancelled("call-1", "refused", "no", "t"), bus.TurnFinished("completed", "4", steps=1),
        ],
    ),
    "the abort": (
        [event("run_start"), result(**{**CHAT, "warnings": ["w", "loop_abort: max_parse_errors"]})],
        [
            bus.TurnStarted("c", "c"), bus.Notice("w", "warning"),
            bus.TurnFinished("limit", "4", limit="bad_calls"),
        ],
    ),
    "the abort's warning": (
        [event("run_start"), event("loop_abort", step=0, reason="own words"), result(**CHAT)],
        [bus.TurnStarted("c", "c"), bus.TurnFinished("limit", "4")],
    ),
    "types": (
        [
            event("run_start", user_input=7), event("llm_start", step="0"), event("llm_chunk", step=0, delta=["x"]),
            event("tool_start", step=0, tool="t", args=[1]),
            event("tool_done", step=None, tool="t", status=True, ms=-1), error("odd"),
        ],
        [
            bus.TurnStarted("c", "c"), bus.StepStarted(0), bus.StepFinished(0),
            bus.CallReady("call-1", "t", "[1]"), bus.CallRunning("call-1", "t"),
            bus.CallFinished("call-1", "t", "error", ""),
            bus.TurnFinished("failed", error=bus.ErrorInfo("internal_error", "m"), steps=1),
        ],
    ),
    "why it failed": (
        [event("run_start"), event("loop_abort", reason="provider_error"), error("internal_error")],
        [
            bus.TurnStarted("c", "c"),
            bus.TurnFinished("failed", error=bus.ErrorInfo("provider_error", "m")),
        ],
    ),
    "the set-up, found out late": (
        [event("run_start"), error("model_plan_error")],
        [
            bus.TurnStarted("c", "c"),
            bus.TurnFinished("failed", error=bus.ErrorInfo("config_error", "m", kind="model_plan_error")),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_made_up(name: str) -> None:
    lines, expected = MISSING[name]
    host, number = chatting()
    said = hear(host, *lines)
    assert isinstance(said[0], Answered)
    assert said[0].command == number
    assert events(said) == expected


def test_the_session_that_a_core_chose_is_heard_with_the_end() -> None:
    """A recording: nothing was sent by us."""
    said = hear(LevproHost(), event("run_start", trace_id="t"), result(**CHAT))
    assert [one.session for one in said if isinstance(one, Heard)] == ["", "s"]


def test_two_chats_at_once() -> None:
    host = LevproHost("s")
    send(host, commands.Prompt("x", "a"))
    send(host, commands.Prompt("x", "b", session="t"))
    said = hear(
        host, event("run_start", "a"), event("run_start", "b"), event("llm_chunk", "b", step=0, delta="1"),
        event("llm_chunk", "a", step=0, delta="2"), error("cancelled", "a"), result("b", **CHAT),
    )  # fmt: skip
    ends = {one.ref: one.event for one in said if isinstance(one, Heard) and isinstance(one.event, bus.TurnFinished)}
    assert (ends["a"].outcome, ends["a"].text, ends["b"].outcome) == ("cancelled", "2", "completed")


def test_chunks_of_chats_that_take_turns_stay_apart() -> None:
    """Also those of ids that look alike, of steps that jump, and of an id that is used again."""
    host = LevproHost("s")
    chats = (1, "1", "c")
    heard = hear(host, *(event("llm_start", chat, step=0) for chat in chats))
    told = [(chat, f"{chat!r}:{n}") for n in range(3) for chat in chats for _ in range(n + 1)]
    for chat, text in told:
        (said,) = hear(host, event("llm_chunk", chat, step=0, delta=text))
        assert (said.event, said.ref) == (bus.TextDelta(text), chat)  # type: ignore[union-attr]  # it is heard
    assert hear(host, event("llm_chunk", "c", step=0, delta="")) == []
    said = hear(host, event("llm_chunk", "c", step=1, delta="x"))
    assert [type(one.event) for one in said if isinstance(one, Heard)] == [
        bus.StepFinished, bus.StepStarted, bus.TextDelta,
    ]  # fmt: skip
    finished = said[0]
    assert isinstance(finished, Heard)
    assert finished.event == bus.StepFinished(0, "".join(text for chat, text in told if chat == "c"))
    heard = hear(host, result("c", **CHAT), event("llm_chunk", "c", step=1, delta="again"))
    assert [type(one.event) for one in heard[-3:] if isinstance(one, Heard)] == [
        bus.TurnStarted, bus.StepStarted, bus.TextDelta,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "name", "raw"),
    [
        (b"oops", "line", b'"oops"'),
        (b"[1, 2]", "line", b"[1,2]"),
        (b'{"type": "progress", "n": 1}', "progress", b'{"type":"progress","n":1}'),
        (b'{"id":1,"type":"event","event":"later", "x":"\\ud800"}', "later", None),
        (b'{"id":1,"type":"result","result":{}}', "result", b'{"id":1,"type":"result","result":{}}'),
        (b'{"x":1}', "line", b'{"x":1}'),
    ],
)
def test_lines_without_a_word_on_the_bus_are_kept(line: bytes, name: str, raw: bytes | None) -> None:
    (said,) = codec.host().receive(line)
    assert isinstance(said, Heard)
    assert isinstance(said.event, bus.Unknown)
    assert (said.event.wire, said.event.name) == ("levpro", name)
    assert raw is None or bytes(said.event.raw) == raw


def test_blank_lines_are_nothing() -> None:
    assert [codec.host().receive(line) for line in (b"", b"  ", b"\t")] == [[], [], []]


def test_the_end_of_output() -> None:
    """What runs has failed, what waits is refused, a stop has what it wanted."""
    host, _ = chatting()
    hear(host, event("run_start"))
    waiting, _ = send(host, commands.Prompt("x", "c2"))
    stop, line = send(host, commands.Stop(ref="c", wait=True))
    hear(host, result(line["id"], cancelled=True))
    end, *answers = host.close()
    assert isinstance(end, Heard)
    assert end.event == bus.TurnFinished("failed", error=bus.ErrorInfo("internal_error", GONE))
    assert answers == [Answered(stop, Done(True)), Answered(waiting, Refusal("internal", GONE))]
    assert host.close() == []
