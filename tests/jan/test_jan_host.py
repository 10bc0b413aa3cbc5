"""We drive a Jan: what is sent, what is heard, answers by id, older builds, unknown tags (sections 6 and 8)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from janlines import INITIALIZE, Line, Scene, published, split
from jsonschema import Draft202012Validator
from msgspec import UNSET, Raw

from agentwire import commands as bus
from agentwire import events
from agentwire.codec import Answered, Heard, LineFault
from agentwire.commands import Done, Refusal, SessionState
from agentwire.events import HostTool, Image, Text
from agentwire_jan import codec
from agentwire_jan.host_side import JanHost


class Driven:
    """A host side, and what it wrote."""

    def __init__(self, *, session: str = "S") -> None:
        self.host: Any = codec.host()
        assert isinstance(self.host, JanHost)
        self.frames: list[dict[str, Any]] = []
        if session:
            self.send(bus.OpenSession(workspace="/w"))
            self.answer(1, {"protocolVersion": 1})
            self.answer(2, {"tools": [], "toolSpecs": [], "sessionId": session, "model": "m"})

    def send(self, command: bus.Command) -> Any:
        out = bytearray()
        number = self.host.send(command, out)
        self.frames += map(json.loads, split(bytes(out)))
        return number

    def hear(self, frame: Any) -> list[Any]:
        line = frame if isinstance(frame, bytes | LineFault) else json.dumps(frame).encode()
        return self.host.receive(line)

    def answer(self, number: int, result: Any) -> list[Any]:
        return self.hear({"jsonrpc": "2.0", "id": number, "result": result})

    def refuse(self, number: int, code: int, data: Any = None, message: str = "no") -> list[Any]:
        error = {"code": code, "message": message, "data": data}
        return self.hear({"jsonrpc": "2.0", "id": number, "error": error})

    def item(self, event: dict[str, Any], turn: str = "T") -> list[Any]:
        return self.hear({
            "jsonrpc": "2.0", "method": f"item/{event['type']}",
            "params": {"sessionId": "S", "turnId": turn, "event": event},
        })  # fmt: skip

    def end(self, reason: str = "completed", error: str | None = None, turn: str = "T") -> list[Any]:
        params = {"sessionId": "S", "turnId": turn, "stopReason": reason, "error": error}
        return self.hear({"jsonrpc": "2.0", "method": "turn/completed", "params": params})

    def begin(self, ref: Any = "r") -> None:
        self.send(bus.Prompt("hi", ref))
        self.answer(3, {"turnId": "T"})


def said(heard: list[Any]) -> list[events.Event]:
    for one in heard:
        assert isinstance(one, Heard)
        assert (one.session, one.ref) == ("S", "r")
    return [one.event for one in heard]


# --- what is sent --------------------------------------------------------------------------------------------


def test_the_handshake_comes_before_the_first_command_and_only_then() -> None:
    driven = Driven(session="")
    assert driven.send(bus.Ping()) == 2
    assert driven.send(bus.Ping()) == 3
    initialize, initialized, ping, again = driven.frames
    assert initialize == {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": 1, "clientInfo": {"name": "agentwire", "version": "0.1.0"}, "capabilities": {},
        },
    }  # fmt: skip
    assert initialized == {"jsonrpc": "2.0", "method": "initialized", "params": {}}
    assert ping == {"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}}
    assert again["id"] == 3
    line = Line(ready=False)
    for frame in driven.frames:
        answer = line.say(frame, [])
        assert answer is None or "result" in answer
    assert driven.answer(2, {"sessions": []}) == [Answered(2, Done())]


TOOL = HostTool("host__t", "d", {"type": "object"}, "t", "read")
DECLARED = {"name": "t", "description": "d", "parameters": {"type": "object"}, "capability": "read"}

SENT: list[tuple[bus.Command, str, dict[str, Any]]] = [
    (bus.OpenSession(), "session/start", {"cwd": "."}),
    (
        bus.OpenSession(
            workspace="/w", model="x", ephemeral=True, system_prompt="p", builtins=False, subagents=True, tools=[TOOL],
            host_permissions=True,
        ),
        "session/start",
        {
            "cwd": "/w", "model": "x", "ephemeral": True, "tools": [DECLARED], "builtins": False, "subagents": True,
            "systemPrompt": "p", "permissions": "host",
        },
    ),
    (bus.ResumeSession("X"), "session/resume", {"sessionId": "X"}),
    (bus.ResumeSession("X"), "session/resume", {"sessionId": "X"}),
    (bus.ForkSession("X"), "session/fork", {"sessionId": "X"}),
    (bus.ArchiveSession(""), "session/archive", {"sessionId": "S"}),
    (bus.ListSessions(), "session/list", {}),
    (bus.ResetSession(""), "session/reset", {"sessionId": "S"}),
    (bus.GetHostTools("X"), "session/tools/get", {"sessionId": "X"}),
    (bus.SetHostTools("", [TOOL]), "session/tools/set", {"sessionId": "S", "tools": [DECLARED]}),
    (bus.SetModel("", "x"), "session/model/set", {"sessionId": "S", "model": "x"}),
    (bus.SetConfig(model="x"), "session/model/set", {"sessionId": "S", "model": "x"}),
    (bus.Prompt("hi"), "turn/start", {"sessionId": "S", "input": "hi"}),
    (
        bus.Prompt(parts=[Text("look"), Image("image/png", "AAAA")], session="X"),
        "turn/start",
        {
            "sessionId": "X",
            "input": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
    ),
    (bus.Steer("left"), "turn/steer", {"sessionId": "S", "input": "left"}),
    (bus.Steer("", parts=[Text("a"), Text("b")]), "turn/steer", {"sessionId": "S", "input": "a\nb"}),
    (bus.Stop(), "turn/interrupt", {"sessionId": "S"}),
    (bus.Approve(approval_id="perm-1"), "permission/respond", {"requestId": "perm-1", "decision": "allow_once"}),
    (
        bus.Approve(approval_id="perm-1", scope="tool"),
        "permission/respond",
        {"requestId": "perm-1", "decision": "allow_always"},
    ),
    (bus.Deny(approval_id="perm-1"), "permission/respond", {"requestId": "perm-1", "decision": "deny"}),
    (bus.AnswerHostTool("host-1", [Text("ok")]), "tool/respond", {"requestId": "host-1", "content": "ok"}),
    (bus.AnswerHostTool("host-1", []), "tool/respond", {"requestId": "host-1", "content": ""}),
    (
        bus.AnswerHostTool("host-1", [Text("a"), Text("b")], is_error=True, details=Raw(b'{"n":1}')),
        "tool/respond",
        {
            "requestId": "host-1", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "isError": True, "details": {"n": 1},
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("command", "method", "params"), SENT)
def test_commands(command: bus.Command, method: str, params: dict[str, Any]) -> None:
    """As Jan's own schema has it, and as our agent side reads it."""
    driven = Driven()
    assert driven.send(command) == 3
    assert driven.frames[-1] == {"jsonrpc": "2.0", "id": 3, "method": method, "params": params}
    Draft202012Validator(published()["requests"][method]).validate(params)
    assert codec.schemas is not None
    ours = Draft202012Validator(codec.schemas()["jan.commands.json"])
    for frame in driven.frames:
        ours.validate(frame)
    idle = method in ("turn/start",) or method.startswith("session/")
    scene = Scene({"S", "X"}, "" if idle else "S", {"perm-1": "S", "host-1": "S"}, {".", "/w"})
    request = Line(scene).read(driven.frames[-1])
    assert request is not None
    assert request.refusal is None


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (bus.SetMode("yolo"), "unsupported"),
        (bus.InitHistory("x"), "unsupported"),
        (bus.AddMcpServer("x", "stdio"), "unsupported"),
        (bus.GetHistory(), "unsupported"),
        (bus.Shutdown(), "unsupported"),
        (bus.SetConfig(model="x", effort="high"), "unsupported"),
        (bus.SetConfig(effort="high"), "unsupported"),
        (bus.ListSessions(stored=True), "unsupported"),
        (bus.OpenSession(id="mine"), "unsupported"),
        (bus.Prompt("x", files=["a"]), "unsupported"),
        (bus.Prompt("x", resume=True), "unsupported"),
        (bus.Prompt("x", when_busy="queue"), "unsupported"),
        (bus.Prompt(parts=[Image("image/png", path="/a")]), "unsupported"),
        (bus.Steer("", parts=[Image("image/png", "AAAA")]), "unsupported"),
        (bus.AnswerHostTool("h", [Text("a"), Image("image/png", path="/a")]), "unsupported"),
        (bus.Prompt("  "), "bad_params"),
        (bus.Steer(" "), "bad_params"),
        (bus.Stop(ref="other"), "not_found"),
        (bus.Approve(call_id="c"), "not_found"),
    ],
)
def test_what_cannot_be_sent(command: bus.Command, code: str) -> None:
    driven = Driven()
    before = len(driven.frames)
    refused = driven.send(command)
    assert isinstance(refused, Refusal)
    assert refused.code == code
    assert len(driven.frames) == before


