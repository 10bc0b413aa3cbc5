"""The agent's lines to the byte: the specification's own examples and the forms it leaves open."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import Raw

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.contract import Request
from agentwire.commands import Command, Done, Outcome, Refusal
from agentwire.events import Capabilities, ErrorInfo, Usage
from agentwire.log.record import Record
from agentwire_aionrs import codec

MODES = '"modes":["default","auto_edit","yolo"]'
TURN = bus.TurnStarted("t", "m1")
SCHEMAS = codec.schemas() if codec.schemas else {}
EVENT_SCHEMA = Draft202012Validator(SCHEMAS["aionrs.events.json"])


def written(*events: bus.Event, turn: int = 1, origin: str = "") -> list[str]:
    """The lines of some records; each is checked against the published schema."""
    out = bytearray()
    records = [Record(n, 0, event, turn, origin) for n, event in enumerate(events, 1)]  # type: ignore[arg-type]
    codec.agent().render("s", records, out)
    *lines, rest = out.decode().split("\n")
    assert rest == ""
    for line in lines:
        EVENT_SCHEMA.validate(json.loads(line))
    return lines


def in_turn(*events: bus.Event) -> list[str]:
    """The same inside turn m1, less its beginning."""
    return written(TURN, *events)[1:]


def answered(command: Command | None, result: Done | Refusal) -> list[str]:
    out = bytearray()
    refusal = result if command is None and isinstance(result, Refusal) else None
    assert codec.agent().outcome(Request(command, refusal), Outcome(result), out) is None
    return out.decode().splitlines()


def error(msg_id: str, code: str, message: str, retryable: bool = False) -> str:
    told = json.dumps(message, ensure_ascii=False)
    return (
        f'{{"type":"error",{msg_id}"error":{{"code":"{code}","message":{told},"retryable":{str(retryable).lower()}}}}}'
    )


NULL = '"msg_id":null,'


class TestSession:
    def test_ready(self) -> None:
        """Section 1.1."""
        now = Capabilities("supported", thinking=True, mcp=True)
        assert written(bus.SessionOpened("a1b2c3", capabilities=now), turn=0) == [
            '{"type":"ready","version":"0.2.0","session_id":"a1b2c3","capabilities":{"tool_approval":true,'
            '"image_input":"supported","thinking":true,"effort":false,"effort_levels":[],'
            f'{MODES},"current_mode":"default","mcp":true}}}}'
        ]

    def test_ready_without_a_session(self) -> None:
        (line,) = written(bus.SessionOpened("a1b2c3", ephemeral=True), turn=0)
        assert line.startswith('{"type":"ready","version":"0.2.0","capabilities":{"tool_approval":true,')

    def test_config_changed(self) -> None:
        """Section 1.12."""
        now = Capabilities("unsupported", effort=True, effort_levels=("low", "medium", "high"), mcp=True)
        line = (
            '{"type":"config_changed","capabilities":{"tool_approval":true,"image_input":"unsupported",'
            '"thinking":false,"effort":true,"effort_levels":["low","medium","high"],'
            f'{MODES},"current_mode":"default","mcp":true}}}}'
        )
        assert written(bus.CapabilitiesChanged(now), turn=0) == [line]
        assert written(bus.ConfigChanged([], now), turn=0) == [
            '{"type":"info","msg_id":"","message":"set_config: no changes"}', line,
        ]  # fmt: skip
        assert written(bus.ConfigChanged([], now, deferred=True), turn=0) == [line]

    def test_mode_changed_inside_a_turn_names_no_turn(self) -> None:
        info, changed = in_turn(bus.ModeChanged("yolo", "default", Capabilities(current_mode="yolo")))
        assert info == '{"type":"info","msg_id":"","message":"mode updated: yolo"}'
        assert '"current_mode":"yolo"' in changed

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (("model", "claude-sonnet-4", "claude-opus-4"), "model: claude-sonnet-4 → claude-opus-4"),
            (("image_input", "unknown", "supported"), "image input: Unknown → Supported"),
            (("thinking", "", "enabled", 16000), "thinking: enabled (budget: 16000)"),
            (("thinking", "", "enabled"), "thinking: enabled (budget: 10000)"),
            (("thinking", "", "enabled", 0), "thinking: enabled (budget: 0)"),
            (("thinking", "enabled", "disabled"), "thinking: disabled"),
            (("thinking", "", "maybe", msgspec.UNSET, "invalid"), 'thinking: ignored invalid value "maybe"'),
            (("thinking_budget", "", "", 500), "thinking budget: 500"),
            (("effort", "low", ""), "effort: cleared"),
            (("effort", "", "low"), "effort: none → low"),
            (("effort", "low", "high"), "effort: low → high"),
            (("effort", "", "high", msgspec.UNSET, "unsupported"), "effort: not supported by current provider"),
            (
                ("effort", "", "max", msgspec.UNSET, "invalid", ("low", "medium", "high")),
                'effort: invalid level "max" (valid: low, medium, high)',
            ),
            (("compaction", "safe", "full"), "compaction: safe → full"),
            (
                ("compaction", "safe", "x", msgspec.UNSET, "invalid"),
                "compaction: invalid (unknown compaction level: 'x' (expected: off, safe, full))",
            ),
            (("later", "a", "b"), "later: a → b"),
            (("later", "a", "b", msgspec.UNSET, "invalid"), 'later: invalid value "b"'),
        ],
    )
    def test_texts_of_changes(self, change: tuple[Any, ...], text: str) -> None:
        event = bus.ConfigChanged([bus.ConfigChange(*change)], Capabilities())
        info, _ = written(event, turn=0)
        assert json.loads(info) == {"type": "info", "msg_id": "", "message": f"config updated: {text}"}

    def test_several_changes_and_held_ones(self) -> None:
        both = [bus.ConfigChange("model", "a", "b"), bus.ConfigChange("effort", "", "low")]
        info, _ = written(bus.ConfigChanged(both, Capabilities(), deferred=True), turn=0)
        assert json.loads(info)["message"] == "config applied: model: a → b, effort: none → low"

    def test_what_is_echoed_is_bounded(self) -> None:
        event = bus.ConfigChanged([bus.ConfigChange("effort", "", "x" * 9000, problem="invalid")], Capabilities())
        info, _ = written(event, turn=0)
        assert len(info) < 400

    def test_mcp_servers(self) -> None:
        """Section 1.13: only those the host asked for."""
        assert written(bus.McpServerReady("my-tools", ["tool_a", "tool_b"], dynamic=True), turn=0) == [
            '{"type":"mcp_ready","name":"my-tools","tools":["tool_a","tool_b"]}'
        ]
        assert written(bus.McpServerReady("configured", ["a"]), turn=0) == []
        cause = "Transport error: Failed to spawn '/no/such': No such file or directory (os error 2)"
        line = error("", "config_error", f"AddMcpServer 'c' failed: {cause}")
        for message in (cause, f"AddMcpServer 'c' failed: {cause}"):
            failed = bus.McpServerFailed("c", ErrorInfo("config_error", message), dynamic=True)
            assert written(failed, turn=0) == [line]
        failed = bus.McpServerFailed("c", ErrorInfo("config_error", "timed out"))
        assert written(failed, turn=0) == ['{"type":"info","msg_id":"","message":"MCP server \'c\' failed: timed out"}']

    @pytest.mark.parametrize(
        "event",
        [
            bus.ContextAdded("x"), bus.UserJoined("x"), bus.HistoryCleared(), bus.HostToolsChanged([]),
            bus.SessionClosed("x"), bus.StepStarted(0), bus.StepFinished(0), bus.RequestSent("p", "m"),
            bus.CallStarted("c", "Read"), bus.CallArgumentsDelta("c", "{"), bus.CallReady("c", "Read"),
            bus.ApprovalResolved("c", "c", "allowed"), bus.CallOutputDelta("c", "x"),
            bus.HostToolRequested("r", "c", "n"), bus.HostToolCancelled("r"), bus.HostToolDetails("c", Raw(b"1")),
            bus.SubagentQueued("r", "n"), bus.SubagentStarted("r", "n"), bus.SubagentFinished("r", "n"),
            bus.Unknown("jan", "x", Raw(b"{}")), bus.Unknown("aionrs", "line", Raw(b'"text"')),
        ],
    )  # fmt: skip
    def test_what_has_no_line(self, event: bus.Event) -> None:
        assert in_turn(event) == []

    def test_nothing_of_a_subagent_is_shown(self) -> None:
        """Section 1.5 shows Spawn as one call; what happens below it is nobody's business."""
        below = (TURN, bus.TextDelta("x"), bus.TextDelta("y"), bus.ApprovalRequested("c", "c", "Read"), bus.Notice("x"))
        assert written(*below, origin="run-1") == []


