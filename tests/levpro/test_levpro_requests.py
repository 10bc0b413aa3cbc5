"""Lines of a host: what they ask for, what they are refused with and in which order, and what outcomes say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from levprolines import ask, objects, tell, turn

from agentwire import commands
from agentwire import events as bus
from agentwire.codec import AgentSide, LineFault, Request
from agentwire.commands import Check, Command, Done, Refusal
from agentwire_levpro import codec

Line = dict[str, Any]


def read(side: AgentSide, line: Any) -> Request:
    request = ask(side, line)
    assert request is not None
    return request


def refusal(line: Any, side: AgentSide | None = None) -> tuple[Any, str]:
    """Id and code of the error that a line gets."""
    side = side or codec.agent()
    request = read(side, line)
    assert request.command is None
    (answer,) = tell(side, request)
    assert list(answer) == ["id", "type", "code", "message"]
    assert answer["type"] == "error"
    assert answer["message"]
    return answer["id"], answer["code"]


def chat(**given: Any) -> commands.Prompt:
    return commands.Prompt(**{
        "ref": "c", "session": "s", "user": "default_user", "when_busy": "queue", "open": True, **given,
    })  # fmt: skip


CHAT = {"id": "c", "method": "chat"}

ASKED: dict[str, tuple[Line, Command]] = {
    "ping": ({"id": "1", "method": "ping", "params": {}}, commands.Ping()),
    "without params": ({"id": 7, "method": "ping"}, commands.Ping()),
    "null params": ({"id": "a", "method": "ping", "params": None}, commands.Ping()),
    "doctor": ({"id": "1", "method": "doctor"}, commands.Doctor()),
    "plan": ({"id": "1", "method": "plan", "params": {"x": 1}}, commands.Plan()),
    "shutdown": ({"id": "1", "method": "shutdown"}, commands.Shutdown()),
    "chat": ({**CHAT, "params": {"input": "hi", "session_id": "s"}}, chat(text="hi")),
    "chat, everything": (
        {
            **CHAT,
            "params": {
                "user_id": "u", "session_id": "s", "agent": "a", "input": "hi", "resume": True,
                "approve_execution": True, "more": [1],
            },
            "more": 1,
        },
        chat(text="hi", user="u", agent="a", resume=True, approve=["edit", "exec", "mcp"]),
    ),
    "chat with an empty input": ({**CHAT, "params": {"session_id": "s"}}, chat()),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_what_a_line_asks_for(name: str) -> None:
    line, command = ASKED[name]
    request = read(codec.agent(), line)
    assert (request.command, request.refusal) == (command, None)
    assert codec.schemas is not None
    Draft202012Validator(codec.schemas()["levpro.commands.json"]).validate(line)


@pytest.mark.parametrize("params", [{}, {"session_id": ""}])
def test_a_session_without_a_name_gets_one_of_its_own(params: Line) -> None:
    sessions = set()
    for n in range(20):
        request = read(codec.agent(), {"id": n, "method": "chat", "params": params})
        assert isinstance(request.command, commands.Prompt)
        assert re.fullmatch(r"[0-9a-f]{8}", request.command.session)
        assert request.session == request.command.session
        sessions.add(request.session)
    assert len(sessions) == 20


REFUSED: dict[str, tuple[Any, tuple[Any, str]]] = {
    "no JSON": (b"hello", (None, "invalid_json")),
    "half an object": (b'{"id":1', (None, "invalid_json")),
    "two values": (b'{"id":1}{"id":2}', (None, "invalid_json")),
    "NaN": (b'{"id":NaN}', (None, "invalid_json")),
    "too deep": (b'{"id":' + b"[" * 100_000, (None, "invalid_json")),
    "an array": ([1], (None, "invalid_request")),
    "a string": ("ping", (None, "invalid_request")),
    "null": (b"null", (None, "invalid_request")),
    "no id": ({"method": "ping"}, (None, "invalid_request")),
    "null id": ({"id": None, "method": "ping"}, (None, "invalid_request")),
    "boolean id": ({"id": True, "method": "ping"}, (None, "invalid_request")),
    "array id": ({"id": ["a"], "method": "ping"}, (None, "invalid_request")),
    "object id": ({"id": {}, "method": "ping"}, (None, "invalid_request")),
    "no id comes before no method": ({"method": 1, "params": 1}, (None, "invalid_request")),
    "no method": ({"id": "a"}, ("a", "invalid_request")),
    "a method that is no string": ({"id": 0, "method": 7}, (0, "invalid_request")),
    "params that are no object": ({"id": "a", "method": "ping", "params": []}, ("a", "invalid_request")),
    "params before the method": ({"id": "a", "method": "warmup", "params": 1}, ("a", "invalid_request")),
    "unknown method": ({"id": "", "method": "warmup"}, ("", "unknown_method")),
    "methods are exact": ({"id": 1.5, "method": "Ping"}, (1.5, "unknown_method")),
    "input that is no string": ({**CHAT, "params": {"input": 1}}, ("c", "invalid_request")),
    "null input": ({**CHAT, "params": {"input": None}}, ("c", "invalid_request")),
    "resume that is no boolean": ({**CHAT, "params": {"resume": 1}}, ("c", "invalid_request")),
    "approval that is no boolean": ({**CHAT, "params": {"approve_execution": "yes"}}, ("c", "invalid_request")),
    "versions that are no list": (
        {"id": 1, "method": "initialize", "params": {"protocol_versions": 1}}, (1, "invalid_request"),
    ),
    "versions that are no integers": (
        {"id": 1, "method": "initialize", "params": {"protocol_versions": [1, "2"]}}, (1, "invalid_request"),
    ),
    "no versions": ({"id": 1, "method": "initialize", "params": {"protocol_versions": []}}, (1, "invalid_request")),
    "other versions": (
        {"id": 1, "method": "initialize", "params": {"protocol_versions": [2, 3]}}, (1, "invalid_request"),
    ),
    "a target that is no id": ({"id": 1, "method": "cancel", "params": {"request_id": [1]}}, (1, "invalid_request")),
    "a null target": ({"id": 1, "method": "cancel", "params": {"request_id": None}}, (1, "invalid_request")),
    "a boolean target": ({"id": 1, "method": "cancel", "params": {"request_id": True}}, (1, "invalid_request")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_line_is_refused_with(name: str) -> None:
    line, expected = REFUSED[name]
    side = codec.agent()
    assert refusal(line, side) == expected
    assert tell(side, read(side, {"id": "z", "method": "ping"}))[0]["result"] == {"status": "ok"}


@pytest.mark.parametrize(("kind", "code"), [("too_long", "invalid_request"), ("not_utf8", "invalid_json")])
def test_a_line_that_could_not_be_framed(kind: Any, code: str) -> None:
    side = codec.agent()
    request = side.receive(LineFault(kind, "line too long", 9), None)  # type: ignore[arg-type]  # it must not look
    assert request is not None
    assert tell(side, request) == [{"id": None, "type": "error", "code": code, "message": "line too long"}]


@pytest.mark.parametrize("line", [b"", b"   ", b"\t"])
def test_blank_lines_are_skipped(line: bytes) -> None:
    assert ask(codec.agent(), line) is None


def test_no_common_version_names_ours() -> None:
    """Scenario 4; the peer's message names the supported versions."""
    side = codec.agent()
    request = read(side, {"id": "i", "method": "initialize", "params": {"protocol_versions": [2, 3]}})
    assert tell(side, request)[0]["message"] == "no common protocol version; supported: 1"