def test_without_a_session_there_is_nothing_to_prompt() -> None:
    refused = Driven(session="").send(bus.Prompt("hi"))
    assert isinstance(refused, Refusal)
    assert refused.code == "not_found"


# --- answers -------------------------------------------------------------------------------------------------


def test_a_session_is_heard_to_be_open() -> None:
    driven = Driven(session="")
    driven.send(bus.OpenSession(workspace="/w", ephemeral=True))
    driven.answer(1, {})
    spec = {"type": "function", "function": {"name": "host__t", "description": "d", "parameters": {"type": "object"}}}
    result = {"tools": ["read", "host__t"], "toolSpecs": [spec, 7], "sessionId": "S", "model": "m"}
    assert driven.answer(2, result) == [
        Heard(events.SessionOpened("S", workspace="/w", model="m", ephemeral=True), "S"),
        Answered(
            2, Done(SessionState("S", "m", 0, ["read", "host__t"], [HostTool("host__t", "d", {"type": "object"}, "t")]))
        ),
    ]
    driven.send(bus.ForkSession(""))
    assert driven.answer(3, {"sessionId": "F"})[1] == Answered(3, Done(SessionState("F")))
    driven.send(bus.Prompt("hi"))
    assert driven.frames[-1]["params"]["sessionId"] == "F"