class TestTurn:
    def test_a_plain_turn(self) -> None:
        """Section 3.2."""
        assert written(
            TURN,
            bus.StepStarted(0),
            bus.ReasoningDelta("Let me analyze the code structure..."),
            bus.TextDelta("Hi! "),
            bus.TextDelta("How can I help?"),
            bus.TurnFinished("completed", usage=Usage(1500, 320, 800, 200)),
        ) == [
            '{"type":"stream_start","msg_id":"m1"}',
            '{"type":"thinking","text":"Let me analyze the code structure...","msg_id":"m1"}',
            '{"type":"text_delta","text":"Hi! ","msg_id":"m1"}',
            '{"type":"text_delta","text":"How can I help?","msg_id":"m1"}',
            '{"type":"stream_end","msg_id":"m1","usage":{"input_tokens":1500,"output_tokens":320,'
            '"cache_read_tokens":800,"cache_write_tokens":200}}',
        ]

    def test_usage_that_was_not_reported(self) -> None:
        for usage in (Usage(), Usage(reasoning_tokens=5, extra={"x": 1})):
            assert in_turn(bus.TurnFinished("cancelled", usage=usage)) == [
                '{"type":"stream_end","msg_id":"m1","usage":{"input_tokens":0,"output_tokens":0}}'
            ]
        assert in_turn(bus.TurnFinished("completed", usage=Usage(1, 2, cache_read_tokens=0))) == [
            '{"type":"stream_end","msg_id":"m1","usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":0}}'
        ]

    @pytest.mark.parametrize(
        ("ref", "msg_id"),
        [("m-1", "m-1"), ("", ""), (7, "7"), (1.5, "1.5"), (None, "turn-uuid"), ('"\n\u2028é', '"\n\u2028é')],
    )
    def test_ids_of_any_driver(self, ref: Any, msg_id: str) -> None:
        lines = written(bus.TurnStarted("turn-uuid", ref), bus.TextDelta("x"), bus.TextDelta("y"), bus.Notice("z"))
        assert [json.loads(line)["msg_id"] for line in lines] == [msg_id] * 4

    def test_s27_text_goes_out_raw_and_controls_escaped(self) -> None:
        """Scenario S27."""
        assert in_turn(bus.TextDelta("你好"), bus.TextDelta("\x1b\x7f\x08\x00/\u2028")) == [
            '{"type":"text_delta","text":"你好","msg_id":"m1"}',
            '{"type":"text_delta","text":"\\u001b\x7f\\b\\u0000/\u2028","msg_id":"m1"}',
        ]

    def test_errors(self) -> None:
        """Sections 4.2 and 1.10: a turn's error names it, any other has null."""
        limited = ErrorInfo("provider_error", "Rate limit exceeded. Retry after 30s.", retryable=True)
        assert in_turn(bus.ErrorRaised(limited), bus.TurnFinished("failed", error=limited)) == [
            error('"msg_id":"m1",', "provider_error", "Rate limit exceeded. Retry after 30s.", retryable=True),
            '{"type":"stream_end","msg_id":"m1","usage":{"input_tokens":0,"output_tokens":0}}',
        ]
        outside = bus.ErrorRaised(ErrorInfo("internal_error", "x"))
        assert written(outside, turn=0) == [error(NULL, "internal_error", "x")]

    @pytest.mark.parametrize(
        ("event", "text"),
        [
            (bus.RetryScheduled(1, 2, 1000, "reset", stream=True), "Stream interrupted, retrying... (1/2)"),
            (bus.RetryScheduled(1, 3, 2000, "503"), "Request failed (503), retrying in 2s... (1/3)"),
            (bus.RetryScheduled(2, 3, 300, "x"), "Request failed (x), retrying in 0.3s... (2/3)"),
            (bus.RetryScheduled(2, 3, 10_050, ""), "Request failed (), retrying in 10.05s... (2/3)"),
            (bus.CompactionStarted("threshold"), "Autocompact: started (threshold)"),
            (bus.CompactionFinished("threshold", "sum", messages=7), "Autocompact: summarized 7 messages"),
            (bus.CompactionFinished("threshold", "sum"), "Autocompact: summarized the messages so far"),
            (bus.CompactionFailed("threshold", "no model"), "Autocompact failed: no model"),
            (bus.Notice("careful", "warning"), "careful"),
            (bus.Notice("mode updated: yolo"), "note: mode updated: yolo"),
            (bus.Notice("set_config: no changes"), "note: set_config: no changes"),
            (bus.Notice("Tool call: Read"), "note: Tool call: Read"),
            (bus.Notice("mode updated: yolo!"), "mode updated: yolo!"),
        ],
    )
    def test_notices_of_a_turn(self, event: bus.Event, text: str) -> None:
        (line,) = in_turn(event)
        assert json.loads(line) == {"type": "info", "msg_id": "m1", "message": text}
        assert json.loads(written(event, turn=0)[0])["msg_id"] == ""


