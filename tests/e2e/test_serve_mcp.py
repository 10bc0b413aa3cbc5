"""MCP servers: added by the host, named in the configuration, slow, broken, and gone with the process."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
import trio
from support.agent_process import gone, lines_of
from support.launcher import Launcher
from support.mcp_commands import SERVER, add_server
from support.model_service import ModelService
from support.patterns import find, kinds, said
from support.replies import JsonObject, Reply, ToolCall

pytestmark = pytest.mark.slow


def rejection(name: str) -> JsonObject:
    """What the host is told after the first message (protocol section 2.9), to the byte."""
    message = f"AddMcpServer '{name}': rejected — only allowed before first Message"
    return {"type": "error", "error": {"code": "protocol_error", "message": message, "retryable": False}}


async def test_s12_servers_are_added_before_the_first_message_only(launch: Launcher, model: ModelService) -> None:
    """Protocol section 2.8; the window stays open whatever else is sent."""
    model.script("Hi.")
    agent = await launch()
    await agent.send(add_server("my-tools", env={"TOKEN": "x"}))
    await agent.expect_line({"type": "mcp_ready", "name": "my-tools", "tools": ["tool_a", "tool_b"]})
    await agent.fence()
    await agent.send({"type": "add_mcp_server", "name": "b", "transport": "carrier-pigeon"})
    await agent.expect_line({
        "type": "error",
        "error": {
            "code": "protocol_error", "message": "AddMcpServer 'b': unknown transport: carrier-pigeon",
            "retryable": False,
        },
    })  # fmt: skip
    await agent.send({"type": "add_mcp_server", "name": "c", "transport": "stdio", "command": "/no/such"})
    message = (
        "AddMcpServer 'c' failed: Transport error: Failed to spawn '/no/such': No such file or directory (os error 2)"
    )
    await agent.expect_line(
        {"type": "error", "error": {"code": "config_error", "message": message, "retryable": False}}
    )
    await agent.message("m1", "Hello")
    assert said(await agent.turn("m1")) == "Hi."
    assert {"tool_a", "tool_b"} <= set(model.requests[0].tools)
    await agent.send({"type": "add_mcp_server", "name": "d", "transport": "stdio", "command": "node"})
    await agent.expect_line(rejection("d"))
    await agent.send({"type": "add_mcp_server", "name": "e", "transport": "carrier-pigeon"})
    await agent.expect_line(rejection("e"))


async def test_s12_too_late_within_a_turn_as_well(launch: Launcher, model: ModelService) -> None:
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": "true"})), "done")
    agent = await launch()
    await agent.message("m1")
    await agent.until("tool_request")
    await agent.send(add_server("late"))
    await agent.expect_line(rejection("late"))
    await agent.approve("t1")
    await agent.turn("m1")


WRONG: list[tuple[JsonObject, str, str]] = [
    ({"transport": "stdio"}, "protocol_error", "Initialization failed: stdio transport requires 'command'"),
    ({"transport": "sse"}, "protocol_error", "Initialization failed: SSE transport requires 'url'"),
    (
        {"transport": "streamable-http"},
        "protocol_error",
        "Initialization failed: streamable-http transport requires 'url'",
    ),
    ({"transport": "stdio", "command": "false"}, "config_error", "Transport error: Child process stdout closed"),
]


async def test_s12_what_can_be_wrong_with_a_server(launch: Launcher) -> None:
    agent = await launch()
    for command, code, cause in WRONG:
        await agent.send({"type": "add_mcp_server", "name": "a", **command})
        told = await agent.expect("error", error__code=code, error__retryable=False)
        assert told["error"]["message"] == f"AddMcpServer 'a' failed: {cause}"
        assert "msg_id" not in told
    await agent.fence()


async def test_s09_s12_a_message_waits_for_servers_on_their_way_and_a_ping_does_not(
    launch: Launcher, model: ModelService, tmp_path: Path
) -> None:
    """The start of the turn is told at once; the model is asked when the tools are there. Pings are answered."""
    model.script("Hi.")
    go = tmp_path / "go"
    agent = await launch()
    await agent.send(add_server("slow", "--wait-for", str(go)))
    for _ in range(5):
        with trio.fail_after(2):
            await agent.fence()
    await agent.message("m1")
    await agent.expect("stream_start", msg_id="m1")
    await agent.fence()
    assert model.requests == []
    go.touch()
    events = await agent.turn("m1")
    assert kinds(events) == ["mcp_ready", "text_delta", "stream_end"]
    assert "tool_a" in model.requests[0].tools


async def test_s13_a_foreign_tool_is_asked_about_and_called(launch: Launcher, model: ModelService) -> None:
    """Also in mode auto_edit."""
    model.script(Reply(ToolCall("x", "tool_a", {"q": 1})), "done")
    agent = await launch()
    await agent.send(add_server("my-tools"), {"type": "set_mode", "mode": "auto_edit"})
    await agent.until("mcp_ready")
    await agent.message("m")
    request = (await agent.until("tool_request"))[-1]
    assert request["tool"] == {
        "name": "tool_a", "category": "mcp", "args": {"q": 1}, "description": 'MCP my-tools/tool_a: {"q":1}',
    }  # fmt: skip
    await agent.approve("x")
    await agent.expect("tool_running", call_id="x", tool_name="tool_a")
    await agent.expect("tool_result", call_id="x", status="success", output='tool_a {"q": 1}')
    await agent.turn("m")


async def test_s13_names_that_are_taken_failures_and_always(launch: Launcher, model: ModelService) -> None:
    """A grant is for the category, and so for every server (protocol section 2.3)."""
    model.script(
        Reply(ToolCall("x", "mcp__one_Read", {})),
        Reply(ToolCall("y", "broken", {}), ToolCall("z", "other", {})),
        "done",
    )
    agent = await launch()
    await agent.send(add_server("one", "--tools", "Read,broken", "--failing", "broken"))
    await agent.expect_line({"type": "mcp_ready", "name": "one", "tools": ["Read", "broken"]})
    await agent.send(add_server("two", "--tools", "other"))
    await agent.expect_line({"type": "mcp_ready", "name": "two", "tools": ["other"]})
    await agent.message("m")
    await agent.until("tool_request", call_id="x")
    await agent.approve("x", scope="always")
    events = await agent.turn("m")
    assert not find(events, "tool_request")
    assert find(events, "tool_result", call_id="x", status="success", output="Read {}")
    assert find(events, "tool_result", call_id="y", status="error", output="broken {}")
    assert find(events, "tool_result", call_id="z", status="success", output="other {}")
    assert {"Read", "mcp__one_Read", "broken", "other"} <= set(model.requests[0].tools)


def configure(launch: Launcher, name: str, *options: str, where: Path | None = None) -> None:
    """Name our test server in a configuration file: the user's, or ``where``."""
    arguments = json.dumps([SERVER, *options])
    table = f"[mcp_servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n"
    with ((where or launch.config) / "agentwire.toml").open("a") as file:
        file.write(table)