def test_an_older_build_says_less() -> None:
    driven = Driven(session="")
    driven.send(bus.OpenSession(workspace="/w"))
    driven.answer(1, {"protocolVersion": 1, "serverInfo": {"name": "jan"}})
    assert driven.answer(2, {"sessionId": "S"})[1] == Answered(2, Done(SessionState("S")))
    driven.send(bus.Approve(approval_id="perm-1"))
    (answered,) = driven.refuse(3, -32602)  # no kind there
    assert answered.result.code == "not_pending"


@pytest.mark.parametrize(
    ("command", "result", "value"),
    [
        (bus.ListSessions(), {"sessions": [{"id": "S", "model": "m", "turns": 2, "hostTools": 1}]},
         [SessionState("S", "m", 2)]),
        (bus.SetModel("", "x"), {"model": "x"}, SessionState("", "x")),
        (bus.GetHostTools(""), {"tools": ["read"], "toolSpecs": []}, SessionState("", tools=["read"])),
        (bus.Stop(), {}, True),
        (bus.Steer("x"), {}, None),
        (bus.ArchiveSession(""), {}, None),
        (bus.Prompt("x"), {"turnId": "T"}, "T"),
    ],
)  # fmt: skip
def test_answers(command: bus.Command, result: Any, value: Any) -> None:
    driven = Driven()
    driven.send(command)
    assert driven.answer(3, result)[0] == Answered(3, Done(value))
    assert isinstance(driven.answer(3, result)[0].event, events.Unknown)  # nothing waits any more


@pytest.mark.parametrize(
    ("command", "code", "data", "refusal"),
    [
        (bus.Prompt("x"), -32001, {"retryable": True}, Refusal("busy", "no", True, {"retryable": True})),
        (
            bus.ResetSession(""), -32001, {"retryable": True, "kind": "turn_active"},
            Refusal("busy", "no", True, {"retryable": True, "kind": "turn_active"}),
        ),
        (bus.SetHostTools("", []), -32602, {"kind": "invalid_tools"},
         Refusal("bad_params", "no", False, {"kind": "invalid_tools"})),
        (bus.AnswerHostTool("h", []), -32602, {"kind": "not_pending"},
         Refusal("not_pending", "no", False, {"kind": "not_pending"})),
        (bus.SetModel("", "x"), -32602, None, Refusal("config", "no")),
        (bus.Steer("x"), -32602, None, Refusal("not_found", "no")),
        (bus.Prompt("x"), -32602, None, Refusal("bad_params", "no")),
        (bus.Prompt("x"), -32601, None, Refusal("unknown_command", "no")),
        (bus.Prompt("x"), -32002, None, Refusal("bad_request", "no")),
        (bus.Prompt("x"), -1, None, Refusal("internal", "no")),
    ],
)  # fmt: skip
def test_refusals(command: bus.Command, code: int, data: Any, refusal: Refusal) -> None:
    driven = Driven()
    driven.send(command)
    assert driven.refuse(3, code, data) == [Answered(3, refusal)]


