"""Failure case S-e07: what an allow list frees, and what an allowed command's neighbours do not get from it."""

from __future__ import annotations

import pytest
from support.cases import case
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import find
from support.replies import JsonObject, Reply, ToolCall


def commands(case: JsonObject) -> list[str]:
    return [arguments["cmd"] for _, arguments in case["input"]["calls"]]


@case("S-e07")
@pytest.mark.parametrize("allow", ["as given", "in the usual form", "the command alone", "nothing"])
async def test_a_command_is_free_by_its_beginning_and_nothing_rides_along(
    allow: str, case: JsonObject, launch: Launcher, model: ModelService
) -> None:
    """Every call that is not the command and plain words is asked about and shown whole."""
    rules = {
        "as given": case["input"]["allow_list"],
        "in the usual form": ["ExecCommand(git status)"],
        "the command alone": ["git status"],
        "nothing": [],
    }[allow]
    given = commands(case)
    free = set(case["expect"]["auto"]) if allow in ("as given", "in the usual form") else set()
    calls = [ToolCall(f"t{number}", "ExecCommand", {"cmd": cmd}) for number, cmd in enumerate(given, 1)]
    model.script(Reply(*calls), "done")
    agent = await launch(*(word for rule in rules for word in ("--allow", rule)))
    await agent.message("m1", "go")
    asked: dict[str, JsonObject] = {}
    ran: list[str] = []
    while len(asked) + len(ran) < len(given):
        event = await agent.next_event()
        if event["type"] == "tool_running":
            ran.append(event["call_id"])
        if event["type"] == "tool_request":
            asked[event["call_id"]] = event["tool"]["args"]
    assert {given[int(call_id[1:]) - 1] for call_id in ran} == free
    assert {given[int(call_id[1:]) - 1] for call_id in asked} == {args["cmd"] for args in asked.values()}
    assert {args["cmd"] for args in asked.values()} == set(given) - free
    warned = [event["message"] for event in find(agent.events, "info") if "allow list" in event["message"]]
    assert warned == (
        ["The rule 'git status' of the allow list frees nothing: "
         "to free commands that begin so, write 'ExecCommand(git status)'"]
        if allow == "the command alone" else []
    )  # fmt: skip
    await agent.stop()
    await agent.turn("m1")
    assert len(find(agent.events, "tool_running")) == len(free)
    assert list(launch.workspace.iterdir()) == []


@case("S-e07")
@pytest.mark.parametrize("rule", ["ExecCommand", "exec"])
async def test_a_rule_that_names_the_tool_frees_what_the_tool_can_do(
    rule: str, case: JsonObject, launch: Launcher, model: ModelService
) -> None:
    """It is all or nothing: whoever allows the tool allows each of its commands, and nothing of another tool."""
    joined = next(cmd for cmd in commands(case) if ";" in cmd)
    model.script(
        Reply(
            ToolCall("t1", "ExecCommand", {"cmd": joined.replace("git status", "true")}),
            ToolCall("t2", "Write", {"file_path": "asked.txt", "content": "x"}),
        ),
        "done",
    )
    agent = await launch("--allow", rule)
    await agent.message("m1", "go")
    await agent.until("tool_request", call_id="t2")
    await agent.deny("t2", "not now")
    await agent.turn("m1")
    assert [event["call_id"] for event in find(agent.events, "tool_running")] == ["t1"]
    assert [path.name for path in launch.workspace.iterdir()] == ["pwned"]
