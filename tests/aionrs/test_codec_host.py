"""The host side: what it sends, how it tells answers from events, and what it puts up with from real agents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import UNSET, Raw

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.contract import Answered, Heard
from agentwire.commands import Command, Done, Refusal
from agentwire.events import Capabilities, ErrorInfo, Usage
from agentwire_aionrs import codec

COMMAND_SCHEMA = Draft202012Validator((codec.schemas() if codec.schemas else {})["aionrs.commands.json"])


class Host:
    """A host side and the lines between it and an agent."""

    def __init__(self) -> None:
        self.side = codec.host()
        self.sent: list[str] = []

    def send(self, command: Command) -> int | Refusal:
        out = bytearray()
        number = self.side.send(command, out)
        *lines, rest = out.decode().split("\n")
        assert rest == ""
        assert len(lines) == isinstance(number, int)
        for line in lines:
            COMMAND_SCHEMA.validate(json.loads(line))
        self.sent += lines
        return number

    def hear(self, *lines: dict[str, Any] | str) -> list[Heard | Answered]:
        heard: list[Heard | Answered] = []
        for line in lines:
            text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
            heard += self.side.receive(text.encode())
        return heard

    def events(self, *lines: dict[str, Any] | str) -> list[bus.Event]:
        return [said.event for said in self.hear(*lines) if isinstance(said, Heard)]


@pytest.fixture
def host() -> Host:
    return Host()


def start(msg_id: str = "m1") -> dict[str, Any]:
    return {"type": "stream_start", "msg_id": msg_id}


def end(msg_id: str = "m1", **usage: int) -> dict[str, Any]:
    return {"type": "stream_end", "msg_id": msg_id, **({"usage": usage} if usage else {})}


def request(call_id: str, msg_id: str = "m1", **tool: Any) -> dict[str, Any]:
    described = {"name": "Write", "category": "edit", "args": {}, "description": "", **tool}
    return {"type": "tool_request", "msg_id": msg_id, "call_id": call_id, "tool": described}


def running(call_id: str, name: str = "Write", msg_id: str = "m1") -> dict[str, Any]:
    return {"type": "tool_running", "msg_id": msg_id, "call_id": call_id, "tool_name": name}


def result(call_id: str, msg_id: str = "m1", **fields: Any) -> dict[str, Any]:
    filled = {"tool_name": "Write", "status": "success", "output": "done", "output_type": "text", **fields}
    return {"type": "tool_result", "msg_id": msg_id, "call_id": call_id, **filled}


def cancelled(call_id: str, reason: str, msg_id: str = "m1") -> dict[str, Any]:
    return {"type": "tool_cancelled", "msg_id": msg_id, "call_id": call_id, "reason": reason}


def error(code: str, message: str, retryable: bool = False, **key: Any) -> dict[str, Any]:
    return {"type": "error", **key, "error": {"code": code, "message": message, "retryable": retryable}}


def info(message: str, msg_id: str = "") -> dict[str, Any]:
    return {"type": "info", "msg_id": msg_id, "message": message}


def changed(mode: str = "default", **more: Any) -> dict[str, Any]:
    return {"type": "config_changed", "capabilities": {"current_mode": mode, **more}}


PONG = {"type": "pong"}
READY = {"type": "ready", "version": "0.2.0", "session_id": "s1", "capabilities": {"thinking": True}}


class TestSending:
    @pytest.mark.parametrize(
        ("command", "line"),
        [
            (commands.Prompt("Hello", "m1"), '{"type":"message","msg_id":"m1","content":"Hello","files":[]}'),
            (commands.Prompt("x"), '{"type":"message","msg_id":"m1","content":"x","files":[]}'),
            (commands.Prompt("x", 7), '{"type":"message","msg_id":"7","content":"x","files":[]}'),
            (
                commands.Prompt(
                    ref="m1", files=["/a"],
                    parts=[bus.Text("see"), bus.File("/b"), bus.Text("this"), bus.Image("image/png", path="/c.png")],
                ),
                '{"type":"message","msg_id":"m1","content":"see\\nthis","files":["/a","/b","/c.png"]}',
            ),
            (commands.Stop(), '{"type":"stop"}'),
            (commands.InitHistory("before"), '{"type":"init_history","text":"before"}'),
            (commands.SetMode("auto_edit"), '{"type":"set_mode","mode":"auto_edit"}'),
            (commands.SetConfig(), '{"type":"set_config"}'),
            (
                commands.SetConfig("m", "supported", "enabled", 0, "", "off"),
                '{"type":"set_config","model":"m","image_input":"supported","thinking":"enabled",'
                '"thinking_budget":0,"effort":"","compaction":"off"}',
            ),
            (
                commands.AddMcpServer("n", "stdio", "node", ["a"], {"A": "b"}),
                '{"type":"add_mcp_server","name":"n","transport":"stdio","command":"node","args":["a"],"env":{"A":"b"}}',
            ),
            (
                commands.AddMcpServer("n", "sse", url="http://x"),
                '{"type":"add_mcp_server","name":"n","transport":"sse","url":"http://x"}',
            ),
            (commands.Ping(), '{"type":"ping"}'),
            (
                commands.Prompt("half \ud83d", "m1"),
                '{"type":"message","msg_id":"m1","content":"half \ufffd","files":[]}',
            ),
        ],
    )  # fmt: skip
    def test_lines(self, host: Host, command: Command, line: str) -> None:
        assert host.send(command) == 1
        assert host.sent == [line]

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            (commands.Steer("x"), "unsupported"),
            (commands.Shutdown(), "unsupported"),
            (commands.ForkSession("s"), "unsupported"),
            (commands.Prompt("x", resume=True), "unsupported"),
            (commands.Prompt(parts=[bus.Image("image/png", "aGk=")]), "unsupported"),
            (commands.SetConfig(thinking_budget=-1), "bad_params"),
            (commands.SetConfig(thinking_budget=2**32), "bad_params"),
            (commands.Approve("nope"), "not_found"),
            (commands.Deny("nope"), "not_found"),
            (commands.Stop(ref="m9"), "not_found"),
        ],
    )
    def test_what_this_wire_cannot_carry(self, host: Host, command: Command, code: str) -> None:
        refusal = host.send(command)
        assert isinstance(refusal, Refusal)
        assert refusal.code == code
        assert host.send(commands.Ping()) == 1  # a refused command has no number

    def test_no_message_while_a_turn_runs(self, host: Host) -> None:
        """A real agent would lose it without a word."""
        host.hear(start())
        refusal = host.send(commands.Prompt("x", "m2"))
        assert isinstance(refusal, Refusal)
        assert (refusal.code, refusal.retryable) == ("busy", True)
        host.hear(end())
        assert host.send(commands.Prompt("x", "m2")) == 1

    def test_answers_to_questions(self, host: Host) -> None:
        host.hear(start(), request("t1"), request("t2"), request("t3"), request("t4"), running("t5"))
        for command in (
            commands.Approve("t1", scope="always"),
            commands.Approve(approval_id="t2", scope="category"),
            commands.Approve("t3", scope="tool"),
            commands.Deny("t4", reason="no"),
        ):
            assert isinstance(host.send(command), int)
        assert host.sent == [
            '{"type":"tool_approve","call_id":"t1","scope":"always"}',
            '{"type":"tool_approve","call_id":"t2","scope":"always"}',
            '{"type":"tool_approve","call_id":"t3","scope":"once"}',
            '{"type":"tool_deny","call_id":"t4","reason":"no"}',
        ]
        host.hear(running("t1"))
        for call_id in ("t1", "t5"):
            refusal = host.send(commands.Approve(call_id))
            assert isinstance(refusal, Refusal)
            assert refusal.code == "not_pending"


class TestAnswers:
    def test_a_prompt_is_answered_by_the_turn_it_starts(self, host: Host) -> None:
        assert host.send(commands.Prompt("Hi", 7, files=["/a"])) == 1
        assert host.hear(start("7"), {"type": "text_delta", "text": "x", "msg_id": "7"}) == [
            Answered(1, Done()),
            Heard(bus.TurnStarted("7", 7, [bus.Text("Hi"), bus.File("/a")]), ref=7),
            Heard(bus.TextDelta("x"), ref=7),
        ]

    def test_a_prompt_without_an_id_of_its_own(self, host: Host) -> None:
        host.send(commands.Ping())
        assert host.send(commands.Prompt("Hi")) == 2
        assert host.hear(start("m2"))[1] == Heard(bus.TurnStarted("m2", "m2", [bus.Text("Hi")]), ref="m2")

    @pytest.mark.parametrize(
        ("line", "refusal"),
        [
            (error("protocol_error", "busy", retryable=True, msg_id="m1"), Refusal("busy", "busy", retryable=True)),
            (error("config_error", "no model", msg_id="m1"), Refusal("config", "no model")),
            (error("internal_error", "broken", msg_id="m1"), Refusal("internal", "broken")),
            (error("engine_error", "?", msg_id="m1"), Refusal("internal", "?")),
        ],
    )
    def test_a_prompt_that_was_refused(self, host: Host, line: dict[str, Any], refusal: Refusal) -> None:
        host.send(commands.Prompt("Hi", "m1"))
        assert host.hear(line) == [Answered(1, refusal)]
        assert host.events(line) == [bus.ErrorRaised(ErrorInfo(**line["error"]))]  # nothing waits any more

    def test_pongs_come_in_order_and_fence_what_has_no_answer(self, host: Host) -> None:
        assert [
            host.send(command)
            for command in (
                commands.Stop(),
                commands.InitHistory("x"),
                commands.Ping(),
                commands.Stop(),
                commands.Ping(),
            )
        ] == [1, 2, 3, 4, 5]
        assert host.hear(PONG) == [Answered(1, Done()), Answered(2, Done()), Answered(3, Done())]
        assert host.hear(PONG) == [Answered(4, Done()), Answered(5, Done())]
        assert host.hear(PONG) == []

    def test_modes_and_configurations(self, host: Host) -> None:
        host.hear(READY)
        now = Capabilities(thinking=True)
        yolo = Capabilities(thinking=True, current_mode="yolo")
        host.send(commands.SetMode("yolo"))
        assert host.hear(info("mode updated: yolo"), changed("yolo", thinking=True)) == [
            Answered(1, Done()),
            Heard(bus.ModeChanged("yolo", "default", yolo)),
        ]
        host.send(commands.SetConfig("b"))
        assert host.hear(info("config updated: model: a → b"), changed(thinking=True)) == [
            Answered(2, Done()),
            Heard(bus.Notice("config updated: model: a → b")),
            Heard(bus.ConfigChanged([], now)),
        ]
        host.send(commands.SetConfig())
        assert host.hear(info("set_config: no changes"), changed(thinking=True))[0] == Answered(3, Done())

    def test_a_configuration_that_is_held(self, host: Host) -> None:
        host.hear(start())
        host.send(commands.SetConfig("b"))
        queued = info("set_config: queued, will apply after current response")
        assert host.hear(queued) == [Answered(1, Done(deferred=True))]
        assert host.hear(queued) == [Heard(bus.Notice(queued["message"]))]
        assert host.events(end(), info("config applied: model: a → b"), changed())[1:] == [
            bus.Notice("config applied: model: a → b"),
            bus.ConfigChanged([], Capabilities(), deferred=True),
        ]

    def test_servers(self, host: Host) -> None:
        for name in "abcd":
            host.send(commands.AddMcpServer(name, "stdio", "x"))
        failed = error("config_error", "AddMcpServer 'b' failed: no")
        assert host.hear({"type": "mcp_ready", "name": "a", "tools": ["t"]}, failed) == [
            Answered(1, Done()),
            Heard(bus.McpServerReady("a", ["t"], dynamic=True)),
            Answered(2, Refusal("config", "AddMcpServer 'b' failed: no")),
            Heard(bus.McpServerFailed("b", ErrorInfo("config_error", "AddMcpServer 'b' failed: no"), dynamic=True)),
        ]
        late = "AddMcpServer 'd': rejected — only allowed before first Message"
        unknown = "AddMcpServer 'c': unknown transport: pigeon"
        assert host.hear(error("protocol_error", late), error("protocol_error", unknown, msg_id=None)) == [
            Answered(4, Refusal("too_late", late)),
            Answered(3, Refusal("bad_params", unknown)),
        ]
        assert host.events(error("protocol_error", late)) == [bus.ErrorRaised(ErrorInfo("protocol_error", late))]

    def test_refusals_that_only_their_text_tells(self, host: Host) -> None:
        """Each told by the words our own agent side uses."""
        host.send(commands.InitHistory("x"))
        late = "init_history: rejected — only allowed before first Message"
        assert host.hear(error("protocol_error", late, msg_id=None)) == [Answered(1, Refusal("too_late", late))]
        host.hear(start(), request("t1"), request("t2"), request("t3"))
        host.send(commands.Approve("t1"))
        host.send(commands.Approve("t2"))
        host.send(commands.Deny("t3"))
        for number, command in ((3, "tool_approve"), (4, "tool_deny")):
            text = f"{command}: no pending call 't{number - 1}'"
            assert host.hear(error("protocol_error", text, msg_id=None)) == [
                Answered(number, Refusal("not_found", text))
            ]
        stray = error("protocol_error", late, msg_id=None)
        assert host.hear(stray) == [Heard(bus.ErrorRaised(ErrorInfo("protocol_error", late)))]

    def test_answers_to_questions_are_settled_by_what_follows(self, host: Host) -> None:
        host.hear(start(), request("t1"), request("t2"), request("t3"))
        for command in (commands.Approve("t1"), commands.Deny("t2"), commands.Approve("t3"), commands.Stop()):
            host.send(command)
        assert Answered(1, Done()) in host.hear(running("t1"))
        assert Answered(2, Done()) in host.hear(cancelled("t2", ""))
        settled = host.hear(cancelled("t3", "Cancelled by user"), cancelled("t1", "Cancelled by user"), end())
        assert [said for said in settled if isinstance(said, Answered)] == [Answered(3, Done()), Answered(4, Done())]


class TestTurns:
    def test_the_end_of_a_turn(self, host: Host) -> None:
        (_, finished) = host.events(start(), end(input_tokens=10, output_tokens=5, cache_read_tokens=3))
        assert finished == bus.TurnFinished("completed", usage=Usage(10, 5, 3))
        (_, finished) = host.events(start("m2"), end("m2"))
        assert finished == bus.TurnFinished("completed")  # no usage is not zero usage

    def test_the_answer_is_what_follows_the_last_call(self, host: Host) -> None:
        text = [{"type": "text_delta", "text": text, "msg_id": "m1"} for text in ("I'll look. ", "It ", "works.")]
        finished = host.events(start(), text[0], running("t1"), result("t1"), *text[1:], end())[-1]
        assert isinstance(finished, bus.TurnFinished)
        assert finished.text == "It works."

    def test_an_error_fails_the_turn_unless_it_goes_on(self, host: Host) -> None:
        limited = error("provider_error", "Rate limit", retryable=True, msg_id="m1")
        info_ = ErrorInfo("provider_error", "Rate limit", retryable=True)
        assert host.hear(start(), limited, end())[1:] == [
            Heard(bus.ErrorRaised(info_), ref="m1"),
            Heard(bus.TurnFinished("failed", error=info_), ref="m1"),
        ]
        host.hear(start(), limited, info("x", "m1"), {"type": "text_delta", "text": "on", "msg_id": "m1"})
        assert host.events(end()) == [bus.TurnFinished("completed", "on")]

    def test_stopped(self, host: Host) -> None:
        host.hear(start(), request("t1"))
        assert host.send(commands.Stop(ref="m1")) == 1
        assert host.hear(cancelled("t1", "Cancelled by user"), end()) == [
            Heard(bus.CallCancelled("t1", "stopped", "Cancelled by user", "Write"), ref="m1"),
            Heard(bus.TurnFinished("cancelled"), ref="m1"),
            Answered(1, Done()),
        ]
        host.hear(start("m2"), request("t2", "m2"))
        assert host.events(cancelled("t2", "Cancelled by user", "m2"), end("m2"))[-1] == bus.TurnFinished("cancelled")

    def test_a_stop_that_shows_as_an_error_is_a_stop(self, host: Host) -> None:
        host.hear(start())
        host.send(commands.Stop())
        events = host.events(error("engine_error", "User aborted the session"), end())
        assert events[-1] == bus.TurnFinished("cancelled")

    def test_calls(self, host: Host) -> None:
        arguments = {"b": [1, {"d": 1, "c": 2}], "file_path": "/a"}
        assert host.events(start(), request("t1", args=arguments, description="Write to /a"), running("t1"))[1:] == [
            bus.CallReady(
                "t1", "Write", '{"b":[1,{"c":2,"d":1}],"file_path":"/a"}',
                Raw(b'{"b":[1,{"c":2,"d":1}],"file_path":"/a"}'), "edit", "Write to /a",
            ),
            bus.ApprovalRequested("t1", "t1", "Write", "edit", "/a", prompt_kind="write"),
            bus.CallRunning("t1", "Write"),
        ]  # fmt: skip
        assert host.events(result("t1", status="error", output="no")) == [
            bus.CallFinished("t1", "Write", "error", "no")
        ]

    def test_a_call_that_was_not_asked_about_is_shown_by_its_name(self, host: Host) -> None:
        assert host.events(start(), running("t1", "Read"), result("t2", tool_name="Grep"))[1:] == [
            bus.CallReady("t1", "Read"),
            bus.CallRunning("t1", "Read"),
            bus.CallReady("t2", "Grep"),
            bus.CallFinished("t2", "Grep", "ok", "done"),
        ]

    def test_results_of_every_kind(self, host: Host) -> None:
        diff = result("t1", output="--- a/x", output_type="diff", metadata={"file_path": "/x"})
        image = result("t1", output="aGk=", output_type="image")
        shown = bus.Diff("/x", "--- a/x")
        for line, finished in (
            (diff, bus.CallFinished("t1", "Write", "ok", "--- a/x", shown, metadata={"file_path": "/x"})),
            (image, bus.CallFinished("t1", "Write", "ok", "[image: image/png]", bus.Image("image/png", "aGk="))),
        ):  # fmt: skip
            side = Host()
            assert side.events(start(), running("t1"), line)[-1] == finished

    def test_retries(self, host: Host) -> None:
        assert host.hear(start(), info("Stream interrupted, retrying... (1/2)", "m1"))[1] == Heard(
            bus.RetryScheduled(1, 2, 0, "", stream=True), ref="m1"
        )
        assert host.events(info("Request failed (a) b), retrying in 0.35s... (2/3)", "m1")) == [
            bus.RetryScheduled(2, 3, 350, "a) b")
        ]
        host.hear(end())
        outside = info("Stream interrupted, retrying... (1/2)", "m1")
        assert host.hear(outside) == [Heard(bus.Notice(outside["message"]))]

    def test_what_is_open_when_the_turn_ends_is_closed(self, host: Host) -> None:
        host.hear(start(), request("t1"), running("t2"))
        assert host.events(end()) == [
            bus.CallCancelled("t1", "crashed", "", "Write"),
            bus.CallCancelled("t2", "crashed", "", "Write"),
            bus.TurnFinished("completed"),
        ]


class TestTolerance:
    def test_ready_of_other_agents(self, host: Host) -> None:
        (opened,) = host.events({
            "type": "ready", "version": "0.9", "capabilities": {
                "current_mode": "force", "image_input": "maybe", "modes": ["default", "force"], "effort_levels": None,
                "inject": True,
            },
        })  # fmt: skip
        assert opened == bus.SessionOpened(
            "", capabilities=Capabilities(current_mode="yolo", modes=("default", "force")), ephemeral=True
        )
        assert host.events({"type": "ready"}) == [bus.SessionOpened("", ephemeral=True)]
        assert host.events({"type": "ready", "session_id": "s", "later": 1}) == [bus.SessionOpened("s")]

    def test_turn_ids_that_are_left_out(self, host: Host) -> None:
        host.send(commands.Prompt("x", "m1"))
        lines: list[dict[str, Any]] = [
            {"type": "stream_start"},
            {"type": "text_delta", "text": "a", "msg_id": None},
            {"type": "thinking", "text": "b", "msg_id": ""},
            {"type": "tool_running", "call_id": "t1", "tool_name": "Read"},
            {"type": "tool_result", "call_id": "t1"},
            {"type": "stream_end"},
        ]
        heard = [said for said in host.hear(*lines) if isinstance(said, Heard)]
        assert {said.ref for said in heard} == {"m1"}
        assert [type(said.event) for said in heard] == [
            bus.TurnStarted, bus.TextDelta, bus.ReasoningDelta, bus.CallReady, bus.CallRunning, bus.CallFinished,
            bus.TurnFinished,
        ]  # fmt: skip

    def test_old_agents_name_no_turn_in_an_error(self, host: Host) -> None:
        broken = ErrorInfo("engine_error", "Provider error: x")
        assert host.hear(start(), error("engine_error", "Provider error: x"), end())[1:] == [
            Heard(bus.ErrorRaised(broken), ref="m1"),
            Heard(bus.TurnFinished("failed", error=broken), ref="m1"),
        ]
        assert host.hear(start(), error("protocol_error", "of a bad line", msg_id=None), end())[1:] == [
            Heard(bus.ErrorRaised(ErrorInfo("protocol_error", "of a bad line"))),
            Heard(bus.TurnFinished("completed"), ref="m1"),
        ]

    def test_a_slash_command_ends_a_turn_that_never_began(self, host: Host) -> None:
        host.send(commands.Prompt("/help", "m1"))
        assert host.hear(info("Available commands:"), end(input_tokens=0, output_tokens=0)) == [
            Heard(bus.Notice("Available commands:")),
            Answered(1, Done()),
            Heard(bus.TurnStarted("m1", "m1", [bus.Text("/help")]), ref="m1"),
            Heard(bus.TurnFinished("completed", usage=Usage(0, 0)), ref="m1"),
        ]

    def test_modes_that_are_confirmed_after_the_turn(self, host: Host) -> None:
        """Old agents send one config_changed, after the end."""
        assert [type(event) for event in host.events(start(), info("mode updated: yolo"), end(), changed("yolo"))] == [
            bus.TurnStarted, bus.ModeChanged, bus.TurnFinished,
        ]  # fmt: skip
        assert host.events(changed("yolo")) == [bus.CapabilitiesChanged(Capabilities(current_mode="yolo"))]

    def test_ids_that_repeat_from_round_to_round(self, host: Host) -> None:
        def one_round(msg_id: str) -> list[bus.Event]:
            asked = host.events(request("call_0", msg_id), running("call_0", "Write", msg_id))
            return [*asked, *host.events(result("call_0", msg_id))]

        ids = []
        for msg_id in ("m1", "m2"):
            host.hear(start(msg_id))
            for _ in range(2):
                events = one_round(msg_id)
                assert len({event.call_id for event in events}) == 1  # type: ignore[attr-defined]
                ids.append(events[0].call_id)  # type: ignore[attr-defined]
            host.hear(end(msg_id))
        assert ids == ["call_0", "call_0-2", "call_0-3", "call_0-4"]
        host.hear(start("m3"), request("call_0", "m3"))
        assert host.send(commands.Approve("call_0-5")) == 1
        assert host.sent == ['{"type":"tool_approve","call_id":"call_0","scope":"once"}']

    def test_running_totals_of_the_real_binary(self, host: Host) -> None:
        """It reports the session's total, and zeros after an error."""
        host.hear({"type": "ready", "version": "0.2.10", "session_id": "s"})
        seen = []
        for n, usage in enumerate([(10, 5), (30, 9), (0, 0), (33, 10), (20, 1)]):
            (*_, finished) = host.events(start(str(n)), end(str(n), input_tokens=usage[0], output_tokens=usage[1]))
            assert isinstance(finished, bus.TurnFinished)
            seen.append((finished.usage.input_tokens, finished.usage.output_tokens))
        assert seen == [(10, 5), (20, 4), (UNSET, UNSET), (3, 1), (20, 1)]

    def test_a_server_without_tools_has_probably_failed(self, host: Host) -> None:
        assert host.events({"type": "mcp_ready", "name": "x", "tools": []}) == [
            bus.McpServerReady("x", [], dynamic=True),
            bus.Notice("MCP server 'x' offers no tools; it may have failed to start.", "warning"),
        ]

    @pytest.mark.parametrize(
        ("line", "name"),
        [
            ('{"type":"provider_retry","n":1}', "provider_retry"),
            ('{"type":"text_delta","msg_id":"m1"}', "text_delta"),
            ('{"type":"text_delta","text":"after its end","msg_id":"m0"}', "text_delta"),
            ('{"type":"tool_cancelled","call_id":"never","reason":""}', "tool_cancelled"),
            ('{"type":"tool_request","msg_id":"m1","call_id":"c"}', "tool_request"),
            ('{"type":"info","msg_id":"","message":"Tool call: Read"}', "info"),
            ('{"type":"info","msg_id":"","message":"[Read error] long\\ntext"}', "info"),
            ('{"no":"type"}', "line"),
            ('{"type":7}', "line"),
            ("[]", "line"),
        ],
    )
    def test_what_the_bus_has_no_word_for_is_kept(self, host: Host, line: str, name: str) -> None:
        host.hear(start("m0"), end("m0"))
        assert host.hear(line) == [Heard(bus.Unknown("aionrs", name, Raw(line.encode())))]

    def test_lines_that_are_not_json(self, host: Host) -> None:
        assert host.hear("aionrs 0.2.10 ✓") == [Heard(bus.Unknown("aionrs", "line", Raw('"aionrs 0.2.10 ✓"'.encode())))]
        assert host.hear('{"type":"new","half":"\\ud800"}') == [
            Heard(bus.Unknown("aionrs", "new", Raw('{"type":"new","half":"\ufffd"}'.encode())))
        ]
        assert host.hear("", "  \r") == []

    def test_the_end_of_a_turn_is_read_whatever_it_looks_like(self, host: Host) -> None:
        for usage in (None, 5, [], {"input_tokens": "x", "output_tokens": 1.5, "cache_read_tokens": True}):
            (_, finished) = host.events(start(), {"type": "stream_end", "msg_id": "m1", "usage": usage, "x": {}})
            assert finished == bus.TurnFinished("completed")

    def test_errors_of_any_shape(self, host: Host) -> None:
        for body, told in (
            (None, ErrorInfo("internal_error", "")),
            ("text", ErrorInfo("internal_error", "text")),
            ({"code": 5, "message": None, "retryable": "yes"}, ErrorInfo("internal_error", "")),
            ({"code": "new_code", "message": "m", "retryable": True, "more": 1}, ErrorInfo("new_code", "m", True)),
        ):
            assert host.events({"type": "error", "error": body}) == [bus.ErrorRaised(told)]

    def test_a_turn_that_begins_in_the_middle_of_another(self, host: Host) -> None:
        events = host.events(start("m1"), running("t1"), start("m2"), end("m2"))
        assert [type(event) for event in events] == [
            bus.TurnStarted, bus.CallReady, bus.CallRunning, bus.CallCancelled, bus.TurnFinished, bus.TurnStarted,
            bus.TurnFinished,
        ]  # fmt: skip
        assert isinstance(events[4], bus.TurnFinished)
        assert events[4].outcome == "failed"


class TestTheEndOfTheAgent:
    def test_in_the_middle_of_a_turn(self, host: Host) -> None:
        host.send(commands.Ping())
        host.hear(start(), running("t1"))
        died = ErrorInfo("internal_error", "The agent ended in the middle of the turn.")
        assert host.side.close() == [
            Heard(bus.CallCancelled("t1", "crashed", "", "Write"), ref="m1"),
            Heard(bus.TurnFinished("failed", error=died), ref="m1"),
            Answered(1, Refusal("internal", "The agent ended before it answered.")),
        ]

    def test_after_a_stop(self, host: Host) -> None:
        """The real binary ends the process on stop, without an end of the turn."""
        host.hear(start(), running("t1"))
        host.send(commands.Stop())
        assert host.side.close() == [
            Heard(bus.CallCancelled("t1", "stopped", "", "Write"), ref="m1"),
            Heard(bus.TurnFinished("cancelled"), ref="m1"),
            Answered(1, Done()),
        ]

    def test_at_rest(self, host: Host) -> None:
        assert host.side.close() == []