@pytest.mark.parametrize("params", [{}, {"protocol_versions": [1]}, {"protocol_versions": [3, 1, 2]}])
def test_initialize(params: Line) -> None:
    """Scenario 3, and an absent list."""
    side = codec.agent()
    request = read(side, {"id": "init-1", "method": "initialize", "params": {**params, "client": {"name": "x"}}})
    (answer,) = tell(side, request)
    result = answer["result"]
    assert list(result) == ["protocol_version", "capabilities", "server"]
    assert result["protocol_version"] == 1
    assert (result["capabilities"]["parallel_chats"], result["capabilities"]["targeted_cancel"]) == (True, True)
    assert set(result["capabilities"]["events"]) == {
        "run_start", "llm_start", "llm_chunk", "llm_done", "tool_start", "tool_done", "final", "loop_abort",
    }  # fmt: skip
    assert set(result["server"]) == {"name", "version"}


# --- ids in use ----------------------------------------------------------------------------------------------


def test_an_id_in_use_is_refused_and_the_first_goes_on() -> None:
    """Scenario 16; the id is free again after its answer."""
    side = codec.agent()
    first = read(side, {**CHAT, "params": {"session_id": "s"}})
    assert refusal(CHAT, side) == ("c", "invalid_request")
    assert refusal({"id": "c", "method": "ping"}, side) == ("c", "invalid_request")
    assert tell(side, first) == []
    out = bytearray()
    side.render("s", turn(bus.TurnStarted("t", "c"), bus.TurnFinished("completed", "x")), out)
    assert [line["id"] for line in objects(bytes(out))] == ["c", "c", "c"]
    assert read(side, CHAT).command is not None


