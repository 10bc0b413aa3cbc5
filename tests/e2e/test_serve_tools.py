"""The built-in tools as a host sees them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from support.agent_process import gone, lines_of
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import find, said
from support.replies import JsonObject, Reply, ToolCall


async def results(launch: Launcher, model: ModelService, *calls: tuple[str, dict[str, Any]]) -> list[JsonObject]:
    """Call tools one after the other, each in a step of its own, in yolo; their tool_result events."""
    for n, (name, arguments) in enumerate(calls):
        model.script(Reply(ToolCall(f"t{n}", name, arguments)))
    model.script("done")
    agent = await launch("--auto-approve")
    await agent.message("m1")
    events = await agent.turn("m1")
    assert said(events) == "done"
    found = find(events, "tool_result")
    assert [event["call_id"] for event in found] == [f"t{n}" for n in range(len(calls))]
    # What the host sees and what the model reads is the same text, a diff apart.
    told = model.requests[-1].results
    # The model may be warned besides: it reads that its calls keep failing (section 2.9).
    assert all(told[e["call_id"]].startswith(e["output"]) for e in found if e["output_type"] == "text")
    return found


COMMANDS = [
    ("true", "success", "Exit code: 0\nSTDOUT:\n\nSTDERR:"),
    (r"printf 'hi\n'", "success", "Exit code: 0\nSTDOUT:\nhi\n\nSTDERR:"),
    ("exit 3", "error", "Exit code: 3\nSTDOUT:\n\nSTDERR:"),
    ("echo oops >&2; exit 1", "error", "Exit code: 1\nSTDOUT:\n\nSTDERR:\noops"),
    ("kill -9 $$", "error", "Exit code: -1\nSTDOUT:\n\nSTDERR:"),
]


async def test_s22_the_output_of_a_command(launch: Launcher, model: ModelService) -> None:
    found = await results(launch, model, *(("ExecCommand", {"cmd": command}) for command, _, _ in COMMANDS))
    assert [[result["status"], result["output"]] for result in found] == [told for _, *told in COMMANDS]
    assert all(result["output_type"] == "text" and "metadata" not in result for result in found)


async def test_s22_a_command_that_takes_too_long(launch: Launcher, model: ModelService) -> None:
    command = "echo $$ > pid; sleep 5 & echo $! >> pid; wait"
    (result,) = await results(launch, model, ("ExecCommand", {"cmd": command, "timeout": 100}))
    assert result["status"] == "error"
    assert result["output"].startswith("Command timed out after 100ms\n")
    for pid in await lines_of(launch.workspace / "pid", 2):
        await gone(int(pid), within=2)


async def test_s22_commands_run_in_the_workspace_without_keys(launch: Launcher, model: ModelService) -> None:
    (result,) = await results(launch, model, ("ExecCommand", {"cmd": "pwd; env"}))
    assert f"\n{launch.workspace.resolve()}\n" in result["output"]
    assert "sk-test" not in result["output"]


async def test_s23_edit(launch: Launcher, model: ModelService) -> None:
    """Protocol section 1.7: a diff for the host, one line for the model."""
    path = launch.write("src/main.rs", "old line\nkept\n")
    edit = ("Edit", {"file_path": path, "old_string": "old line", "new_string": "new line"})
    unread, _, edited = await results(launch, model, edit, ("Read", {"file_path": path}), edit)
    assert unread["status"] == "error"
    assert unread["output_type"] == "text"
    assert unread["output"] == (
        f"You must Read {path} before editing. Use the Read tool first so the file content is loaded into context."
    )
    assert edited["status"] == "success"
    assert edited["output_type"] == "diff"
    assert edited["metadata"] == {"file_path": path}
    lines = edited["output"].splitlines()
    assert lines[:2] == [f"--- a{path}", f"+++ b{path}"]
    assert lines[2].startswith("@@ -1,2 +1,2 @@")
    assert lines[3:] == ["-old line", "+new line", " kept"]
    assert model.requests[-1].results["t2"] == f"Edited {path}: replaced 1 occurrence(s)"
    assert Path(path).read_text() == "new line\nkept\n"


async def test_s23_edit_keeps_line_ends(launch: Launcher, model: ModelService) -> None:
    path = launch.write("dos.txt", b"one\r\ntwo\r\nthree\r\n")
    edit = {"file_path": path, "old_string": "one\ntwo", "new_string": "1\n2"}
    _, edited = await results(launch, model, ("Read", {"file_path": path}), ("Edit", edit))
    assert edited["status"] == "success"
    assert Path(path).read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_s23_edit_of_what_is_not_unique(launch: Launcher, model: ModelService) -> None:
    path = launch.write("a.txt", "x\nx\n")
    edit = {"file_path": path, "old_string": "x", "new_string": "y"}
    _, twice, missing, everywhere = await results(
        launch, model, ("Read", {"file_path": path}), ("Edit", edit), ("Edit", {**edit, "old_string": "z"}),
        ("Edit", {**edit, "replace_all": True}),
    )  # fmt: skip
    assert twice["output"] == "Multiple matches found (2). Use replace_all or provide more context."
    assert missing["output"] == "old_string not found in file"
    assert (twice["status"], missing["status"], everywhere["status"]) == ("error", "error", "success")
    assert Path(path).read_text() == "y\ny\n"


async def test_looking_around(launch: Launcher, model: ModelService) -> None:
    launch.write("a.txt", "alpha\nbeta\n")
    launch.write("sub/b.txt", "beta\n")
    read, absent, glob, nothing, grep, no_match = await results(
        launch, model, ("Read", {"file_path": "a.txt"}), ("Read", {"file_path": launch.path("none")}),
        ("Glob", {"pattern": "**/*.txt"}), ("Glob", {"pattern": "*.rs"}), ("Grep", {"pattern": "beta"}),
        ("Grep", {"pattern": "-gamma"}),
    )  # fmt: skip
    assert read["output"] == "     1\talpha\n     2\tbeta"
    assert absent["status"] == "error"
    assert absent["output"] == f"Failed to read file {launch.path('none')}: No such file or directory (os error 2)"
    assert sorted(glob["output"].splitlines()) == ["a.txt", "sub/b.txt"]
    assert nothing["output"] == "No files matched the pattern"
    assert len(grep["output"].splitlines()) == 2
    assert no_match["output"] == "No matches found"
    assert no_match["status"] == "success"


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_images_are_for_models_that_can_see(launch: Launcher, model: ModelService) -> None:
    """The tool is offered while the host says so; what it loads is in the next request."""
    path = launch.write("dot.png", base64.b64decode(PIXEL))
    agent = await launch("--auto-approve", provider="anthropic")
    model.script("no eyes")
    await agent.message("m1")
    await agent.turn("m1")
    assert "ViewImage" not in model.requests[0].tools
    await agent.send({"type": "set_config", "image_input": "supported"})
    await agent.until("config_changed", capabilities__image_input="supported")
    model.script(Reply(ToolCall("v", "ViewImage", {"file_path": path})), "a dot")
    await agent.message("m2")
    events = await agent.turn("m2")
    assert find(events, "tool_result", call_id="v", status="success")
    assert "ViewImage" in model.requests[1].tools
    assert PIXEL in str(model.requests[2].body["messages"])


async def test_an_argument_that_is_missing(launch: Launcher, model: ModelService) -> None:
    (result,) = await results(launch, model, ("Write", {"file_path": launch.path("x")}))
    assert result["output"] == "Missing required parameter: content"
    assert result["status"] == "error"


async def test_s25_subagents_are_silent(launch: Launcher, model: ModelService) -> None:
    """Between the start and the result of Spawn nothing of its subagents reaches the host."""
    path = launch.write("a.txt", "hello\n")
    tasks = [{"name": name, "prompt": f"do {name}"} for name in ("left", "right")]

    def choose(body: JsonObject) -> Reply:
        history = str(body["messages"])
        if "do left" in history or "do right" in history:
            side = "left" if "do left" in history else "right"
            if "hello" in history:
                return Reply(f"{side} is done")
            return Reply("Looking.", ToolCall(f"r-{side}", "Read", {"file_path": path}))
        raise AssertionError(f"nobody asked this: {history}")

    model.script(Reply("Splitting up.", ToolCall("sp", "Spawn", {"tasks": tasks})))
    model.choose = lambda body: Reply("All done.") if "left is done" in str(body["messages"]) else choose(body)
    agent = await launch()
    await agent.message("m1", "split")
    request = (await agent.until("tool_request"))[-1]
    assert request["tool"]["category"] == "exec"
    assert request["tool"]["description"] == "Spawn: sub-agent"
    await agent.approve("sp")
    await agent.expect("tool_running", call_id="sp")
    result = await agent.expect("tool_result", call_id="sp", status="success")
    for side in ("left", "right"):
        assert f"## {side} [OK]\n{side} is done\n[turns: 2 | tokens: 20 in / 10 out]" in result["output"]
    assert said(await agent.turn("m1")) == "All done."


async def test_s26_a_tool_that_does_not_exist(launch: Launcher, model: ModelService) -> None:
    model.script(Reply(ToolCall("t1", "Nope", {"a": 1})), "sorry")
    agent = await launch()
    await agent.message("m1")
    request = (await agent.until("tool_request"))[-1]
    assert request["tool"] == {"name": "Nope", "category": "exec", "args": {"a": 1}, "description": ""}
    await agent.approve("t1")
    await agent.expect("tool_running", call_id="t1", tool_name="Nope")
    await agent.expect("tool_result", call_id="t1", status="error", output="Unknown tool: Nope")
    assert said(await agent.turn("m1")) == "sorry"


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_s26_a_call_without_a_name(provider: str, launch: Launcher, model: ModelService) -> None:
    """No tool events; the model is told and goes on, with a request that a strict service accepts."""
    model.script(Reply("Hm.", ToolCall("t1", "", {"a": 1})), "better")
    agent = await launch("--auto-approve", provider=provider)
    await agent.message("m1")
    events = await agent.turn("m1")
    assert not [event for event in events if event["type"].startswith("tool_")]
    assert said(events) == "Hm.better"
    assert "Malformed tool call: empty function name" in str(model.requests[1].body["messages"])


async def test_arguments_that_are_no_object_become_an_empty_one(launch: Launcher, model: ModelService) -> None:
    """The host is asked with ``{}``, and the history stays one that a strict service accepts."""
    agent = await launch()
    for number, arguments in enumerate(["", "{not json", "[1]", '"x"']):
        call = f"t{number}"
        model.script(Reply(ToolCall(call, "Glob", arguments)), "sorry")
        await agent.message(f"m{number}")
        request = (await agent.until("tool_request", call_id=call))[-1]
        assert request["tool"]["args"] == {}
        await agent.approve(call)
        await agent.expect("tool_running")
        await agent.expect("tool_result", status="error", output="Missing required parameter: pattern")
        assert said(await agent.turn(f"m{number}")) == "sorry"


async def test_s35_a_command_that_reads_its_input(launch: Launcher, model: ModelService) -> None:
    """It finds the end of the file at once, and the host's next line is the host's."""
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": "cat"})), "done")
    agent = await launch()
    await agent.message("m1")
    await agent.until("tool_request", call_id="t1")
    await agent.approve("t1")
    await agent.send({"type": "ping"})
    events = await agent.turn("m1")
    assert find(events, "tool_result", status="success", output="Exit code: 0\nSTDOUT:\n\nSTDERR:")
    assert len(find(events, "pong")) == 1
