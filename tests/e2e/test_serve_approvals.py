"""Questions to the host: one call, several at once, "always", modes, and answers that come at the wrong time."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import find, kinds, said
from support.replies import Reply, ToolCall


async def test_s02_a_write_asks_waits_and_runs(launch: Launcher, model: ModelService) -> None:
    """Protocol section 3.3, to the byte."""
    path = launch.path("hello.rs")
    arguments = {"file_path": path, "content": "fn main() {}\n"}
    model.script(Reply("I'll create the file.", ToolCall("t1", "Write", arguments)), "File created successfully.")
    agent = await launch()
    await agent.message("m2", "Create a hello.rs file")
    await agent.expect("stream_start", msg_id="m2")
    await agent.expect("text_delta", text="I'll create the file.")
    await agent.expect_line({
        "type": "tool_request", "msg_id": "m2", "call_id": "t1",
        "tool": {
            "name": "Write", "category": "edit", "args": {"content": "fn main() {}\n", "file_path": path},
            "description": f"Write to {path}",
        },
    })  # fmt: skip
    await agent.fence()
    assert not Path(path).exists()
    await agent.approve("t1")
    await agent.expect_line({"type": "tool_running", "msg_id": "m2", "call_id": "t1", "tool_name": "Write"})
    await agent.expect_line({
        "type": "tool_result", "msg_id": "m2", "call_id": "t1", "tool_name": "Write", "status": "success",
        "output": f"Created {path} (1 lines)", "output_type": "text",
    })  # fmt: skip
    await agent.expect("text_delta", text="File created successfully.")
    await agent.expect("stream_end", usage={"input_tokens": 20, "output_tokens": 10})
    assert Path(path).read_text() == "fn main() {}\n"
    assert model.requests[1].results == {"t1": f"Created {path} (1 lines)"}


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_s03_a_denial_is_told_to_host_and_model(provider: str, launch: Launcher, model: ModelService) -> None:
    """Protocol section 2.4: cancelled, never run, and the conversation goes on."""
    agent = await launch(provider=provider)
    for number, reason in enumerate(["policy violation", None]):
        turn, call = f"m{number}", f"call-{number}"
        model.script(Reply(ToolCall(call, "ExecCommand", {"cmd": "touch x"})), "Cannot run tool")
        await agent.message(turn)
        request = (await agent.until("tool_request"))[-1]
        assert request["tool"] == {
            "name": "ExecCommand", "category": "exec", "args": {"cmd": "touch x"}, "description": "Execute: touch x",
        }  # fmt: skip
        deny = {"type": "tool_deny", "call_id": call}
        await agent.send(deny if reason is None else {**deny, "reason": reason})
        await agent.expect_line({"type": "tool_cancelled", "msg_id": turn, "call_id": call, "reason": reason or ""})
        await agent.expect("text_delta", text="Cannot run tool")
        await agent.expect("stream_end")
        assert model.requests[-1].results[call].rstrip(": ") == f"Tool denied: {reason or ''}".rstrip(": ")
    assert all(block["is_error"] is True for block in model.requests[-1].result_blocks)
    assert not (launch.workspace / "x").exists()


async def test_s04_always_frees_the_category_and_outlives_modes(launch: Launcher, model: ModelService) -> None:
    path = launch.path("f.txt")
    model.script(
        Reply(ToolCall("w1", "Write", {"file_path": path, "content": "one\n"})),
        Reply(ToolCall("e1", "Edit", {"file_path": path, "old_string": "one", "new_string": "two"})),
        "done",
        Reply(
            ToolCall("e2", "Edit", {"file_path": path, "old_string": "two", "new_string": "three"}),
            ToolCall("x1", "ExecCommand", {"cmd": "true"}),
        ),
        "done",
    )
    agent = await launch()
    await agent.message("m1")
    await agent.until("tool_request", call_id="w1")
    await agent.approve("w1", scope="always")
    events = await agent.turn("m1")
    assert not find(events, "tool_request")
    assert find(events, "tool_running", call_id="e1")

    await agent.send({"type": "set_mode", "mode": "yolo"}, {"type": "set_mode", "mode": "default"})
    await agent.until("config_changed", capabilities__current_mode="default")
    await agent.message("m2")
    events = await agent.until("tool_request")
    assert events[-1]["call_id"] == "x1"
    await agent.approve("x1")
    events += await agent.turn("m2")
    assert not find(events, "tool_request", call_id="e2")
    assert find(events, "tool_result", call_id="e2", status="success")
    assert Path(path).read_text() == "three\n"


async def test_s04_an_approval_without_scope_is_for_this_call(launch: Launcher, model: ModelService) -> None:
    calls = [Reply(ToolCall(f"c{n}", "ExecCommand", {"cmd": "true"})) for n in (1, 2)]
    model.script(*calls, "done")
    agent = await launch()
    await agent.message("m1")
    for call in ("c1", "c2"):
        await agent.until("tool_request", call_id=call)
        await agent.send({"type": "tool_approve", "call_id": call})
    await agent.turn("m1")


def two_reads(launch: Launcher) -> Reply:
    """One step that reads two files."""
    a, b = launch.write("a", "A\n"), launch.write("b", "B\n")
    return Reply(ToolCall("t1", "Read", {"file_path": a}), ToolCall("t2", "Read", {"file_path": b}))


async def test_s05_two_reads_are_asked_about_at_once(launch: Launcher, model: ModelService) -> None:
    """Protocol section 3.4: both requests first; approved in one write, both run before either has a result."""
    model.script(two_reads(launch), "done")
    agent = await launch()
    await agent.message("m")
    await agent.expect("stream_start")
    for call, name in (("t1", "a"), ("t2", "b")):
        request = await agent.expect("tool_request", msg_id="m", call_id=call)
        assert request["tool"]["description"] == f"Read {launch.path(name)}"
        assert request["tool"]["category"] == "info"
    await agent.approve("t1", "t2")
    await agent.expect("tool_running", call_id="t1", tool_name="Read")
    await agent.expect("tool_running", call_id="t2", tool_name="Read")
    results = [await agent.expect("tool_result", status="success", output_type="text") for _ in range(2)]
    assert {result["call_id"]: result["output"] for result in results} == {"t1": "     1\tA", "t2": "     1\tB"}
    await agent.turn("m")
    assert list(model.requests[1].results.items()) == [("t1", "     1\tA"), ("t2", "     1\tB")]


async def test_s05_two_reads_are_answered_in_every_order(launch: Launcher, model: ModelService) -> None:
    """The second first; one denied and one approved; one done before the other is answered. One turn for each."""
    agent = await launch()
    reply = two_reads(launch)

    async def ask(turn: str) -> tuple[str, str]:
        model.script(reply, "done")
        await agent.message(turn)
        events = await agent.until("tool_request") + await agent.until("tool_request")
        first, second = (event["call_id"] for event in find(events, "tool_request"))
        return first, second

    async def run(call: str) -> None:
        await agent.approve(call)
        await agent.expect("tool_running", call_id=call)
        await agent.expect("tool_result", call_id=call)

    first, second = await ask("m1")
    await run(second)
    await agent.fence()
    await run(first)
    await agent.turn("m1")
    assert list(model.requests[-1].results) == [first, second]

    first, second = await ask("m2")
    await agent.deny(first, "no")
    await agent.expect("tool_cancelled", call_id=first, reason="no")
    await agent.fence()
    await run(second)
    await agent.turn("m2")
    assert model.requests[-1].results[first] == "Tool denied: no"

    first, second = await ask("m3")
    await run(first)
    await run(second)
    await agent.turn("m3")


async def test_s05_commands_exclude_each_other(launch: Launcher, model: ModelService) -> None:
    """Approved together, one runs after the other: no second start before the first result."""
    command = "mkdir lock && sleep 0.1 && rmdir lock"
    model.script(Reply(*(ToolCall(call, "ExecCommand", {"cmd": command}) for call in ("t1", "t2"))), "done")
    agent = await launch()
    await agent.message("m")
    await agent.until("tool_request", call_id="t2")
    await agent.approve("t1", "t2")
    events = await agent.turn("m")
    order = [(e["type"], e["call_id"]) for e in events if e["type"] in ("tool_running", "tool_result")]
    assert order == [(kind, call) for call in ("t1", "t2") for kind in ("tool_running", "tool_result")]
    assert len(find(events, "tool_result", status="success")) == 2


@pytest.mark.parametrize("how", ["flag", "command"])
async def test_s06_yolo_asks_nothing(how: str, launch: Launcher, model: ModelService) -> None:
    """The flag is the mode and no more: it can be lowered."""
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": "touch ran"})), "done")
    if how == "flag":
        agent = await launch("--auto-approve")
        assert agent.events[0]["capabilities"]["current_mode"] == "yolo"
    else:
        agent = await launch()
        await agent.send({"type": "set_mode", "mode": "yolo"})
        await agent.expect_line({"type": "info", "msg_id": "", "message": "mode updated: yolo"})
        await agent.expect("config_changed", capabilities__current_mode="yolo")
    await agent.message("m1")
    await agent.expect("stream_start")
    await agent.expect("tool_running", call_id="t1")
    await agent.expect("tool_result", call_id="t1", status="success")
    await agent.turn("m1")
    assert (launch.workspace / "ran").exists()

    model.script(Reply(ToolCall("t2", "ExecCommand", {"cmd": "touch ran"})), "done")
    await agent.send({"type": "set_mode", "mode": "default"})
    await agent.message("m2")
    await agent.until("tool_request", call_id="t2")
    await agent.deny("t2", "")
    await agent.turn("m2")


async def test_s06_auto_edit_frees_looking_and_editing(launch: Launcher, model: ModelService) -> None:
    path = launch.path("f.txt")
    model.script(
        Reply(
            ToolCall("w", "Write", {"file_path": path, "content": "x\n"}),
            ToolCall("r", "Read", {"file_path": launch.write("there.txt", "x\n")}),
            ToolCall("x", "ExecCommand", {"cmd": "true"}),
        ),
        "done",
    )
    agent = await launch()
    await agent.send({"type": "set_mode", "mode": "auto_edit"})
    await agent.message("m1")
    events = await agent.until("tool_request")
    await agent.approve("x")
    events += await agent.turn("m1")
    assert [event["call_id"] for event in find(events, "tool_request")] == ["x"]
    assert {event["call_id"] for event in find(events, "tool_result", status="success")} == {"w", "r", "x"}


async def test_auto_edit_and_always_still_ask_outside_of_the_workspace(launch: Launcher, model: ModelService) -> None:
    """A link that leads out counts as outside."""
    outside = launch.home / "secret.txt"
    outside.write_text("s\n")
    (launch.workspace / "link").symlink_to(launch.home)
    paths = [str(outside), launch.path("link/secret.txt"), launch.path("../home/secret.txt")]
    model.script(Reply(*(ToolCall(f"r{n}", "Read", {"file_path": path}) for n, path in enumerate(paths))), "done")
    agent = await launch()
    await agent.send({"type": "set_mode", "mode": "auto_edit"})
    await agent.message("m1")
    await agent.until("tool_request", call_id="r2")
    for n in range(3):
        await agent.deny(f"r{n}", "private")
    events = await agent.turn("m1")
    assert len(find(events, "tool_cancelled", reason="private")) == 3


async def test_confine_refuses_what_leaves_the_workspace(launch: Launcher, model: ModelService) -> None:
    outside = launch.home / "secret.txt"
    outside.write_text("top secret\n")
    model.script(Reply(ToolCall("r", "Read", {"file_path": str(outside)})), "done")
    agent = await launch("--confine", "--auto-approve")
    await agent.message("m1")
    events = await agent.turn("m1")
    assert not find(events, "tool_request")
    assert "top secret" not in model.requests[1].results["r"]


async def test_the_allow_list_takes_names_and_categories(launch: Launcher, model: ModelService) -> None:
    path = launch.write("a.txt", "x\n")
    model.script(
        Reply(
            ToolCall("g", "Glob", {"pattern": "*.txt"}),
            ToolCall("x", "ExecCommand", {"cmd": "true"}),
            ToolCall("w", "Write", {"file_path": path, "content": "y\n"}),
        ),
        "done",
    )
    agent = await launch("--allow", "ExecCommand", "--allow", "info")
    await agent.message("m1")
    events = await agent.until("tool_request")
    await agent.approve("w")
    events += await agent.turn("m1")
    assert [event["call_id"] for event in find(events, "tool_request")] == ["w"]


async def test_s31_answers_to_what_is_settled_and_to_what_never_was(launch: Launcher, model: ModelService) -> None:
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": "true"})), "done")
    agent = await launch()
    await agent.message("m1")
    await agent.until("tool_request", call_id="t1")
    await agent.approve("never")
    await agent.expect("error", msg_id=None, error__code="protocol_error", error__retryable=False)
    await agent.approve("t1", "t1")
    events = await agent.turn("m1")
    assert kinds(events) == ["tool_running", "tool_result", "text_delta", "stream_end"]
    await agent.approve("t1")
    await agent.deny("t1", "too late")
    await agent.fence()
    await agent.deny("never", "")
    await agent.expect("error", msg_id=None, error__code="protocol_error", error__retryable=False)


async def test_call_ids_that_a_service_repeats_are_told_apart(launch: Launcher, model: ModelService) -> None:
    """Hosts merge tool cards by call id, so an id may occur once in a session."""
    path = launch.write("a.txt", "x\n")
    again = Reply(ToolCall("call_0", "Glob", {"pattern": "*.txt"}))
    model.script(Reply(ToolCall("call_0", "Read", {"file_path": path})), again, "done")
    agent = await launch("--auto-approve")
    await agent.message("m1")
    events = await agent.turn("m1")
    assert said(events) == "done"
    ids = [event["call_id"] for event in find(events, "tool_result")]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 2
    assert len(model.requests[2].results) == 2