def test_answers_are_matched_by_id_in_any_order() -> None:
    driven = Driven()
    driven.send(bus.Steer("a"))
    driven.send(bus.ListSessions())
    assert driven.answer(4, {"sessions": []}) == [Answered(4, Done([]))]
    assert driven.answer(3, {}) == [Answered(3, Done())]
    for frame in ({"jsonrpc": "2.0", "id": "3", "result": {}}, {"jsonrpc": "2.0", "id": None, "error": {}}, {}):
        (heard,) = driven.hear(frame)
        assert isinstance(heard.event, events.Unknown)


def test_a_refused_handshake_is_told() -> None:
    driven = Driven(session="")
    driven.send(bus.Ping())
    (heard,) = driven.refuse(1, -32602, message="Unsupported protocol version or malformed clientInfo")
    assert heard.event == events.ErrorRaised(
        events.ErrorInfo("protocol_error", "Unsupported protocol version or malformed clientInfo")
    )


# --- turns ---------------------------------------------------------------------------------------------------


def test_a_turn_with_a_call() -> None:
    driven = Driven()
    driven.send(bus.Prompt("hi", "r"))
    assert driven.answer(3, {"turnId": "T"}) == [
        Answered(3, Done("T")), Heard(events.TurnStarted("T", "r", [Text("hi")]), "S", "r"),
    ]  # fmt: skip
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "cached_tokens": 1}
    lines = [
        {"type": "step", "index": 1, "max": 0},
        {"type": "request_provenance", "model": "m", "request_sha256": "ab", "body_bytes": 3, "api_type": "anthropic",
         "session_id": "S", "images": [
             {"sha256": "x"}, {"sha256": "y", "mime_type": "image/png", "bytes": 9, "tool_call_id": "c"},
         ]},
        {"type": "token", "text": "I "},
        {"type": "token", "text": "write"},
        {"type": "tool_call_started", "id": "c", "name": "write"},
        {"type": "tool_call_args_delta", "id": "c", "delta": '{"b": 1, "a": 2}'},
        {"type": "turn_usage", "usage": usage, "execution_id": "x"},
        {"type": "tool_call", "id": "c", "name": "write", "args": {"b": 1, "a": 2}},
        {"type": "permission_request", "request_id": "perm-1", "tool_name": "write", "capability": "write",
         "path": "/w/a", "prompt_kind": "write", "offers_always": True, "diff": "+x"},
    ]  # fmt: skip
    heard = [event for line in lines for event in said(driven.item(line))]
    spent = events.Usage(5, 2, 1)
    text = '{"b": 1, "a": 2}'
    images = [events.SentImage("x", "", 0), events.SentImage("y", "image/png", 9, "c")]
    assert heard[1] == events.RequestSent("", "m", "messages", "ab", 3, images=images)
    assert heard[6:] == [
        events.CallReady("c", "write", text, Raw(b'{"a":2,"b":1}')),
        events.StepFinished(0, "I write", "", [events.CallRef("c", "write", text)], spent, "tool_calls"),
        events.ApprovalRequested("perm-1", "c", "write", "edit", "/w/a", "", events.Diff("", "+x"), "write"),
    ]
    assert driven.send(bus.Approve(call_id="c", scope="always")) == 4
    assert driven.frames[-1]["params"] == {"requestId": "perm-1", "decision": "allow_always"}
    assert driven.answer(4, {}) == [Answered(4, Done())]
    result = {"type": "tool_result", "id": "c", "content": "done", "is_error": False, "diff": None}
    assert said(driven.item(result)) == [
        events.CallRunning("c", "write"), events.CallFinished("c", "write", "ok", "done"),
    ]  # fmt: skip
    driven.item({"type": "step", "index": 2})
    driven.item({"type": "token", "text": "Done."})
    assert driven.item({"type": "messages_updated", "messages": [{"role": "user"}]}) == []
    assert said(driven.item({"type": "done", "stop_reason": "stop", "usage": usage})) == [
        events.StepFinished(1, "Done.", finish_reason="stop")
    ]
    assert said(driven.end()) == [events.TurnFinished("completed", "Done.", spent, finish_reason="stop", steps=2)]
    assert driven.end() == driven.item({"type": "token", "text": "late"}) == []


