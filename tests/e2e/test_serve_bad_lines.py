"""Lines that are no commands, and pings at every moment."""

from __future__ import annotations

from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import find, said
from support.replies import Gate, Reply, ToolCall


async def test_s10_every_bad_line_has_one_answer(launch: Launcher) -> None:
    """Protocol section 4.1."""
    agent = await launch()
    await agent.send_bytes(b'{"type":"foo"}\n')
    await agent.expect_line({
        "type": "error", "msg_id": None,
        "error": {"code": "protocol_error", "message": "Unknown command type: foo", "retryable": False},
    })  # fmt: skip
    for line, beginning in [
        (b"not json", "Invalid JSON: "),
        (b'{"type":"message","msg_id":"m1"}', "Invalid command 'message': "),
        (b'{"type":"set_mode","mode":"autoEdit"}', "Invalid command 'set_mode': "),
    ]:
        await agent.send_bytes(line + b"\n")
        told = await agent.expect("error", msg_id=None, error__code="protocol_error", error__retryable=False)
        assert told["error"]["message"].startswith(beginning)
    await agent.send_bytes(b"\n  \r\n")
    await agent.fence()
    await agent.send_bytes(b'{"type":"ping","extra":{"a":1}}\n')
    await agent.expect_line({"type": "pong"})


NO_COMMANDS = [
    "[]", "42", "null", '"ping"', "true", "{}", '{"type":null}', '{"type":["ping"]}',
    '{"type":"message","msg_id":"m","content":"x","files":null}',
    '{"type":"message","msg_id":"m","content":"x","files":[1]}',
    '{"type":"message","msg_id":1,"content":"x"}',
    '{"type":"message","msg_id":"m","input":"x"}',
    '{"type":"tool_approve","call_id":"c","scope":null}',
    '{"type":"tool_deny","call_id":"c","reason":null}',
    '{"type":"set_config","thinking_budget":-1}',
    '{"type":"set_config","thinking_budget":1.5}',
    '{"type":"set_config","thinking_budget":4294967296}',
    '{"type":"set_config","image_input":"maybe"}',
    '{"type":"add_mcp_server","transport":"stdio"}',
    '{"type":"init_history"}',
    "[" * 100_000,
    '{"type":"' + "x" * 100_000 + '"}',
]  # fmt: skip


async def test_s10_lines_that_are_no_commands(launch: Launcher) -> None:
    """One bounded answer each, nothing else, and the next line is read."""
    agent = await launch()
    for line in NO_COMMANDS:
        await agent.send_bytes(line.encode() + b"\n")
        told = await agent.expect("error", msg_id=None, error__code="protocol_error", error__retryable=False)
        assert len(told["error"]["message"]) < 1000, line
        await agent.fence()


async def test_order_and_unknown_keys_do_not_matter(launch: Launcher) -> None:
    agent = await launch()
    for command in (
        {"mode": "yolo", "type": "set_mode"},
        {"type": "set_mode", "mode": "yolo", "who": [{"nested": {}}]},
    ):
        await agent.send(command)
        await agent.expect("info", message="mode updated: yolo")
        await agent.expect("config_changed")


async def test_of_a_key_given_twice_the_last_counts(launch: Launcher) -> None:
    agent = await launch()
    await agent.send_bytes(b'{"type":"set_mode","mode":"yolo","mode":"auto_edit"}\n')
    await agent.expect("info", message="mode updated: auto_edit")
    await agent.expect("config_changed")


async def test_a_line_may_come_in_pieces_and_lines_together(launch: Launcher, model: ModelService) -> None:
    """A pipe keeps no borders."""
    model.script("ok")
    agent = await launch()
    line = '{"type":"message","msg_id":"m1","content":"grüße"}\n'.encode()
    for byte in line:
        await agent.send_bytes(bytes([byte]))
    await agent.turn("m1")
    assert model.requests[0].texts("user") == ["grüße"]
    await agent.send_bytes(b'{"type":"ping"}\n' * 1000)
    for _ in range(1000):
        await agent.expect_line({"type": "pong"})


async def test_s09_pings_are_answered_at_every_moment(launch: Launcher, model: ModelService) -> None:
    """Protocol section 1.14: at rest, in the stream, before an answer, while a tool runs."""
    middle = Gate()
    command = "while test ! -e go; do sleep 0.02; done"
    model.script(Reply("a", middle, "b", ToolCall("t1", "ExecCommand", {"cmd": command})), "done")
    agent = await launch()
    await agent.fence()
    await agent.message("m1")
    await agent.until("text_delta", text="a")
    await agent.fence()
    middle.open()
    await agent.until("tool_request", call_id="t1")
    await agent.fence()
    await agent.approve("t1")
    await agent.expect("tool_running")
    await agent.fence()
    launch.write("go", "")
    events = await agent.turn("m1")
    assert said(events) == "done"
    assert find(events, "tool_result", status="success")
    await agent.fence()