@pytest.mark.parametrize(
    ("one", "other", "same"), [(1, 1.0, True), (1, "1", False), (0, "0", False), (0, -0.0, True), ("", " ", False)]
)
def test_when_ids_are_equal(one: Any, other: Any, same: bool) -> None:
    side = codec.agent()
    read(side, {"id": one, "method": "chat"})
    assert (read(side, {"id": other, "method": "ping"}).command is None) == same


def test_the_order_of_the_last_checks() -> None:
    """An id in use comes after an unknown method and before the method's own parameters."""
    side = codec.agent()
    read(side, CHAT)
    assert refusal({"id": "c", "method": "warmup"}, side) == ("c", "unknown_method")
    request = read(side, {"id": "c", "method": "chat", "params": {"input": 1}})
    assert request.refusal is not None
    assert request.refusal.message == "id is in use"


def test_another_drivers_turn_does_not_answer_a_request_of_ours() -> None:
    """Its ref is the id of a chat in another session: it is shown under its own name."""
    side = codec.agent()
    read(side, {**CHAT, "params": {"session_id": "s"}})
    out = bytearray()
    side.render("elsewhere", turn(bus.TurnStarted("t-1", "c"), bus.TurnFinished("completed")), out)
    assert {line["id"] for line in objects(bytes(out))} == {"t-1"}
    assert refusal(CHAT, side) == ("c", "invalid_request")


def test_nothing_is_read_after_shutdown() -> None:
    side = codec.agent()
    request = read(side, {"id": "s", "method": "shutdown"})
    assert ask(side, {"id": "p", "method": "ping"}) is None
    assert ask(side, b"hello") is None
    assert tell(side, request) == [{"id": "s", "type": "result", "result": {"status": "ok"}}]


# --- cancel --------------------------------------------------------------------------------------------------


def running(*ids: Any) -> AgentSide:
    side = codec.agent()
    for n, request in enumerate(ids):
        tell(side, read(side, {"id": request, "method": "chat", "params": {"session_id": f"s{n}"}}))
    return side


def cancel(side: AgentSide, **params: Any) -> Request:
    return read(side, {"id": "k", "method": "cancel", "params": params})


def test_cancel_of_a_running_chat() -> None:
    """Scenario 12: the chat's session is known here, and the host is told whether there was anything to stop."""
    side = running("c1", "c2")
    request = cancel(side, request_id="c2")
    assert request.command == commands.Stop("s1", "c2")
    answer = {"id": "k", "type": "result", "result": {"cancelled": True, "request_id": "c2"}}
    assert tell(side, request, Done(True)) == [answer]
    answer["result"]["cancelled"] = False  # its end was in the log already
    assert tell(side, cancel(side, request_id="c2"), Done(False)) == [answer]
    assert tell(side, cancel(side, request_id="c2"), Refusal("not_found", "no session")) == [answer]


def test_cancel_without_a_target() -> None:
    """Scenario 13."""
    assert cancel(running("c1")).command == commands.Stop("s0", "c1")
    side = running("c1", "c2")
    request = cancel(side)
    assert tell(side, request)[0]["code"] == "invalid_request"
    assert tell(side, request)[0]["message"] == "request_id is required when several chats are active"
    side = running()
    assert tell(side, cancel(side))[0]["result"] == {"cancelled": False, "request_id": None}