class TestCalls:
    READY = bus.CallReady(
        "t1", "Write", '{"file_path": "/w/hello.rs", "content": "fn main() {}\\n"}',
        Raw(b'{"content":"fn main() {}\\n","file_path":"/w/hello.rs"}'), "edit", "Write to /w/hello.rs",
    )  # fmt: skip
    ASKED = bus.ApprovalRequested("t1", "t1", "Write", "edit")
    REQUEST = (
        '{"type":"tool_request","msg_id":"m1","call_id":"t1","tool":{"name":"Write","category":"edit",'
        '"args":{"content":"fn main() {}\\n","file_path":"/w/hello.rs"},"description":"Write to /w/hello.rs"}}'
    )
    RUNNING = '{"type":"tool_running","msg_id":"m1","call_id":"t1","tool_name":"Write"}'

    def test_s2_asked_and_allowed(self) -> None:
        """Scenario S2, section 3.3."""
        assert in_turn(
            self.READY, self.ASKED, bus.ApprovalResolved("t1", "t1", "allowed"), bus.CallRunning("t1", "Write"),
            bus.CallFinished("t1", "Write", "ok", "Created /w/hello.rs (1 lines)"),
        ) == [
            self.REQUEST,
            self.RUNNING,
            '{"type":"tool_result","msg_id":"m1","call_id":"t1","tool_name":"Write","status":"success",'
            '"output":"Created /w/hello.rs (1 lines)","output_type":"text"}',
        ]  # fmt: skip

    def test_s6_free_calls_are_not_asked_about(self) -> None:
        assert in_turn(self.READY, bus.CallRunning("t1")) == [self.RUNNING]

    @pytest.mark.parametrize(
        ("cause", "reason", "told"),
        [
            ("denied", "policy violation", "policy violation"),
            ("denied", "", ""),
            ("stopped", "", "Cancelled by user"),
            ("client_gone", "", "Client disconnected"),
            ("client_gone", "as given", "as given"),
            ("refused", "", ""),
        ],
    )
    def test_s3_cancelled(self, cause: Any, reason: str, told: str) -> None:
        """Scenario S3, section 1.8: no result follows."""
        assert in_turn(self.READY, self.ASKED, bus.CallCancelled("t1", cause, reason)) == [
            self.REQUEST,
            f'{{"type":"tool_cancelled","msg_id":"m1","call_id":"t1","reason":"{told}"}}',
        ]

    def test_calls_that_were_not_shown_have_no_lines(self) -> None:
        """Neither asked about nor run: malformed, barred, refused or stopped before."""
        barred = bus.CallReady("x", "", barred=True)
        assert in_turn(barred, bus.CallFinished("x", "", "error", "Malformed tool call")) == []
        assert in_turn(self.READY, bus.CallCancelled("t1", "refused", "outside")) == []
        assert in_turn(bus.CallCancelled("t9", "stopped")) == []

    def test_arguments_that_are_no_object(self) -> None:
        for ready in (bus.CallReady("t1", "Nope", "[1", category="exec"), bus.Notice("no call at all")):
            request = json.loads(in_turn(ready, bus.ApprovalRequested("t1", "t1", "Nope"))[-1])
            assert request["tool"] == {"name": "Nope", "category": "exec", "args": {}, "description": ""}

    @pytest.mark.parametrize(
        ("finished", "shown"),
        [
            (
                bus.CallFinished(
                    "t1", "Edit", "ok", "Edited", bus.Diff("/src/main.rs", "--- a/src/main.rs\n+new", "old", "new")
                ),
                {
                    "status": "success", "output": "--- a/src/main.rs\n+new", "output_type": "diff",
                    "metadata": {"file_path": "/src/main.rs"},
                },
            ),
            (
                bus.CallFinished("t1", "Edit", "error", "no match", bus.Diff("/a", "x")),
                {"status": "error", "output": "no match", "output_type": "text"},
            ),
            (
                bus.CallFinished("t1", "Edit", "ok", "m", bus.Diff("/w/a", "x"), metadata={"z": 1, "file_path": "a"}),
                {"status": "success", "output": "x", "output_type": "diff", "metadata": {"file_path": "a", "z": 1}},
            ),
            (
                bus.CallFinished("t1", "Shot", "ok", "text", bus.Image("image/png", "aGk=")),
                {
                    "status": "success", "output": "aGk=", "output_type": "image",
                    "metadata": {"mime_type": "image/png"},
                },
            ),
            (
                bus.CallFinished("t1", "Shot", "ok", "text", bus.Image("image/png", path="/a.png")),
                {"status": "success", "output": "text", "output_type": "text"},
            ),
            (
                bus.CallFinished("t1", "Read", "ok", "for the model", bus.Text("for a person"), metadata={}),
                {"status": "success", "output": "for a person", "output_type": "text"},
            ),
            (
                bus.CallFinished("t1", "Read", "ok", "x", metadata={"b": {"d": 1, "c": 2}, "a": 1}),
                {
                    "status": "success", "output": "x", "output_type": "text",
                    "metadata": {"a": 1, "b": {"c": 2, "d": 1}},
                },
            ),
        ],
    )  # fmt: skip
    def test_results(self, finished: bus.CallFinished, shown: dict[str, Any]) -> None:
        """Section 1.7."""
        line = in_turn(bus.CallRunning("t1", finished.name), finished)[-1]
        head = {"type": "tool_result", "msg_id": "m1", "call_id": "t1", "tool_name": finished.name}
        assert line == json.dumps(head | shown, separators=(",", ":"))


