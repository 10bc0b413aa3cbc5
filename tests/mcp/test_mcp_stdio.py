"""Servers over stdio that do not behave, at the level of the manager."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp_testing import Raw, Told, alive, until_true

from agentwire.events import Image
from agentwire.mcp.errors import McpCallError, McpConnectError
from agentwire.mcp.manager import McpManager
from agentwire.mcp.spec import McpServerSpec, McpSpecError
from agentwire.mcp.tool import McpTool
from agentwire.tools.contract import ReadCache, ToolContext, ToolError


def only(manager: McpManager, name: str = "") -> McpTool:
    """The tool of that name, or the only one."""
    found = [tool for tool in manager.tools({"Read"}) if name in ("", tool.name)]
    assert len(found) == 1
    return found[0]


def context(tmp_path: Path, output: list[str] | None = None) -> ToolContext:
    live: list[str] = [] if output is None else output
    return ToolContext(
        workspace=tmp_path, cache=ReadCache(), image_input="supported", output=lambda text, stream: live.append(text)
    )


async def cause(manager: McpManager, spec: McpServerSpec) -> str:
    with pytest.raises(McpConnectError) as caught:
        await manager.connect(spec)
    assert manager.servers == []
    return caught.value.cause


# --- S-f01 -----------------------------------------------------------------------------------------------------------


async def test_s_f01_noise_on_stdout_is_skipped_and_told_once(
    manager: McpManager, told: Told, raw: Raw, tmp_path: Path
) -> None:
    server = await manager.connect(raw(initialize="greet_noisily", call="answer_noisily"))
    assert server.tool_names == ["echo"]
    result = await only(manager).run({}, context(tmp_path))
    assert (result.output, result.is_error) == ("hi", False)
    assert told.notices == [
        "MCP server 'demo' writes lines to stdout that are no messages; they are skipped. "
        "The first: Starting demo server v1"
    ]
    assert server.connected


async def test_s_f01_bytes_that_are_no_utf_8_cost_nothing_but_themselves(
    manager: McpManager, raw: Raw, tmp_path: Path
) -> None:
    await manager.connect(raw(call="speak_bad_utf8"))
    assert (await only(manager).run({}, context(tmp_path))).output == "caf\ufffd"


# --- S-f02 -----------------------------------------------------------------------------------------------------------


async def test_s_f02_a_dead_server_delays_nobody_and_is_gone_after_its_timeout(
    manager: McpManager, told: Told, raw: Raw, tmp_path: Path
) -> None:
    go, pids = tmp_path / "go", tmp_path / "pids"
    manager.connect_soon(
        raw("never", initialize="say_nothing", file=str(pids), timeout_ms=400), told.connected, told.not_connected
    )
    manager.connect_soon(raw("slow", initialize="greet_when_told", file=str(go)), told.connected, told.not_connected)
    quick = await manager.connect(raw("quick"))
    await quick.call("echo", {})
    await told.until(lambda: bool(told.failures))
    assert told.failures == [
        "Transport error: MCP server 'never' startup timed out after 400ms; set startup_timeout_ms to increase it"
    ]
    assert not alive(int(pids.read_text()))
    assert told.ready == []
    go.touch()
    with trio.fail_after(20):
        await manager.settled()
    assert told.ready == ["slow"]
    assert [server.name for server in manager.servers] == ["slow", "quick"]


async def test_s_f02_a_cancelled_connect_leaves_nothing_running(manager: McpManager, raw: Raw, tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def connect(scope: trio.CancelScope) -> None:
        with scope:
            await manager.connect(raw(initialize="say_nothing", file=str(pids)))

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect, scope)
        await until_true(lambda: pids.exists() and pids.read_text().endswith("\n"))
        scope.cancel()
    assert not alive(int(pids.read_text()))
    assert manager.servers == []
    with trio.fail_after(1):
        await manager.settled()


async def test_connects_asked_for_before_the_manager_is_open(told: Told, raw: Raw) -> None:
    manager = McpManager()
    manager.connect_soon(raw("early"), told.connected, told.not_connected)
    async with manager:
        with trio.fail_after(20):
            await manager.settled()
        assert told.ready == ["early"]


# --- causes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/no/such", "Transport error: Failed to spawn '/no/such': No such file or directory (os error 2)"),
        ("/", "Transport error: Failed to spawn '/': Permission denied (os error 13)"),
        ("a\0b", "Transport error: Failed to spawn 'a\0b': embedded null byte"),
        ("true", "Transport error: Child process stdout closed"),
    ],
)
async def test_s12_a_program_that_is_no_server(manager: McpManager, command: str, expected: str) -> None:
    assert await cause(manager, McpServerSpec(name="c", transport="stdio", command=command)) == expected


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        ("quit_at_once", "Transport error: Child process stdout closed"),
        ("refuse", "JSON-RPC error -32603: no licence"),
        ("refuse_vaguely", "JSON-RPC error -32000: no seats left"),
        (
            "speak_of_the_future",
            "Initialization failed: Unsupported protocol version from the server: 2099-01-01",
        ),
        ("greet_badly", "Initialization failed: the server's answer to initialize is not valid"),
    ],
)
async def test_a_server_that_does_not_come_to_terms(
    manager: McpManager, raw: Raw, behaviour: str, expected: str
) -> None:
    assert await cause(manager, raw(initialize=behaviour)) == expected


async def test_a_description_that_cannot_be_used_is_refused_before_anything_is_tried(
    manager: McpManager, told: Told
) -> None:
    with pytest.raises(McpSpecError, match="unknown transport: pigeon"):
        await manager.connect(McpServerSpec(name="x", transport="pigeon"))
    with pytest.raises(McpSpecError, match="requires 'command'"):
        manager.connect_soon(McpServerSpec(name="x", transport="stdio"), told.connected, told.not_connected)
    with trio.fail_after(1):
        await manager.settled()


# --- S-f03 -----------------------------------------------------------------------------------------------------------


async def test_s_f03_a_death_in_mid_call_fails_that_call_alone(
    manager: McpManager, told: Told, raw: Raw, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    transfer = [{"name": "transfer", "inputSchema": {"type": "object"}}]
    bank = await manager.connect(raw("bank", call="die", file=str(ledger), tools=transfer))
    await manager.connect(raw("other"))
    with trio.fail_after(5), pytest.raises(ToolError) as caught:
        await only(manager, "transfer").run({}, context(tmp_path))
    assert str(caught.value) == (
        "MCP tool error: transfer: connection closed (MCP server 'bank': it ended with exit code 3)"
    )
    assert ledger.read_text().splitlines() == ["transfer"]
    assert not bank.connected
    assert (await only(manager, "echo").run({}, context(tmp_path))).is_error is False
    assert told.failures == []


async def test_s_f03_the_next_call_starts_it_again(manager: McpManager, told: Told, raw: Raw, tmp_path: Path) -> None:
    server = await manager.connect(raw(call="die_once", file=str(tmp_path / "ledger")))
    with pytest.raises(McpCallError, match="exit code 3"):
        await server.call("echo", {})
    answers: list[Any] = []

    async def call() -> None:
        answers.append((await server.call("echo", {}))["content"][0]["text"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        nursery.start_soon(call)
    assert answers == ["alive again", "alive again"]
    assert server.connected
    assert (told.changes, told.failures) == ([], [])


async def test_s_f03_if_it_cannot_be_started_again_calls_fail_at_once(
    manager: McpManager, told: Told, raw: Raw, tmp_path: Path
) -> None:
    server = await manager.connect(raw(call="die_for_good", file=str(tmp_path / "dead")))
    with pytest.raises(McpCallError, match="exit code 3"):
        await server.call("echo", {})
    down = "Transport error: Child process stdout closed"
    with pytest.raises(McpCallError, match="died and could not be restarted: " + down):
        await server.call("echo", {})
    assert told.failures == [down]
    with trio.fail_after(0.2), pytest.raises(McpCallError, match=f"MCP server 'demo' is down: {down}"):
        await server.call("echo", {})
    assert told.failures == [down]


async def test_s_f03_a_server_that_closes_its_stdout_and_lives_is_ended(
    manager: McpManager, raw: Raw, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    server = await manager.connect(raw(call="fall_silent", file=str(pids)))
    with trio.fail_after(5), pytest.raises(McpCallError, match="it closed its stdout"):
        await server.call("echo", {})
    assert not alive(int(pids.read_text()))


async def test_a_message_without_end_ends_the_connection(
    manager: McpManager, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.connect(raw("warm-up"))
    monkeypatch.setattr("agentwire.mcp.stdio.MAX_LINE", 1_000_000)
    server = await manager.connect(raw(call="go_on_and_on"))
    with trio.fail_after(20), pytest.raises(McpCallError, match="it sent a message of more than 1000000 bytes"):
        await server.call("echo", {})


# --- tools and their changes -----------------------------------------------------------------------------------------


async def test_all_pages_of_tools_are_read(manager: McpManager, raw: Raw) -> None:
    pages = [[{"name": f"t{page}{i}"} for i in range(3)] for page in range(3)]
    server = await manager.connect(raw(pages=pages))
    assert server.tool_names == [tool["name"] for page in pages for tool in page]


async def test_a_server_whose_pages_go_in_circles(
    manager: McpManager, raw: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), trio.fail_after(20):
        server = await manager.connect(raw(pages=[[{"name": "a"}]], listing="endless"))
    assert server.tool_names == ["a"]
    assert "again and again" in caplog.text


async def test_a_server_without_tools(manager: McpManager, raw: Raw) -> None:
    server = await manager.connect(raw(listing="unknown"))
    assert server.tool_names == []
    assert manager.tools(()) == []


async def test_tools_that_change_are_listed_again(manager: McpManager, told: Told, raw: Raw) -> None:
    server = await manager.connect(raw(call="grow"))
    await server.call("echo", {})
    await told.until(lambda: bool(told.changes))
    assert told.changes[-1] == ["echo", "grown"]
    assert [tool.name for tool in manager.tools(())] == ["echo", "grown"]


async def test_s_f04_names_are_fit_for_providers_and_calls_reach_the_right_server(
    manager: McpManager, raw: Raw, tmp_path: Path
) -> None:
    await manager.connect(raw("wiki", tools=[{"name": name} for name in ("search", "größe", "Read")]))
    tracker = await manager.connect(
        raw("tracker", tools=[{"name": name} for name in ("search", "issue.get", "a/b", "a_b")])
    )
    assert tracker.tool_names == ["search", "issue.get", "a/b", "a_b"]
    tools = {tool.name: tool for tool in manager.tools({"Read"})}
    assert sorted(tools) == [
        "a_b", "gr__e", "issue_get", "mcp__tracker_a_b", "mcp__tracker_search", "mcp__wiki_Read", "mcp__wiki_search",
    ]  # fmt: skip
    assert {tool.category for tool in tools.values()} == {"mcp"}
    reached = await tools["issue_get"].run({"q": 1}, context(tmp_path))
    assert json.loads(reached.output) == {"name": "issue.get", "arguments": {"q": 1}}
    assert tools["mcp__wiki_search"].server.name == "wiki"


async def test_of_dynamic_servers_the_one_asked_for_first_has_the_first_claim(
    manager: McpManager, told: Told, raw: Raw, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    manager.connect_soon(
        raw("slow", initialize="greet_when_told", file=str(go), dynamic=True), told.connected, told.not_connected
    )
    manager.connect_soon(raw("quick", dynamic=True), told.connected, told.not_connected)
    await told.until(lambda: told.ready == ["quick"])
    go.touch()
    await told.until(lambda: len(told.ready) == 2)
    assert [(tool.server.name, tool.name) for tool in manager.tools(())] == [
        ("slow", "echo"),
        ("quick", "mcp__quick_echo"),
    ]


async def test_s_f05_one_bad_schema_costs_one_tool(manager: McpManager, told: Told, raw: Raw, tmp_path: Path) -> None:
    tools = [
        {"name": "good", "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}}},
        {"name": "string_root", "inputSchema": {"type": "string"}},
        {"name": "null_schema", "inputSchema": None},
    ]
    server = await manager.connect(raw("mix", tools=tools))
    assert server.tool_names == ["good", "string_root", "null_schema"]
    assert [tool.name for tool in manager.tools(())] == ["good", "null_schema"]
    assert told.notices == ["MCP server 'mix': tool 'string_root' is left out: its schema is for string, not an object"]
    assert not (await only(manager, "good").run({"q": "x"}, context(tmp_path))).is_error


# --- calls -----------------------------------------------------------------------------------------------------------


async def test_s13_a_tool_says_what_it_is(manager: McpManager, raw: Raw) -> None:
    await manager.connect(raw("my-tools"))
    tool = only(manager)
    assert tool.describe({"q": 1, "a": {"z": 1, "b": "é\n"}}) == 'MCP my-tools/echo: {"a":{"b":"é\\n","z":1},"q":1}'
    assert tool.describe({}) == "MCP my-tools/echo: {}"
    assert (tool.category, tool.raw_name, tool.description) == ("mcp", "echo", "Echoes.")
    assert tool.spec().parameters == {"type": "object", "properties": {}}


async def test_s_f06_a_picture_travels_beside_the_text(manager: McpManager, raw: Raw, tmp_path: Path) -> None:
    png = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAADklEQVR4nGP4z8DA8B8ABgAB/xw7fSwAAAAASUVORK5CYII="
    content = [
        {"type": "text", "text": "shot:"},
        {"type": "image", "mimeType": "image/png", "data": png},
        {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"},
    ]
    await manager.connect(raw(call="give_result", result={"content": content}))
    result = await only(manager).run({}, context(tmp_path))
    assert result.images == [Image("image/png", data=png)]
    assert result.output == "shot:\n[image: image/png]\n[image: image/svg+xml, 6 bytes, not sent]"


async def test_s13_an_error_result_and_an_error_answer(manager: McpManager, raw: Raw, tmp_path: Path) -> None:
    failed = {"content": [{"type": "text", "text": "no such issue"}], "isError": True}
    await manager.connect(raw("a", call="give_result", result=failed, tools=[{"name": "soft"}]))
    await manager.connect(raw("b", call="fail", tools=[{"name": "hard"}]))
    result = await only(manager, "soft").run({}, context(tmp_path))
    assert (result.output, result.is_error) == ("no such issue", True)
    with pytest.raises(ToolError) as caught:
        await only(manager, "hard").run({}, context(tmp_path))
    assert str(caught.value) == "MCP tool error: JSON-RPC error -32602: Unknown tool: nope"


async def test_progress_is_live_output_in_its_order(manager: McpManager, raw: Raw, tmp_path: Path) -> None:
    await manager.connect(raw(call="report_progress"))
    live: list[str] = []
    result = await only(manager).run({}, context(tmp_path, live))
    assert result.output == "done"
    assert live == [f"step {step} ({step}/20)\n" for step in range(1, 21)]


async def test_a_cancelled_call_is_told_to_the_server_and_keeps_it(
    manager: McpManager, raw: Raw, tmp_path: Path
) -> None:
    called = tmp_path / "called"
    tools = [{"name": "hang"}, {"name": "seen"}]
    server = await manager.connect(raw(call="never_answer", file=str(called), tools=tools))

    async def call(scope: trio.CancelScope) -> None:
        with scope:
            await only(manager, "hang").run({}, context(tmp_path))

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, scope)
        await until_true(called.exists)
        scope.cancel()
    assert scope.cancelled_caught
    seen = json.loads((await server.call("seen", {}))["content"][0]["text"])
    assert [message["method"] for message in seen] == ["notifications/initialized", "notifications/cancelled"]
    assert server.connected


async def test_a_call_with_a_time_limit(manager: McpManager, raw: Raw, tmp_path: Path) -> None:
    server = await manager.connect(raw(call="never_answer", file=str(tmp_path / "called")))
    with pytest.raises(McpCallError, match="echo: no answer from MCP server 'demo' within 200ms"):
        await server.call("echo", {}, timeout_ms=200)
    assert server.connected


async def test_a_server_may_ask_whether_we_are_there(manager: McpManager, raw: Raw) -> None:
    server = await manager.connect(raw(call="ask_back"))
    answer = json.loads((await server.call("echo", {}))["content"][0]["text"])
    assert answer == {"jsonrpc": "2.0", "id": "ping-1", "result": {}}


async def test_half_a_character_in_an_argument_breaks_nothing(manager: McpManager, raw: Raw, tmp_path: Path) -> None:
    await manager.connect(raw())
    result = await only(manager).run({"a": "x\ud83d"}, context(tmp_path))
    assert json.loads(result.output)["arguments"] == {"a": "x\ufffd"}