def test_a_call_that_we_denied_is_cancelled() -> None:
    driven = Driven()
    driven.begin()
    driven.item({"type": "step", "index": 1, "max": 0})
    driven.item({"type": "tool_call", "id": "c", "name": "write", "args": None})
    driven.item({"type": "permission_request", "request_id": "perm-1", "tool_name": "write", "capability": "write",
                 "prompt_kind": "write", "offers_always": True})  # fmt: skip
    driven.send(bus.Deny(call_id="c", reason="not here"))
    assert driven.frames[-1]["params"] == {"requestId": "perm-1", "decision": "deny"}
    denied = {"type": "tool_result", "id": "c", "content": "ERROR: tool 'write' denied by user", "is_error": True}
    assert said(driven.item(denied)) == [
        events.CallCancelled("c", "denied", "not here", "write", "tool 'write' denied by user")
    ]


def test_questions_are_about_the_oldest_call_of_that_name() -> None:
    driven = Driven()
    driven.begin()
    for n in (1, 2):
        driven.item({"type": "tool_call", "id": f"c{n}", "name": "write", "args": {}})
    for n, expected in ((1, "c1"), (2, "c2"), (3, "perm-3")):
        question = {"type": "permission_request", "request_id": f"perm-{n}", "tool_name": "write", "capability": "new",
                    "prompt_kind": "new", "offers_always": True}  # fmt: skip
        asked = said(driven.item(question))[-1]
        assert isinstance(asked, events.ApprovalRequested)
        assert (asked.call_id, asked.category, asked.prompt_kind) == (expected, "exec", "exec")


@pytest.mark.parametrize(
    ("reason", "error", "outcome", "cause", "message"),
    [
        ("interrupted", None, "cancelled", "stopped", ""),
        ("error", "could not save session: full", "failed", "crashed", "could not save session: full"),
        ("error", None, "failed", "crashed", "the run ended without an outcome"),
    ],
)
def test_calls_are_closed_before_the_end(reason: str, error: Any, outcome: Any, cause: Any, message: str) -> None:
    driven = Driven()
    driven.begin()
    driven.item({"type": "step", "index": 1, "max": 0})
    driven.item({"type": "tool_call", "id": "c", "name": "write", "args": {}})
    failure = events.ErrorInfo("provider_error", message) if message else UNSET
    raised = [] if isinstance(failure, type(UNSET)) else [events.ErrorRaised(failure)]
    assert said(driven.end(reason, error)) == [
        events.StepFinished(0, calls=[events.CallRef("c", "write", "{}")], finish_reason="tool_calls"),
        *raised,
        events.CallCancelled("c", cause, "", "write"),
        events.TurnFinished(outcome, error=failure, steps=1),
    ]


def test_a_failure_is_told_once() -> None:
    driven = Driven()
    driven.begin()
    failure = events.ErrorInfo("provider_error", "Upstream returned HTTP 401: no")
    told = {"type": "error", "code": "error", "message": failure.message}
    assert said(driven.item(told)) == [events.ErrorRaised(failure)]
    assert said(driven.end("error", failure.message)) == [events.TurnFinished("failed", error=failure)]


def test_stopping_a_turn_by_its_ref() -> None:
    driven = Driven()
    driven.begin()
    assert isinstance(driven.send(bus.Stop(ref="x")), Refusal)
    assert driven.send(bus.Stop(ref="r")) == 4
    assert said(driven.end("interrupted")) == [events.TurnFinished("cancelled")]
    assert driven.answer(4, {}) == [Answered(4, Done(True))]


def test_subagents_and_host_tools() -> None:
    driven = Driven()
    driven.begin()
    run = "sub-mover-0a1b2c3d"
    driven.item({"type": "subagent_start", "run_id": run, "name": "mover", "task": None})

    def nested(event: dict[str, Any]) -> list[Any]:
        return driven.item({"type": "subagent", "run_id": run, "name": "mover", "event": event})

    assert nested({"type": "token", "text": "x"}) == [Heard(events.TextDelta("x"), "S", "r", run)]
    (unknown,) = nested({"type": "todo_update", "list": {}})
    assert (unknown.origin, unknown.event.name) == (run, "todo_update")
    request = {"type": "tool_request", "request_id": "host-1", "tool_name": "arm", "args": {"x": 1}, "run_id": run}
    assert driven.item(request) == [
        Heard(events.HostToolRequested("host-1", "", "arm", Raw(b'{"x":1}'), run), "S", "r")
    ]
    for reason, told in (("interrupted", "stopped"), ("aborted", "stopped"), ("client_gone", "client_gone")):
        cancelled = {"type": "tool_request_cancelled", "request_id": "host-1", "reason": reason}
        assert said(driven.item(cancelled)) == [events.HostToolCancelled("host-1", told)]  # type: ignore[arg-type]
    assert said(driven.item({"type": "tool_details", "id": "c", "details": {"f": 1}})) == [
        events.HostToolDetails("c", Raw(b'{"f": 1}'))
    ]
    ended = {"type": "subagent_end", "run_id": run, "name": "mover", "error": "x"}
    assert said(driven.item(ended)) == [events.SubagentFinished(run, "mover", "x")]