async def test_s28_a_configured_server_that_never_answers_does_not_hold_up_ready(
    launch: Launcher, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    configure(launch, "deaf", "--mute", "--record", str(record))
    agent = await launch.spawn(*launch.serve())
    with trio.fail_after(3):
        ready = await agent.expect("ready")
    assert ready["capabilities"]["mcp"] is True
    await agent.fence()
    await agent.close_stdin()
    assert await agent.wait_exit(within=5) == 0


async def test_a_configured_server_offers_its_tools(launch: Launcher, model: ModelService) -> None:
    configure(launch, "mine")
    model.script(Reply(ToolCall("x", "tool_b", {"q": 2})), "done")
    agent = await launch("--auto-approve")
    await agent.message("m")
    events = await agent.turn("m")
    assert find(events, "tool_result", call_id="x", status="success", output='tool_b {"q": 2}')


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_workspace_may_not_start_servers_unless_it_is_trusted(
    trusted: bool, launch: Launcher, model: ModelService, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    configure(launch, "evil", "--record", str(record), where=launch.workspace)
    model.script("ok")
    agent = await launch(*(["--trust-workspace"] if trusted else []))
    await agent.message("m")
    events = await agent.turn("m")
    assert record.exists() is trusted
    assert ("tool_a" in model.requests[0].tools) is trusted
    if not trusted:
        assert "agentwire.toml" in agent.errors or find(agent.events, "info") or find(events, "info")


@pytest.mark.parametrize("end", ["eof", signal.SIGKILL])
async def test_servers_end_with_the_process_and_never_see_keys(
    end: str | signal.Signals, launch: Launcher, tmp_path: Path
) -> None:
    """Started through a shell, as many are: the shell and the server go; neither had the model service's key."""
    record = tmp_path / "record"
    script = f"{sys.executable} {SERVER} --record {record}; true"
    expected = -signal.SIGKILL if end is signal.SIGKILL else 0
    agent = await launch(expected=(expected,))
    wrapped = add_server("wrapped", env={"TOKEN": "abc"})
    await agent.send({**wrapped, "command": "sh", "args": ["-c", f"echo $$ > {tmp_path}/shell; {script}"]})
    await agent.expect("mcp_ready")
    if isinstance(end, signal.Signals):
        agent.send_signal(end)
    else:
        await agent.close_stdin()
    await agent.wait_exit(within=5)
    (seen,) = (json.loads(line) for line in await lines_of(record, 1))
    await gone(seen["pid"], within=5)
    await gone(int((tmp_path / "shell").read_text()), within=5)
    assert seen["environ"]["TOKEN"] == "abc"
    assert not [name for name, value in seen["environ"].items() if "sk-test" in value]
