"""A host's lines: every command of the specification, and what is wrong with every other line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import UNSET

from agentwire import commands
from agentwire.codec.contract import Request, View
from agentwire.codec.framing import Framer, LineFault
from agentwire.commands import Command
from agentwire_aionrs import codec

COMMAND_SCHEMA = Draft202012Validator((codec.schemas() if codec.schemas else {})["aionrs.commands.json"])


class Idle:
    """A server in which nothing goes on."""

    def has_session(self, session: str) -> bool:
        return False

    def turn_active(self, session: str = "") -> bool:
        return False

    def pending(self, request: str, session: str = "") -> bool:
        return False

    def is_directory(self, path: str) -> bool:
        return False


VIEW: View = Idle()


def read(line: str | bytes | LineFault) -> Request | None:
    return codec.agent().receive(line.encode() if isinstance(line, str) else line, VIEW)


def refusal(line: str | bytes | LineFault) -> tuple[str, str]:
    request = read(line)
    assert request is not None
    assert request.command is None
    assert request.refusal is not None
    return request.refusal.code, request.refusal.message


GOOD: list[tuple[dict[str, Any], Command]] = [
    (
        {"type": "message", "msg_id": "abc-123", "content": "Read it", "files": ["/path/to/file.png"]},
        commands.Prompt("Read it", "abc-123", files=["/path/to/file.png"]),
    ),
    ({"type": "message", "msg_id": "", "content": ""}, commands.Prompt("", "")),
    ({"content": "x", "who": {"deep": [1]}, "msg_id": "m", "type": "message"}, commands.Prompt("x", "m")),
    ({"type": "stop"}, commands.Stop()),
    ({"type": "tool_approve", "call_id": "t1", "scope": "once"}, commands.Approve("t1", scope="once")),
    ({"type": "tool_approve", "call_id": "t1", "scope": "always"}, commands.Approve("t1", scope="always")),
    ({"type": "tool_approve", "call_id": "t1"}, commands.Approve("t1")),
    ({"type": "tool_deny", "call_id": "t1", "reason": "No"}, commands.Deny("t1", reason="No")),
    ({"type": "tool_deny", "call_id": "t1"}, commands.Deny("t1")),
    ({"type": "init_history", "text": "Before:\n..."}, commands.InitHistory("Before:\n...")),
    *(({"type": "set_mode", "mode": mode}, commands.SetMode(mode)) for mode in ("default", "auto_edit", "yolo")),  # type: ignore[arg-type]
    ({"type": "set_config"}, commands.SetConfig()),
    (
        {
            "type": "set_config", "model": "claude-opus-4", "image_input": "supported", "thinking": "enabled",
            "thinking_budget": 16000, "effort": "high", "compaction": "FULL",
        },
        commands.SetConfig("claude-opus-4", "supported", "enabled", 16000, "high", "FULL"),
    ),
    (
        {
            "type": "set_config", "model": None, "image_input": None, "thinking": None, "thinking_budget": None,
            "effort": None, "compaction": None, "later": None,
        },
        commands.SetConfig(),
    ),
    ({"type": "set_config", "thinking": "maybe", "effort": ""}, commands.SetConfig(UNSET, UNSET, "maybe", effort="")),
    ({"type": "set_config", "thinking_budget": 0}, commands.SetConfig(thinking_budget=0)),
    ({"type": "set_config", "thinking_budget": 4294967295}, commands.SetConfig(thinking_budget=4294967295)),
    (
        {
            "type": "add_mcp_server", "name": "my-tools", "transport": "stdio", "command": "node",
            "args": ["bridge.js", "--port", "9000"], "env": {"TOKEN": "abc123"},
        },
        commands.AddMcpServer("my-tools", "stdio", "node", ["bridge.js", "--port", "9000"], {"TOKEN": "abc123"}),
    ),
    (
        {"type": "add_mcp_server", "name": "n", "transport": "sse", "url": "http://x", "headers": {"A": "b"}},
        commands.AddMcpServer("n", "sse", url="http://x", headers={"A": "b"}),
    ),
    (
        {
            "type": "add_mcp_server", "name": "n", "transport": "pigeon", "command": None, "args": None, "env": None,
            "url": None, "headers": None,
        },
        commands.AddMcpServer("n", "pigeon"),
    ),
    ({"type": "ping", "extra": {"a": 1}}, commands.Ping()),
]  # fmt: skip


@pytest.mark.parametrize(("line", "command"), GOOD)
def test_commands(line: dict[str, Any], command: Command) -> None:
    assert read(json.dumps(line)) == Request(command)
    assert read(json.dumps(line, indent=1).replace("\n", " ")) == Request(command)
    COMMAND_SCHEMA.validate(line)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ('{"type":"ping","type":"stop"}', commands.Stop()),
        ('{"type":"set_mode","mode":"yolo","mode":"auto_edit"}', commands.SetMode("auto_edit")),
        ('{"type":"message","msg_id":1,"msg_id":"b","content":"x"}', commands.Prompt("x", "b")),
        ('{"type":"message","msg_id":"s1","content":"bad \\ud83d end"}', commands.Prompt("bad \ufffd end", "s1")),
        ('{"type":"message","msg_id":"s2","content":"good \\ud83d\\ude00"}', commands.Prompt("good 😀", "s2")),
        ('{"type":"ping","x":"\\udc00"}', commands.Ping()),
        ('{"ty\\u0070e":"ping"}', commands.Ping()),
        ("\t{\"type\": \"ping\"} ", commands.Ping()),
        (
            '{"type":"message","msg_id":"u1","content":"a\u2028b\u2029c\u0085d"}',
            commands.Prompt("a\u2028b\u2029c\u0085d", "u1"),
        ),
    ],
)  # fmt: skip
def test_odd_but_good(line: str, command: Command) -> None:
    """Of a key given twice the last counts; half a surrogate pair (case S-b05) becomes U+FFFD."""
    assert read(line) == Request(command)


@pytest.mark.parametrize("line", ["", " ", "\t \r", "   \r"])
def test_s_b03_blank_lines_are_nothing(line: str) -> None:
    assert read(line) is None


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("not json", "bad_line", "Invalid JSON: invalid character (byte 4)"),
        ('{"type":"ping"', "bad_line", "Invalid JSON: text ends too early"),
        ('{"type":"ping"} {"type":"ping"}', "bad_line", "Invalid JSON: trailing characters (byte 17)"),
        ('{"type":"ping","x":NaN}', "bad_line", "Invalid JSON: invalid character (byte 19)"),
        ('{"type":"foo","x":1e999}', "bad_line", "Invalid JSON: Number out of range - at `$[...]`"),
        ("[" * 100_000, "bad_line", "Invalid JSON: nested too deeply"),
        ('{"type":"ping","x":' + "[" * 100_000 + "]" * 100_000 + "}", "bad_line", "Invalid JSON: nested too deeply"),
        ("[]", "bad_request", "Invalid command: Expected `object`, got `array`"),
        ('[{"type":"ping"}]', "bad_request", "Invalid command: Expected `object`, got `array`"),
        ("42", "bad_request", "Invalid command: Expected `object`, got `int`"),
        ("null", "bad_request", "Invalid command: Expected `object`, got `null`"),
        ('"ping"', "bad_request", "Invalid command: Expected `object`, got `str`"),
        ("{}", "bad_request", "Invalid command: Object missing required field `type`"),
        ('{"type":5}', "bad_request", "Invalid command: Expected `str` - at `$.type`"),
        ('{"type":null}', "bad_request", "Invalid command: Expected `str` - at `$.type`"),
        ('{"type":"foo"}', "unknown_command", "Unknown command type: foo"),
        ('{"type":""}', "unknown_command", "Unknown command type: "),
        ('{"type":"Ping"}', "unknown_command", "Unknown command type: Ping"),
        ('{"type":"pong"}', "unknown_command", "Unknown command type: pong"),
    ],
)
def test_s10_lines_that_are_no_commands(line: str, code: str, message: str) -> None:
    """Scenario S10, cases S-b02 and S-b07."""
    assert refusal(line) == (code, message)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"type":"message","content":"no id"}', "msg_id"),
        ('{"type":"message","msg_id":"m1","content":123}', "content"),
        ('{"type":"message","msg_id":"m2","content":"x","files":"a.png"}', "files"),
        ('{"type":"message","msg_id":"m2","content":"x","files":null}', "files"),
        ('{"type":"message","msg_id":"m2","content":"x","files":["a",1]}', "files"),
        ('{"type":"message","msg_id":"m3"}', "content"),
        ('{"type":"message","msg_id":"m3","input":"x"}', "content"),
        ('{"type":"message","msg_id":null,"content":"x"}', "msg_id"),
        ('{"type":"set_mode"}', "mode"),
        ('{"type":"set_mode","mode":"autoEdit"}', "mode"),
        ('{"type":"set_mode","mode":null}', "mode"),
        ('{"type":"tool_approve","scope":"once"}', "call_id"),
        ('{"type":"tool_approve","call_id":"c","scope":"forever"}', "scope"),
        ('{"type":"tool_approve","call_id":"c","scope":null}', "scope"),
        ('{"type":"tool_deny","call_id":"c","reason":null}', "reason"),
        ('{"type":"tool_deny","call_id":7}', "call_id"),
        ('{"type":"init_history"}', "text"),
        ('{"type":"init_history","text":["x"]}', "text"),
        ('{"type":"set_config","thinking_budget":"many"}', "thinking_budget"),
        ('{"type":"set_config","thinking_budget":-1}', "thinking_budget"),
        ('{"type":"set_config","thinking_budget":1.0}', "thinking_budget"),
        ('{"type":"set_config","thinking_budget":1e3}', "thinking_budget"),
        ('{"type":"set_config","thinking_budget":true}', "thinking_budget"),
        ('{"type":"set_config","thinking_budget":4294967296}', "thinking_budget"),
        ('{"type":"set_config","image_input":"maybe"}', "image_input"),
        ('{"type":"set_config","thinking":true}', "thinking"),
        ('{"type":"add_mcp_server","transport":"stdio"}', "name"),
        ('{"type":"add_mcp_server","name":"a"}', "transport"),
        ('{"type":"add_mcp_server","name":"a","transport":null}', "transport"),
        ('{"type":"add_mcp_server","name":"a","transport":"stdio","args":"x"}', "args"),
        ('{"type":"add_mcp_server","name":"a","transport":"stdio","env":{"A":1}}', "env"),
    ],
)
def test_s_b13_fields_that_are_missing_or_wrong(line: str, field: str) -> None:
    """Case S-b13: the answer names the command and the field."""
    code, message = refusal(line)
    assert code == "bad_params"
    assert message.startswith(f"Invalid command '{json.loads(line)['type']}': ")
    assert field in message
    if field != "thinking_budget":  # JSON Schema takes 1.0 for an integer
        assert not COMMAND_SCHEMA.is_valid(json.loads(line))


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"' + "x" * 100_000 + '"}',
        '{"type":"set_mode","mode":"' + "y" * 100_000 + '"}',
        '{"type":"message","msg_id":["' + "z" * 100_000 + '"]}',
    ],
)
def test_what_is_echoed_is_bounded(line: str) -> None:
    _, message = refusal(line)
    assert len(message) < 450


def test_lines_that_could_not_be_framed() -> None:
    """Cases S-b01 and S-b11: one answer for each, then the next line."""
    framer = Framer(codec.max_line)
    stream = b"\xff\xfe\n" + b"x" * 9_000_000 + b'\n{"type":"ping"}\n'
    bad, long, ping = framer.feed(stream)
    assert refusal(bad) == ("bad_line", "Invalid JSON: line is not UTF-8: invalid start byte at byte 0")
    code, message = refusal(long)
    assert code == "bad_line"
    assert "9000000 bytes" in message
    assert read(ping) == Request(commands.Ping())