@pytest.mark.parametrize("target", ["c1", 1, "k", "ping", 1.5])
def test_cancel_of_what_is_not_there(target: Any) -> None:
    """Scenario 14: unknown, of the other type, or no chat."""
    side = running("1")
    read(side, {"id": "ping", "method": "ping"})
    assert tell(side, cancel(side, request_id=target))[0]["result"] == {"cancelled": False, "request_id": target}


def test_cancel_of_a_chat_that_has_its_answer() -> None:
    side = running("c1")
    side.render("s0", turn(bus.TurnStarted("t", "c1"), bus.TurnFinished("completed")), bytearray())
    assert tell(side, cancel(side, request_id="c1"))[0]["result"] == {"cancelled": False, "request_id": "c1"}


# --- outcomes ------------------------------------------------------------------------------------------------

CODES: dict[str, tuple[Refusal, str]] = {
    "no configuration": (Refusal("config", "m", data="config_missing"), "config_missing"),
    "no program": (Refusal("config", "m", data="binary_missing"), "binary_missing"),
    "no model": (Refusal("config", "m", data="model_missing"), "model_missing"),
    "nobody serves it": (Refusal("config", "m", data="model"), "model_missing"),
    "too big": (Refusal("config", "m", data="model_plan_error"), "model_plan_error"),
    "another fault of the set-up": (Refusal("config", "m", data=""), "internal_error"),
    "stopped while it waited": (Refusal("cancelled", "m"), "cancelled"),
    "no such agent": (Refusal("bad_params", "m"), "invalid_request"),
    "a journal that cannot be written": (Refusal("read_only", "m"), "internal_error"),
    "a bug": (Refusal("internal", "m"), "internal_error"),
}


@pytest.mark.parametrize("name", CODES)
def test_what_a_refused_chat_is_told(name: str) -> None:
    """One error, no events, and the id is free again (scenario 15)."""
    given, code = CODES[name]
    side = codec.agent()
    assert tell(side, read(side, CHAT), given) == [{"id": "c", "type": "error", "code": code, "message": "m"}]
    assert read(side, CHAT).command is not None


@pytest.mark.parametrize(
    ("statuses", "worst"), [([], "ok"), (["ok"], "ok"), (["ok", "warn"], "warn"), (["fail", "warn"], "fail")]
)
def test_doctor(statuses: list[Any], worst: str) -> None:
    side = codec.agent()
    request = read(side, {"id": "d", "method": "doctor"})
    checks = [Check(f"check {n}", status, "why") for n, status in enumerate(statuses)]
    (answer,) = tell(side, request, Done(checks))
    assert answer["result"] == {
        "status": worst,
        "checks": [{"name": check.name, "status": check.status, "message": "why"} for check in checks],
    }


def test_plan() -> None:
    side = codec.agent()
    plan = {
        "model": "m", "binary": "/b", "args": ["-c", "8"], "context_size": 8, "gpu_layers": -1, "warnings": ["w"],
    }  # fmt: skip
    (answer,) = tell(side, read(side, {"id": "p", "method": "plan"}), Done({**plan, "memory": {"total": 1}}))
    assert answer["result"] == plan
    assert list(answer["result"]) == list(plan)
    (answer,) = tell(side, read(side, {"id": "p", "method": "plan"}), Done({"model": "m"}))
    assert list(answer["result"]) == list(plan)
    request = read(side, {"id": "p", "method": "plan"})
    assert tell(side, request, Refusal("config", "no", data="binary_missing"))[0]["code"] == "binary_missing"


def test_a_process_that_cannot_start_says_why() -> None:
    out = bytearray()
    codec.agent().fatal(Refusal("config", "no such option"), out)
    assert objects(bytes(out)) == [{"id": None, "type": "error", "code": "internal_error", "message": "no such option"}]


def test_a_line_that_the_codec_itself_could_not_read() -> None:
    """The connection tells; it has no token of ours."""
    side = codec.agent()
    request = Request(None, Refusal("internal", "see the log"))
    assert tell(side, request) == [{"id": None, "type": "error", "code": "internal_error", "message": "see the log"}]