class TestOutcomes:
    @pytest.mark.parametrize(
        ("command", "line"),
        [
            (commands.Ping(), '{"type":"pong"}'),
            (commands.Prompt("x", "m1"), None),
            (commands.Stop(), None),
            (commands.Approve("c"), None),
            (commands.SetMode("yolo"), None),
            (commands.SetConfig("m"), None),
            (commands.InitHistory("x"), None),
            (commands.AddMcpServer("n", "stdio"), None),
        ],
    )
    def test_done(self, command: Command, line: str | None) -> None:
        assert answered(command, Done()) == ([line] if line else [])

    def test_a_held_configuration(self) -> None:
        queued = "set_config: queued, will apply after current response"
        assert answered(commands.SetConfig("m"), Done(deferred=True)) == [
            f'{{"type":"info","msg_id":"","message":"{queued}"}}'
        ]

    @pytest.mark.parametrize(
        ("command", "refusal", "line"),
        [
            (
                None,
                Refusal("unknown_command", "Unknown command type: foo"),
                error(NULL, "protocol_error", "Unknown command type: foo"),
            ),
            (
                commands.Prompt("x", "m2"),
                Refusal("busy", "a turn is running"),
                error('"msg_id":"m2",', "protocol_error", "a turn is running", retryable=True),
            ),
            (
                commands.Prompt("x", "m2"),
                Refusal("config", "no model"),
                error('"msg_id":"m2",', "config_error", "no model"),
            ),
            (
                commands.Prompt("x", "m2"),
                Refusal("read_only", "the journal cannot be written"),
                error('"msg_id":"m2",', "internal_error", "the journal cannot be written"),
            ),
            (
                commands.AddMcpServer("name", "stdio"),
                Refusal("too_late", "whatever"),
                error("", "protocol_error", "AddMcpServer 'name': rejected — only allowed before first Message"),
            ),
            (
                commands.AddMcpServer("b", "carrier-pigeon"),
                Refusal("bad_params", "AddMcpServer 'b': unknown transport: carrier-pigeon"),
                error("", "protocol_error", "AddMcpServer 'b': unknown transport: carrier-pigeon"),
            ),
            (
                commands.AddMcpServer("b", "stdio"),
                Refusal("config", "Initialization failed: stdio transport requires 'command'"),
                error(
                    "", "config_error",
                    "AddMcpServer 'b' failed: Initialization failed: stdio transport requires 'command'",
                ),
            ),
            (
                commands.InitHistory("x"),
                Refusal("too_late", "whatever"),
                error(NULL, "protocol_error", "init_history: rejected — only allowed before first Message"),
            ),
            (
                commands.Approve("never"),
                Refusal("not_found", "whatever"),
                error(NULL, "protocol_error", "tool_approve: no pending call 'never'"),
            ),
            (
                commands.Deny("x" * 5000),
                Refusal("not_found", "whatever"),
                error(NULL, "protocol_error", f"tool_deny: no pending call '{'x' * 199}…'"),
            ),
            (commands.SetMode("yolo"), Refusal("internal", "broken"), error(NULL, "internal_error", "broken")),
        ],
    )  # fmt: skip
    def test_refused(self, command: Command | None, refusal: Refusal, line: str) -> None:
        assert answered(command, refusal) == [line]
        EVENT_SCHEMA.validate(json.loads(line))

    @pytest.mark.parametrize("command", [commands.Approve("c"), commands.Deny("c"), commands.Stop()])
    def test_a_click_that_came_too_late_has_no_answer(self, command: Command) -> None:
        assert answered(command, Refusal("not_pending", "it is settled")) == []

    def test_every_refusal_has_a_code(self) -> None:
        codes = commands.RefusalCode.__args__  # type: ignore[attr-defined]
        for code in codes:
            (line,) = answered(commands.SetMode("yolo"), Refusal(code, "x"))
            EVENT_SCHEMA.validate(json.loads(line))

    def test_fatal(self) -> None:
        """Section 4.3."""
        out = bytearray()
        codec.agent().fatal(Refusal("config", "ANTHROPIC_API_KEY not set"), out)
        assert out.decode() == error(NULL, "config_error", "ANTHROPIC_API_KEY not set") + "\n"