def test_a_turn_that_another_host_began_is_heard_too() -> None:
    driven = Driven()
    first, second = driven.item({"type": "step", "index": 1, "max": 0}, turn="other")
    assert first == Heard(events.TurnStarted("other", "other"), "S", "other")
    assert second == Heard(events.StepStarted(0), "S", "other")


def test_notifications_may_come_before_the_answer() -> None:
    driven = Driven()
    driven.send(bus.Prompt("hi", "r"))
    assert [type(one.event) for one in driven.end()] == [events.TurnStarted, events.TurnFinished]
    assert driven.answer(3, {"turnId": "T"}) == [Answered(3, Done("T"))]


@pytest.mark.parametrize(
    ("line", "name", "raw"),
    [
        (b"not json", "line", b'"not json"'),
        (b'["\xff"]', "line", None),
        (b"[1]", "line", b"[1]"),
        (b'{"jsonrpc":"2.0","method":"session/changed","params":{}}', "session/changed",
         b'{"jsonrpc":"2.0","method":"session/changed","params":{}}'),
        (b'{"jsonrpc":"2.0","method":"item/token","params":{"event":7}}', "item/token",
         b'{"jsonrpc":"2.0","method":"item/token","params":{"event":7}}'),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_kept(line: bytes, name: str, raw: bytes | None) -> None:
    (heard,) = Driven().hear(line)
    assert isinstance(heard.event, events.Unknown)
    assert (heard.event.wire, heard.event.name) == ("jan", name)
    assert raw is None or bytes(heard.event.raw) == raw


def test_an_event_without_a_word_is_kept_in_its_turn_and_written_again() -> None:
    driven = Driven()
    driven.begin()
    event = {"type": "todo_update", "list": {"phases": []}}
    (heard,) = driven.item(event)
    assert heard == Heard(events.Unknown("jan", "todo_update", heard.event.raw), "S", "r")
    assert json.loads(bytes(heard.event.raw)) == event
    (spoilt,) = driven.item({"type": "token", "text": 7})  # a word of ours, but not as it should be
    assert spoilt.event.name == "token"


def test_lines_that_could_not_be_framed_and_blank_ones() -> None:
    driven = Driven()
    assert driven.hear(b"") == driven.hear(b"  ") == []
    (heard,) = driven.hear(LineFault("too_long", "line too long: 9 bytes", 9))
    assert heard == Heard(events.Notice("The agent sent a line that cannot be read: line too long: 9 bytes", "warning"))


def test_the_end_of_the_agent() -> None:
    driven = Driven()
    driven.begin()
    driven.send(bus.Steer("x"))
    gone = events.ErrorInfo("provider_error", "The agent ended before the turn did.")
    assert driven.host.close() == [
        Heard(events.ErrorRaised(gone), "S", "r"),
        Heard(events.TurnFinished("failed", error=gone), "S", "r"),
        Answered(4, Refusal("internal", "The agent ended before it answered.")),
    ]
    assert driven.host.close() == []
    stopped = Driven()
    stopped.begin()
    stopped.send(bus.Stop())
    assert stopped.host.close()[0] == Heard(events.TurnFinished("cancelled"), "S", "r")


def test_our_agent_side_and_our_host_side_agree_on_the_handshake() -> None:
    assert set(INITIALIZE["params"]) <= {"protocolVersion", "clientInfo", "capabilities"}
    driven = Driven(session="")
    driven.send(bus.Ping())
    line = Line(ready=False)
    told = [driven.hear(answer) for frame in driven.frames if (answer := line.say(frame, [])) is not None]
    assert told == [[], [Answered(2, Done())]]
